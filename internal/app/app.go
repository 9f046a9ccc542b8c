package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	spec "countersign/api"
	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/channel"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/owner"
	"countersign/internal/console"
	"countersign/internal/console/frame"
	incidentpage "countersign/internal/console/incident"
	contextpages "countersign/internal/console/projects"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/identity"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
	"countersign/internal/settle"
	"countersign/internal/supervision/attack"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/managed"
	"countersign/internal/supervision/model/replay"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/service/bank"
	"countersign/internal/supervision/service/broker"
	"countersign/internal/supervision/service/merchant"
	"countersign/internal/supervision/workspace"
)

// App is an open installation.
type App struct {
	config    Config
	keys      *keys.Keys
	engine    string
	ledger    engine
	failed    <-chan struct{}
	listener  net.Listener
	addr      string
	origin    string
	gateway   *gateway.Gateway
	settler   *settle.Settler
	steps     *managed.Steps
	attacks   *attack.Runner
	owners    *identity.Owners
	policies  *workspace.Workspace
	contexts  *perimeter.Perimeter
	incidents *control.Plane // also where the incident workflow is not served
	frozen    records.Freeze // as it stood when the installation was opened
	api       *edge.API
	status    owner.Status
	settling  atomic.Pointer[time.Time] // since when the settler has been at work; nil: it is not

	metrics         *metrics // nil without --metrics-addr
	metricsListener net.Listener
}

