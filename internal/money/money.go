// Package money holds amounts as integer cents.
//
// On the wire an amount is a decimal string of the form 0|[1-9][0-9]{0,11}
// (H-052, G-08): at most 999,999,999,999 cents, never negative, never a JSON
// number. Arithmetic cannot wrap: [Cents.Add] and [Cents.Times] report whether
// the result is still an amount. All functions are pure.
package money

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
)

// Max is the largest amount, in cents.
const Max Cents = 999_999_999_999

// ErrFormat is the error for a text that is no amount.
var ErrFormat = errors.New("money: want cents as a decimal string, 0|[1-9][0-9]{0,11}")

// Cents is an amount of integer cents between 0 and [Max]. The zero value is
// no money.
type Cents int64

// Parse reads the one spelling of an amount.
func Parse(s string) (Cents, error) {
	if len(s) == 0 || len(s) > 12 || s[0] == '0' && len(s) > 1 {
		return 0, ErrFormat
	}
	var n Cents
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, ErrFormat
		}
		n = n*10 + Cents(c-'0')
	}
	return n, nil
}

func (c Cents) String() string { return strconv.FormatInt(int64(c), 10) }

// Add returns c+d and whether that is an amount.
func (c Cents) Add(d Cents) (Cents, bool) {
	sum := c + d // both are at most Max, far below the int64 range
	return sum, sum <= Max
}

// Sub returns c-d and whether that is an amount, which it is not when d > c.
func (c Cents) Sub(d Cents) (Cents, bool) { return c - d, d <= c }

// Times returns c*n and whether that is an amount.
func (c Cents) Times(n int64) (Cents, bool) {
	if n < 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(c), uint64(n))
	if hi != 0 || lo > uint64(Max) {
		return 0, false
	}
	return Cents(lo), true
}

// Format writes dollars and cents for people, such as $137.00.
func (c Cents) Format(currency string) string {
	amount := fmt.Sprintf("%d.%02d", c/100, c%100)
	if currency == "USD" {
		return "$" + amount
	}
	return amount + " " + currency
}

// MarshalText writes the decimal string.
func (c Cents) MarshalText() ([]byte, error) {
	if c < 0 || c > Max {
		return nil, ErrFormat
	}
	return []byte(c.String()), nil
}

// UnmarshalText reads the decimal string.
func (c *Cents) UnmarshalText(b []byte) error {
	n, err := Parse(string(b))
	if err != nil {
		return err
	}
	*c = n
	return nil
}
