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

// Look sums up what a page shows, so that another sum means another page. of says whose
// page it is where a stream has several, else it is "".
type Look func(ctx context.Context, of string) ([sha256.Size]byte, error)

// Live adds the stream of pages that show the same list, which says that something has
// changed and nothing else. All who watch the path with the same query parameter "of"
// share one look a second. It is for the pages alone and no part of the published contract.
func (f *Frame) Live(id, path string, look Look) {
	f.api.Guard(path+"/", f.guard)
	edge.RegisterStream(f.api, edge.Stream{Operation: edge.Operation{Operation: huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Hidden: true,
	}}}, func(ctx context.Context, in *struct {
		Of string `query:"of" maxLength:"512"`
	}) (stream.Source, error) {
		session, _ := edge.SessionFrom(ctx)
		source := f.rings.Share(path+" "+in.Of, func() stream.Source { return watch(look, in.Of) })
		source.Check = func(ctx context.Context) error { return f.owners.Recheck(ctx, session) }
		return source, nil
	})
}

// watch is the source that everybody who watches the same thing shares.
func watch(look Look, of string) stream.Source {
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
	l := &lookout{look: look, of: of}
	return stream.Source{Head: l.head, Next: l.next, Wake: wake, Close: func() { close(ended) }}
}

// lookout counts the times that what is watched was seen to have changed.
type lookout struct {
	look Look
	of   string
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
	now, err := l.look(ctx, l.of)
	if err != nil {
		return err
	}
	if l.n == 0 || now != l.seen {
		l.seen = now
		l.n++
	}
	return nil
}
