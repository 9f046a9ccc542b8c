package replicas_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/internal/client"
	"countersign/internal/replica"
	"countersign/internal/supervision/decide"
)

// frost is three replicas under load that are frozen and unfrozen.
type frost struct {
	*testing.T
	in       *replica.Installation
	replicas []*replica.Replica
	owner    *client.Owner
	web      *http.Client
	gate     *gate
	look     *pgx.Conn // reads
	hold     *pgx.Conn // holds one row
	movers   []*mover
}

// gate holds the orders that reach the store while it is closed.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // nil: it is open
	held atomic.Int64
}

func (g *gate) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		if open != nil && strings.HasPrefix(r.URL.Path, "/api/cart/") {
			g.held.Add(1)
			<-open
		}
		next.ServeHTTP(w, r)
	})
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held.Store(0)
	g.open = make(chan struct{})
}

func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open != nil {
		close(g.open)
		g.open = nil
	}
}

// mover is a client of one run, which goes on as long as it is let.
type mover struct {
	*replica.Agent
	steps []string // done again and again
	done  int
}

// Volumes: 8 clients of local runs, 2 of hosted ones that have an effect held at the store
// at every freeze, one that opens sessions at the store, and one claim that is held in the
// database; 2 rounds with the lock, at most 2 without.
const (
	localMovers, hostedMovers = 8, 2
	warm                      = 2 // cycles of each client before a freeze
	freezeRounds              = 2
)

func newFrost(t *testing.T) *frost {
	f := &frost{T: t, in: replica.Prepare(t, replica.PostgreSQL), gate: &gate{}}
	shop := f.in.OpenShop(t)
	shop.Around(f.gate.around)
	t.Cleanup(f.gate.lift)
	f.replicas = f.in.Start(t, f.options(false), f.options(false), f.options(false))
	f.web = f.in.Front(f.replicas...).Client()
	f.owner = f.in.SignIn(t, f.web)
	for _, conn := range []**pgx.Conn{&f.look, &f.hold} {
		var err error
		*conn, err = pgx.Connect(t.Context(), f.in.Database)
		must(t, err)
		t.Cleanup(func() { (*conn).Close(context.Background()) })
	}
	for n := range localMovers + hostedMovers {
		m := &mover{steps: []string{"merchant.catalog"}}
		target := "local"
		if n >= localMovers {
			target, m.steps = "hosted", []string{"add:fieldwork-keyboard:1", "remove:fieldwork-keyboard"}
		}
		id, _, err := f.owner.CreateRun(t.Context(), replica.Run("merchant", target, "bounded"))
		must(t, err)
		m.Agent, err = replica.NewAgent(t.Context(), f.owner, id, f.web)
		must(t, err)
		if target == "hosted" {
			_, err = m.Do(t.Context(), "merchant.catalog")
			must(t, err)
		}
		f.movers = append(f.movers, m)
	}
	return f
}

func (f *frost) options(unlocked bool) replica.Options {
	return replica.Options{Doors: decide.Doors{Window: true}, Unlocked: unlocked}
}

// said is what the owner's routes answer about the freeze.
type said struct {
	Frozen     bool
	Epoch      int64
	Changed    bool
	InFlight   []string
	Executions []struct{ ExecutionID, RunID, State string }
}

func heard(r client.Reply, err error) (s said, _ error) {
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(r.Body, &s)
}

// recorded is what the database holds: every intent with the epoch that it states, and
// which of them are closed.
type recorded struct {
	intents, closed map[string]bool
	epochs          map[string]int64
}

// read reads intents and outcomes in one statement, which is one moment.
func (f *frost) read() recorded {
	f.Helper()
	r := recorded{map[string]bool{}, map[string]bool{}, map[string]int64{}}
	rows, err := f.look.Query(f.Context(), `
		SELECT type, convert_from(data, 'UTF8')::json->>'executionId', coalesce(convert_from(data, 'UTF8')::json->>'phase', ''),
			coalesce(convert_from(data, 'UTF8')::json->>'freezeEpoch', '-1')::int8 FROM events WHERE type IN
		('execution.dispatched', 'execution.receipt', 'execution.not_applied', 'execution.voided', 'execution.unconfirmed', 'hosted.session')`)
	must(f, err)
	for rows.Next() {
		var kind, id, phase string
		var epoch int64
		must(f, rows.Scan(&kind, &id, &phase, &epoch))
		if kind == "execution.dispatched" || phase == "dispatched" {
			r.intents[id], r.epochs[id] = true, epoch
		} else {
			r.closed[id] = true
		}
	}
	must(f, rows.Err())
	return r
}

