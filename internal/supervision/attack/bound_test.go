package attack_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/authority"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/supervision/attack"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
)

// thawed is the gateway of a workspace that was never frozen; nothing else is asked of it.
type thawed struct{ attack.Runs }

func (thawed) Freeze(context.Context) (records.Freeze, error) { return records.Freeze{}, nil }

var errReached = errors.New("the attack would begin")

// Over its bound of runs in the last hour no attack begins; runs that are older, and runs
// of another purpose, do not count.
func TestBoundOfRuns(t *testing.T) {
	dir := t.TempDir()
	must(t, app.Init(t.Context(), filepath.Join(dir, "D"), ""))
	k, err := keys.Load(filepath.Join(dir, "D"))
	must(t, err)
	clock, file := new(ledger.Clock), filepath.Join(dir, "ledger.db")
	must(t, sqlite.Create(t.Context(), file))
	l, err := sqlite.Open(t.Context(), file, sqlite.Options{Clock: clock})
	must(t, err)
	defer func() { must(t, l.Close()) }()
	seed := 0
	made := func(purpose string) {
		t.Helper()
		seed++
		now, err := l.Now(t.Context())
		must(t, err)
		id := authority.NewFresh([32]byte{byte(seed), byte(seed >> 8), 1}, evidence.TimeOf(now)).ID()
		events, err := evidence.Seal(k.Evidence(), id, evidence.Link{Hash: evidence.Genesis}, now, []evidence.Draft{{ID: id, Type: "run.created", Data: struct{}{}}})
		must(t, err)
		r := l.Commit(t.Context(), ledger.Change{Workspace: ledger.DefaultWorkspace, Writes: []ledger.Write{{
			Key: ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, ID: id}, Head: evidence.Genesis, State: []byte("{}"), Events: events,
			Attributes: []ledger.Attribute{{Name: "purpose", Value: purpose}},
		}}})
		if r.Outcome != ledger.Stored {
			t.Fatalf("%v: %v", r.Outcome, r.Cause)
		}
	}
	runner := attack.New(attack.Config{
		Runs: thawed{}, Ledger: l, Workspace: ledger.DefaultWorkspace,
		SignIn: func(context.Context) (string, func(context.Context) error, error) { return "", nil, errReached },
	})
	begins := func() error {
		_, err := runner.Run(t.Context(), "B01", attack.Bank)
		return err
	}
	const bound = 250
	for range bound - 1 {
		made("attack")
	}
	for range 3 {
		made("operation")
		made("verification")
	}
	if err := begins(); !errors.Is(err, errReached) {
		t.Errorf("below the bound: %v", err)
	}
	clock.Move(20 * time.Minute)
	made("attack")
	limit, ok := errors.AsType[*attack.LimitError](begins())
	if !ok || limit.RetryAfter <= 39*time.Minute || limit.RetryAfter > 40*time.Minute {
		t.Errorf("at the bound: %+v, want to try again when the first of them is an hour old", limit)
	}
	clock.Move(40 * time.Minute)
	if err := begins(); !errors.Is(err, errReached) {
		t.Errorf("an hour later: %v", err)
	}
}

// One attack is carried out at a time.
func TestOneAtATime(t *testing.T) {
	a := serve(t, "")
	c := a.Attacks().Config
	entered, leave := make(chan struct{}), make(chan struct{})
	signIn := c.SignIn
	c.SignIn = func(ctx context.Context) (string, func(context.Context) error, error) {
		close(entered)
		<-leave
		return signIn(ctx)
	}
	runner := attack.New(c)
	first := make(chan error, 1)
	go func() {
		r, err := runner.Run(context.Background(), "B10", attack.Bank)
		if err == nil && !r.Blocked() {
			err = errors.New(r.Problem)
		}
		first <- err
	}()
	<-entered
	_, err := runner.Run(t.Context(), "B10", attack.Bank)
	denial, ok := errors.AsType[*authority.Denial](err)
	if !ok || denial.Reason != "ATTEMPT_IN_PROGRESS" {
		t.Errorf("a second one: %v", err)
	}
	close(leave)
	must(t, <-first)
}

// A caller that leaves ends nothing: the runs of its attack are ended like those of any
// other.
func TestCallerLeaves(t *testing.T) {
	a := serve(t, "")
	c := a.Attacks().Config
	ctx, leave := context.WithCancel(t.Context())
	signIn := c.SignIn
	c.SignIn = func(inner context.Context) (string, func(context.Context) error, error) {
		leave()
		return signIn(inner)
	}
	r, err := attack.New(c).Run(ctx, "B10", attack.Bank)
	must(t, err)
	if !r.Blocked() {
		t.Errorf("%+v", *r)
	}
	for _, id := range r.Runs {
		subject, _, err := c.Ledger.Load(t.Context(), ledger.Key{Workspace: c.Workspace, Kind: ledger.KindRun, ID: id})
		must(t, err)
		if want := `"status":"revoked"`; !strings.Contains(string(subject.State), want) {
			t.Errorf("run %s goes on: want %s", id, want)
		}
	}
}

// A run that a dead process has left behind is ended before the next attack; one that may
// be under way at another replica is not.
func TestRunsLeftBehind(t *testing.T) {
	clock := new(ledger.Clock)
	a := serve(t, "", func(c *app.Config) { c.Clock = clock })
	c := a.Attacks().Config
	left, err := c.Runs.Create(t.Context(), gateway.CreateRequest{
		Config: run.Config{
			Service: "bank", Target: "local", Channel: "http", TrafficActor: "agent", Mode: "bounded", ExecutionMode: "replay", Executor: "replay", Interrogator: "replay", Attack: true,
		},
		Budget: 5000, Instruction: "left behind",
	})
	must(t, err)
	for _, stage := range []struct {
		after time.Duration
		want  string
	}{{time.Minute, `"status":"ready"`}, {2 * time.Minute, `"status":"revoked"`}} {
		clock.Move(stage.after)
		r, err := a.Attacks().Run(t.Context(), "B10", attack.Bank)
		must(t, err)
		if !r.Blocked() {
			t.Errorf("%+v", *r)
		}
		subject, _, err := c.Ledger.Load(t.Context(), ledger.Key{Workspace: c.Workspace, Kind: ledger.KindRun, ID: left})
		must(t, err)
		if !strings.Contains(string(subject.State), stage.want) {
			t.Errorf("after %v: %.300s, want %s", stage.after, subject.State, stage.want)
		}
	}
}
