package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/ledger"
	"countersign/internal/supervision/attack"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/managed"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
	"countersign/internal/supervision/service/merchant"
	"countersign/internal/supervision/workspace"
)

// How a dependency fails.
const (
	errs     = "error"
	hangs    = "timeout"
	panics   = "panic"
	late     = "late success"
	garbles  = "garbage"
	working  = ""
	hidden   = "user=ledger password=hunter2" // what failures say, and no answer may
	patience = 2 * time.Second                // of the installation with who may hang
)

var ways = []string{errs, hangs, panics, late, garbles}

var errInside = errors.New(hidden)

// fault is what fails in an installation, and how. One that hangs does so until mend.
type fault struct {
	mu    sync.Mutex
	how   string
	where string // which of a dependency's methods; "": every one
	skip  int    // so many times it still works
	once  bool
	hits  int
	held  chan struct{} // closed by mend
	hung  sync.WaitGroup
}

func (f *fault) set(how, where string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.how, f.where, f.skip, f.once, f.hits, f.held = how, where, 0, false, 0, make(chan struct{})
}

// nth makes it fail once, at the nth use.
func (f *fault) nth(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.skip, f.once = n-1, true
}

// mend ends the failure and whoever hangs in it, and returns how often it was met.
func (f *fault) mend() int {
	f.mu.Lock()
	f.how = working
	close(f.held)
	f.mu.Unlock()
	f.hung.Wait()
	return f.hits
}

// at says how the method fails this time, and counts it.
func (f *fault) at(where string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.how == working || f.where != "" && f.where != where:
		return working
	case f.skip > 0:
		f.skip--
		return working
	}
	f.hits++
	how := f.how
	if f.once {
		f.how = working
	}
	if how == hangs || how == late {
		f.hung.Add(1)
	}
	return how
}

// hold hangs until the fault is mended. Everybody who got hangs or late calls leave.
func (f *fault) hold() {
	f.mu.Lock()
	held := f.held
	f.mu.Unlock()
	<-held
}

func (f *fault) leave() { f.hung.Done() }

// failingLedger fails in front of an engine. The bound of a read, and of the server's part
// of a commit, is the engine's own, so that its timeout is that error.
type failingLedger struct {
	app.Engine
	f *fault
}

// reads fails one read; after is the answer that may be spoiled.
func (l *failingLedger) reads(where string) error {
	how := l.f.at(where)
	switch how {
	case errs:
		return errInside
	case hangs, late: // no read has a late success: what comes after the error is not read
		l.f.leave()
		return fmt.Errorf("%s: %w", hidden, context.DeadlineExceeded)
	case panics:
		panic(hidden)
	case garbles:
		return errGarbled
	}
	return nil
}

// errGarbled asks the method to spoil its answer.
var errGarbled = errors.New("garbled")

func (l *failingLedger) Load(ctx context.Context, key ledger.Key) (ledger.Subject, time.Time, error) {
	err := l.reads("read")
	s, now, real := l.Engine.Load(ctx, key)
	if errors.Is(err, errGarbled) && real == nil {
		s.State, s.Revision = garbled(s.State), s.Revision+1000 // nobody remembers that revision
		return s, now, nil
	}
	if err != nil && !errors.Is(err, errGarbled) {
		return ledger.Subject{}, time.Time{}, err
	}
	return s, now, real
}

// garbled is a state of which the end is missing.
func garbled(state []byte) []byte { return bytes.Clone(state[:len(state)/2]) }

func (l *failingLedger) Now(ctx context.Context) (time.Time, error) {
	if err := l.reads("read"); err != nil && !errors.Is(err, errGarbled) {
		return time.Time{}, err
	}
	return l.Engine.Now(ctx)
}

func (l *failingLedger) Events(ctx context.Context, key ledger.Key, after int64, limit int) ([]evidence.Event, error) {
	err := l.reads("read")
	if err != nil && !errors.Is(err, errGarbled) {
		return nil, err
	}
	events, real := l.Engine.Events(ctx, key, after, limit)
	if err != nil {
		for i := range events {
			events[i].Data = events[i].Data[:len(events[i].Data)/2]
		}
	}
	return events, real
}

func (l *failingLedger) Text(ctx context.Context, key ledger.Key, c string) (evidence.Text, error) {
	if err := l.reads("read"); err != nil && !errors.Is(err, errGarbled) {
		return evidence.Text{}, err
	}
	return l.Engine.Text(ctx, key, c)
}