// Open opens the folder, the ledger and the listener. Nothing is answered before
// Serve. ctx bounds the opening only.
func Open(ctx context.Context, c Config) (_ *App, err error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	a := &App{config: c, engine: SQLite}
	if c.Database != "" {
		a.engine = PostgreSQL
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if err := c.checkTLS(); err != nil {
		return nil, err
	}
	if a.keys, err = keys.Load(c.Dir); err != nil {
		return nil, err
	}
	if a.listener, a.origin, err = Listen(c.Addr, c.Origin, c.scheme()); err != nil {
		return nil, err
	}
	a.addr = a.listener.Addr().String()
	if err := c.apart(a.origin); err != nil {
		return nil, err
	}
	if c.Database != "" {
		// Opening would take a database that nobody has initialized for ours.
		r, err := inspect(ctx, c.Dir, c.Database)
		if err == nil && len(r.Keys) == 0 {
			err = ErrNoLedger
		}
		if err != nil {
			return nil, err
		}
	}
	if err := a.openMeasured(ctx); err != nil {
		return nil, err
	}
	if err := a.ledger.CheckInstallation(ctx, a.keys.Fingerprints()); err != nil && !c.anyKeys {
		return nil, a.otherKeys(ctx, err)
	}
	a.status = status(a.engine, c.Store != nil)
	if a.gateway, err = newGateway(c, a.keys, a.ledger, a.origin); err != nil {
		return nil, err
	}
	a.contexts = a.newPerimeter()
	a.incidents = a.newIncidents()
	a.settler = settle.New(a.ledger, ledger.DefaultWorkspace, c.Log, a.settlers())
	if a.metrics != nil {
		a.metrics.showFrozen(a.gateway.Reader)
	}
	if a.steps, err = newSteps(c, a.gateway, attemptContexts{a.contexts}); err != nil {
		return nil, err
	}
	if a.api, err = a.newAPI(); err != nil {
		return nil, err
	}
	return a, a.startFrozen(ctx)
}

// openMeasured opens the ledger, and with it the metrics if they were asked for.
func (a *App) openMeasured(ctx context.Context) (err error) {
	if a.config.MetricsAddr == "" {
		l, failed, err := openLedger(ctx, a.config, nil)
		if err != nil {
			return err
		}
		a.ledger, a.failed = told{swapped(a.config, l), a.config.Log}, failed
		return nil
	}
	if a.metricsListener, err = listenMetrics(a.config.MetricsAddr); err != nil {
		return err
	}
	a.metrics = newMetrics(a.engine)
	l, failed, err := openLedger(ctx, a.config, a.metrics.transactions.Inc)
	if err != nil {
		return err
	}
	a.ledger, a.failed = told{measured{swapped(a.config, l), a.metrics}, a.config.Log}, failed
	return nil
}

func newGateway(c Config, k *keys.Keys, l gateway.Ledger, origin string) (*gateway.Gateway, error) {
	guardian, err := replay.NewGuardian()
	if err != nil {
		return nil, fmt.Errorf("app: %w", err)
	}
	services := []gateway.Service{merchant.Adapter{}, bank.Adapter{}, broker.Adapter{}}
	for i, s := range services {
		services[i] = swapped(c, s)
	}
	return gateway.New(gateway.Config{
		Ledger: l, Keys: k, Issuer: origin, Services: services, Guardian: swapped[gateway.Guardian](c, guardian),
		Store: c.Store, Sender: swapped[gateway.Sender](c, dispatch.NewClient(nil)), Log: c.Log, Workspace: ledger.DefaultWorkspace,
		Fault: c.Fault, Patience: c.patience, Doors: c.Doors,
	}), nil
}

// newSteps lets runs go on with the executors that this installation has.
func newSteps(c Config, g *gateway.Gateway, contexts managed.Contexts) (*managed.Steps, error) {
	executor, err := replay.NewExecutor()
	if err != nil {
		return nil, fmt.Errorf("app: %w", err)
	}
	steps := managed.New(g, map[string]managed.Executor{replay.Provider: swapped[managed.Executor](c, executor)}).InContext(swapped(c, contexts))
	if c.patience > 0 {
		steps = steps.Impatient(c.patience)
	}
	return steps, nil
}

// newAPI makes the API with every route.
func (a *App) newAPI() (*edge.API, error) {
	api, err := edge.New(edge.Config{
		Origin: a.origin, Title: channel.Title, Version: channel.Version, Log: a.config.Log, Ready: a.ledger.Ping, Unavailable: passes, Without: a.config.Without,
	})
	if err != nil {
		return nil, err
	}
	keys := trusted(a.keys.EvidenceList())
	a.owners = identity.NewOwners(a.ledger, ledger.DefaultWorkspace, a.keys.Secret())
	if a.policies, err = a.newWorkspace(a.owners); err != nil {
		return nil, err
	}
	if a.attacks, err = a.newAttacks(a.owners); err != nil {
		return nil, err
	}
	var incidents *control.Plane // that is served
	if a.Incident() {
		incidents = a.incidents
	}
	channel.Routes(api, owner.Config{
		Gateway: a.gateway, Steps: a.steps, Owners: a.owners, Keys: keys, Specification: spec.Protocol, Status: a.status, Workspace: a.policies, Attacks: a.attacks, Hosting: a.hosting,
	}, a.contexts, incidents)
	pages := frame.New(api, a.gateway.Reader, a.owners)
	console.Register(pages, console.Config{Reader: a.gateway.Reader, Keys: keys})
	contextpages.Register(pages, contextpages.Config{Perimeter: a.contexts, Keys: keys})
	if a.Incident() {
		incidentpage.Register(pages, a.incidents)
	}
	return api, nil
}

// passes recognizes failures of the ledger that a caller may try again.
func passes(err error) bool {
	return slices.ContainsFunc([]error{gateway.ErrUnavailable, gateway.ErrUnknown, perimeter.ErrUnavailable, perimeter.ErrUnknown, control.ErrUnavailable, control.ErrUnknown, control.ErrFull}, func(passing error) bool { return errors.Is(err, passing) })
}

func trusted(list []keys.Public) evidence.Keys {
	var public evidence.Keys
	for _, p := range list {
		public = append(public, evidence.TrustedKey{Public: p.Key, NotAfter: p.NotAfter})
	}
	return public
}

// Origin is the public origin.
func (a *App) Origin() string { return a.origin }

// Addr is the address it listens at.
func (a *App) Addr() string { return a.addr }

// MetricsAddr is the address at which GET /metrics is answered, "" when nowhere.
func (a *App) MetricsAddr() string {
	if a.metricsListener == nil {
		return ""
	}
	return a.metricsListener.Addr().String()
}

// Fingerprint is the key id of the evidence key in use.
func (a *App) Fingerprint() string { return a.keys.Evidence().ID }

// Engine is SQLite or PostgreSQL.
func (a *App) Engine() string { return a.engine }

// Status says what is on and what is off, and why.
func (a *App) Status() owner.Status { return a.status }

// Serve answers requests and settles what is due until ctx ends; then it lets
// running requests finish. It fails when the ledger cannot go on: the process
// has to end then, since only a new start can say what was stored.
func (a *App) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var background sync.WaitGroup
	defer background.Wait()
	began := time.Now()
	a.settling.Store(&began)
	background.Go(func() {
		a.settler.Run(ctx)
		a.settling.Store(nil)
	})
	background.Go(func() { a.contexts.Warm(ctx) })
	if a.failed != nil {
		background.Go(func() {
			select {
			case <-a.failed:
				stop(errLedger)
			case <-ctx.Done():
			}
		})
	}
	if a.metrics != nil {
		background.Go(func() {
			if err := a.metrics.serve(ctx, a.metricsListener, a.config.Log); err != nil {
				stop(fmt.Errorf("%w: %w", errMetrics, err))
			}
		})
	}
	defer context.AfterFunc(ctx, a.steps.End)()
	server := &edge.Server{API: a.api, CertFile: a.config.TLSCert, KeyFile: a.config.TLSKey, Wrap: a.around}
	err := server.Serve(ctx, a.listener)
	a.listener = nil // Serve has closed it
	if cause := context.Cause(ctx); errors.Is(cause, errLedger) || errors.Is(cause, errMetrics) {
		err = errors.Join(cause, err)
	}
	stop(nil)
	return err
}

// around puts what was configured around the API.
func (a *App) around(next http.Handler) http.Handler {
	if a.metrics != nil {
		next = a.metrics.handler(next, a.api.Routes())
	}
	if len(a.config.TrustedProxies) > 0 {
		next = behindProxies(next, a.config.TrustedProxies)
	}
	return next
}

var (
	errLedger  = errors.New("the ledger cannot tell whether its last commit was stored; start again to read what is there")
	errMetrics = errors.New("the metrics are no longer served")
)

// Close finishes what is queued and frees ledger, folder and listener.
func (a *App) Close() error {
	var errs []error
	if a.listener != nil {
		errs = append(errs, a.listener.Close())
	}
	if a.metricsListener != nil {
		if err := a.metricsListener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if a.contexts != nil {
		a.contexts.Close()
	}
	if a.ledger != nil {
		errs = append(errs, a.ledger.Close())
	}
	return errors.Join(errs...)
}
