// Package workspace holds the service inventory, the guardian policies and the freezes of a
// workspace: it reads them, lets package guardian decide, and stores each transition
// with its signed event in one guarded commit. A lost race is decided again from what
// is there by then, so that nothing is ever overwritten.
//
// A verification asks the installed HTTP gateway itself, over its own listener, between
// two commits and never inside one (H-203).
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/machine"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/records"
)

// Ledger is what the workspace needs of a ledger engine.
type Ledger interface {
	Now(context.Context) (time.Time, error)
	Load(context.Context, ledger.Key) (ledger.Subject, time.Time, error)
	Events(ctx context.Context, key ledger.Key, after int64, limit int) ([]evidence.Event, error)
	Text(ctx context.Context, key ledger.Key, commitment string) (evidence.Text, error)
	Find(context.Context, ledger.Query) ([]ledger.Subject, error)
	Commit(context.Context, ledger.Change) ledger.Result
}

// Runs is what the workspace needs of the gateway: the runs of a verification, beside
// its HTTP routes, the export of a chain, and what a freeze has left open.
type Runs interface {
	Create(context.Context, gateway.CreateRequest) (string, error)
	IssueSession(ctx context.Context, id string) (*gateway.Session, error)
	Revoke(ctx context.Context, id string) error
	ExportChain(ctx context.Context, key ledger.Key, w io.Writer) error
	Freeze(context.Context) (records.Freeze, error)
	Open(context.Context) ([]records.Open, error)
	Intents(context.Context) ([]records.Open, error)
}

// Config is everything a workspace needs.
type Config struct {
	Ledger    Ledger
	Signing   evidence.SigningKey
	Issuer    string // the control plane's origin
	Workspace string
	Runs      Runs
	Services  []gateway.Service // the built-in adapters
	Channels  []string          // that this installation answers on
	Log       *slog.Logger

	// HTTP reaches the installation's own listener, and Base is the scheme and host that
	// it is asked under.
	HTTP *http.Client
	Base string
	// SignIn makes an owner's session for a verification. It returns the value of the
	// Cookie header and what ends the session.
	SignIn func(context.Context) (cookie string, signOut func(context.Context) error, err error)
}

// Workspace is safe for concurrent use.
type Workspace struct {
	Config
	forgets bool // in tests: each try of a freeze or its end is as if it were the first
}

// New returns a workspace.
func New(c Config) *Workspace { return &Workspace{Config: c} }

// Key names the subject of a policy.
func (w *Workspace) Key(id string) ledger.Key {
	return ledger.Key{Workspace: w.Workspace, Kind: guardian.Kind, ID: id}
}

// InventoryKey names the subject of the inventory.
func (w *Workspace) InventoryKey() ledger.Key {
	return ledger.Key{Workspace: w.Workspace, Kind: guardian.KindInventory, ID: w.Workspace}
}

func (w *Workspace) subject(id string) evidence.Subject {
	return evidence.Subject{ID: id, Workspace: w.Workspace, Issuer: w.Issuer}
}

// inventory reads the inventory; one that does not exist yet is the zero Inventory.
func (w *Workspace) inventory(ctx context.Context) (ledger.Subject, *guardian.Inventory, evidence.Time, error) {
	subject, now, err := w.Ledger.Load(ctx, w.InventoryKey())
	if isNotFound(err) {
		now, err := w.Ledger.Now(ctx)
		if err != nil {
			return subject, nil, 0, unavailable(err)
		}
		return ledger.NewSubject(w.InventoryKey()), &guardian.Inventory{}, evidence.TimeOf(now), nil
	}
	if err != nil {
		return subject, nil, 0, unavailable(err)
	}
	i, err := guardian.DecodeInventory(subject.State)
	return subject, i, evidence.TimeOf(now), err
}

// policy reads a policy.
func (w *Workspace) policy(ctx context.Context, id string) (ledger.Subject, *guardian.State, evidence.Time, error) {
	subject, now, err := w.Ledger.Load(ctx, w.Key(id))
	if isNotFound(err) {
		return subject, nil, 0, &authority.Denial{Reason: authority.NotFound, Detail: "There is no such guardian policy."}
	}
	if err != nil {
		return subject, nil, 0, unavailable(err)
	}
	s, err := guardian.DecodeState(subject.State)
	return subject, s, evidence.TimeOf(now), err
}

// maxTries bounds how often a lost race is decided again.
const maxTries = 16

// decide lets f read and decide, and commits, again and again until no race is lost. A
// nil Change stores nothing.
func (w *Workspace) decide(ctx context.Context, f func() (*ledger.Change, error)) error {
	r, err := ledger.Decide(ctx, w.Ledger, maxTries, f)
	switch {
	case err != nil:
		return err
	case r.Outcome == ledger.Stored:
		return nil
	case r.Outcome == ledger.Conflict:
		return fmt.Errorf("%w: too many concurrent changes of the workspace", gateway.ErrUnavailable)
	case r.Outcome == ledger.NotStored:
		return unavailable(r.Cause)
	}
	return fmt.Errorf("%w: %w", gateway.ErrUnknown, r.Cause)
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", gateway.ErrUnavailable, err) }

// write is the next state of a subject with the events that led to it.
func (w *Workspace) write(subject ledger.Subject, state any, now evidence.Time, t *machine.Transition) (ledger.Write, error) {
	raw, err := canon.Marshal(state)
	if err != nil {
		return ledger.Write{}, err
	}
	events, err := evidence.Seal(w.Signing, subject.ID, subject.Link(), now.Time(), t.Drafts)
	return ledger.Write{Key: subject.Key, Revision: subject.Revision, Head: subject.Head, State: raw, Events: events, Texts: t.Texts}, err
}

func isNotFound(err error) bool { return errors.Is(err, ledger.ErrNotFound) }
