// Package gateway is the action cycle of a supervised run: observe, propose,
// decide, permit, dispatch, receive, verify. It is the only component that
// issues or consumes a permit (H-006).
//
// Data flows one way. A method loads the run, lets the pure package run decide,
// and hands the transition to the ledger as one guarded commit. A lost race
// reloads and decides again. No request ever leaves inside a transaction, and an
// attempt that was claimed does not depend on the caller's context: whoever hangs
// up early changes nothing.
//
// Refusals are *authority.Denial. Other errors are failures of the installation:
// [ErrUnavailable] and [ErrUnknown].
package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/supervision/ask"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/hosted"
	"countersign/internal/supervision/line"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

var (
	// ErrUnavailable means that nothing was stored; the request may be sent
	// again.
	ErrUnavailable = records.ErrUnavailable
	// ErrUnknown means that it is not known whether the transition was stored.
	// Nothing was sent.
	ErrUnknown = errors.New("gateway: it is unknown whether the transition was stored")
)

// Ledger is what the gateway needs of a ledger engine.
type Ledger interface {
	records.Ledger
	Now(context.Context) (time.Time, error)
	Commit(context.Context, ledger.Change) ledger.Result
	Record(ctx context.Context, workspace, principal, key string) (ledger.Record, error)
	Fate(ctx context.Context, workspace, permitID string) (ledger.Fate, error)
	Credential(ctx context.Context, workspace, hash string) (ledger.Credential, time.Time, error)
	SealedValue(ctx context.Context, key ledger.Key, name string) ([]byte, error)
	Holder() string
}

// Service is a domain that runs can act on, at least on its local synthetic
// form.
type Service interface {
	Name() string
	Synthetic() string // what a person is told of its local form's data (H-011)
	Currency() string
	LocalOrigin() string
	Operations() []string
	MaxUses() map[string]int64
	Workflow() []run.Step
	Terms(raw json.RawMessage, origin string) (service.Terms, *authority.Denial)
	Catalog(decide.Sighting, service.Plan) ([]propose.Entry, error)
	Holds(decide.Sighting, service.Promise) ([]run.Postcondition, error)
	NewLocal() []byte
	SeeLocal(state []byte, view *string) (decide.Sighting, error)
	Execute(state []byte, p service.Promise, newID func() string) (service.Effect, error)
	PriceChange(state []byte) ([]byte, error)
}

// Hosted is a service that can also act at a hosted store.
type Hosted interface {
	Request(service.Promise) (service.Request, error)
	Reads(orderID *string) []service.Request
	SeeHosted(bodies [][]byte, view *string) (decide.Sighting, error)
}

// Guardian judges a report that passed every hard check (H-004). It is safe for
// concurrent use. Its verdict is untrusted, and counts only within [GuardianTimeout].
type Guardian interface {
	Judge(decide.Matter) decide.Verdict
}

// Sender sends one request to a store, once.
type Sender = hosted.Sender

// Store is the hosted store that runs may be created for.
type Store struct {
	Origin string
	Keys   []dispatch.TrustedKey // pinned receipt keys
}

// Config is everything a gateway needs. Fault and Doors are test-only and nil or
// zero in the product.
type Config struct {
	Ledger    Ledger
	Keys      *keys.Keys
	Issuer    string // the control plane's origin
	Services  []Service
	Guardian  Guardian
	Store     *Store // nil: no hosted runs
	Sender    Sender
	Log       *slog.Logger
	Workspace string

	Fault    func(point string) // called at every one of Points
	Patience time.Duration      // with a guardian and a store; 0: GuardianTimeout and dispatch.SendTimeout
	Doors    decide.Doors
}

// Points are the fail points of the cycle, in their order: first those of opening
// a session at a store, then those of one execution. The process may be killed at
// each, see the crash tests.
var Points = []string{"session-intent", "session-answer", "session-receipt", "after-intent", "before-send", "after-send", "before-receipt", "after-receipt", "before-verify", "after-verify"}

