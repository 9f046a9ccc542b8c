package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/service"
)

var adapter Adapter

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ids names what a broker creates.
func ids() func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("id-%d", n) }
}

// G-06: the operations of a broker, and no other: there is no market order, nothing is
// cancelled or withdrawn.
func TestOperations(t *testing.T) {
	want := []string{"broker.account", "broker.order.prepare", "broker.order.status", "broker.order.submit", "broker.positions", "broker.quote"}
	if got := slices.Sorted(slices.Values(adapter.Operations())); !slices.Equal(got, want) {
		t.Errorf("operations %v, want %v", got, want)
	}
	if got := adapter.MaxUses(); !maps.Equal(got, map[string]int64{"broker.order.submit": 1}) {
		t.Errorf("max uses %v", got)
	}
	for _, absent := range []string{"broker.order.cancel", "broker.withdraw", "broker.order.market", "broker.order", ""} {
		if effect, err := adapter.Execute(adapter.NewLocal(), service.Promise{Operation: absent, Args: []byte("{}")}, ids()); err == nil {
			t.Errorf("%q was executed: %+v", absent, effect)
		}
	}
}

// G-06 L-2: terms have exactly their six members; the defaults are the fixture's, and a
// wrong member is named.
func TestTerms(t *testing.T) {
	def, denial := adapter.Terms(nil, "local")
	if denial != nil {
		t.Fatal(denial)
	}
	if got, want := string(def.JSON), `{"limitPriceCents":"5000","orderType":"limit","quantity":2,"side":"buy","symbol":"SYNA","timeInForce":"day"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if len(def.Texts) != 0 {
		t.Errorf("texts %v", def.Texts)
	}
	good := map[string]string{"symbol": `"SYNB"`, "side": `"sell"`, "quantity": "4", "limitPriceCents": `"2500"`, "orderType": `"limit"`, "timeInForce": `"day"`}
	for name, c := range map[string]struct{ member, value, place string }{
		"as it is": {"side", `"sell"`, ""}, "buy": {"side", `"buy"`, ""}, "short": {"side", `"short"`, "terms.side"}, "no side": {"side", `""`, "terms.side"},
		"unknown symbol": {"symbol", `"ELSEWHERE"`, "terms.symbol"}, "wrong case of a symbol": {"symbol", `"synb"`, "terms.symbol"}, "null": {"symbol", "null", "terms.symbol"},
		"none": {"quantity", "0", "terms.quantity"}, "negative": {"quantity", "-1", "terms.quantity"}, "text": {"quantity", `"4"`, "terms.quantity"},
		"least": {"quantity", "1", ""}, "most": {"quantity", "10000", ""}, "too many": {"quantity", "10001", "terms.quantity"}, "far too many": {"quantity", "9007199254740991", "terms.quantity"},
		"market order": {"orderType", `"market"`, "terms.orderType"}, "until cancelled": {"timeInForce", `"gtc"`, "terms.timeInForce"},
		"no limit": {"limitPriceCents", `"0"`, "terms.limitPriceCents"}, "a number": {"limitPriceCents", "2500", "terms.limitPriceCents"},
		"a leading zero": {"limitPriceCents", `"02500"`, "terms.limitPriceCents"}, "largest": {"limitPriceCents", `"249999999999"`, ""}, "smallest": {"limitPriceCents", `"1"`, ""},
		"times the quantity no amount": {"limitPriceCents", `"250000000000"`, "terms.limitPriceCents"},
		"unknown member":               {"memo", `"x"`, "terms.memo"}, "missing": {"timeInForce", "", "terms"}, "wrong case": {"Symbol", `"SYNB"`, "terms.Symbol"},
	} {
		m := maps.Clone(good)
		if m[c.member] = c.value; c.value == "" {
			delete(m, c.member)
		}
		var parts []string
		for k, v := range m {
			parts = append(parts, fmt.Sprintf("%q:%s", k, v))
		}
		_, denial := adapter.Terms(json.RawMessage("{"+strings.Join(parts, ",")+"}"), "local")
		place := ""
		if denial != nil {
			place, _, _ = strings.Cut(denial.Detail, " ")
			if denial.Reason != authority.InvalidRequest || strings.Contains(denial.Detail, "ELSEWHERE") {
				t.Errorf("%s: %v", name, denial)
			}
		}
		if place != c.place {
			t.Errorf("%s: place %q, want %q", name, place, c.place)
		}
	}
}

// terms are those of the fixture, edited.
func terms(edit func(*Terms)) Terms {
	t := Terms{"SYNA", "buy", 2, 5000, "limit", "day"}
	edit(&t)
	return t
}

func asIs(*Terms) {}

func catalogOf(t testing.TB, s *State, of Terms) []propose.Entry {
	t.Helper()
	id := "0192f0c1-2b3c-7d4e-8f50-616263646566"
	c, err := adapter.Catalog(s.sighting(nil), service.Plan{Origin: "local", Terms: canon.MustMarshal(of), ProposalID: &id})
	must(t, err)
	return c
}

// prepared is the fixture with a draft of the order.
func prepared(edit func(*Terms)) *State {
	s, of := fixture(), terms(edit)
	amount, _ := of.amount()
	s.Draft = &Draft{"d", "acct_brokerage", 1, amount, of}
	return s
}

func submission(s *State, edit func(*submitArgs)) service.Promise {
	a := s.Draft.submission()
	edit(&a)
	return service.Promise{Operation: opSubmit, Args: canon.MustMarshal(a), Postconditions: []string{"order.confirmed", "order.amount_matches"}}
}

func exactly(*submitArgs) {}

// placed is what becomes of the fixture with the order.
func placed(t testing.TB, edit func(*Terms)) *State {
	t.Helper()
	before := prepared(edit)
	effect, err := adapter.Execute(canon.MustMarshal(before), submission(before, exactly), ids())
	must(t, err)
	if effect.Refused != "" {
		t.Fatal(effect.Refused)
	}
	var s State
	must(t, canon.Unmarshal(effect.State, &s))
	return &s
}

// G-05: at most 64 entries in every state and for whatever terms, each with an id,
// arguments and a label of its own, and every choice an entry of its own.
func TestCatalogBounds(t *testing.T) {
	for name, c := range map[string]struct {
		s    *State
		of   Terms
		want int
	}{
		"new":              {fixture(), terms(asIs), 5 + 10},
		"prepared":         {prepared(asIs), terms(asIs), 6 + 10 + 1},
		"placed":           {placed(t, asIs), terms(asIs), 6},
		"one unit":         {fixture(), terms(func(t *Terms) { t.Quantity = 1 }), 5 + 9},
		"most units":       {fixture(), terms(func(t *Terms) { t.Quantity = 10000 }), 5 + 9},
		"one cent":         {fixture(), terms(func(t *Terms) { t.LimitPriceCents = 1 }), 5 + 9},
		"the largest":      {fixture(), terms(func(t *Terms) { t.Quantity, t.LimitPriceCents = 1, money.Max }), 5 + 7},
		"almost no amount": {fixture(), terms(func(t *Terms) { t.LimitPriceCents = money.Max / 2 }), 5 + 8},
	} {
		entries := catalogOf(t, c.s, c.of)
		if len(entries) != c.want || len(entries) > 64 {
			t.Errorf("%s: %d entries, want %d", name, len(entries), c.want)
		}
		ids, actions := map[string]bool{}, map[string]bool{}
		for _, e := range entries {
			action := e.OperationID + string(e.Args)
			if ids[e.EntryID] || actions[action] {
				t.Errorf("%s: %s twice", name, e.EntryID)
			}
			ids[e.EntryID], actions[action] = true, true
			if again, err := canon.Canonical(e.Args); err != nil || string(again) != string(e.Args) {
				t.Errorf("%s: arguments %s", e.EntryID, e.Args)
			}
			if e.Kind != "service" || e.Transport != "service" { // L-19
				t.Errorf("%s: kind %s, transport %s", e.EntryID, e.Kind, e.Transport)
			}
			if reads := e.Effect.Class == propose.ClassRead; reads != (e.Effect.AmountCents == nil) || reads != (e.Destination == nil) || reads != (e.Currency == nil) {
				t.Errorf("%s: amount %v, destination %v, currency %v", e.EntryID, e.Effect.AmountCents, e.Destination, e.Currency)
			}
			if e.Destination != nil && *e.Destination != "acct_brokerage" { // design section 3: the account
				t.Errorf("%s: destination %s", e.EntryID, *e.Destination)
			}
			if !strings.Contains(e.Label, "ynthetic") && e.Effect.Class != propose.ClassRead {
				t.Errorf("%s: the label %q does not say that it is synthetic", e.EntryID, e.Label)
			}
		}
	}
	many := fixture()
	for i := range 30 {
		many.Quotes = append(many.Quotes, Quote{fmt.Sprintf("S%d", i), "S", 1})
	}
	if c, err := adapter.Catalog(many.sighting(nil), service.Plan{Terms: canon.MustMarshal(terms(asIs))}); err == nil {
		t.Errorf("%d entries without an error", len(c))
	}
}

// What cannot be read is an error everywhere, and no state.
func TestUnreadable(t *testing.T) {
	plan, base := service.Plan{Terms: canon.MustMarshal(terms(asIs))}, prepared(asIs)
	seen := base.sighting(nil)
	for _, state := range [][]byte{[]byte(`{"account":{"cashCents":-1}}`), []byte("{}}"), nil} {
		broken := seen
		broken.State = state
		if c, err := adapter.Catalog(broken, plan); err == nil {
			t.Errorf("%s: catalog %v", state, c)
		}
		if s, err := adapter.SeeLocal(state, nil); err == nil {
			t.Errorf("%s: sighting %v", state, s)
		}
		if h, err := adapter.Holds(broken, submission(base, exactly)); err == nil {
			t.Errorf("%s: holds %v", state, h)
		}
		if e, err := adapter.Execute(state, service.Promise{Operation: opAccount, Args: []byte("{}")}, ids()); err == nil {
			t.Errorf("%s: effect %v", state, e)
		}
		if s, err := adapter.PriceChange(state); err == nil {
			t.Errorf("%s became %s", state, s)
		}
	}
	for _, terms := range []string{`{}}`, `{"quantity":"2"}`, `{"payeeRef":"payee_utility"}`, ""} {
		if c, err := adapter.Catalog(seen, service.Plan{Terms: []byte(terms)}); err == nil {
			t.Errorf("terms %s: catalog %v", terms, c)
		}
	}
	if h, err := adapter.Holds(seen, service.Promise{Args: []byte("[]"), Postconditions: []string{"order.prepared"}}); err == nil {
		t.Errorf("arguments of another form: %v", h)
	}
}

// Facts hold every order against the terms, so that only theirs is admitted: one unit,
// one cent, the look-alike and the other side are not. The amount is quantity times
// limit price (G-08).
func TestFacts(t *testing.T) {
	raw := canon.MustMarshal(terms(asIs))
	resolved, denial := adapter.Terms(raw, "local")
	if denial != nil {
		t.Fatal(denial)
	}
	grant := authority.Grant{Constraints: resolved.Constraints}
	admitted := []string{}
	entries := catalogOf(t, prepared(asIs), terms(asIs))
	for _, e := range entries {
		if e.Effect.Class != propose.ClassRead && grant.Admits(e.Facts) {
			admitted = append(admitted, e.EntryID)
		}
	}
	if want := []string{"order:SYNA:buy:2:5000", "submit:d"}; !slices.Equal(admitted, want) {
		t.Errorf("admitted %v, want %v", admitted, want)
	}
	for id, want := range map[string][2]money.Cents{
		"order:SYNA:buy:2:5000": {0, 10000}, "order:SYNA:buy:3:5000": {0, 15000}, "order:SYNA:buy:1:5000": {0, 5000}, "order:SYNA:buy:2:5001": {0, 10002},
		"order:SYNA:buy:2:4999": {0, 9998}, "order:SYNAA:buy:2:5000": {0, 10000}, "order:SYNA:sell:2:5000": {0, 10000}, "submit:d": {10000, 10000},
	} {
		if e := propose.EntryByID(entries, id); e == nil || e.Amount() != want[0] || e.Fit() != want[1] {
			t.Errorf("%s: %+v, want amount and fit %v", id, e, want)
		}
	}
}

// The local broker refuses what the state does not allow, and then changes nothing.
func TestRefusals(t *testing.T) {
	prepare := func(edit func(*Terms)) service.Promise {
		return service.Promise{Operation: opPrepare, Args: canon.MustMarshal(terms(edit))}
	}
	poor := prepared(asIs)
	poor.Account.CashCents = 9999
	gone := prepared(func(t *Terms) { t.Side = "sell" })
	gone.Positions = nil
	rich := fixture()
	rich.Account.CashCents = money.Max
	moved := prepared(asIs)
	moved.QuoteVersion = 2
	base := prepared(asIs)
	for name, c := range map[string]struct {
		s   *State
		p   service.Promise
		why string
	}{
		"another draft":           {base, submission(base, func(a *submitArgs) { a.DraftID = "e" }), "approved"},
		"another version":         {base, submission(base, func(a *submitArgs) { a.QuoteVersion = 2 }), "approved"},
		"another amount":          {base, submission(base, func(a *submitArgs) { a.AmountCents = 9999 }), "approved"},
		"another currency":        {base, submission(base, func(a *submitArgs) { a.Currency = "EUR" }), "approved"},
		"another account":         {base, submission(base, func(a *submitArgs) { a.Destination = "acct" }), "approved"},
		"another symbol":          {base, submission(base, func(a *submitArgs) { a.Symbol = "SYNAA" }), "approved"},
		"another side":            {base, submission(base, func(a *submitArgs) { a.Side = "sell" }), "approved"},
		"another quantity":        {base, submission(base, func(a *submitArgs) { a.Quantity = 3 }), "approved"},
		"another limit":           {base, submission(base, func(a *submitArgs) { a.LimitPriceCents = 5001 }), "approved"},
		"another type":            {base, submission(base, func(a *submitArgs) { a.OrderType = "market" }), "approved"},
		"nothing prepared":        {fixture(), submission(base, exactly), "approved"},
		"the old quotes":          {moved, submission(base, exactly), "approved"},
		"a second time":           {placed(t, asIs), submission(base, exactly), "approved"},
		"prepare after it":        {placed(t, asIs), prepare(asIs), "already"},
		"funds gone meanwhile":    {poor, submission(poor, exactly), "insufficient funds"},
		"position gone meanwhile": {gone, submission(gone, exactly), "insufficient position"},
		"insufficient funds":      {fixture(), prepare(func(t *Terms) { t.Quantity = 21 }), "insufficient funds"},
		"one cent too many":       {fixture(), prepare(func(t *Terms) { t.Quantity, t.LimitPriceCents = 1, 100001 }), "insufficient funds"},
		"insufficient position":   {fixture(), prepare(func(t *Terms) { t.Side, t.Quantity = "sell", 11 }), "insufficient position"},
		"a position of nothing":   {fixture(), prepare(func(t *Terms) { t.Side, t.Symbol = "sell", "SYNAA" }), "insufficient position"},
		"more than an account":    {rich, prepare(func(t *Terms) { t.Side = "sell" }), "cannot hold"},
		"unknown symbol":          {fixture(), prepare(func(t *Terms) { t.Symbol = "X" }), "take"},
		"unknown side":            {fixture(), prepare(func(t *Terms) { t.Side = "short" }), "take"},
		"none":                    {fixture(), prepare(func(t *Terms) { t.Quantity = 0 }), "take"},
		"negative":                {fixture(), prepare(func(t *Terms) { t.Quantity = -1 }), "take"},
		"too many":                {fixture(), prepare(func(t *Terms) { t.Quantity, t.LimitPriceCents = 10001, 1 }), "take"},
		"no limit":                {fixture(), prepare(func(t *Terms) { t.LimitPriceCents = 0 }), "take"},
		"market order":            {fixture(), prepare(func(t *Terms) { t.OrderType = "market" }), "take"},
		"until cancelled":         {fixture(), prepare(func(t *Terms) { t.TimeInForce = "gtc" }), "take"},
		"more than is an amount":  {fixture(), prepare(func(t *Terms) { t.LimitPriceCents = money.Max }), "take"},
		"no quote":                {fixture(), service.Promise{Operation: opQuote, Args: []byte(`{"symbol":"X"}`)}, "no such symbol"},
		"status of nothing":       {fixture(), service.Promise{Operation: opStatus, Args: []byte(`{"draftId":""}`)}, "no such order"},
		"status of another draft": {base, service.Promise{Operation: opStatus, Args: []byte(`{"draftId":"e"}`)}, "no such order"},
	} {
		before := canon.MustMarshal(c.s)
		effect, err := adapter.Execute(before, c.p, ids())
		if err != nil || !strings.Contains(effect.Refused, c.why) || effect.Refused == "" || string(effect.State) != string(before) || effect.OrderID != nil || effect.View != nil {
			t.Errorf("%s: %+v, %v", name, effect, err)
		}
	}
	for _, p := range []service.Promise{{Operation: opQuote, Args: []byte(`{}}`)}, {Operation: opStatus, Args: []byte(`{"id":1}`)}, {Operation: opSubmit, Args: []byte(`[]`)}} {
		if _, err := adapter.Execute(adapter.NewLocal(), p, ids()); err == nil {
			t.Errorf("%s took %s", p.Operation, p.Args)
		}
	}
}

// An order that the quote meets is filled in full at its limit; another is open, and
// what it would take is set aside.
func TestOrders(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*Terms)
		status string
		cash   money.Cents
		units  int64 // of SYNA
	}{
		"buy at the quote":     {asIs, "filled", 90000, 12},
		"buy above the quote":  {func(t *Terms) { t.LimitPriceCents = 5001 }, "filled", 89998, 12},
		"buy below the quote":  {func(t *Terms) { t.LimitPriceCents = 4999 }, "open", 90002, 10},
		"buy most units":       {func(t *Terms) { t.Quantity, t.LimitPriceCents = 10000, 1 }, "open", 90000, 10}, // at the smallest limit, too,
		"buy with everything":  {func(t *Terms) { t.Quantity = 20 }, "filled", 0, 30},
		"sell at the quote":    {func(t *Terms) { t.Side = "sell" }, "filled", 110000, 8},
		"sell below the quote": {func(t *Terms) { t.Side, t.LimitPriceCents = "sell", 4999 }, "filled", 109998, 8},
		"sell above the quote": {func(t *Terms) { t.Side, t.LimitPriceCents = "sell", 5001 }, "open", 100000, 8},
		"sell everything":      {func(t *Terms) { t.Side, t.Quantity = "sell", 10 }, "filled", 150000, 0},
	} {
		s := placed(t, c.edit)
		if o := s.Order; o.Status != c.status || s.Account.CashCents != c.cash || s.held("SYNA") != c.units || s.held("SYNB") != 4 || s.offer() != nil {
			t.Errorf("%s: %s, want %s, %s cents and %d units", name, canon.MustMarshal(s), c.status, c.cash, c.units)
		}
		status, err := adapter.Execute(canon.MustMarshal(s), service.Promise{Operation: opStatus, Args: []byte(`{"draftId":"d"}`)}, ids())
		must(t, err)
		if status.View == nil || !strings.Contains(*status.View, `"status":"`+c.status+`"`) {
			t.Errorf("%s: %+v", name, status)
		}
	}
	first := placed(t, func(t *Terms) { t.Symbol = "SYNAA" })
	if first.held("SYNAA") != 2 {
		t.Errorf("a first unit: %s", canon.MustMarshal(first))
	}
	for operation, want := range map[string]string{
		opAccount: `"cashCents":"100000"`, opPositions: `{"positions":[{"quantity":10,"symbol":"SYNA"},{"quantity":4,"symbol":"SYNB"}]}`, opQuote: `"priceCents":"2500"`,
	} {
		args := "{}"
		if operation == opQuote {
			args = `{"symbol":"SYNB"}`
		}
		e, err := adapter.Execute(adapter.NewLocal(), service.Promise{Operation: operation, Args: []byte(args)}, ids())
		must(t, err)
		if string(e.State) != string(adapter.NewLocal()) || e.View == nil || !strings.Contains(*e.View, want) {
			t.Errorf("%s: %+v, want %s", operation, e, want)
		}
	}
}

// Postconditions hold against what was seen, not against what was promised.
func TestHolds(t *testing.T) {
	after, base := placed(t, asIs), prepared(asIs)
	for name, c := range map[string]struct {
		s    *State
		edit func(*submitArgs)
		want []bool
	}{
		"as promised":       {after, exactly, []bool{true, true}},
		"another draft":     {after, func(a *submitArgs) { a.DraftID = "e" }, []bool{false, true}},
		"another account":   {after, func(a *submitArgs) { a.Destination = "acct" }, []bool{false, true}},
		"another symbol":    {after, func(a *submitArgs) { a.Symbol = "SYNAA" }, []bool{false, true}},
		"another quantity":  {after, func(a *submitArgs) { a.Quantity = 1 }, []bool{false, true}},
		"another limit":     {after, func(a *submitArgs) { a.LimitPriceCents = 4999 }, []bool{false, true}},
		"a cent difference": {after, func(a *submitArgs) { a.AmountCents = 9999 }, []bool{true, false}},
		"not submitted":     {base, exactly, []bool{false, false}},
	} {
		got, err := adapter.Holds(c.s.sighting(nil), submission(base, c.edit))
		must(t, err)
		if len(got) != 2 || got[0].Holds != c.want[0] || got[1].Holds != c.want[1] {
			t.Errorf("%s: %+v, want %v", name, got, c.want)
		}
	}
	moved := prepared(asIs)
	moved.QuoteVersion++
	for name, c := range map[string]struct {
		s    *State
		edit func(*Terms)
		want bool
	}{
		"as promised": {base, asIs, true}, "another quantity": {base, func(t *Terms) { t.Quantity = 1 }, false}, "nothing": {fixture(), asIs, false}, "the old quotes": {moved, asIs, false},
	} {
		p := service.Promise{Args: canon.MustMarshal(terms(c.edit)), Postconditions: []string{"order.prepared", "of another machine"}}
		got, err := adapter.Holds(c.s.sighting(nil), p)
		must(t, err)
		if got[0].Holds != c.want || got[1].Holds {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// G-07: after a price change nothing that was prepared before can be submitted. What is
// prepared again still costs quantity times limit price, and is open where the limit
// is not met any more.
func TestPriceChange(t *testing.T) {
	base := prepared(asIs)
	after, err := adapter.PriceChange(canon.MustMarshal(base))
	must(t, err)
	old, err := adapter.SeeLocal(canon.MustMarshal(base), nil)
	must(t, err)
	seen, err := adapter.SeeLocal(after, nil)
	must(t, err)
	if old.Offer == nil || seen.Offer != nil || string(seen.State) != string(after) {
		t.Errorf("the offer before is %+v and after %+v", old.Offer, seen.Offer)
	}
	if effect, err := adapter.Execute(after, submission(base, exactly), ids()); err != nil || effect.Refused == "" {
		t.Errorf("the old quotes: %+v, %v", effect, err)
	}
	again, err := adapter.Execute(after, service.Promise{Operation: opPrepare, Args: canon.MustMarshal(terms(asIs))}, ids())
	must(t, err)
	var s State
	must(t, canon.Unmarshal(again.State, &s))
	if o := s.offer(); o == nil || o.AmountCents != 10000 || s.Draft.QuoteVersion != 2 || s.quote("SYNA").PriceCents != 5010 {
		t.Fatalf("prepared again: %s", again.State)
	}
	last, err := adapter.Execute(again.State, submission(&s, exactly), ids())
	must(t, err)
	if must(t, canon.Unmarshal(last.State, &s)); s.Order == nil || s.Order.Status != "open" {
		t.Errorf("submitted below the quote: %s", last.State)
	}
	high := fixture()
	high.Quotes[1].PriceCents = money.Max
	if state, err := adapter.PriceChange(canon.MustMarshal(high)); err == nil {
		t.Errorf("the largest quote became %s", state)
	}
}

// Whatever is done in whatever order: the state stays one that can be read and offered
// as a catalog, cash and positions never fall below nothing, and one order is placed
// at most.
func TestAnyOrderOfOperations(t *testing.T) {
	submits := 0
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 7))
		of := terms(func(t *Terms) {
			t.Side, t.Quantity, t.LimitPriceCents = []string{"buy", "sell"}[r.IntN(2)], 1+r.Int64N(15), money.Cents(4000+r.IntN(2000))
		})
		state, create, orders := adapter.NewLocal(), ids(), 0
		for range 40 {
			var s State
			must(t, canon.Unmarshal(state, &s))
			entries := catalogOf(t, &s, of)
			e := entries[r.IntN(len(entries))]
			if last := &entries[len(entries)-1]; last.OperationID == opSubmit && r.IntN(4) == 0 {
				e = *last
			}
			p := service.Promise{Operation: e.OperationID, Args: e.Args, Postconditions: e.Effect.Postconditions}
			if r.IntN(4) == 0 { // any order
				p = service.Promise{Operation: opPrepare, Args: canon.MustMarshal(Terms{s.Quotes[r.IntN(3)].Symbol, []string{"buy", "sell"}[r.IntN(2)], r.Int64N(30), money.Cents(r.IntN(6000)), "limit", "day"})}
			}
			if r.IntN(10) == 0 {
				changed, err := adapter.PriceChange(state)
				must(t, err)
				state = changed
			}
			effect, err := adapter.Execute(state, p, create)
			must(t, err)
			var after State
			must(t, canon.Unmarshal(effect.State, &after))
			if effect.OrderID != nil {
				orders++
				submits++
			}
			traded := after.Account != s.Account || !slices.Equal(after.Positions, s.Positions)
			negative := slices.ContainsFunc(after.Positions, func(p Position) bool { return p.Quantity < 1 })
			if orders > 1 || negative || after.Account.CashCents < 0 || traded != (effect.OrderID != nil) {
				t.Fatalf("seed %d: %d orders after %s: %s", seed, orders, p.Operation, effect.State)
			}
			state = effect.State
		}
	}
	if submits < 50 {
		t.Errorf("only %d orders were placed", submits)
	}
}

// The smallest order that there can be and one of most units are prepared.
func TestSmallestAndLargest(t *testing.T) {
	for quantity, amount := range map[int64]money.Cents{1: 1, 10000: 10000} {
		of := terms(func(t *Terms) { t.Quantity, t.LimitPriceCents = quantity, 1 })
		if _, denial := adapter.Terms(canon.MustMarshal(of), "local"); denial != nil {
			t.Errorf("%d units at one cent: %v", quantity, denial)
		}
		effect, err := adapter.Execute(adapter.NewLocal(), service.Promise{Operation: opPrepare, Args: canon.MustMarshal(of)}, ids())
		must(t, err)
		var after State
		must(t, canon.Unmarshal(effect.State, &after))
		if effect.Refused != "" || after.Draft == nil || after.Draft.AmountCents != amount {
			t.Errorf("%d units at one cent: %+v", quantity, effect)
		}
	}
}
