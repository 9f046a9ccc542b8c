package builds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/tools"
)

// small opens a Build of one document.
func small(ctx context.Context, digest string) (*tools.Build, error) {
	file := fmt.Sprintf("---\nid: one\ntitle: One\n---\nText of %s.\n", digest)
	d, faults := content.ParseDocument([]byte(file))
	if len(faults) > 0 {
		return nil, content.Error(faults)
	}
	return tools.Open(ctx, content.NewManifest([]*content.Document{d}, nil), func(context.Context, []string) ([][]byte, error) { return [][]byte{[]byte(file)}, nil })
}

// Whoever asks while a Build is opened waits for a moment and is told to come back; the
// opening goes on, and one opening serves everybody.
func TestOpening(t *testing.T) {
	var opened atomic.Int64
	gate := make(chan struct{})
	s := New(func(ctx context.Context, digest string) (*tools.Build, error) {
		opened.Add(1)
		<-gate
		return small(ctx, digest)
	})
	defer s.Close()
	over := make(chan time.Time)
	close(over)
	s.after = func(time.Duration) <-chan time.Time { return over }
	for range 3 {
		if _, err := s.Use(t.Context(), "a"); !errors.Is(err, ErrOpening) {
			t.Errorf("while it is opened: %v", err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Await(gone, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("who has left: %v", err)
	}
	close(gate)
	o, err := s.Await(t.Context(), "a")
	if err != nil || opened.Load() != 1 {
		t.Fatalf("%d openings, %v", opened.Load(), err)
	}
	if a, err := o.Resolve(t.Context(), "", "one"); err != nil || a.Item.Ref != "one" {
		t.Errorf("%+v, %v", a, err)
	}
	o.Done()
}

// However many Builds are asked for at once, one is opened at a time.
func TestOneAtATime(t *testing.T) {
	var now, most atomic.Int64
	s := New(func(ctx context.Context, digest string) (*tools.Build, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		return small(ctx, digest)
	})
	defer s.Close()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			o, err := s.Await(t.Context(), fmt.Sprint(i))
			if err != nil {
				t.Error(err)
				return
			}
			o.Done()
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("%d at once", most.Load())
	}
}

// A Build that cannot be opened is not tried again for a while, whoever asks; then it is.
func TestFailure(t *testing.T) {
	var tries atomic.Int64
	failure := errors.New("no space left")
	s := New(func(ctx context.Context, digest string) (*tools.Build, error) {
		if tries.Add(1) == 1 {
			panic(failure)
		}
		return small(ctx, digest)
	})
	defer s.Close()
	rest := make(chan time.Time)
	s.after = func(d time.Duration) <-chan time.Time {
		if d == Rest {
			return rest
		}
		return nil
	}
	for range 5 {
		if _, err := s.Use(t.Context(), "a"); err == nil || tries.Load() != 1 {
			t.Errorf("%d tries, %v", tries.Load(), err)
		}
	}
	rest <- time.Time{}
	for {
		o, err := s.Use(t.Context(), "a")
		if err != nil {
			continue // the failure is just being forgotten
		}
		o.Done()
		break
	}
	if tries.Load() != 2 {
		t.Errorf("%d tries", tries.Load())
	}
}

// What nobody uses is closed when there is too much, the longest unused first; what
// somebody uses stays, whatever there is, also when the shelf is closed.
func TestRoom(t *testing.T) {
	s := New(small)
	use := func(digest string) *Open {
		t.Helper()
		o, err := s.Await(t.Context(), digest)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	works := func(o *Open) error { _, err := o.Resolve(t.Context(), "", "one"); return err }
	held, first := use("held"), use("first")
	first.Done()
	for i := range MaxOpen - 2 {
		use(fmt.Sprint(i)).Done()
	}
	if err := works(first); err != nil || !s.Full() {
		t.Errorf("with room: %v", err)
	}
	last := use("last")
	if err := works(first); !errors.Is(err, tools.ErrClosed) {
		t.Errorf("the longest unused: %v", err)
	}
	for _, o := range []*Open{held, last} {
		if err := works(o); err != nil {
			t.Errorf("what is in use: %v", err)
		}
	}
	s.Close()
	if err := works(held); err != nil {
		t.Errorf("what is in use after the end: %v", err)
	}
	held.Done()
	if err := works(held); !errors.Is(err, tools.ErrClosed) {
		t.Errorf("after its last user: %v", err)
	}
	if _, err := s.Use(t.Context(), "last"); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	last.Done()
}
