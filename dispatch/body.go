package dispatch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"countersign/internal/canon"
)

// MaxBody is the largest body of a mutation in bytes.
const MaxBody = 16 << 10

// ErrBodyTooLarge is returned by [ReadBody] for a body over [MaxBody].
var ErrBodyTooLarge = errors.New("dispatch: the body is too large")

// RequestError says that a body is not what the operation takes. Reason names the
// member and never holds submitted values.
type RequestError struct{ Reason string }

func (e *RequestError) Error() string { return "dispatch: request: " + e.Reason }

// ReadBody reads the exact bytes that the permit is over.
func ReadBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	if err != nil {
		return nil, &RequestError{"the body ended early"}
	}
	if len(body) > MaxBody {
		return nil, ErrBodyTooLarge
	}
	return body, nil
}

// Decode reads a body, an object, into v and leaves no second reading: unknown, duplicate or
// wrongly cased members, wrong types, fractions, integers above 2^53-1, U+0000,
// lone surrogates, broken UTF-8, deep nesting and trailing bytes are a
// *[RequestError]. Members of v that the body lacks keep their value, so give v
// members whose zero value is not acceptable, or pointers.
func Decode(body []byte, v any) error {
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return &RequestError{"the body is not an object"} // null would leave v as it is
	}
	err := canon.Unmarshal(body, v)
	var s *canon.SyntaxError
	if errors.As(err, &s) {
		if s.Pointer == "" {
			return &RequestError{s.Reason}
		}
		return &RequestError{s.Reason + " at " + s.Pointer}
	}
	if err != nil {
		return fmt.Errorf("dispatch: %w", err)
	}
	return nil
}

// Encode writes an answer's body in canonical form. Numbers must be integers of
// at most 2^53-1; write money as decimal strings.
func Encode(v any) ([]byte, error) { return canon.Marshal(v) }

// ClosePath is where a shop takes probes.
const ClosePath = "/api/dispatches/close"

// CloseBody is the body of a probe for the permit with that jti.
func CloseBody(jti string) []byte {
	return canon.MustMarshal(closeRequest{jti})
}

// ParseCloseBody returns the jti that a probe asks about.
func ParseCloseBody(body []byte) (string, error) {
	var c closeRequest
	if err := Decode(body, &c); err != nil {
		return "", err
	}
	if !isID(c.ID) {
		return "", &RequestError{"want an id at /jti"}
	}
	return c.ID, nil
}

type closeRequest struct {
	ID string `json:"jti"`
}