// until waits for what the database says about its own locks.
func (f *frost) until(what, sql string, or func() bool) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	for {
		var yes bool
		must(f, f.look.QueryRow(ctx, "SELECT "+sql).Scan(&yes))
		if yes || or != nil && or() {
			return
		}
		select {
		case <-ctx.Done():
			f.Fatalf("did not come: %s", what)
		case <-time.After(5 * time.Millisecond): // between two looks
		}
	}
}

// move goes on with a run until it has been refused for the freeze. Each further cycle
// counts down warmed. What the store holds is waited for in the background.
func (m *mover) move(ctx context.Context, warmed func()) error {
	for {
		t, err := m.Permit(ctx, m.steps[m.done%len(m.steps)])
		switch {
		case t.Reason == "FROZEN", t.Reason == "RUN_NOT_READY":
			return nil
		case err != nil:
			return err
		}
		d, err := m.Execute(ctx, t.Permit.Token, t.Permit.Action, replica.NewKey())
		switch {
		case err != nil:
			return err
		case d.Reason == "FROZEN", d.Reason == "DISPATCH_UNCONFIRMED": // a busy machine holds an effect for more than 8 s
			return nil
		case d.Status != http.StatusOK || d.State != "verified":
			return fmt.Errorf("run %s, cycle %d: %s %s", m.RunID, m.done, d.State, d.Got())
		}
		m.done++
		warmed()
	}
}

