package contextclient

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// ErrQueued says that a report waits in the outbox: the server has not answered it yet.
var ErrQueued = errors.New("contextclient: the report waits in the outbox")

// Error is a request that was refused or not answered.
type Error struct {
	Op         string        // the path below /context/
	Status     int           // of HTTP; 0 when no answer came
	ReasonCode string        // of the problem, such as turn_expired; empty when there is none
	Detail     string        // of the problem, printable and at most 500 characters
	Errors     []string      // what is wrong with the request, by place, such as "body.task: expected length >= 1"; at most 20, as Detail
	RetryAfter time.Duration // what the server asks for; 0 when it asks for nothing
	cause      error
}

func (e *Error) Error() string {
	said := []string{"contextclient: " + e.Op + ":"}
	switch {
	case e.Status == 0:
		said = append(said, "no answer:")
	case e.Status < 400:
		said = append(said, fmt.Sprintf("status %d without the answer of this protocol", e.Status))
	default:
		said = append(said, fmt.Sprint(e.Status))
	}
	for _, s := range []string{e.ReasonCode, e.advice()} {
		if s != "" {
			said = append(said, s)
		}
	}
	if e.cause != nil {
		said = append(said, e.cause.Error())
	}
	return strings.Join(said, " ")
}

// advice is what the server says of the refusal, in one line.
func (e *Error) advice() string {
	return strings.TrimSpace(e.Detail + " " + strings.Join(e.Errors, "; "))
}

// Unwrap returns why no answer came; nil when one did.
func (e *Error) Unwrap() error { return e.cause }

// Temporary reports whether the same request may succeed later. Every 4xx but 408, 425,
// 429 and 409 idempotency_in_progress is final.
func (e *Error) Temporary() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusConflict:
		return e.ReasonCode == "idempotency_in_progress"
	}
	return e.Status < 400 || e.Status >= 500
}

// final reports whether a report that was answered so is not sent again. A refused token
// says nothing about the report, which the right token may deliver.
func (e *Error) final() bool { return !e.Temporary() && e.Status != http.StatusUnauthorized }

// hasReason reports whether err is a refusal with one of the codes.
func hasReason(err error, codes ...string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(codes, e.ReasonCode)
}

// shown is what may stand in an error of what somebody else says.
func (c *Client) shown(s string) string {
	const most = 500
	s = c.clean(strings.Map(func(r rune) rune { // first: what is taken out may have parted the token
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s))
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most])
	}
	return s
}

// without takes a token out of a text, also one that something between its characters parts and a
// reader would put together again: spaces, marks, whatever is not of its alphabet.
func without(t Token) func(string) string {
	var form strings.Builder
	for i, r := range string(t) {
		if i > 0 {
			form.WriteString(`[^\x21-\x7e]*`)
		}
		form.WriteString(regexp.QuoteMeta(string(r)))
	}
	found := regexp.MustCompile(form.String())
	return func(s string) string { return found.ReplaceAllLiteralString(s, placeholder) }
}

// cause is why no answer came. A transport may say what it was to send.
func (c *Client) cause(err error) error {
	if said := err.Error(); c.clean(said) != said {
		return &withoutToken{err, c.shown(said)}
	}
	return err
}

// withoutToken is err in the words that may be shown.
type withoutToken struct {
	err  error
	said string
}

func (w *withoutToken) Error() string { return w.said }

// Is makes errors.Is look at err. It cannot be unwrapped.
func (w *withoutToken) Is(target error) bool { return errors.Is(w.err, target) }
