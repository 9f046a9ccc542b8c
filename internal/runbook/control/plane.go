package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"countersign/evidence"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/runbook/incident"
	"countersign/internal/supervision/line"
)

var (
	// ErrUnavailable means that nothing was stored; the request may be sent again.
	ErrUnavailable = errors.New("incident: the ledger does not answer")
	// ErrUnknown means that it is not known whether the request was stored.
	ErrUnknown = errors.New("incident: the ledger does not say whether it stored")
	// ErrFull means that the installation has as many open sessions as it may.
	ErrFull = errors.New("incident: too many open sessions")

	errEnded = errors.New("incident: the session has ended")
)

// LimitError means that an address began too many sessions.
type LimitError struct{ RetryAfter time.Duration }

func (e *LimitError) Error() string { return "incident: too many new sessions from one address" }

// Bounds.
const (
	MaxNew    = 100       // sessions that an address begins within NewWindow
	NewWindow = time.Hour // see MaxNew
	MaxOpen   = 1000      // open sessions of an installation (L-14)
	MaxTries  = 8         // times that a lost race is decided again (L-14)
	MaxReads  = 3         // of these for a request that only reads (G-26)
	MaxShown  = 100       // receipts of a snapshot
)

// Ledger is what the plane needs of a ledger engine.
type Ledger interface {
	Now(context.Context) (time.Time, error)
	Load(context.Context, ledger.Key) (ledger.Subject, time.Time, error)
	Events(ctx context.Context, key ledger.Key, after int64, limit int) ([]evidence.Event, error)
	Find(context.Context, ledger.Query) ([]ledger.Subject, error)
	Record(ctx context.Context, workspace, principal, key string) (ledger.Record, error)
	Credential(ctx context.Context, workspace, hash string) (ledger.Credential, time.Time, error)
	Commit(context.Context, ledger.Change) ledger.Result
}

// Chains writes the signed evidence of a subject.
type Chains interface {
	ExportChain(ctx context.Context, key ledger.Key, w io.Writer) error
}

// Config is everything a plane needs.
type Config struct {
	Ledger    Ledger
	Chains    Chains
	Signing   evidence.SigningKey
	Keys      evidence.Keys                // by which receipts are verified when they are shown
	MAC       func(parts ...string) []byte // keyed hash under the installation's MAC key
	Issuer    string                       // the control plane's origin
	Workspace string
	// Freeze says whether the workspace is frozen, and how many freezes it has seen.
	Freeze func(context.Context) (frozen bool, epoch int64, err error)

	// The doors are for tests.

	// Fault is asked at named points; its error ends the request there.
	Fault func(point string) error
	// Partial lets an execution fail in part.
	Partial func() bool
	// Without leaves a guard out: "line", "form", "expiry" (of what waits: a request and its
	// commit) or "limit".
	Without string
}

// Points of [Config.Fault].
const (
	FaultDecided = "incident.decided" // before the commit
	FaultStored  = "incident.stored"  // between the commit and the answer
)

// Plane is safe for concurrent use.
type Plane struct {
	Config
	cookies *identity.Tokens
	lines   line.Lines
}

// Settlers are those who settle, by kind of subject.
func (p *Plane) Settlers() map[string]func(context.Context, ledger.Key) error {
	return map[string]func(context.Context, ledger.Key) error{kindVisit: p.settleVisit}
}

// New returns a plane.
func New(c Config) *Plane {
	return &Plane{Config: c, cookies: identity.NewIncidentCookies(c.Ledger, c.Workspace)}
}

func (p *Plane) key(session string) ledger.Key {
	return ledger.Key{Workspace: p.Workspace, Kind: incident.Kind, ID: session}
}

// held is a session as it was read.
type held struct {
	subject ledger.Subject
	s       *incident.Session
	now     evidence.Time
}

// session returns the session that a cookie names, nil when it names none that is open.
func (p *Plane) session(ctx context.Context, cookie string) (*held, error) {
	c, err := p.cookies.Lookup(ctx, cookie)
	switch {
	case errors.Is(err, identity.ErrUnauthenticated):
		return nil, nil
	case err != nil:
		return nil, unavailable(err)
	}
	return p.load(ctx, c.Subject)
}

func (p *Plane) load(ctx context.Context, id string) (*held, error) {
	subject, now, err := p.Ledger.Load(ctx, p.key(id))
	if err != nil {
		return nil, unavailable(err)
	}
	s, err := incident.Decode(subject.State)
	return &held{subject, s, evidence.TimeOf(now)}, err
}

// Export writes the session's signed chain. It reports whether there is one.
func (p *Plane) Export(ctx context.Context, cookie string, w io.Writer) (found bool, err error) {
	h, err := p.session(ctx, cookie)
	if h == nil || err != nil {
		return false, err
	}
	return true, p.Chains.ExportChain(ctx, h.subject.Key, w)
}

func (p *Plane) fault(point string) error {
	if p.Fault == nil {
		return nil
	}
	return p.Fault(point)
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }
