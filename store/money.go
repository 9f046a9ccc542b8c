package store

import (
	"fmt"
	"regexp"
	"strconv"
)

// cents is an amount of USD. In JSON it is a decimal string.
type cents int64

func (c cents) String() string { return strconv.FormatInt(int64(c), 10) }

// Dollars writes the amount for people.
func (c cents) Dollars() string { return fmt.Sprintf("$%d.%02d", c/100, c%100) }

// MarshalText writes the decimal string.
func (c cents) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the one spelling of an amount.
func (c *cents) UnmarshalText(b []byte) error {
	if !centsForm.Match(b) {
		return fmt.Errorf("store: want cents as a decimal string")
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	*c = cents(n)
	return err
}

var centsForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,11})$`)