func (l *failingLedger) Record(ctx context.Context, workspace, principal, key string) (ledger.Record, error) {
	err := l.reads("read")
	if errors.Is(err, errGarbled) {
		return ledger.Record{Fingerprint: "of another request"}, nil
	}
	if err != nil {
		return ledger.Record{}, err
	}
	return l.Engine.Record(ctx, workspace, principal, key)
}

func (l *failingLedger) Credential(ctx context.Context, workspace, hash string) (ledger.Credential, time.Time, error) {
	err := l.reads("credential")
	if errors.Is(err, errGarbled) {
		return ledger.Credential{Kind: "nobody's"}, time.Time{}, nil
	}
	if err != nil {
		return ledger.Credential{}, time.Time{}, err
	}
	return l.Engine.Credential(ctx, workspace, hash)
}

func (l *failingLedger) Due(ctx context.Context, after ledger.Overdue, limit int) ([]ledger.Overdue, error) {
	err := l.reads("due")
	if errors.Is(err, errGarbled) {
		return []ledger.Overdue{{Key: ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, ID: "nobody's"}}}, nil
	}
	if err != nil {
		return nil, err
	}
	return l.Engine.Due(ctx, after, limit)
}

func (l *failingLedger) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	how := l.f.at("commit")
	switch how {
	case errs:
		return ledger.Result{Outcome: ledger.NotStored, Cause: errInside}
	case hangs: // until its bound: nothing was stored, and nobody can tell
		l.f.leave()
		return ledger.Result{Outcome: ledger.Unknown, Cause: fmt.Errorf("%s: %w", hidden, context.DeadlineExceeded)}
	case panics:
		panic(hidden)
	case late: // stored, and reported unknown
		defer l.f.leave()
		if r := l.Engine.Commit(ctx, c); r.Outcome != ledger.Stored {
			return r
		}
		return ledger.Result{Outcome: ledger.Unknown, Cause: errInside}
	case garbles:
		return ledger.Result{}
	}
	return l.Engine.Commit(ctx, c)
}

// failingMerchant fails in front of the merchant's adapter. A service is code of this
// program that asks nobody, so that it has no bound; its timeout is an error.
type failingMerchant struct {
	merchant.Adapter
	f *fault
}

func (m *failingMerchant) fails(where string) (how string, err error) {
	switch how = m.f.at(where); how {
	case errs:
		return how, errInside
	case hangs:
		m.f.leave()
		return how, fmt.Errorf("%s: %w", hidden, context.DeadlineExceeded)
	case late:
		m.f.leave()
		return how, nil
	case panics:
		panic(hidden)
	}
	return how, nil
}

func (m *failingMerchant) SeeLocal(state []byte, view *string) (decide.Sighting, error) {
	how, err := m.fails("see")
	if err != nil {
		return decide.Sighting{}, err
	}
	s, err := m.Adapter.SeeLocal(state, view)
	switch {
	case how == late && err == nil: // the answer, with an error
		return s, errInside
	case how == garbles:
		s.State = json.RawMessage(`{"twice":1,"twice":2}`)
	}
	return s, err
}

func (m *failingMerchant) Catalog(s decide.Sighting, p service.Plan) ([]propose.Entry, error) {
	how, err := m.fails("catalog")
	if err != nil {
		return nil, err
	}
	list, err := m.Adapter.Catalog(s, p)
	switch {
	case how == late && err == nil:
		return list, errInside
	case how == garbles:
		list = append(list, list...) // each entry twice
	}
	return list, err
}

func (m *failingMerchant) Execute(state []byte, p service.Promise, newID func() string) (service.Effect, error) {
	how, err := m.fails("execute")
	if err != nil {
		return service.Effect{}, err
	}
	e, err := m.Adapter.Execute(state, p, newID)
	switch {
	case how == late && err == nil:
		return e, errInside
	case how == garbles:
		e.State = bytes.Repeat([]byte("x"), ledger.MaxState+1)
	}
	return e, err
}

// failingGuardian fails in front of the authored guardian.
type failingGuardian struct {
	gateway.Guardian
	f *fault
}

func (g *failingGuardian) Judge(m decide.Matter) decide.Verdict {
	switch g.f.at("judge") {
	case errs: // it has no other way to say so
		return decide.Verdict{}
	case hangs, late:
		defer g.f.leave()
		g.f.hold()
	case panics:
		panic(hidden)
	case garbles:
		return decide.Verdict{Decision: run.Allow, ReasonCode: "BECAUSE", Explanation: hidden, Provenance: run.ByReplay}
	}
	return g.Guardian.Judge(m)
}

