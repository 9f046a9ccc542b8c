package replica

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/internal/app"
	"countersign/internal/ledger"
	"countersign/internal/pgtest"
	"countersign/internal/supervision/gateway"
)

// variable is in the environment of a child, with its task.
const variable = "COUNTERSIGN_REPLICA_CHILD"

// Main runs the tests of a package, or the server of a process that this package has
// started. It returns the exit status.
func Main(m *testing.M) int {
	if text := os.Getenv(variable); text != "" {
		return child(text)
	}
	return pgtest.Main(m)
}

// task is what a child is told at its start.
type task struct {
	Dir, Database, Addr, Origin string
	Store, StoreKeys            string // of the shop, lines of its receipt.pub
	Options                     Options
}

// order is what a running child is told; exactly one member is set.
type order struct {
	Arm     *Fault        `json:",omitempty"`
	Move    time.Duration `json:",omitempty"`
	Release bool          `json:",omitempty"`
}

// line is one thing that a child says.
type line struct {
	Metrics string `json:",omitempty"` // it serves; where its metrics are
	Done    bool   `json:",omitempty"` // the order is carried out
	Killed  string `json:",omitempty"` // the point at which it kills itself now
	Held    string `json:",omitempty"` // the point at which it stands
}

func child(text string) int {
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func serve(text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	clock, faults := new(ledger.Clock), newFaults(t.Options.Fault)
	clock.Move(t.Options.Offset)
	go obey(clock, faults)
	c := app.Config{
		Dir: t.Dir, Database: t.Database, Addr: t.Addr, Origin: t.Origin, MetricsAddr: "127.0.0.1:0", Clock: clock,
		Log:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Doors: t.Options.Doors, Without: t.Options.Without, Unlocked: t.Options.Unlocked, Unpolled: t.Options.Unpolled,
		Fault: faults.reach, ContextFault: faults.pass, EngineFault: faults.pass, Incident: t.Options.Incident, IncidentFault: faults.pass,
	}
	if t.Store != "" {
		keys, err := dispatch.ParseKeys([]byte(t.StoreKeys))
		if err != nil {
			return err
		}
		c.Store = &gateway.Store{Origin: t.Store, Keys: keys}
	}
	a, err := app.Open(ctx, c)
	if err != nil {
		return err
	}
	say(line{Metrics: a.MetricsAddr()})
	return errors.Join(a.Serve(ctx), a.Close())
}

// obey carries out what the parent says, and ends the process when the parent is gone.
func obey(clock *ledger.Clock, faults *faults) {
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		var o order
		if err := json.Unmarshal(s.Bytes(), &o); err != nil {
			fmt.Fprintln(os.Stderr, "child: an unreadable order:", err)
			os.Exit(1)
		}
		switch {
		case o.Arm != nil:
			faults.arm(*o.Arm)
		case o.Release:
			faults.release()
		default:
			clock.Move(o.Move)
		}
		say(line{Done: true})
	}
	os.Exit(3)
}

var saying sync.Mutex

func say(l line) {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	saying.Lock()
	defer saying.Unlock()
	fmt.Printf("%s\n", text)
}

// faults are the fail points of a child.
type faults struct {
	mu   sync.Mutex
	next Fault
	held chan struct{} // closed to release whoever stands at the point
}

func newFaults(f Fault) *faults { return &faults{next: f, held: make(chan struct{})} }

// pass is reach where a point may end in an error, which it never does.
func (f *faults) pass(point string) error { f.reach(point); return nil }

func (f *faults) arm(next Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = next
}

// release lets everybody go on who is held, and disarms.
func (f *faults) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.held)
	f.held, f.next = make(chan struct{}), Fault{}
}

// reach is called wherever the process could end.
func (f *faults) reach(point string) {
	f.mu.Lock()
	if point != f.next.Point {
		f.mu.Unlock()
		return
	}
	if f.next.Hit--; f.next.Hit > 0 {
		f.mu.Unlock()
		return
	}
	if f.next.Hold { // so is whoever comes here later
		held := f.held
		f.mu.Unlock()
		say(line{Held: point})
		<-held
		return
	}
	say(line{Killed: point})
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {} // the signal is on its way; nothing else passes the point, f is locked
}
