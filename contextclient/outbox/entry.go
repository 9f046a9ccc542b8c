package outbox

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"
)

// Bounds of an outbox (G-34, G-36).
const (
	// MaxEntries is how many reports wait at most.
	MaxEntries = 100
	// MaxBody bounds the body of a report in bytes, as the server does.
	MaxBody = 4 << 10
	// MaxAge is when a report that could not be delivered is dropped, counted from CreatedAt.
	MaxAge = 24 * time.Hour
)

// Entry is one report that waits.
type Entry struct {
	// Key is its Idempotency-Key: 16 to 160 characters of [A-Za-z0-9._~-], the same in every attempt.
	Key string `json:"key"`
	// Method is how it is sent; empty means POST.
	Method string `json:"method"`
	// Path is where to, below the base address: it begins with a slash.
	Path string `json:"path"`
	// Body is one JSON object, at most MaxBody bytes.
	Body json.RawMessage `json:"body"`
	// By names who has put it in, where several share an outbox; at most 64 characters of
	// [A-Za-z0-9_-], never a token. It is not sent; a [Send] may look at it.
	By string `json:"by,omitempty"`
	// CreatedAt is when it was put in; zero means now.
	CreatedAt time.Time `json:"createdAt"`
	// Attempts is how often sending it was begun.
	Attempts int `json:"attempts"`
	// NotBefore is when it may be tried again.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// SendingUntil is until when somebody may be sending it; zero when nobody is.
	SendingUntil time.Time `json:"sendingUntil,omitzero"`
}

var (
	// ErrFull is returned for a report that does not fit any more; the outbox is as it was.
	ErrFull = fmt.Errorf("outbox: %d reports wait already: this one is not kept", MaxEntries)
	// ErrEntry is wrapped by errors about a report that can never be delivered as it is.
	ErrEntry = errors.New("outbox: not a report")
)

// NewKey returns a fresh Idempotency-Key of 192 random bits.
func NewKey() string {
	b := make([]byte, 24)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

var (
	keyForm  = regexp.MustCompile(`^[A-Za-z0-9._~-]{16,160}$`)
	byForm   = regexp.MustCompile(`^[A-Za-z0-9_-]{0,64}$`)
	pathForm = regexp.MustCompile(`^/[A-Za-z0-9._~/-]{1,511}$`)
	// tokenForm finds a client token, which has no business in a report or in a file.
	tokenForm = regexp.MustCompile(`seif_[A-Za-z0-9_-]{43}`)
)

// checked is an entry as it is kept, made at now.
func checked(e Entry, now time.Time) (Entry, error) {
	e.Method = cmp.Or(e.Method, http.MethodPost)
	if e.CreatedAt.IsZero() || e.CreatedAt.After(now) {
		e.CreatedAt = now
	}
	var object map[string]json.RawMessage
	switch {
	case !keyForm.MatchString(e.Key):
		return e, fmt.Errorf("%w: the key wants 16 to 160 characters of A-Z, a-z, 0-9, -, ., _ and ~", ErrEntry)
	case e.Method != http.MethodPost:
		return e, fmt.Errorf("%w: method %q, want POST", ErrEntry, e.Method)
	case !pathForm.MatchString(e.Path):
		return e, fmt.Errorf("%w: path %q", ErrEntry, e.Path)
	case len(e.Body) > MaxBody:
		return e, fmt.Errorf("%w: a body of %d bytes, want %d at most", ErrEntry, len(e.Body), MaxBody)
	case json.Unmarshal(e.Body, &object) != nil || object == nil:
		return e, fmt.Errorf("%w: the body is no JSON object", ErrEntry)
	case !byForm.MatchString(e.By):
		return e, fmt.Errorf("%w: by %q", ErrEntry, e.By)
	case tokenForm.Match(e.Body) || tokenForm.MatchString(e.By) || tokenForm.MatchString(e.Path) || tokenForm.MatchString(e.Key):
		return e, fmt.Errorf("%w: it holds a client token", ErrEntry)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, e.Body); err != nil {
		return e, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	e.Body = compact.Bytes()
	return e, nil
}

// same reports whether two entries ask for the same thing.
func (e *Entry) same(o *Entry) bool {
	return e.Key == o.Key && e.Method == o.Method && e.Path == o.Path && bytes.Equal(e.Body, o.Body)
}

func (e *Entry) due(now time.Time) bool { return e.free(now) && !now.Before(e.NotBefore) }

// free reports whether nobody is sending it.
func (e *Entry) free(now time.Time) bool { return !now.Before(e.SendingUntil) }
