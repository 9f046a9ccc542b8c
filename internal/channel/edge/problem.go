package edge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/identity"
)

// ReasonsPath is where the published table of reasons is served; the type of a
// problem is this path with the reason code as fragment.
const ReasonsPath = "/reasons"

// Problem is a refusal as it is sent (RFC 9457). It is an error, so handlers
// return it; see [Refuse].
type Problem struct {
	Type       string        `json:"type" doc:"Path of the table of reasons, with the reason code as fragment." example:"/reasons#RUN_NOT_READY"`
	Title      string        `json:"title" doc:"What happened; the same for every refusal with this reason code." example:"Run not ready"`
	Status     int           `json:"status" doc:"The HTTP status." example:"409"`
	Detail     string        `json:"detail" doc:"What happened this time, or else what to do next." example:"The run is paused."`
	ReasonCode string        `json:"reasonCode" doc:"The reason for machines; see api/reasons.md." example:"RUN_NOT_READY"`
	Effect     string        `json:"effect,omitempty" enum:"unknown" doc:"Present when something may have happened nevertheless."`
	Errors     []MemberError `json:"errors,omitempty" doc:"What was wrong with the request, by place."`

	header http.Header
	cause  error
}

// MemberError says what is wrong with one member or parameter. Submitted values
// are never in it.
type MemberError struct {
	Location string `json:"location" doc:"body, query, path or header, then the way to the member." example:"body.candidates[0].args"`
	Message  string `json:"message" doc:"What is wrong there." example:"unexpected property"`
}

// maxErrors and maxLocation bound what a refusal repeats of a request's names.
const (
	maxErrors   = 20
	maxLocation = 200
)

// Refuse makes a refusal for a reason of the table. The detail says what is
// special about this refusal and what to do about it; when it is empty the table's
// advice is sent. It must hold nothing that was submitted. A reason
// that is not in the table or refuses no request is a fault of the program and
// becomes 500 INTERNAL.
func Refuse(reason, detail string) *Problem {
	r, known := reasonOf(reason)
	if !known || r.Status == http.StatusOK {
		p := Refuse(Internal, "")
		p.cause = errors.New("edge: " + reason + " is not a reason to refuse a request")
		return p
	}
	p := &Problem{
		Type: ReasonsPath + "#" + r.Code, Title: r.Title, Status: r.Status,
		Detail: cmp.Or(detail, r.Next), ReasonCode: r.Code, header: http.Header{},
	}
	if r.RetryAfter > 0 {
		p.retryAfter(r.RetryAfter)
	}
	if reason == authority.DispatchUnconfirmed {
		p.Effect = "unknown" // G-09, H-166
	}
	return p
}

// retryAfter sets Retry-After, in whole seconds and never too early.
func (p *Problem) retryAfter(d time.Duration) {
	p.header.Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
}

// With sets a header of the answer and returns p.
func (p *Problem) With(name, value string) *Problem {
	p.header.Set(name, value)
	return p
}

// Because notes the cause for the operator, which is not sent, and returns p.
func (p *Problem) Because(cause error) *Problem {
	p.cause = cause
	return p
}

// Error returns the reason code and the detail.
func (p *Problem) Error() string { return p.ReasonCode + ": " + p.Detail }

// Unwrap returns the cause for the operator, which is not sent.
func (p *Problem) Unwrap() error { return p.cause }

// GetStatus makes Problem an error that huma sends.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders makes huma send the headers.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType makes huma send the media type of RFC 9457.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// problemOf turns any error into the refusal that is sent for it.
func problemOf(err error) *Problem {
	var (
		p       *Problem
		denial  *authority.Denial
		limited *identity.RateLimitError
	)
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &denial):
		if place, message, ok := placed(denial); ok {
			return Refuse(denial.Reason, "").at(place, message)
		}
		return Refuse(denial.Reason, denial.Detail)
	case errors.As(err, &limited):
		p = Refuse(RateLimited, "")
		p.retryAfter(limited.RetryAfter)
		return p
	case errors.Is(err, identity.ErrUnauthenticated):
		return Refuse(AuthenticationRequired, "")
	case errors.Is(err, identity.ErrUnavailable):
		p = Refuse(LedgerUnavailable, "")
	default:
		p = Refuse(Internal, "")
	}
	p.cause = err
	return p
}

// place is how the detail of a denial begins that is about one place of a request.
var place = regexp.MustCompile(`^((?:body|query|path|header)\.[\w.\[\]-]+): `)

// placed takes the place off an INVALID_REQUEST that names one, so that it is in
// errors like every other.
func placed(d *authority.Denial) (where, message string, ok bool) {
	m := place.FindStringSubmatch(d.Detail)
	if m == nil || d.Reason != authority.InvalidRequest {
		return "", "", false
	}
	return m[1], d.Detail[len(m[0]):], true
}

// refused returns the refusal for err and tells the operator when the fault is
// ours. What is logged are reasons, routes and errors made in this program.
func (a *API) refused(ctx context.Context, route string, err error) *Problem {
	p := problemOf(err)
	if a.passes != nil && p.ReasonCode == Internal && a.passes(err) {
		p = Refuse(LedgerUnavailable, "")
		p.cause = err
	}
	if p.cause == nil || p.Status < 500 {
		return p
	}
	level := slog.LevelError
	if ctx.Err() != nil { // the client has left; nobody reads the answer
		level = slog.LevelDebug
	}
	a.log.Log(ctx, level, "request failed", "route", route, "reason", p.ReasonCode, "cause", p.cause.Error())
	return p
}

// Refusal returns the refusal for err, as [API.Fail] would send it, for a handler that
// shows it in its own form.
func (a *API) Refusal(r *http.Request, err error) *Problem {
	return a.refused(r.Context(), a.routeOf(r), err)
}

// Fail answers a plain handler's request with the refusal for err. Nothing may
// have been written yet.
func (a *API) Fail(w http.ResponseWriter, r *http.Request, err error) {
	a.refused(r.Context(), a.routeOf(r), err).write(w)
}

func (p *Problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and integers only
	}
	p.send(w, body)
}

func (p *Problem) send(w http.ResponseWriter, body []byte) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	send(w, p.Status, problemType, body)
}

// at adds what is wrong at a place and returns p.
func (p *Problem) at(location, message string) *Problem {
	if len(p.Errors) < maxErrors {
		if len(location) > maxLocation {
			location = strings.ToValidUTF8(location[:maxLocation], "") + "…"
		}
		p.Errors = append(p.Errors, MemberError{location, message})
	}
	return p
}

// At adds what is wrong at a place of the body, an RFC 6901 pointer, and returns
// p. For handlers that read their body themselves; the bounds of a refusal hold.
func (p *Problem) At(pointer, message string) *Problem { return p.at(location(pointer), message) }

// AtPlace is At for what is no place of the body, such as query.limit.
func (p *Problem) AtPlace(place, message string) *Problem { return p.at(place, message) }

// malformed is the refusal of a body outside the grammar.
func malformed(reason string, err error) *Problem {
	var s *canon.SyntaxError
	if !errors.As(err, &s) {
		return Refuse(reason, "").at("body", "unreadable")
	}
	return Refuse(reason, "").At(s.Pointer, s.Reason)
}

// location spells a JSON Pointer (RFC 6901) as the rest of errors does.
func location(pointer string) string {
	var b strings.Builder
	b.WriteString("body")
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch _, err := strconv.Atoi(token); {
		case token == "":
		case err == nil:
			b.WriteString("[" + token + "]")
		default:
			b.WriteString("." + unescape.Replace(token))
		}
	}
	return b.String()
}
