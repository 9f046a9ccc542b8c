package money

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

// H-052: money is a decimal string of integer cents, in one spelling.
func TestParse(t *testing.T) {
	for text, want := range map[string]Cents{
		"0": 0, "1": 1, "9": 9, "10": 10, "12900": 12900, "13700": 13700, "100000000000": 100_000_000_000,
		"999999999998": 999_999_999_998, "999999999999": 999_999_999_999,
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v", text, got, err)
		}
		if got.String() != text {
			t.Errorf("%d.String() = %q", got, got.String())
		}
	}
	for _, text := range []string{
		"", " ", "1000000000000", "1000000000001", "9999999999999", "18446744073709551616", "99999999999999999999",
		"00", "01", "007", "000000000001", "-0", "-1", "+1", "+0", "1.00", "0.5", ".5", "1.", "1,000", "1e3", "0x10", "1_000",
		" 1", "1 ", "1\n", "\x001", "１", "٣", "a", "1a", "/", ":", "NaN",
	} {
		if got, err := Parse(text); !errors.Is(err, ErrFormat) || got != 0 {
			t.Errorf("Parse(%q) = %d, %v, want ErrFormat", text, got, err)
		}
	}
}

// H-173: sums are exact or refused.
func TestAdd(t *testing.T) {
	for _, c := range []struct {
		a, b, sum Cents
		ok        bool
	}{
		{0, 0, 0, true}, {12900, 800, 13700, true}, {Max, 0, Max, true}, {0, Max, Max, true},
		{Max - 1, 0, Max - 1, true}, {Max - 1, 1, Max, true}, {Max, 1, 0, false}, {1, Max, 0, false}, {Max, Max, 0, false},
	} {
		if sum, ok := c.a.Add(c.b); ok != c.ok || ok && sum != c.sum {
			t.Errorf("%d + %d = %d, %t", c.a, c.b, sum, ok)
		}
	}
}

func TestSub(t *testing.T) {
	for _, c := range []struct {
		a, b, difference Cents
		ok               bool
	}{
		{0, 0, 0, true}, {13700, 13699, 1, true}, {13700, 13700, 0, true}, {13700, 13701, 0, false},
		{0, 1, 0, false}, {Max, Max, 0, true}, {Max, 0, Max, true}, {0, Max, 0, false},
	} {
		if difference, ok := c.a.Sub(c.b); ok != c.ok || ok && difference != c.difference {
			t.Errorf("%d - %d = %d, %t", c.a, c.b, difference, ok)
		}
	}
}

func TestTimes(t *testing.T) {
	for _, c := range []struct {
		a       Cents
		n       int64
		product Cents
		ok      bool
	}{
		{12900, 2, 25800, true}, {12900, 0, 0, true}, {0, math.MaxInt64, 0, true}, {1, 999_999_999_999, Max, true},
		{1, 1_000_000_000_000, 0, false}, {Max, 1, Max, true}, {Max, 2, 0, false}, {333_333_333_333, 3, Max, true},
		{333_333_333_334, 3, 0, false}, {500_000_000_000, 2, 0, false}, {12900, -1, 0, false}, {0, -1, 0, false},
		{12900, math.MinInt64, 0, false}, {Max, math.MaxInt64, 0, false},
		{2, 1 << 62, 0, false},   // 2^63: would be negative in 64 bits
		{4, 1 << 62, 0, false},   // 2^64: would be 0 in 64 bits
		{8, 1<<61 + 1, 0, false}, // would be 8 in 64 bits
	} {
		if product, ok := c.a.Times(c.n); ok != c.ok || ok && product != c.product {
			t.Errorf("%d * %d = %d, %t", c.a, c.n, product, ok)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		amount         Cents
		currency, want string
	}{
		{0, "USD", "$0.00"}, {1, "USD", "$0.01"}, {99, "USD", "$0.99"}, {100, "USD", "$1.00"}, {13700, "USD", "$137.00"},
		{13705, "EUR", "137.05 EUR"}, {Max, "USD", "$9999999999.99"},
	} {
		if got := c.amount.Format(c.currency); got != c.want {
			t.Errorf("%d as %s = %s, want %s", c.amount, c.currency, got, c.want)
		}
	}
}

// On the wire an amount is a string, never a number.
func TestJSON(t *testing.T) {
	type order struct {
		AmountCents Cents `json:"amountCents"`
	}
	b, err := json.Marshal(order{13700})
	if err != nil || string(b) != `{"amountCents":"13700"}` {
		t.Errorf("got %s, %v", b, err)
	}
	var o order
	if err := json.Unmarshal(b, &o); err != nil || o.AmountCents != 13700 {
		t.Errorf("got %d, %v", o.AmountCents, err)
	}
	for _, text := range []string{`13700`, `13700.0`, `"13700.00"`, `"-1"`, `"01"`, `""`, `"1000000000000"`, `true`, `{}`, `["1"]`} {
		o := order{5}
		if err := json.Unmarshal([]byte(`{"amountCents":`+text+`}`), &o); err == nil {
			t.Errorf("%s was read as %d", text, o.AmountCents)
		}
		if o.AmountCents != 5 {
			t.Errorf("%s was refused and left %d", text, o.AmountCents)
		}
	}
	for _, not := range []Cents{-1, Max + 1, math.MinInt64, math.MaxInt64} {
		if b, err := json.Marshal(order{not}); err == nil {
			t.Errorf("%d was written as %s", not, b)
		}
	}
	if !strings.Contains(ErrFormat.Error(), "0|[1-9][0-9]{0,11}") {
		t.Error("the error does not say what is wanted")
	}
}

// FuzzParse: an amount has one spelling.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"0", "13700", "999999999999", "1000000000000", "01", "-1", "1.5", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := Parse(s)
		if err != nil {
			return
		}
		if c < 0 || c > Max || c.String() != s {
			t.Errorf("Parse(%q) = %d, which is written %q", s, c, c)
		}
	})
}
