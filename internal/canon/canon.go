// Package canon is the one place where countersign turns values into bytes and
// bytes into values.
//
// Everything that is hashed, signed or compared is in the canonical form of
// RFC 8785 (JCS). The house grammar is narrower than JSON, so that two readers
// can never see two values in one text:
//
//   - a number is an integer, -?(0|[1-9][0-9]*), whose magnitude is at most
//     2^53-1; money and other large counters are decimal strings;
//   - no string or member name holds U+0000 or a lone surrogate;
//   - no object holds the same member twice;
//   - nesting is at most [MaxDepth] levels deep;
//   - nothing follows the value.
//
// [Canonical] accepts any text of that grammar and returns its canonical form.
// [IsCanonical] says whether the bytes are that form already, and [Members]
// takes an object in that form apart. [Marshal] encodes
// a Go value in one pass; [Unmarshal] decodes strictly: unknown members, members in another
// case, missing grammar and trailing bytes are errors. All functions are pure
// and safe for concurrent use.
package canon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is the deepest nesting of arrays and objects that is accepted.
const MaxDepth = 32

// maxSafe is the largest integer that every JSON reader represents exactly.
const (
	maxSafe        = "9007199254740991"
	maxSafeInteger = 1<<53 - 1
)

// SyntaxError says why a text is outside the house grammar and where. Pointer
// is an RFC 6901 JSON Pointer to the place; it never holds submitted values.
type SyntaxError struct {
	Pointer string
	Reason  string
}

func (e *SyntaxError) Error() string {
	if e.Pointer == "" {
		return "canon: " + e.Reason
	}
	return "canon: " + e.Reason + " at " + e.Pointer
}

// Check reports whether raw is exactly one value of the house grammar.
func Check(raw []byte) error {
	if IsCanonical(raw) { // in one quick pass; the decoder says what is wrong with the rest
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	for {
		token, err := d.ReadToken()
		if err == io.EOF {
			return &SyntaxError{Reason: "no value"}
		}
		if err != nil {
			return syntax(err)
		}
		if d.StackDepth() > MaxDepth {
			return &SyntaxError{string(d.StackPointer()), fmt.Sprintf("nested deeper than %d levels", MaxDepth)}
		}
		switch token.Kind() {
		case '0':
			if reason := badNumber(token.String()); reason != "" {
				return &SyntaxError{string(d.StackPointer()), reason}
			}
		case '"':
			if strings.IndexByte(token.String(), 0) >= 0 {
				return &SyntaxError{string(d.StackPointer()), "a string holds U+0000"}
			}
		}
		if d.StackDepth() == 0 {
			break
		}
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return &SyntaxError{Reason: "bytes follow the value"}
	}
	return nil
}

func badNumber(s string) string {
	digits := strings.TrimPrefix(s, "-")
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return "a number is not an integer"
		}
	}
	if len(digits) > len(maxSafe) || len(digits) == len(maxSafe) && digits > maxSafe {
		return "a number is outside the safe integer range"
	}
	return ""
}

// Canonical returns the RFC 8785 form of raw in a new slice, or an error when
// raw is outside the house grammar.
func Canonical(raw []byte) ([]byte, error) {
	if IsCanonical(raw) {
		return bytes.Clone(raw), nil
	}
	if err := Check(raw); err != nil {
		return nil, err
	}
	v := jsontext.Value(bytes.Clone(raw))
	if err := v.Canonicalize(); err != nil {
		return nil, syntax(err)
	}
	return v, nil
}

// Unmarshal decodes raw into v and refuses texts outside the house grammar,
// members that v does not name exactly, and wrong types. Errors are
// *SyntaxError and never hold submitted values.
func Unmarshal(raw []byte, v any) error {
	if err := Check(raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v, json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(false)); err != nil {
		return semantic(err)
	}
	return nil
}

func syntax(err error) error {
	var s *jsontext.SyntacticError
	if !errors.As(err, &s) {
		return &SyntaxError{Reason: "unreadable"}
	}
	reason := "not valid JSON"
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		reason = "a member stands twice"
	case errors.Is(err, io.ErrUnexpectedEOF):
		reason = "the text ends early"
	}
	return &SyntaxError{string(s.JSONPointer), reason}
}

func semantic(err error) error {
	var s *json.SemanticError
	if !errors.As(err, &s) {
		return syntax(err)
	}
	reason := "wrong type"
	if errors.Is(err, json.ErrUnknownName) {
		reason = "unknown member"
	}
	return &SyntaxError{string(s.JSONPointer), reason}
}

// Exactly decodes raw into v as [Unmarshal] does and reports whether raw is just how
// [Marshal] writes v: the one spelling, with every member present.
func Exactly(raw []byte, v any) bool {
	if Unmarshal(raw, v) != nil {
		return false
	}
	again, err := Marshal(v)
	return err == nil && bytes.Equal(again, raw)
}

// Decode is [Unmarshal] that passes over members that v does not name. It is
// for looking into a text before its exact form is known.
func Decode(raw []byte, v any) error {
	if err := Check(raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return semantic(err)
	}
	return nil
}
