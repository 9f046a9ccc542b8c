package frame

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/channel/edge"
	"countersign/internal/channel/stream"
)

// liveEvery is how often what is shown is looked at while somebody watches it.
const liveEvery = time.Second

// Look sums up what a page shows, so that another sum means another page.
type Look func(context.Context) ([sha256.Size]byte, error)

// Live adds the stream of pages that show the same list, which says that something has
// changed and nothing else. All who watch the path share one look a second. It is for
// the pages alone and no part of the published contract.
func (f *Frame) Live(id, path string, look Look) {
	live(f, id, path, func(*struct{}) (string, Look) { return "", look })
}

// LiveOf is Live for a path with one wildcard, {id}: all who watch the same one share a
// look.
func (f *Frame) LiveOf(id, path string, look func(ctx context.Context, id string) ([sha256.Size]byte, error)) {
	live(f, id, path, func(in *struct {
		ID string `path:"id"`
	}) (string, Look) {
		return in.ID, func(ctx context.Context) ([sha256.Size]byte, error) { return look(ctx, in.ID) }
	})
}

func live[I any](f *Frame, id, path string, of func(*I) (string, Look)) {
	f.api.Guard(path+"/", f.guard)
	edge.RegisterStream(f.api, edge.Stream{Operation: edge.Operation{Operation: huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Hidden: true,
	}}}, func(ctx context.Context, in *I) (stream.Source, error) {
		session, _ := edge.SessionFrom(ctx)
		name, look := of(in)
		source := f.rings.Share(path+" "+name, func() stream.Source { return watch(look) })
		source.Check = func(ctx context.Context) error { return f.owners.Recheck(ctx, session) }
		return source, nil
	})
}

// watch is the source that everybody who watches the same thing shares.
func watch(look Look) stream.Source {
	ticker := time.NewTicker(liveEvery)
	wake := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
			}
			select {
			case <-ended:
				return
			case wake <- struct{}{}:
			}
		}
	}()
	l := &lookout{look: look}
	return stream.Source{Head: l.head, Next: l.next, Wake: wake, Close: func() { close(ended) }}
}

// lookout counts the times that what is watched was seen to have changed.
type lookout struct {
	look Look
	mu   sync.Mutex
	seen [sha256.Size]byte
	n    int64
}

func (l *lookout) head(ctx context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.again(ctx)
	return l.n, err
}

func (l *lookout) next(ctx context.Context, after int64) ([]stream.Frame, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.again(ctx); err != nil || l.n <= after {
		return nil, err
	}
	return []stream.Frame{{ID: l.n, Event: "changed", Data: []byte("{}")}}, nil
}

// again counts one more when what is seen differs from the last time.
func (l *lookout) again(ctx context.Context) error {
	now, err := l.look(ctx)
	if err != nil {
		return err
	}
	if l.n == 0 || now != l.seen {
		l.seen = now
		l.n++
	}
	return nil
}
