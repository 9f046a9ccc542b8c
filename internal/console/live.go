package console

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/channel/edge"
	"countersign/internal/channel/stream"
	"countersign/internal/supervision/run"
)

const (
	livePath = "/runs/live"
	// liveEvery is how often lists are looked at while somebody watches one.
	liveEvery = time.Second
	// liveRuns is how many of the newest runs, and of those that are paused, are looked at.
	liveRuns = 100
)

// registerLive adds the stream of the lists. It says that something has changed and
// nothing else; a run's own events are streamed by the owner's API. It is for the
// pages alone and no part of the published contract.
func (s *site) registerLive(api *edge.API) {
	api.Guard(livePath+"/", s.guard)
	edge.RegisterStream(api, edge.Stream{Operation: edge.Operation{Operation: huma.Operation{
		OperationID: "watch-lists", Method: http.MethodGet, Path: livePath, Hidden: true,
	}}}, func(ctx context.Context, _ *struct{}) (stream.Source, error) {
		session, _ := edge.SessionFrom(ctx)
		source := s.lists.Share("", s.watchLists)
		source.Check = func(ctx context.Context) error { return s.Owners.Recheck(ctx, session) }
		return source, nil
	})
}

// watchLists is the source that everybody who watches a list shares.
func (s *site) watchLists() stream.Source {
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
	l := &lookout{site: s}
	return stream.Source{Head: l.head, Next: l.next, Wake: wake, Close: func() { close(ended) }}
}

// lookout counts the times that the lists were seen to have changed.
type lookout struct {
	site *site
	mu   sync.Mutex
	seen [sha256.Size]byte
	n    int64
}

func (l *lookout) head(ctx context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.look(ctx)
	return l.n, err
}

func (l *lookout) next(ctx context.Context, after int64) ([]stream.Frame, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.look(ctx); err != nil || l.n <= after {
		return nil, err
	}
	return []stream.Frame{{ID: l.n, Event: "changed", Data: []byte("{}")}}, nil
}

// look counts one more when a list differs from when it was last looked at.
func (l *lookout) look(ctx context.Context) error {
	h := sha256.New()
	for _, status := range []string{"", run.StatusPaused} {
		found, err := l.site.Reader.Find(ctx, status, "", liveRuns)
		if err != nil {
			return err
		}
		for _, f := range found {
			h.Write([]byte(f.ID))
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(f.Sequence)))
		}
	}
	var now [sha256.Size]byte
	h.Sum(now[:0])
	if l.n == 0 || now != l.seen {
		l.seen = now
		l.n++
	}
	return nil
}
