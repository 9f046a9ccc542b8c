package managed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"countersign/internal/authority"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
)

// Executor proposes one action at a time (H-015). What it returns is untrusted, and
// complete: an answer that breaks off is an error (H-034). A *[Refusal] is a native
// refusal of its provider, any other error no answer at all. It is safe for concurrent
// use, and gives up when its context ends.
type Executor interface {
	// Propose returns a version 1 outcome.
	Propose(context.Context, decide.Briefing) ([]byte, error)
	// Repair returns one in place of a malformed answer. problem says what is wrong.
	Repair(ctx context.Context, b decide.Briefing, malformed []byte, problem string) ([]byte, error)
	// Outside reports whether asking is a request to a model provider.
	Outside() bool
}

// Refusal is the native refusal of a model provider (H-184). It is never repaired or
// tried again (H-037).
type Refusal struct{ Explanation string }

func (r *Refusal) Error() string { return "managed: the model provider refused" }

const (
	// CallTimeout is how long a provider may take to answer one request (H-176).
	CallTimeout = 60 * time.Second
	// MaxSteps bounds the attempts of one play (H-095).
	MaxSteps = 16
)

// Steps lets runs go on. It is safe for concurrent use.
type Steps struct {
	gateway   *gateway.Gateway
	executors map[string]Executor // by the name of their provider
	log       *slog.Logger
	patience  time.Duration // with one request to a provider
	ended     *atomic.Bool  // see End
	contexts  Contexts      // nil: no attempt has a context turn
}

// New returns Steps that ask the executor which a run's configuration names.
func New(g *gateway.Gateway, executors map[string]Executor) *Steps {
	return &Steps{gateway: g, executors: executors, log: g.Log, patience: CallTimeout, ended: &atomic.Bool{}}
}

// Impatient returns Steps that wait no longer than that for a provider, where it is less
// than [CallTimeout].
func (m *Steps) Impatient(patience time.Duration) *Steps {
	hasty := *m
	hasty.patience = min(patience, m.patience)
	return &hasty
}

// End is for a server that stops: from now on no attempt is begun, and none goes on to
// its proposal. So no effect begins that the server could not wait for.
func (m *Steps) End() { m.ended.Store(true) }

// Step makes one attempt: observe, hand out context, ask the executor, check, ask the guardian, execute
// and verify (H-094). A nil error says only that the attempt came to its end; what came
// of it is what the run shows. A denial means that no attempt was made, or that the run
// moved on during it.
func (m *Steps) Step(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return errors.Join(gateway.ErrUnavailable, err)
	}
	if m.ended.Load() {
		return errEnded
	}
	x := &attempt{Steps: m, ctx: context.WithoutCancel(ctx), runID: id}
	if err := x.begin(); err != nil || !x.going {
		return err
	}
	x.enter()
	said := x.answer()
	if m.ended.Load() {
		x.leave(said)
		return errEnded // a call that was counted ends with its lease
	}
	err := x.submit(said)
	x.leave(said)
	if err != nil || x.permit == nil {
		return err
	}
	return x.execute()
}

var errEnded = fmt.Errorf("%w: the server is stopping", gateway.ErrUnavailable)

// Played is what a play came to.
type Played struct {
	Steps   int  // attempts that were made
	AtLimit bool // it ended at [MaxSteps] with the run ready for more
}

// Play repeats [Steps.Step] until the run is not ready any more or at the limit (H-095).
// A caller that is gone gets no further attempt begun, and after [Steps.End] nobody does.
func (m *Steps) Play(ctx context.Context, id string) (Played, error) {
	var p Played
	for p.Steps < MaxSteps && (p.Steps == 0 || ctx.Err() == nil) {
		if err := m.Step(ctx, id); err != nil {
			if p.Steps > 0 && (othersTurn(err) || errors.Is(err, errEnded)) {
				return p, nil
			}
			return p, err
		}
		p.Steps++
		c, err := m.gateway.Load(ctx, id)
		if err != nil {
			return p, err
		}
		if c.State.Status != run.StatusReady {
			return p, nil
		}
	}
	p.AtLimit = p.Steps == MaxSteps
	return p, nil
}

// othersTurn reports whether the run does not wait for an attempt any more, since
// somebody else stopped it or goes on with it.
func othersTurn(err error) bool {
	return authority.Denied(err, authority.RunNotReady, authority.AttemptInProgress, authority.PermitOutstanding)
}