// Gateway is safe for concurrent use.
type Gateway struct {
	Config
	*records.Reader
	services map[string]Service
	link     hosted.Link
	lines    line.Lines
	epoch    atomic.Int64 // see learnEpoch
}

// New returns a gateway.
func New(c Config) *Gateway {
	sending := dispatch.SendTimeout
	if c.Patience > 0 {
		sending = c.Patience
	} else {
		c.Patience = GuardianTimeout
	}
	if !c.Doors.Asked {
		c.Sender = hosted.Bounded(c.Sender, sending)
	}
	g := &Gateway{Config: c, Reader: records.New(c.Ledger, c.Workspace, c.Keys.Evidence()), services: map[string]Service{}}
	for _, s := range c.Services {
		g.services[s.Name()] = s
		g.Synthetic[s.Name()] = s.Synthetic()
	}
	if g.Fault == nil {
		g.Fault = func(string) {}
	}
	g.link = hosted.Link{
		Issuer: c.Issuer, Keys: c.Keys, Sender: c.Sender, Log: c.Log,
		Sealed: func(ctx context.Context, id string) ([]byte, error) {
			return c.Ledger.SealedValue(ctx, g.Key(id), hosted.SealedSession)
		},
		Sent: func() { g.Fault("after-send") }, Doors: c.Doors,
	}
	return g
}

func (g *Gateway) serviceKey(id string) ledger.Key {
	return ledger.Key{Workspace: g.Workspace, Kind: ledger.KindService, ID: id}
}

// maxTries bounds how often a lost race is decided again.
const maxTries = 16

// attempt is one try to decide: what was read, the decision under way, and what
// goes into the same commit.
type attempt struct {
	subject ledger.Subject
	*decide.Deciding
	change ledger.Change
	epoch  int64                  // freezes that the decision knows of
	stored func([]evidence.Event) // when not nil, gets the events once they are stored
	// recalled says that nothing was read: only what the ledger takes counts then.
	recalled bool
}

// decide loads the run, lets f decide and commits, again and again until no race
// is lost. What f emitted is stored even when f denies: settling and refusals
// are evidence too.
//
// Requests of this process for one run go one after the other, so that many at
// once do not starve each other; hence f asks nobody outside. That is order and no
// guard: other processes are held off by the commit alone.
func (g *Gateway) decide(ctx context.Context, id string, f func(*attempt) error) error {
	return g.decideFrom(ctx, id, g.begin, f)
}

// decideFrom is [Gateway.decide] whose first try begins as the caller says.
func (g *Gateway) decideFrom(ctx context.Context, id string, begin func(context.Context, string) (*attempt, error), f func(*attempt) error) error {
	leave, err := g.lines.Enter(ctx, id)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer leave()
	for range maxTries {
		a, err := begin(ctx, id)
		if err != nil {
			return err
		}
		begin = g.begin
		refusal := g.Dated(ctx, a.State(), f(a))
		if a.recalled && (refusal != nil || !a.Changed()) {
			continue
		}
		if _, denied := errors.AsType[*authority.Denial](refusal); refusal != nil && !denied {
			return refusal
		}
		if !a.Changed() {
			return refusal
		}
		again, err := g.commit(ctx, a)
		if err != nil {
			return err
		}
		if !again {
			return refusal
		}
	}
	return fmt.Errorf("%w: too many concurrent requests for one run", ErrUnavailable)
}

func (g *Gateway) begin(ctx context.Context, id string) (*attempt, error) {
	c, err := g.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	return &attempt{subject: c.Subject, epoch: g.epoch.Load(), Deciding: decide.Begin(c.State, c.Now, ledger.Seed(), c.Alive, g.Doors)}, nil
}