// failingSender fails in front of the client that sends to stores.
type failingSender struct {
	gateway.Sender
	f *fault
}

func (s *failingSender) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	switch s.f.at(r.Method) {
	case errs:
		return dispatch.Answer{}, errInside
	case hangs: // and passes over the end of its context
		defer s.f.leave()
		s.f.hold()
		return dispatch.Answer{}, errInside
	case panics:
		panic(hidden)
	case late: // the store has done it, and its answer comes when nobody waits
		defer s.f.leave()
		a, err := s.Sender.Send(ctx, r)
		s.f.hold()
		return a, err
	case garbles:
		a, err := s.Sender.Send(ctx, r)
		a.Body = []byte(`{"products":[{"productId":"` + hidden + `"}]}`)
		if middle := len(a.Receipt) / 2; middle > 0 {
			a.Receipt = a.Receipt[:middle] + a.Receipt[middle+1:]
		}
		return a, err
	}
	return s.Sender.Send(ctx, r)
}

// failingExecutor fails in front of the authored executor.
type failingExecutor struct {
	managed.Executor
	f *fault
}

func (x *failingExecutor) Propose(ctx context.Context, b decide.Briefing) ([]byte, error) {
	switch x.f.at("propose") {
	case errs:
		return nil, errInside
	case hangs, late:
		defer x.f.leave()
		x.f.hold()
	case panics:
		panic(hidden)
	case garbles:
		return []byte(`{"version":1,"outcome":{"kind":"proposal","permit":"` + hidden + `"}}`), nil
	}
	return x.Executor.Propose(ctx, b)
}

// errLate is the error of what has succeeded.
var errLate = errors.New(hidden)

// failingRuns fails in front of what verifications and attacks do beside the HTTP routes.
type failingRuns struct {
	*gateway.Gateway
	f *fault
}

func (r *failingRuns) fails() error {
	switch r.f.at("runs") {
	case errs:
		return errInside
	case late:
		r.f.leave()
		return errLate
	case hangs:
		r.f.leave()
		return fmt.Errorf("%s: %w", hidden, context.DeadlineExceeded)
	case panics:
		panic(hidden)
	case garbles:
		return errGarbled
	}
	return nil
}

func (r *failingRuns) Create(ctx context.Context, q gateway.CreateRequest) (string, error) {
	err := r.fails()
	if err == nil || errors.Is(err, errLate) { // the run is there, and nobody is told of it
		id, real := r.Gateway.Create(ctx, q)
		return id, errors.Join(err, real)
	}
	if errors.Is(err, errGarbled) {
		return "nobody's", nil
	}
	return "", err
}

func (r *failingRuns) IssueSession(ctx context.Context, id string) (*gateway.Session, error) {
	if err := r.fails(); errors.Is(err, errGarbled) {
		return &gateway.Session{Token: "nobody's"}, nil
	} else if err != nil {
		return nil, err
	}
	return r.Gateway.IssueSession(ctx, id)
}

func (r *failingRuns) Revoke(ctx context.Context, id string) error {
	if err := r.fails(); err != nil && !errors.Is(err, errGarbled) {
		return err
	}
	return r.Gateway.Revoke(ctx, id)
}

func (r *failingRuns) ExportChain(ctx context.Context, key ledger.Key, w io.Writer) error {
	if err := r.fails(); err != nil && !errors.Is(err, errGarbled) {
		return err
	}
	return r.Gateway.ExportChain(ctx, key, w)
}

// in puts the fault in front of the dependencies that are wired as one of the interfaces.
func (f *fault) in(interfaces ...string) func(reflect.Type, any) any {
	return func(wired reflect.Type, d any) any {
		for _, name := range interfaces {
			if name == wired.String() {
				return f.before(d)
			}
		}
		return d
	}
}

func (f *fault) before(d any) any {
	switch d := d.(type) {
	case *gateway.Gateway:
		return &failingRuns{d, f}
	case app.Engine:
		return &failingLedger{d, f}
	case merchant.Adapter:
		return &failingMerchant{d, f}
	case gateway.Guardian:
		return &failingGuardian{d, f}
	case gateway.Sender:
		return &failingSender{d, f}
	case managed.Executor:
		return &failingExecutor{d, f}
	case managed.Contexts:
		return &failingContexts{d, f}
	}
	return d
}

var (
	_ workspace.Runs = (*failingRuns)(nil)
	_ attack.Runs    = (*failingRuns)(nil)
	_ gateway.Hosted = (*failingMerchant)(nil)
)
