// Package builds keeps Builds open for use: one index for each manifest, made when
// somebody first asks for it and kept while there is room.
//
//	shelf := builds.New(load)
//	b, err := shelf.Use(ctx, digest)   // waits a moment, else ErrOpening
//	defer b.Done()
//
// What a Build is made of never changes, so nothing here can be stale, and nothing here
// decides anything: it is the same documents in every process. What it bounds is cost. One
// Build is opened at a time, however many are asked for; who asks waits for [Patience] and
// is then told to come back. Builds that nobody uses are closed, the longest unused first,
// when there are more than [MaxOpen] or more than [MaxBytes] of them. One that cannot be
// opened is not tried again for [Rest].
package builds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"countersign/internal/contextturn/tools"
)

// Bounds. They are of one process.
const (
	MaxOpen  = 64              // Builds
	MaxBytes = 2 << 30         // of disk and memory in all of them, roughly
	Patience = 2 * time.Second // with an opening, of a call
	Longest  = 5 * time.Minute // of an opening
	Rest     = 5 * time.Second // after one that failed
)

var (
	// ErrOpening means that the Build is being opened, or waits for that. It will be there
	// later.
	ErrOpening = errors.New("builds: the Build is being opened")
	// ErrClosed is the answer of a shelf that was closed.
	ErrClosed = errors.New("builds: closed")
)

// Load opens the Build of a manifest.
type Load func(ctx context.Context, digest string) (*tools.Build, error)

// Shelf is safe for concurrent use.
type Shelf struct {
	load  Load
	turn  chan struct{} // whoever opens a Build has it
	after func(time.Duration) <-chan time.Time

	mu     sync.Mutex
	open   map[string]*Open
	uses   int64
	closed bool
}

// New returns an empty shelf.
func New(load Load) *Shelf {
	return &Shelf{load: load, turn: make(chan struct{}, 1), after: time.After, open: map[string]*Open{}}
}

// Open is a Build that stays open until Done. It is one user's.
type Open struct {
	*tools.Build
	shelf *Shelf
	err   error
	ready chan struct{} // closed once Build or err is there
	bytes int64         // that it takes; under shelf.mu, as the rest
	users int
	used  int64
}

// Use returns the Build of a manifest. Of several that ask at once one opens it; whoever
// leaves does not stop that.
func (s *Shelf) Use(ctx context.Context, digest string) (*Open, error) {
	return s.use(ctx, digest, s.after(Patience))
}

// Await is [Shelf.Use] for who would rather wait.
func (s *Shelf) Await(ctx context.Context, digest string) (*Open, error) {
	return s.use(ctx, digest, nil)
}

func (s *Shelf) use(ctx context.Context, digest string, patience <-chan time.Time) (*Open, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	o := s.open[digest]
	if o == nil {
		o = &Open{shelf: s, ready: make(chan struct{})}
		s.open[digest] = o
		go s.fill(o, digest)
	}
	s.uses++
	o.users, o.used = o.users+1, s.uses
	s.mu.Unlock()
	select {
	case <-o.ready:
		if o.err == nil {
			return o, nil
		}
		o.Done()
		return nil, o.err
	case <-patience:
		o.Done()
		return nil, ErrOpening
	case <-ctx.Done():
		o.Done()
		return nil, ctx.Err()
	}
}

// fill opens the Build in its turn.
func (s *Shelf) fill(o *Open, digest string) {
	s.turn <- struct{}{}
	b, err := s.opened(digest)
	<-s.turn
	s.mu.Lock()
	if o.Build, o.err = b, err; err == nil {
		o.bytes = b.Size()
	}
	s.mu.Unlock()
	s.evict()
	close(o.ready)
	if err != nil {
		<-s.after(Rest) // a failure is told again until then
		s.mu.Lock()
		delete(s.open, digest)
		s.mu.Unlock()
	}
}

func (s *Shelf) opened(digest string) (b *tools.Build, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("builds: opening a Build: %v", v)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), Longest)
	defer cancel()
	return s.load(ctx, digest)
}

// Done says that this user needs the Build no more.
func (o *Open) Done() {
	o.shelf.mu.Lock()
	o.users--
	o.shelf.mu.Unlock()
	o.shelf.evict()
}

// evict closes what nobody uses while there is too much.
func (s *Shelf) evict() {
	for {
		oldest := s.surplus()
		if oldest == nil {
			return
		}
		_ = oldest.Build.Close() // temporary files: what cannot be removed is left to the system
	}
}

// surplus takes the longest unused Build off the shelf when there is too much on it.
func (s *Shelf) surplus() *Open {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bytes int64
	digest, oldest := "", (*Open)(nil)
	for d, o := range s.open {
		bytes += o.bytes
		if o.users == 0 && o.Build != nil && (oldest == nil || o.used < oldest.used) {
			digest, oldest = d, o
		}
	}
	if oldest == nil || !s.closed && len(s.open) <= MaxOpen && bytes <= MaxBytes {
		return nil
	}
	delete(s.open, digest)
	return oldest
}

// Full reports whether another Build would push one out.
func (s *Shelf) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bytes int64
	for _, o := range s.open {
		bytes += o.bytes
	}
	return len(s.open) >= MaxOpen || bytes >= MaxBytes
}

// Close closes what nobody uses; what is in use is closed by its last user.
func (s *Shelf) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.evict()
}
