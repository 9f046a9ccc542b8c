package perimeter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"countersign/internal/contextturn/tools"
)

// maxBuilds bounds how many Builds are open at once beside those in use. One that is asked
// for again is opened again.
const maxBuilds = 8

// openTime bounds the opening of a Build.
const openTime = 5 * time.Minute

// builds are the Builds that this process has opened, by the digest of their manifest.
// What a Build is made of never changes, so that nothing here can be stale.
type builds struct {
	load func(ctx context.Context, digest string) (*tools.Build, error)

	mu     sync.Mutex
	open   map[string]*opened
	clock  int64 // counts uses
	closed bool
}

// opened is a Build that is open or being opened.
type opened struct {
	*tools.Build
	err   error
	ready chan struct{} // closed once Build or err is there
	all   *builds
	users int   // under all.mu
	used  int64 // under all.mu
}

var errClosed = errors.New("perimeter: closed")

// use returns a Build that stays open until done is called on it. Of several that ask at
// once one opens it; whoever leaves does not stop that.
func (b *builds) use(ctx context.Context, digest string) (*opened, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, errClosed
	}
	o := b.open[digest]
	if o == nil {
		o = &opened{ready: make(chan struct{}), all: b}
		if b.open == nil {
			b.open = map[string]*opened{}
		}
		b.open[digest] = o
		go b.fill(o, digest)
	}
	b.clock++
	o.users, o.used = o.users+1, b.clock
	b.mu.Unlock()
	select {
	case <-o.ready:
		if o.err == nil {
			return o, nil
		}
		o.done()
		return nil, o.err
	case <-ctx.Done():
		o.done()
		return nil, ctx.Err()
	}
}

func (b *builds) fill(o *opened, digest string) {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			o.err = fmt.Errorf("perimeter: opening a Build: %v", v)
		}
		if o.err != nil {
			b.mu.Lock()
			delete(b.open, digest) // the next one tries again
			b.mu.Unlock()
		}
		close(o.ready)
		b.evict()
	}()
	o.Build, o.err = b.load(ctx, digest)
}

// done says that the Build is not used any more.
func (o *opened) done() {
	o.all.mu.Lock()
	o.users--
	o.all.mu.Unlock()
	o.all.evict()
}

// evict closes the Builds that nobody has used for longest.
func (b *builds) evict() {
	for {
		b.mu.Lock()
		digest, oldest := "", (*opened)(nil)
		for d, o := range b.open {
			if o.idle() && (oldest == nil || o.used < oldest.used) {
				digest, oldest = d, o
			}
		}
		if oldest == nil || len(b.open) <= maxBuilds && !b.closed {
			b.mu.Unlock()
			return
		}
		delete(b.open, digest)
		b.mu.Unlock()
		oldest.Build.Close() // a temporary file: what cannot be removed is the system's to remove
	}
}

// idle reports whether the Build is open and nobody uses it. all.mu is held.
func (o *opened) idle() bool {
	select {
	case <-o.ready:
		return o.users == 0 && o.err == nil
	default:
		return false
	}
}

// close closes what nobody uses; what is in use is closed by its last user.
func (b *builds) close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.evict()
	return nil
}

// open opens the Build of a manifest from the ledger.
func (p *Perimeter) open(ctx context.Context, digest string) (*tools.Build, error) {
	m, err := p.manifest(ctx, digest)
	if err != nil {
		return nil, err
	}
	return tools.Open(ctx, m, p.documents)
}
