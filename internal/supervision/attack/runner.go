package attack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/records"
)

// Runs is what the runner needs of the gateway beside its HTTP routes: what no route
// offers, since nobody but the runner may do it.
type Runs interface {
	Create(context.Context, gateway.CreateRequest) (string, error)
	IssueSession(ctx context.Context, id string) (*gateway.Session, error)
	Revoke(ctx context.Context, id string) error
	Attempt(ctx context.Context, id string, f func(d *decide.Deciding, look func() error) error) error
	Freeze(context.Context) (records.Freeze, error)
}

// Ledger is where local services keep their state, and where earlier attacks are counted.
type Ledger interface {
	Now(context.Context) (time.Time, error)
	Load(context.Context, ledger.Key) (ledger.Subject, time.Time, error)
	Find(context.Context, ledger.Query) ([]ledger.Subject, error)
}

// Store is a hosted store that attacks may change.
type Store interface {
	// SetPrice changes what a product costs from now on, in cents.
	SetPrice(ctx context.Context, productID string, cents int64) error
	// Effects counts the mutations that the store has applied for a run, by its own ledger.
	Effects(ctx context.Context, runID string) (int64, error)
	// Charged is what the store has charged for a run's orders, in cents.
	Charged(ctx context.Context, runID string) (int64, error)
}

// Config is everything that a runner needs.
type Config struct {
	Runs      Runs
	Ledger    Ledger
	Workspace string
	Store     Store // nil: nothing hosted is attacked
	Log       *slog.Logger

	// HTTP reaches the server's own listener, Base is the scheme and host that it is asked
	// under and Origin its public origin.
	HTTP         *http.Client
	Base, Origin string
	// SignIn makes an owner's session. It returns the value of the Cookie header and what
	// ends the session.
	SignIn func(context.Context) (cookie string, signOut func(context.Context) error, err error)
}

// Runner carries attacks out, one at a time. It is safe for concurrent use.
type Runner struct {
	Config
	busy      sync.Mutex
	unaltered bool // for tests: every attack is its own twin, and none may count as blocked
}

// New returns a runner.
func New(c Config) *Runner { return &Runner{Config: c} }

// lineFor bounds one attack on one service, with all of its shapes.
const lineFor = 2 * time.Minute

// Run carries an attack out on a service. That it was not blocked, or could not be carried
// out to its end, is no error: the result says it. A denial means that no run was made:
// there is no such attack, it does not apply to the service, the workspace is frozen, or
// one is under way; a *[LimitError] that there were too many lately. A caller that leaves
// ends nothing.
func (r *Runner) Run(ctx context.Context, id, service string) (*Result, error) {
	a, denial := r.choose(id, service)
	if denial != nil {
		return nil, denial
	}
	return r.carry(ctx, a, service)
}

// carry carries an attack out that applies to the service.
func (r *Runner) carry(ctx context.Context, a *Attack, service string) (*Result, error) {
	if !r.busy.TryLock() {
		return nil, &authority.Denial{Reason: authority.AttemptInProgress, Detail: "An attack is under way; this server carries out one at a time."}
	}
	defer r.busy.Unlock()
	if err := r.thawed(ctx); err != nil {
		return nil, err
	}
	if err := r.room(ctx); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", gateway.ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lineFor)
	defer cancel()
	r.sweep(ctx)
	cookie, signOut, err := r.SignIn(ctx)
	if err != nil {
		return nil, err
	}
	result := &Result{AttackID: a.ID, Service: service, Target: a.Target, Title: a.Title, Runs: []string{}, Shapes: []Shape{}}
	for _, s := range a.shapes(service) {
		t := &trial{r: r, ctx: ctx, cookie: cookie, attack: a, service: service, shape: s}
		result.add(t.run())
		result.Runs = append(result.Runs, t.runs...)
	}
	return result, errors.Join(signOut(ctx))
}

// thawed is nil unless the workspace is frozen: no twin could take effect then.
func (r *Runner) thawed(ctx context.Context) error {
	f, err := r.Runs.Freeze(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", gateway.ErrUnavailable, err)
	}
	if f.Frozen {
		return &authority.Denial{Reason: authority.Frozen, Detail: "The workspace is frozen, so that no benign twin could take effect. No run was made."}
	}
	return nil
}

// choose finds the attack.
func (r *Runner) choose(id, service string) (*Attack, *authority.Denial) {
	a := Find(id)
	switch {
	case a == nil:
		return nil, &authority.Denial{Reason: authority.NotFound, Detail: "There is no attack of this id; GET /api/v1/owner/attacks lists them."}
	case !slices.Contains(a.Services, service):
		return nil, &authority.Denial{Reason: authority.InvalidRequest, Detail: "body.service: " + a.Elsewhere()}
	case a.Hosted() && r.Store == nil:
		return nil, &authority.Denial{Reason: authority.NotImplemented, Detail: "Not built over this route: attacks at a store on the web. `countersign attack " + a.ID + "` carries it out at a store of its own."}
	}
	return a, nil
}
