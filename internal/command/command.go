// Package command is what the commands of the program have in common: where they
// write, how they end, and what they say when something is not ready.
package command

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"countersign/internal/app"
)

// Exit statuses of every command.
const (
	Done       = 0 // done, and as expected
	NotHolding = 1 // what was checked does not hold
	WrongUsage = 2 // wrong usage or unreadable input
	NotReady   = 3 // something that has to be there is not
)

// Streams are where a command writes: results to Out, all else to Err.
type Streams struct{ Out, Err io.Writer }

// ErrDiffers is the error of a check that failed and has said so itself.
var ErrDiffers = errors.New("what was checked does not hold")

// StatusError is an error with the exit status that it ends the process with.
type StatusError struct {
	Status int
	Err    error
}

func (e *StatusError) Error() string { return e.Err.Error() }

// Unwrap returns the error without its status.
func (e *StatusError) Unwrap() error { return e.Err }

// Usage is for input that cannot be read or makes no sense.
func Usage(format string, args ...any) error {
	return &StatusError{WrongUsage, fmt.Errorf(format, args...)}
}

// Differs is for a check that failed.
func Differs(format string, args ...any) error {
	return &StatusError{NotHolding, fmt.Errorf(format, args...)}
}

// StatusOf is the exit status of an error. What is nobody's usage and no check
// is a state, key, port or database that is not ready.
func StatusOf(err error) int {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, ErrDiffers):
		return NotHolding
	}
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.Status
	}
	if _, ok := errors.AsType[*app.ConfigError](err); ok {
		return WrongUsage
	}
	return NotReady
}

// Quoted is a word as a shell takes it, in one line and of characters that print.
func Quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,./_-", r)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	if utf8.ValidString(word) && strings.TrimFunc(word, unicode.IsPrint) == "" {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder // what bash, ksh, zsh and POSIX since 2024 take
	for rest := word; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + rest[:n])
		case r == utf8.RuneError && n == 1, !unicode.IsPrint(r):
			for _, c := range []byte(rest[:n]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		default:
			b.WriteString(rest[:n])
		}
		rest = rest[n:]
	}
	return "$'" + b.String() + "'"
}
