package perimeter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/contextturn/builds"
	"countersign/internal/contextturn/traces"
	"countersign/internal/ledger"
)

var (
	// ErrUnavailable means that nothing was stored; the request may be sent again.
	ErrUnavailable = traces.ErrUnavailable
	// ErrUnknown means that it is not known whether the request was stored; sent again
	// with the same key it gets the answer.
	ErrUnknown = errors.New("perimeter: the ledger does not say whether it stored")
)

// Ledger is what the perimeter needs of a ledger engine.
type Ledger interface {
	traces.Ledger
	Record(ctx context.Context, workspace, principal, key string) (ledger.Record, error)
	Credential(ctx context.Context, workspace, hash string) (ledger.Credential, time.Time, error)
	Commit(context.Context, ledger.Change) ledger.Result
	PutBlobs(context.Context, []ledger.Blob) error
	Blobs(ctx context.Context, workspace string, hashes []string) ([]ledger.Blob, error)
	Missing(ctx context.Context, workspace string, hashes []string) ([]string, error)
}

// Config is everything a perimeter needs.
type Config struct {
	Ledger    Ledger
	Chains    traces.Chains
	Signing   evidence.SigningKey
	MAC       func(parts ...string) []byte // keyed hash under the installation's MAC key
	Issuer    string                       // the control plane's origin
	Workspace string
	Log       *slog.Logger
	// Fault, unless nil, is asked at named points and its error ends the request there.
	// Only tests set it.
	Fault func(point string) error
	// Unrecorded hands context out although its record was not stored. Only tests set it,
	// to see that the order is what protects.
	Unrecorded bool
}

// FaultStored is the point between the commit of a call's record and its answer.
const FaultStored = "context.stored"

// Perimeter is safe for concurrent use. Close frees what Builds take up.
type Perimeter struct {
	Config
	*traces.Reader
	shelf *builds.Shelf
}

// New returns a perimeter.
func New(c Config) *Perimeter {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	p := &Perimeter{Config: c, Reader: traces.New(c.Ledger, c.Chains, c.Workspace)}
	p.shelf = builds.New(p.open)
	return p
}

// Close removes the search indexes. Calls that go on end in an error.
func (p *Perimeter) Close() { p.shelf.Close() }

func (p *Perimeter) subject() evidence.Subject {
	return evidence.Subject{Workspace: p.Workspace, Issuer: p.Issuer}
}

// maxTries bounds how often a lost race is decided again: an application may send many
// requests of one turn at once.
const maxTries = 32

// decide lets f read and decide, and stores what it made.
func (p *Perimeter) decide(ctx context.Context, f func() (*ledger.Change, error)) error {
	r, err := ledger.Decide(ctx, p.Ledger, maxTries, f)
	switch {
	case err != nil:
		return err
	case r.Outcome == ledger.Stored:
		return nil
	case r.Outcome == ledger.Conflict, r.Outcome == ledger.NotStored:
		return unavailable(r.Cause)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, r.Cause)
}

func unavailable(err error) error { return traces.Unavailable(err) }

// write is the next state of a subject with the events that led to it.
func (p *Perimeter) write(subject ledger.Subject, state any, now evidence.Time, drafts []evidence.Draft, texts []evidence.Text, attributes []ledger.Attribute) (ledger.Write, error) {
	raw, err := canon.Marshal(state)
	if err != nil {
		return ledger.Write{}, err
	}
	events, err := evidence.Seal(p.Signing, subject.ID, subject.Link(), now.Time(), drafts)
	return ledger.Write{
		Key: subject.Key, Revision: subject.Revision, Head: subject.Head, State: raw, Events: events, Texts: texts, Attributes: attributes,
	}, err
}

func (p *Perimeter) fault(point string) error {
	if p.Fault == nil {
		return nil
	}
	return p.Fault(point)
}

func denied(reason, detail string) error { return traces.Denied(reason, detail) }

// orNil keeps a nil denial from becoming an error.
func orNil(d *authority.Denial) error {
	if d == nil {
		return nil
	}
	return d
}
