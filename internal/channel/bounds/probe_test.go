package bounds

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

var errDown = errors.New("the ledger is down")

// probed is a probe whose questions are counted, on a clock that the test moves.
type probed struct {
	*Probe
	asked  int
	answer error
	clock  time.Time
}

func newProbed() *probed {
	p := &probed{clock: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	p.Probe = NewProbe(func(context.Context) error { p.asked++; return p.answer })
	p.now = func() time.Time { return p.clock }
	return p
}

func TestProbeAsksOnceASecond(t *testing.T) {
	p := newProbed()
	for range 1000 {
		if err := p.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if p.asked != 1 {
		t.Errorf("a thousand callers within a second: %d questions", p.asked)
	}
	// An answer that is a second old is not given: the truth may be another.
	p.answer = errDown
	p.clock = p.clock.Add(time.Second - 1)
	if err := p.Ready(t.Context()); err != nil || p.asked != 1 {
		t.Errorf("just within the second: %v, %d questions", err, p.asked)
	}
	p.clock = p.clock.Add(1)
	if err := p.Ready(t.Context()); !errors.Is(err, errDown) || p.asked != 2 {
		t.Errorf("after a second: %v, %d questions", err, p.asked)
	}
	if err := p.Ready(t.Context()); !errors.Is(err, errDown) || p.asked != 2 {
		t.Errorf("a no is shared too: %v, %d questions", err, p.asked)
	}
	// Control: callers who are a second apart each have a question of their own.
	for range 10 {
		p.clock = p.clock.Add(time.Second)
		p.answer = nil
		if err := p.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if p.asked != 12 {
		t.Errorf("control: %d questions", p.asked)
	}
}

// Many at once wait for one question, however long it takes, and one who leaves
// takes nobody along.
func TestProbeIsShared(t *testing.T) {
	p := newProbed()
	asked, answer := make(chan struct{}), make(chan error)
	questions := 0
	p.ask = func(ctx context.Context) error {
		questions++
		close(asked)
		select {
		case err := <-answer:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { left <- p.Ready(leaving) }()
	<-asked
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who left: %v", err)
	}
	p.clock = p.clock.Add(time.Hour) // the question is still under way
	var wait sync.WaitGroup
	for range 50 {
		q := p.question(t.Context())
		wait.Go(func() {
			if <-q.done; q.err != nil {
				t.Error(q.err)
			}
		})
	}
	answer <- nil
	wait.Wait()
	if questions != 1 {
		t.Errorf("%d questions", questions)
	}
}

// Whatever is no answer is a no.
func TestProbeFailsClosed(t *testing.T) {
	panics := NewProbe(func(context.Context) error { panic("hunter2") })
	if err := panics.Ready(t.Context()); err == nil {
		t.Error("a question that panics")
	}
	bounded := NewProbe(func(ctx context.Context) error {
		end, ok := ctx.Deadline()
		if left := time.Until(end); !ok || left > probeTimeout {
			t.Errorf("the question may take %v", left)
		}
		return errDown
	})
	if err := bounded.Ready(t.Context()); !errors.Is(err, errDown) {
		t.Error(err)
	}
	forever := make(chan struct{})
	defer close(forever)
	silent := NewProbe(func(context.Context) error { <-forever; return nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := silent.Ready(ctx); err == nil {
		t.Error("a question without an answer")
	}
}
