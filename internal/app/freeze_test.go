package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/ledger"
)

// logged is a log as text.
type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

// about returns the lines that tell of a freeze, without their time.
func (l *logged) about() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		if _, line, _ = strings.Cut(line, " "); strings.Contains(line, "frozen") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func (l *logged) log() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// same compares lines with patterns.
func same(t *testing.T, got []string, patterns ...string) {
	t.Helper()
	if len(got) != len(patterns) {
		t.Fatalf("%d lines, want %d: %q", len(got), len(patterns), got)
	}
	for i, p := range patterns {
		if !regexp.MustCompile("^" + p + "$").MatchString(got[i]) {
			t.Errorf("line %d is %s, want %s", i, got[i], p)
		}
	}
}

const frozenGauge = "countersign_frozen"

// L-8: a freeze and its end are in the log, each once and without its reason, with the
// owner's session; the gauge of every server of the ledger tells how it stands, and what is
// started in a frozen workspace says so.
func TestFreezeIsTold(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
		must(t, app.Init(ctx, dir, url))
		var told, other, later logged
		c := app.Config{Dir: dir, Addr: "localhost:0", Database: url, MetricsAddr: "127.0.0.1:0", Log: told.log()}
		a, stop := serve(t, c)
		servers := []*app.App{a}
		if url != "" { // SQLite has one server
			c.Log = other.log()
			b, _ := serve(t, c)
			servers = append(servers, b)
		}
		gauges := func(want float64) {
			t.Helper()
			for i, s := range servers {
				_, got := scrape(t, s.MetricsAddr())
				if value, there := got[frozenGauge]; !there || value != want {
					t.Errorf("the gauge of server %d is %v, %v; want %v", i, value, there, want)
				}
			}
		}
		gauges(0)
		owner := signedIn(t, a.Origin(), dir)
		for range 2 {
			_, err := owner.Freeze(ctx, "the reason is nobody's business")
			must(t, err)
			gauges(1)
		}
		for range 2 {
			_, err := owner.Unfreeze(ctx, "nor is this", 1)
			must(t, err)
			gauges(0)
		}
		_, err := owner.Freeze(ctx, "once more")
		must(t, err)
		const session = ` session=[0-9a-f]{64}`
		same(t, told.about(),
			`level=WARN msg="the workspace was frozen" epoch=1`+session,
			`level=INFO msg="the workspace was unfrozen" epoch=1`+session,
			`level=WARN msg="the workspace was frozen" epoch=2`+session)
		same(t, other.about())
		for _, text := range []string{"business", "nor is this", "once more"} {
			if strings.Contains(told.all.String(), text) {
				t.Errorf("the log repeats %q", text)
			}
		}
		must(t, stop())
		c.Log = later.log()
		b, err := app.Open(ctx, c)
		must(t, err)
		defer func() { must(t, b.Close()) }()
		if f := b.Frozen(); !f.Frozen || f.Epoch != 2 {
			t.Errorf("opened: %+v", f)
		}
		same(t, later.about(), `level=WARN msg="the workspace is frozen" epoch=2 since=20\S+Z`)
	})
}

// L-8: what is started with a reason is frozen before anything is answered, by its owner;
// a freeze that stands stays, and what is no reason starts nothing.
func TestStartFrozen(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
		must(t, app.Init(ctx, dir, url))
		c := app.Config{Dir: dir, Addr: "localhost:0", Database: url}
		opened := func(reason string) *app.App {
			t.Helper()
			c.Freeze = reason
			a, err := app.Open(ctx, c)
			must(t, err)
			return a
		}
		control := opened("")
		if control.Frozen().Frozen {
			t.Error("frozen without a reason")
		}
		must(t, control.Close())
		for _, reason := range []string{" ", strings.Repeat("x", 501)} {
			c.Freeze = reason
			a, err := app.Open(ctx, c)
			if _, is := errors.AsType[*app.ConfigError](err); !is || !strings.HasPrefix(err.Error(), "--freeze: want 1 to 500 characters") {
				t.Errorf("a reason of %d: %v", len(reason), err)
			}
			if err == nil {
				must(t, a.Close())
			}
		}
		must(t, opened("the machine was taken down").Close()) // it never answered anybody
		a := opened("again")
		if f := a.Frozen(); !f.Frozen || f.Epoch != 1 || f.Reason != "the machine was taken down" {
			t.Errorf("it stands as %+v", f)
		}
		served, stopServing := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- a.Serve(served) }()
		r, err := signedIn(t, a.Origin(), dir).FreezeState(ctx)
		must(t, err)
		var answer struct {
			Frozen bool
			Last   struct{ Session string }
		}
		must(t, json.Unmarshal(r.Body, &answer))
		if !answer.Frozen || len(answer.Last.Session) != 64 {
			t.Errorf("answered: %s", r.Body)
		}
		stopServing()
		must(t, errors.Join(<-ended, a.Close()))
	})
}

// unreadable is a ledger that can be made unreadable.
type unreadable struct {
	app.Engine
	now *atomic.Bool
}

func (u unreadable) Load(ctx context.Context, key ledger.Key) (s ledger.Subject, at time.Time, err error) {
	if u.now.Load() {
		return s, at, errors.New("the disk is gone")
	}
	return u.Engine.Load(ctx, key)
}

// A gauge that cannot be read is no comfort: it is neither 0 nor 1, and the other series
// are there all the same.
func TestFrozenUnreadable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "D")
	must(t, app.Init(t.Context(), dir, ""))
	broken := new(atomic.Bool)
	a, _ := serve(t, app.WithSwap(app.Config{Dir: dir, Addr: "localhost:0", MetricsAddr: "127.0.0.1:0"}, func(wired reflect.Type, dependency any) any {
		if e, is := dependency.(app.Engine); is && wired == reflect.TypeFor[app.Engine]() {
			return unreadable{e, broken}
		}
		return dependency
	}))
	for _, want := range []bool{false, true} {
		broken.Store(want)
		_, got := scrape(t, a.MetricsAddr())
		if value, there := got[frozenGauge]; !there || math.IsNaN(value) != want || !want && value != 0 || got["go_goroutines"] == 0 {
			t.Errorf("unreadable %v: %v, %v", want, value, there)
		}
	}
	broken.Store(false)
}

// The log says no more than the ledger does: nothing of a freeze that was not stored, and
// of one whose fate is unknown that it is unknown.
func TestFreezeLogOutcomes(t *testing.T) {
	event := func(kind string) ledger.Change {
		return ledger.Change{Writes: []ledger.Write{{Events: []evidence.Event{{Type: kind, Data: []byte(`{"epoch":3,"session":"s"}`)}}}}}
	}
	for _, c := range []struct {
		kind    string
		outcome ledger.Outcome
		want    []string
	}{
		{"workspace.frozen", ledger.Stored, []string{`level=WARN msg="the workspace was frozen" epoch=3 session=s`}},
		{"workspace.frozen", ledger.Unknown, []string{`level=WARN msg="it is unknown whether the workspace was frozen" epoch=3 session=s`}},
		{"workspace.unfrozen", ledger.Unknown, []string{`level=WARN msg="it is unknown whether the workspace was unfrozen" epoch=3 session=s`}},
		{"workspace.frozen", ledger.NotStored, nil}, {"workspace.unfrozen", ledger.Conflict, nil}, {"run.paused", ledger.Stored, nil},
	} {
		var l logged
		app.Told(answering{result: ledger.Result{Outcome: c.outcome}}, l.log()).Commit(t.Context(), event(c.kind))
		same(t, l.about(), c.want...)
	}
}
