package redact

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Digits of a card number (ISO/IEC 7812).
const (
	leastDigits = 13
	mostDigits  = 19
	mostBetween = 3 // spaces, dashes, dots, slashes and underscores between two digits
)

// digit is one of a row of digits.
type digit struct {
	value    int
	from, to int  // bytes
	begins   bool // it begins a group
}

// cards finds rows of groups of digits that pass Luhn. A row begins and ends with a
// group, so that a number longer than any card is none.
func (t *cleaned) cards(found []span) []span {
	var row []digit
	between := 0
	for i, r := range t.text {
		switch {
		case unicode.IsDigit(r):
			begins := len(row) == 0 || between > 0 || t.edge[i]
			row, between = append(row, digit{value(r), i, i + utf8.RuneLen(r), begins}), 0
		case between < mostBetween && (unicode.In(r, unicode.Zs, unicode.Pd) || strings.ContainsRune("._/", r)):
			between++
		default:
			found, row, between = numbers(found, row), nil, 0
		}
	}
	return numbers(found, row)
}

// value is what a decimal digit of any script counts. Unicode has those of a script in
// their order and without a gap, zero first.
func value(r rune) int {
	n := rune(0)
	for unicode.IsDigit(r - n - 1) {
		n++
	}
	return int(n % 10)
}

// numbers finds the cards in a row.
func numbers(found []span, row []digit) []span {
	for i, first := range row {
		if !first.begins {
			continue
		}
		for n := leastDigits; n <= mostDigits && i+n <= len(row); n++ {
			whole := i+n == len(row) || row[i+n].begins
			if whole && luhn(row[i:i+n]) {
				found = append(found, span{first.from, row[i+n-1].to, "card"})
			}
		}
	}
	return found
}

// luhn reports whether the check digit is right (ISO/IEC 7812-1 annex B).
func luhn(number []digit) bool {
	sum := 0
	for i, d := range number {
		v := d.value
		if (len(number)-i)%2 == 0 {
			v = 2*v/10 + 2*v%10
		}
		sum += v
	}
	return sum%10 == 0
}
