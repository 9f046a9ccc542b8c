// Package records reads what the ledger holds of runs and shows it: a run's current
// view with its executions and its timeline, what an execution came to, the newest
// decision in words, and the signed export.
//
// Nothing here changes anything. A view settles what time alone has brought about,
// as every decision does first, and stores nothing of it.
//
// What was last read or stored of some runs is remembered, so that a cycle does not
// read and decode state and catalog anew for each of its steps. That decides
// nothing: either the ledger is asked which revision is the newest, and what is
// remembered counts only for exactly that one, or a commit guarded by the
// remembered revision says whether it was.
package records

import (
	"context"
	"errors"
	"fmt"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/run"
)

// ErrUnavailable means that the ledger gave no answer. Nothing was stored; the
// request may be sent again.
var ErrUnavailable = errors.New("records: the ledger did not answer")

// Ledger is what reading needs of a ledger engine.
type Ledger interface {
	Load(context.Context, ledger.Key) (ledger.Subject, time.Time, error)
	Events(ctx context.Context, key ledger.Key, after int64, limit int) ([]evidence.Event, error)
	Find(context.Context, ledger.Query) ([]ledger.Subject, error)
	Text(ctx context.Context, key ledger.Key, commitment string) (evidence.Text, error)
	Texts(context.Context, ledger.Key) ([]evidence.Text, error)
	Watch(ledger.Key) *ledger.Watcher
	HolderAlive(ctx context.Context, holder string) (bool, error)
}

// Reader reads the runs of one workspace. It is safe for concurrent use.
type Reader struct {
	// Synthetic says of each local service, by name, that its data is made up. It is
	// filled before the first use.
	Synthetic map[string]string

	ledger    Ledger
	workspace string
	key       evidence.SigningKey // signs exports
	memory    memory
}

// New returns a reader.
func New(l Ledger, workspace string, key evidence.SigningKey) *Reader {
	return &Reader{Synthetic: map[string]string{}, ledger: l, workspace: workspace, key: key}
}

// Key names the run's subject.
func (r *Reader) Key(id string) ledger.Key {
	return ledger.Key{Workspace: r.workspace, Kind: ledger.KindRun, ID: id}
}

// Current is a run as it stands at its newest revision.
type Current struct {
	Subject ledger.Subject
	State   *run.State // the caller's own
	Now     evidence.Time
	Alive   bool // the holder of the state's lease is at work, if there is a lease
}

// Load reads a run. One that is not there is denied with NOT_FOUND.
func (r *Reader) Load(ctx context.Context, id string) (*Current, error) {
	subject, now, err := r.ledger.Load(ctx, r.Key(id))
	if err != nil {
		return nil, notFound(err)
	}
	s := r.memory.state(subject)
	if s == nil {
		if s, err = run.DecodeState(subject.State); err != nil {
			return nil, err
		}
		r.memory.keep(subject, s.Clone(), nil)
	}
	c := &Current{subject, s, evidence.TimeOf(now), true}
	if s.Lease != nil {
		if c.Alive, err = r.ledger.HolderAlive(ctx, s.Lease.Holder); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return c, nil
}

// Recall returns what this process has stored or read last of a run, or a nil
// state. Only a commit can tell whether that is still the newest.
func (r *Reader) Recall(id string) (ledger.Subject, *run.State) { return r.memory.newest(r.Key(id)) }

// RecallService is [Reader.Recall] for the state of a local service.
func (r *Reader) RecallService(key ledger.Key) (ledger.Subject, bool) { return r.memory.service(key) }

// Saw remembers the state of a local service as it was read.
func (r *Reader) Saw(s ledger.Subject) { r.memory.keep(s, nil, nil) }

// Stored remembers what a commit has stored: the run's write first. Nobody may
// change s or observed any more; observed is nil when none was recorded.
func (r *Reader) Stored(writes []ledger.Write, s *run.State, observed *run.Observed) {
	r.memory.stored(writes, s, observed)
}

// each reads the chain from after a sequence in short reads, until the head that
// was read first or until f says that it has seen enough.
func (r *Reader) each(ctx context.Context, runID string, after int64, f func(evidence.Event) (bool, error)) error {
	return r.eachOf(ctx, r.Key(runID), after, f)
}

// eachOf is [Reader.each] for any subject.
func (r *Reader) eachOf(ctx context.Context, key ledger.Key, after int64, f func(evidence.Event) (bool, error)) error {
	subject, _, err := r.ledger.Load(ctx, key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for after < subject.Sequence {
		events, err := r.ledger.Events(ctx, key, after, 1000)
		if err != nil || len(events) == 0 {
			return fmt.Errorf("%w: events after %d: %w", ErrUnavailable, after, err)
		}
		for _, e := range events {
			if e.Sequence > subject.Sequence {
				return nil
			}
			more, err := f(e)
			if err != nil || !more {
				return err
			}
			after = e.Sequence
		}
	}
	return nil
}

// notFound turns a failed look-up of a run into what its caller is told.
func notFound(err error) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return &authority.Denial{Reason: authority.NotFound, Detail: "There is no such run."}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
