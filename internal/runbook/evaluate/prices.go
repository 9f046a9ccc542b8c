package evaluate

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"time"

	"countersign/internal/canon"
)

// Prices are those of one model, per million tokens, as decimal strings such as "0.30"
// (G-29). They are given by whoever starts a run; none is built in.
type Prices struct {
	Model       string `json:"model"`
	Currency    string `json:"currency"` // three capital letters
	AsOf        string `json:"asOf"`     // YYYY-MM-DD: when they were read
	Input       string `json:"inputPerMillion"`
	CachedInput string `json:"cachedInputPerMillion"`
	Output      string `json:"outputPerMillion"`
}

// MaxPriceAge is how old prices may be that count as current.
const MaxPriceAge = 31 * 24 * time.Hour

var (
	decimal  = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})(\.[0-9]{1,6})?$`)
	currency = regexp.MustCompile(`^[A-Z]{3}$`)
	named    = regexp.MustCompile(`^[!-~]+$`)
	release  = regexp.MustCompile(`^[!-~]*[!-,.-~](-[0-9]{3}|@sha256:[0-9a-f]{64})$`)
	dated    = regexp.MustCompile(`^[!-~]*[!-,.-~]-([0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4})$`)
)

// Pinned reports whether a model's name stands for one release of it: it ends with a date, a
// month and day such as 0528, a number of three digits, or a digest, and is visible ASCII, at
// most [MaxModel] characters. A date is one of the calendar. A name without can be another
// model tomorrow.
func Pinned(model string) bool {
	if len(model) > MaxModel {
		return false
	}
	if release.MatchString(model) {
		return true
	}
	found := dated.FindStringSubmatch(model)
	if found == nil {
		return false
	}
	day := strings.ReplaceAll(found[1], "-", "")
	if len(day) == len("0102") {
		day = "2000" + day // a leap year: of a day without a year every one may be meant
	}
	_, err := time.Parse("20060102", day)
	return err == nil
}

// MaxModel is the longest name of a model, in characters.
const MaxModel = 200

// ReadPrices reads prices strictly.
func ReadPrices(raw []byte) (*Prices, error) {
	p := &Prices{}
	if err := canon.Unmarshal(raw, p); err != nil {
		return nil, err
	}
	if _, err := time.Parse(time.DateOnly, p.AsOf); err != nil {
		return nil, fmt.Errorf("asOf: want a date such as 2026-11-30")
	}
	switch {
	case !named.MatchString(p.Model) || len(p.Model) > MaxModel:
		return nil, fmt.Errorf("model: want the name that the prices are of, visible ASCII of at most %d characters", MaxModel)
	case !currency.MatchString(p.Currency):
		return nil, fmt.Errorf("currency: want three capital letters, such as USD")
	}
	for _, x := range []struct{ name, value string }{{"inputPerMillion", p.Input}, {"cachedInputPerMillion", p.CachedInput}, {"outputPerMillion", p.Output}} {
		if !decimal.MatchString(x.value) {
			return nil, fmt.Errorf(`%s: want a decimal string such as "0.30"`, x.name)
		}
	}
	return p, nil
}

// Current says why the prices are not current for a model at now, or "".
func (p *Prices) Current(model string, now time.Time) string {
	asOf, err := time.Parse(time.DateOnly, p.AsOf)
	switch {
	case err != nil || asOf.After(now):
		return fmt.Sprintf("prices as of a day that has not come, %s", p.AsOf)
	case now.Sub(asOf) > MaxPriceAge:
		return fmt.Sprintf("current prices: those given are as of %s, older than %d days", p.AsOf, int(MaxPriceAge.Hours()/24))
	case model != "" && p.Model != model:
		return fmt.Sprintf("prices of this model: those given are of %s", p.Model)
	}
	return ""
}

// Tokens are those of a task.
type Tokens struct {
	Input       int64 `json:"input"` // without those of the cache
	CachedInput int64 `json:"cachedInput"`
	Output      int64 `json:"output"`
}

// Cost is what tokens cost by given prices. It is an estimate: the provider's bill counts.
type Cost struct {
	Currency string `json:"currency"`
	Amount   string `json:"amount"` // decimal, six places, rounded
}

// Cost computes the estimated cost.
func (p *Prices) Cost(t Tokens) Cost {
	sum := new(big.Rat)
	for _, x := range []struct {
		tokens int64
		price  string
	}{{t.Input, p.Input}, {t.CachedInput, p.CachedInput}, {t.Output, p.Output}} {
		if price, ok := new(big.Rat).SetString(strings.TrimSpace(x.price)); ok {
			sum.Add(sum, price.Mul(price, big.NewRat(x.tokens, 1_000_000)))
		}
	}
	return Cost{p.Currency, sum.FloatString(6)}
}