// recall begins from what this process has stored or read last, and reads no more
// than the time. When that is not the newest any more, the guards of the commit
// refuse it.
func (g *Gateway) recall(ctx context.Context, id string) (*attempt, error) {
	subject, s := g.Recall(id)
	if s == nil {
		return g.begin(ctx, id)
	}
	now, err := g.now(ctx)
	if err != nil {
		return nil, err
	}
	return &attempt{subject: subject, epoch: g.epoch.Load(), Deciding: decide.Begin(s, now, ledger.Seed(), true, g.Doors), recalled: true}, nil
}

// commit seals and stores what a decided. again says that a race was lost.
func (g *Gateway) commit(ctx context.Context, a *attempt) (again bool, err error) {
	t, err := a.Done()
	if err != nil {
		return false, err
	}
	if err := g.fill(a, t); err != nil {
		return false, err
	}
	switch r := g.store(ctx, a.change); r.Outcome {
	case ledger.Stored:
		g.Stored(a.change.Writes, t.State, a.Observed())
		if a.stored != nil {
			a.stored(a.change.Writes[0].Events)
		}
		return false, nil
	case ledger.Conflict:
		switch r.Which {
		case ledger.OnEpoch:
			return true, g.learnEpoch(ctx)
		case ledger.OnFreeze:
			return false, &authority.Denial{Reason: authority.Frozen, Detail: "The workspace is frozen; no run gets a permit or sends anything until an owner unfreezes it."}
		}
		return true, nil
	case ledger.NotStored:
		return false, fmt.Errorf("%w: %w", ErrUnavailable, r.Cause)
	default:
		return false, fmt.Errorf("%w: %w", ErrUnknown, r.Cause)
	}
}

// store commits a Change. When the ledger panics nobody knows what it has stored.
func (g *Gateway) store(ctx context.Context, c ledger.Change) (r ledger.Result) {
	err := ask.Safely(func() error {
		r = g.Ledger.Commit(ctx, c)
		return nil
	})
	if err != nil {
		return ledger.Result{Outcome: ledger.Unknown, Cause: err}
	}
	return r
}

// fill turns a transition into the Change that stores it.
func (g *Gateway) fill(a *attempt, t *decide.Transition) error {
	state, err := t.State.Encode()
	if err != nil {
		return err
	}
	key := g.Key(t.State.ID)
	events, err := evidence.Seal(g.Keys.Evidence(), t.State.ID, a.link(), a.Now().Time(), t.Drafts)
	if err != nil {
		return err
	}
	write := ledger.Write{
		Key: key, Revision: a.subject.Revision, Head: a.link().Hash, State: state, Due: t.State.Due(), Events: events, Texts: t.Texts,
		Attributes: records.Attributes(t.State),
	}
	// What callers put in before (sealed values) belongs to the run's write.
	for i, w := range a.change.Writes {
		if w.Key == key {
			write.Sealed = w.Sealed
			a.change.Writes = append(a.change.Writes[:i], a.change.Writes[i+1:]...)
			break
		}
	}
	a.change.Workspace = g.Workspace
	a.change.Writes = append([]ledger.Write{write}, a.change.Writes...)
	for _, f := range t.Fates {
		a.change.Fates = append(a.change.Fates, ledger.Fate{Workspace: g.Workspace, PermitID: f.PermitID, Subject: key, Fate: f.Fate, Cause: f.Cause, Execution: f.ExecutionID})
	}
	a.change.Freezable, a.change.FreezeEpoch = a.change.Freezable || t.Freezable, a.epoch
	if t.NotAfter != 0 {
		a.change.NotAfter = t.NotAfter.Time()
	}
	return nil
}

func (a *attempt) link() evidence.Link {
	if a.subject.Revision == 0 {
		return evidence.Link{Hash: evidence.Genesis}
	}
	return a.subject.Link()
}

// denied turns a nil *authority.Denial into a nil error.
func denied(d *authority.Denial) error {
	if d == nil {
		return nil
	}
	return d
}
