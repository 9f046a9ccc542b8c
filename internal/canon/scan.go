package canon

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// IsCanonical reports whether raw is in canonical form already. It reads raw
// once and keeps nothing.
func IsCanonical(raw []byte) bool {
	s := scanner{b: raw}
	return s.value(0, nil) && s.i == len(raw)
}

// Member is one member of a canonical object, as the bytes that stand there.
type Member struct {
	Name  []byte // with its quotes
	Value []byte
}

// Members appends to dst the members of raw in their order. It is an error
// when raw is not an object in canonical form; one pass over the bytes decides.
// The members alias raw.
func Members(raw []byte, dst []Member) ([]Member, error) {
	s := scanner{b: raw}
	if s.peek() == '{' && s.value(0, func(m Member) { dst = append(dst, m) }) && s.i == len(raw) {
		return dst, nil
	}
	if err := Check(raw); err != nil {
		return nil, err
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil, &SyntaxError{Reason: "not an object in canonical form"}
	}
	return nil, &SyntaxError{Reason: "not in the canonical form of RFC 8785"}
}

// Unquote returns the text of a string in canonical form.
func Unquote(value []byte) (string, error) {
	s := scanner{b: value}
	if s.peek() != '"' || !s.text() || s.i != len(value) {
		return "", &SyntaxError{Reason: "not a string in canonical form"}
	}
	return unquote(value), nil
}

// AppendQuote appends s as a string in canonical form. A text that is not
// UTF-8 or holds U+0000 is an error.
func AppendQuote(dst []byte, s string) ([]byte, error) {
	if plain(s) {
		return append(append(append(dst, '"'), s...), '"'), nil
	}
	if strings.IndexByte(s, 0) >= 0 {
		return dst, &SyntaxError{Reason: "a string holds U+0000"}
	}
	out, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		return dst, fmt.Errorf("canon: a string is not UTF-8")
	}
	return out, nil
}

// plain reports whether every character of s stands for itself in one byte.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// A scanner walks over one text in canonical form. Every method leaves i behind
// what it accepted; after a refusal i has no meaning.
type scanner struct {
	b []byte
	i int
}

// peek returns the next byte, 0 at the end; no value begins with 0.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) skip(c byte) bool {
	if s.peek() != c || c == 0 {
		return false
	}
	s.i++
	return true
}

func (s *scanner) literal(word string) bool {
	if !bytes.HasPrefix(s.b[s.i:], []byte(word)) {
		return false
	}
	s.i += len(word)
	return true
}

// value accepts one value inside depth arrays and objects. If it is an object,
// each gets its members.
func (s *scanner) value(depth int, each func(Member)) bool {
	switch s.peek() {
	case '{':
		return depth < MaxDepth && s.object(depth+1, each)
	case '[':
		return depth < MaxDepth && s.array(depth+1)
	case '"':
		return s.text()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

func (s *scanner) array(depth int) bool {
	s.i++
	if s.skip(']') {
		return true
	}
	for s.value(depth, nil) {
		if s.skip(']') {
			return true
		}
		if !s.skip(',') {
			return false
		}
	}
	return false
}

// object accepts members whose names ascend, which no repeated name does.
func (s *scanner) object(depth int, each func(Member)) bool {
	s.i++
	if s.skip('}') {
		return true
	}
	var before []byte
	for {
		start := s.i
		if s.peek() != '"' || !s.text() {
			return false
		}
		name := s.b[start:s.i]
		if before != nil && !less(before, name) {
			return false
		}
		before = name
		if !s.skip(':') {
			return false
		}
		start = s.i
		if !s.value(depth, nil) {
			return false
		}
		if each != nil {
			each(Member{name, s.b[start:s.i]})
		}
		if s.skip('}') {
			return true
		}
		if !s.skip(',') {
			return false
		}
	}
}

// number accepts an integer of the safe range. Zero has no sign (RFC 8785
// section 3.2.2.3).
func (s *scanner) number() bool {
	negative := s.skip('-')
	start := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	digits := s.b[start:s.i]
	switch {
	case len(digits) == 0 || len(digits) > len(maxSafe):
		return false
	case digits[0] == '0':
		return len(digits) == 1 && !negative
	}
	return len(digits) < len(maxSafe) || string(digits) <= maxSafe
}

// text accepts a string: everything stands for itself but the quote, the
// backslash and the control characters, which have one escape each (RFC 8785
// section 3.2.2.2).
func (s *scanner) text() bool {
	for s.i++; s.i < len(s.b); {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < ' ':
			return false
		case c < utf8.RuneSelf:
			s.i++
		default:
			r, size := utf8.DecodeRune(s.b[s.i:])
			if r == utf8.RuneError && size == 1 {
				return false
			}
			s.i += size
		}
	}
	return false
}

func (s *scanner) escape() bool {
	s.i++
	switch s.peek() {
	case '"', '\\', 'b', 't', 'n', 'f', 'r':
		s.i++
		return true
	}
	if !s.literal("u00") || len(s.b)-s.i < 2 {
		return false
	}
	high, low := s.b[s.i], s.b[s.i+1]
	s.i += 2
	switch high {
	case '0': // U+0008 to U+000D but U+000B have an escape of their own
		return low >= '1' && low <= '7' || low == 'b' || low == 'e' || low == 'f'
	case '1':
		return low >= '0' && low <= '9' || low >= 'a' && low <= 'f'
	}
	return false
}

// less reports whether member name a stands before b: unescaped, compared by
// UTF-16 code units (RFC 8785 section 3.2.3). Both are quoted.
func less(a, b []byte) bool {
	if ascii(a) && ascii(b) {
		return bytes.Compare(a[1:len(a)-1], b[1:len(b)-1]) < 0
	}
	return compareUTF16(unquote(a), unquote(b)) < 0
}

// ascii reports whether a name is spelled by its own bytes.
func ascii(name []byte) bool {
	for _, c := range name {
		if c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func compareUTF16(a, b string) int {
	for i, r := range a {
		if i >= len(b) {
			return 1
		}
		o, _ := utf8.DecodeRuneInString(b[i:])
		if r == o {
			continue
		}
		x, y := units(r), units(o)
		if x[0] != y[0] {
			return int(x[0]) - int(y[0])
		}
		return int(x[1]) - int(y[1])
	}
	return len(a) - len(b)
}

func units(r rune) [2]rune {
	if high, low := utf16.EncodeRune(r); r > 0xffff {
		return [2]rune{high, low}
	}
	return [2]rune{r, 0}
}

// unquote returns the text of a string that the scanner accepted.
func unquote(quoted []byte) string {
	inside := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return string(inside)
	}
	out, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		panic(err) // the scanner accepts only strings that unquote
	}
	return string(out)
}
