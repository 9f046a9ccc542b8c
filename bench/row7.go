package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
	"k8s.io/klog/v2"

	"countersign/evidence"
	"countersign/internal/keys"
)

// eventsPerCall is how many signed events one call of row 7 appends, the design's
// figure for a cycle.
const eventsPerCall = 6

// againstLog is row 7: signed events a second of 64 callers, against a transparency
// log that is tuned for them.
func againstLog(ctx context.Context, b *bench) ([]line, error) {
	ours := &contestant{name: "commits", order: order{Commits: true, Callers: callers, Events: eventsPerCall}}
	peer := &contestant{name: "tessera", order: order{Log: true, Callers: callers, Events: eventsPerCall}}
	problems, err := b.turns(ctx, 0, ours, peer)
	if err != nil {
		return nil, err
	}
	perSecond := func(c *contestant) string {
		return fmt.Sprintf("%s %.0f events/s", c.name, eventsPerCall*median(c.rates))
	}
	return []line{{
		row: 7, name: "signed events at 64 / tessera", pairs: ratios(ours.rates, peer.rates), aim: atLeast(0.7), problems: problems,
		note: fmt.Sprintf("%s, %s; %d signed events a call on both sides, on SQLite with a guarded state of 1 KB beside them; the log's batches are full or 5 ms old", perSecond(ours), perSecond(peer), eventsPerCall),
	}}, nil
}

// appending is a caller of a transparency log of POSIX files. Each has a chain of its
// own, whose events it signs as the product's callers do.
type appending struct {
	log  *tessera.Appender
	key  evidence.SigningKey
	id   string
	link evidence.Link
}

// newAppending opens the log, whose batches hold one call of every caller. A caller
// goes on when its events have their places in the log, which is when they are in its
// files; the checkpoint that covers them is published ten times a second.
func newAppending(ctx context.Context, o order) (callers []cycler, err error) {
	klog.SetLogger(logr.Discard()) // it tells of every new folder
	loaded, err := keys.Load(o.Dir)
	if err != nil {
		return nil, err
	}
	private, _, err := note.GenerateKey(rand.Reader, "bench.example")
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, err
	}
	driver, err := posix.New(ctx, posix.Config{Path: filepath.Join(o.Dir, "log")})
	if err != nil {
		return nil, err
	}
	log, _, _, err := tessera.NewAppender(ctx, driver, tessera.NewAppendOptions().WithCheckpointSigner(signer).
		WithBatching(uint(o.Callers*o.Events), 5*time.Millisecond).WithPushback(1<<16).WithCheckpointInterval(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	for range o.Callers {
		callers = append(callers, &appending{log: log, key: loaded.Evidence(), id: bareID(), link: evidence.Link{Hash: evidence.Genesis}})
	}
	return callers, nil
}

func (a *appending) next(ctx context.Context) (string, string, error) {
	events, err := evidence.Seal(a.key, a.id, a.link, time.Now(), numbered(a.link.Sequence, eventsPerCall))
	if err != nil {
		return "", "", err
	}
	places := make([]tessera.IndexFuture, len(events))
	for i := range events {
		entry, err := json.Marshal(&events[i])
		if err != nil {
			return "", "", err
		}
		places[i] = a.log.Add(ctx, tessera.NewEntry(entry))
	}
	for _, place := range places {
		if _, err := place(); err != nil {
			return "", "", err
		}
	}
	last := &events[len(events)-1]
	a.link = evidence.Link{Sequence: last.Sequence, Hash: last.Hash}
	return a.id, a.link.String(), nil
}

// numbered are the drafts of n events behind a sequence.
func numbered(after int64, n int) []evidence.Draft {
	drafts := make([]evidence.Draft, n)
	for i := range drafts {
		drafts[i] = evidence.Draft{ID: bareID(), Type: "bench.committed", Data: struct {
			Number int64 `json:"number"`
		}{after + int64(i) + 1}}
	}
	return drafts
}