// round freezes the workspace while everybody goes on, holds what is then recorded
// against what was answered, unfreezes it, and lets every run go on. An error is what a
// freeze must not let happen.
func (f *frost) round(epoch int64) (violation error) {
	ctx, begun := f.Context(), f.read()
	// A claim whose statement has begun: it waits for a row that is held.
	held, _, err := f.owner.CreateRun(ctx, replica.Run("merchant", "local", "bounded"))
	must(f, err)
	late, err := replica.NewAgent(ctx, f.owner, held, f.web)
	must(f, err)

	var moving sync.WaitGroup
	errs := make(chan error, len(f.movers)+8)
	start := func(name string, do func() error) {
		moving.Go(func() {
			if err := do(); err != nil {
				errs <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	var warming sync.WaitGroup
	f.gate.lift()
	for n, m := range f.movers {
		warming.Add(1)
		left := warm
		start(fmt.Sprint("client ", n), func() error {
			return m.move(ctx, func() {
				if left--; left == 0 {
					warming.Done()
				}
			})
		})
	}
	start("sessions", func() error { // each of them is an intent too
		for {
			_, r, err := f.owner.CreateRun(ctx, replica.Run("merchant", "hosted", "bounded"))
			switch {
			case r.Reason == "FROZEN":
				return nil
			case err != nil:
				return err
			}
		}
	})
	ready := make(chan struct{})
	go func() { warming.Wait(); close(ready) }()
	select {
	case <-ready:
	case err := <-errs:
		f.Fatal(err)
	}

	t, err := late.Permit(ctx, "merchant.catalog")
	must(f, err)
	tx, err := f.hold.Begin(ctx)
	must(f, err)
	_, err = tx.Exec(ctx, `SELECT FROM subjects WHERE kind = 'run' AND id = $1 FOR UPDATE`, held)
	must(f, err)
	claimed := make(chan error, 1)
	go func() {
		d, err := late.Execute(ctx, t.Permit.Token, t.Permit.Action, replica.NewKey())
		if err == nil && (d.Status != http.StatusOK || d.State != "verified") {
			err = errors.New(d.Got())
		}
		claimed <- err
	}()
	f.until("the claim at the held row", `EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid')`, nil)

	before := f.read()
	f.gate.close()
	f.until("effects at the store", "false", func() bool { return f.gate.held.Load() == hostedMovers })

	// Every replica is asked to freeze at once.
	answers := make(chan said, 3)
	for _, r := range f.replicas {
		owner := *f.owner
		owner.HTTP = r.Client()
		start("freeze", func() error {
			s, err := heard(owner.Freeze(ctx, "a test"))
			answers <- s
			return err
		})
	}
	f.until("the freeze", `EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND mode = 'ExclusiveLock')`, func() bool { return len(answers) == 3 })
	early := len(answers)
	var first recorded // what was there when the first answer had come
	if early > 0 {
		first = f.read()
	}
	must(f, tx.Rollback(ctx))
	changed, lists := 0, [][]string{}
	for n := range 3 {
		s := <-answers
		if n == 0 && early == 0 {
			first = f.read()
		}
		if !s.Frozen || s.Epoch != epoch {
			f.Errorf("a freeze answers %+v, want epoch %d", s, epoch)
		}
		if s.Changed {
			changed++
			violation = f.listed(s, before, first, f.read())
			if len(s.Executions) < hostedMovers {
				f.Errorf("%d effects without an outcome are listed, want at least the %d at the store", len(s.Executions), hostedMovers)
			}
		}
		lists = append(lists, s.InFlight)
	}
	if changed != 1 {
		f.Errorf("%d of three freezes at once were the one", changed)
	}
	for _, id := range f.open(f.read(), func(id string) bool { return first.intents[id] }) { // open all the while
		for _, list := range lists {
			if !slices.Contains(list, id) {
				violation = errors.Join(violation, fmt.Errorf("%s was dispatched before the freeze, has no outcome, and is not listed", id))
			}
		}
	}
	f.gate.lift() // what was dispatched before gets its receipt
	moving.Wait()
	claim := <-claimed
	select {
	case err := <-errs:
		f.Fatal(err)
	default:
	}
	end := f.read()
	for id := range end.intents {
		if !begun.intents[id] && end.epochs[id] != epoch-1 {
			f.Errorf("an intent of before freeze %d states epoch %d", epoch, end.epochs[id])
		}
		if !first.intents[id] {
			violation = errors.Join(violation, fmt.Errorf("the intent %s is there behind a freeze that was answered", id))
		}
	}
	if claim != nil { // it may have waited too long, and then it claims nothing
		f.Logf("the claim that had begun before the freeze: %v", claim)
	}
	f.goOn(epoch)
	return violation
}

// open lists the intents without an outcome that are.
func (f *frost) open(r recorded, are func(id string) bool) (list []string) {
	for id := range r.intents {
		if !r.closed[id] && are(id) {
			list = append(list, id)
		}
	}
	return list
}

// listed holds the answer of a freeze against what was recorded before it was asked for,
// when the first of several at once was answered, and behind this one: what got its outcome
// between those two need not be listed.
func (f *frost) listed(s said, before, after, behind recorded) (violation error) {
	for _, x := range s.Executions {
		switch {
		case !after.intents[x.ExecutionID]:
			violation = errors.Join(violation, fmt.Errorf("%s is listed, and was not dispatched before the freeze", x.ExecutionID))
		case before.closed[x.ExecutionID]:
			violation = errors.Join(violation, fmt.Errorf("%s is listed, and had its outcome before the freeze", x.ExecutionID))
		}
	}
	for _, id := range f.open(behind, func(id string) bool { return after.intents[id] }) {
		if !slices.ContainsFunc(s.Executions, func(x struct{ ExecutionID, RunID, State string }) bool { return x.ExecutionID == id }) {
			violation = errors.Join(violation, fmt.Errorf("%s is open behind the freeze, and is not listed", id))
		}
	}
	return violation
}

// goOn lifts the freeze through three replicas at once and lets every run go on: those
// that the freeze has stopped after a retry.
func (f *frost) goOn(epoch int64) {
	f.Helper()
	var lifting sync.WaitGroup
	var changed, refused atomic.Int64
	asked := make(chan struct{}, 3)
	for _, r := range f.replicas { // who keeps asking is let in by every replica as soon as the freeze is lifted
		owner := *f.owner
		owner.HTTP = r.Client()
		lifting.Go(func() {
			for n := 0; ; n++ {
				_, r, err := owner.CreateRun(f.Context(), replica.Run("merchant", "hosted", "bounded"))
				if n == 0 {
					asked <- struct{}{}
				}
				if r.Reason != "FROZEN" {
					if err != nil {
						f.Errorf("asking again and again until the end of the freeze: %v", err)
					}
					return
				}
				refused.Add(1)
			}
		})
	}
	for range f.replicas {
		<-asked
	}
	if refused.Load() < 3 {
		f.Errorf("%d of three were refused while the workspace was frozen", refused.Load())
	}
	for _, r := range f.replicas {
		owner := *f.owner
		owner.HTTP = r.Client()
		lifting.Go(func() {
			s, err := heard(owner.Unfreeze(f.Context(), "a test", epoch))
			if err != nil || s.Frozen || s.Epoch != epoch {
				f.Errorf("unfreezing answers %+v, %v", s, err)
			}
			if s.Changed {
				changed.Add(1)
			}
		})
	}
	lifting.Wait()
	if n := changed.Load(); n != 1 {
		f.Errorf("%d of three ends at once were the one", n)
	}
	for _, m := range f.movers {
		var v struct {
			Status      string
			StopContext *struct{ ReasonCode, Category, Recovery string }
		}
		r, err := f.owner.Run(f.Context(), m.RunID)
		must(f, err)
		must(f, json.Unmarshal(r.Body, &v))
		if s := v.StopContext; v.Status == "paused" && s != nil && s.ReasonCode == "DISPATCH_UNCONFIRMED" {
			f.replace(m)
			continue
		}
		if v.Status == "paused" {
			if s := v.StopContext; s == nil || s.ReasonCode != "FROZEN" || s.Category != "configuration" || s.Recovery != "retry" {
				f.Fatalf("run %s stopped with %+v", m.RunID, s)
			}
			if r, err := f.owner.Once(f.Context(), "POST", "/api/v1/owner/runs/"+m.RunID+"/retry", struct{}{}); err != nil || r.Status != http.StatusOK {
				f.Fatalf("retry of %s: %s, %v", m.RunID, r.Got(), err)
			}
		}
		if _, err := m.Do(f.Context(), m.steps[m.done%len(m.steps)]); err != nil {
			f.Fatalf("run %s does not go on after the freeze: %v", m.RunID, err)
		}
		m.done++
	}
}

// replace replaces a run whose effect nobody waited for any longer: it is unconfirmed, and the
// run goes on only when it was looked up.
func (f *frost) replace(m *mover) {
	f.Helper()
	f.Logf("the effect of run %s was held for too long", m.RunID)
	id, _, err := f.owner.CreateRun(f.Context(), replica.Run("merchant", "hosted", "bounded"))
	must(f, err)
	m.Agent, err = replica.NewAgent(f.Context(), f.owner, id, f.web)
	must(f, err)
	_, err = m.Do(f.Context(), "merchant.catalog")
	must(f, err)
	m.done = 0
}

// L-8: three replicas under load are frozen again and again, through all of them at once.
// No intent is there that was not when the first freeze was answered; the answers list
// what was dispatched before and has no outcome; what was in flight gets its receipt; and
// everything goes on afterwards. A freeze outlives kill -9 of every replica. Without the
// ledger's lock the same check fails.
func TestFreezeUnderLoad(t *testing.T) {
	f := newFrost(t)
	epoch := int64(0)
	for range freezeRounds {
		epoch++
		if err := f.round(epoch); err != nil {
			t.Fatalf("freeze %d: %v", epoch, err)
		}
	}

	epoch++
	if s, err := heard(f.owner.Freeze(t.Context(), "before the end")); err != nil || s.Epoch != epoch {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, r := range f.replicas {
		r.Kill()
	}
	for _, r := range f.replicas {
		r.Restart(f.options(true))
	}
	r, err := f.owner.Once(t.Context(), "GET", "/api/v1/owner/freeze", nil)
	if s, err := heard(r, err); err != nil || !s.Frozen || s.Epoch != epoch {
		t.Errorf("after kill -9 of all: %+v, %v", s, err)
	}
	if turn, _ := f.movers[0].Permit(t.Context(), "merchant.catalog"); turn.Reason != "FROZEN" {
		t.Errorf("after kill -9 of all a report is answered: %s", turn.Got())
	}
	f.goOn(epoch)

	for range freezeRounds {
		epoch++
		if err := f.round(epoch); err != nil {
			t.Logf("negative control, without the lock: freeze %d: %v", epoch, err)
			return
		}
	}
	t.Error("negative control: without the lock every freeze holds")
}
