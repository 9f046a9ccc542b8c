package stream_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"countersign/internal/channel/stream"
)

// shared is a source behind rings, with a count of its reads.
type shared struct {
	*source
	rings stream.Rings
	reads atomic.Int64
	opens atomic.Int64
}

func (s *shared) follow() stream.Source {
	return s.rings.Share("run", func() stream.Source {
		s.opens.Add(1)
		return stream.Source{
			Head: s.head, Wake: s.wake, Close: func() { s.closed <- struct{}{} },
			Next: func(ctx context.Context, after int64) ([]stream.Frame, error) {
				s.reads.Add(1)
				return s.next(ctx, after)
			},
		}
	})
}

// upTo follows a stream from a place until it has frame number n, and reports every
// gap and repetition.
func upTo(t *testing.T, client stream.Source, after, n int64) {
	t.Helper()
	for after < n {
		frames, err := client.Next(t.Context(), after)
		if err != nil {
			t.Error(err)
			return
		}
		for _, f := range frames {
			if f.ID != after+1 {
				t.Errorf("frame %d follows %d", f.ID, after)
				return
			}
			after = f.ID
		}
		if len(frames) == 0 {
			select {
			case <-client.Wake:
			case <-t.Context().Done():
				t.Errorf("frame %d never came", after+1)
				return
			}
		}
	}
}

// TestRing: a hundred clients get every frame once and in order, and new frames are
// read once for all of them (design 7).
func TestRing(t *testing.T) {
	s := &shared{source: newSource()}
	s.page = 100
	s.add(10)
	first := s.follow()
	upTo(t, first, 0, 10)
	s.add(1)
	upTo(t, first, 10, 11) // the ring has begun
	const clients, frames = 100, 500
	followers := make([]stream.Source, clients)
	for i := range followers {
		followers[i] = s.follow()
	}
	before := s.reads.Load()
	var wg sync.WaitGroup
	for _, f := range followers {
		wg.Go(func() { upTo(t, f, 11, 11+frames) })
	}
	for range frames {
		s.add(1)
	}
	wg.Wait()
	// One read for each time that something new was there, and one that found no more.
	if reads := s.reads.Load() - before; reads > 2*frames+2 {
		t.Errorf("%d reads for %d frames and %d clients", reads, frames, clients)
	}
	upTo(t, s.follow(), 0, 11+frames) // a late one reads the beginning for himself
	if s.opens.Load() != 1 {
		t.Errorf("the source was opened %d times", s.opens.Load())
	}
}

// TestRingBounds: who lags behind more than the ring holds loses nothing.
func TestRingBounds(t *testing.T) {
	s := &shared{source: newSource()}
	s.page = 1000
	slow, quick := s.follow(), s.follow()
	for n := int64(1); n <= 3; n++ {
		s.add(1000)
		upTo(t, quick, (n-1)*1000, n*1000)
	}
	upTo(t, slow, 0, 3000)
	slow.Close()
	quick.Close()
	<-s.closed
}

// TestRingEnds: a source that fails ends every client, and the last client's leaving
// closes the source; whoever comes then begins anew.
func TestRingEnds(t *testing.T) {
	s := &shared{source: newSource()}
	one, two := s.follow(), s.follow()
	s.add(1)
	upTo(t, one, 0, 1)
	upTo(t, two, 0, 1)
	s.mu.Lock()
	s.fail = errors.New("the ledger is gone")
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	for _, client := range []stream.Source{one, two} {
		for {
			if _, err := client.Next(t.Context(), 1); err != nil {
				break
			}
			<-client.Wake
		}
	}
	<-s.closed
	s.mu.Lock()
	s.fail = nil
	s.mu.Unlock()
	three := s.follow() // while the former ones have not left yet
	one.Close()
	two.Close()
	s.add(1)
	upTo(t, three, 0, 2)
	three.Close()
	<-s.closed
	if s.opens.Load() != 2 {
		t.Errorf("the source was opened %d times, want twice", s.opens.Load())
	}
}

// TestRingSurvivesAPanic: a source that panics ends its clients and nothing else.
func TestRingSurvivesAPanic(t *testing.T) {
	var rings stream.Rings
	client := rings.Share("run", func() stream.Source {
		return stream.Source{
			Head: func(context.Context) (int64, error) { panic("no head") },
			Next: func(context.Context, int64) ([]stream.Frame, error) { return nil, nil },
		}
	})
	defer client.Close()
	for {
		if _, err := client.Next(t.Context(), 0); err != nil {
			return
		}
		<-client.Wake
	}
}
