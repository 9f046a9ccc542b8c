package postgres

import (
	"context"
	"time"

	"countersign/internal/ledger"
)

const (
	// pollEvery is how late a watcher may be when a notification is lost.
	pollEvery = 500 * time.Millisecond
	// notifyEvery bounds the rate of NOTIFY: each takes a lock of the whole
	// database cluster for a moment.
	notifyEvery = 10 * time.Millisecond
)

// Watch wakes after a commit that wrote the subject, in this process or another.
func (l *Ledger) Watch(key ledger.Key) *ledger.Watcher { return l.hub.Watch(key) }

// notify tells other replicas what was committed, until ctx ends; then it tells
// the rest.
func (l *Ledger) notify(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			l.tell(l.outbox.Take())
			return
		case <-l.outbox.Ready:
			l.tell(l.outbox.Take())
		}
		select {
		case <-ctx.Done():
		case <-time.After(notifyEvery):
		}
	}
}

// tell sends notifications. A lost one is made good by the poll of whoever
// watches, which is why its error needs no answer.
func (l *Ledger) tell(payloads []string) {
	if len(payloads) == 0 || l.fault(beforeNotify) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, _ = l.writes.Exec(ctx, `SELECT pg_notify('`+channel+`', payload) FROM unnest($1::text[]) AS payload`, payloads)
}

// poll wakes the watchers of subjects whose revision has moved, until ctx ends.
func (l *Ledger) poll(ctx context.Context) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	seen := make(map[ledger.Key]int64)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		watched := l.hub.Watched()
		if len(watched) == 0 {
			clear(seen)
			continue
		}
		now, err := l.revisions(ctx, watched)
		if err != nil {
			continue // the next poll compares with the same revisions
		}
		for _, key := range watched {
			// A subject that is new here may have moved before the first look.
			if before, ok := seen[key]; !ok || before != now[key] {
				l.hub.Wake(key)
			}
			if _, ok := now[key]; !ok {
				now[key] = 0
			}
		}
		seen = now
	}
}

func (l *Ledger) revisions(ctx context.Context, keys []ledger.Key) (map[ledger.Key]int64, error) {
	var workspaces, kinds, ids []string
	for _, key := range keys {
		if storable(key.Workspace, key.Kind, key.ID) {
			workspaces, kinds, ids = append(workspaces, key.Workspace), append(kinds, key.Kind), append(ids, key.ID)
		}
	}
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	rows, err := l.reads.Query(ctx, `
		SELECT s.workspace, s.kind, s.id, s.revision
		FROM unnest($1::text[] COLLATE "C", $2::text[] COLLATE "C", $3::text[] COLLATE "C") AS w (workspace, kind, id)
		JOIN subjects s ON s.workspace = w.workspace AND s.kind = w.kind AND s.id = w.id`, workspaces, kinds, ids)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := make(map[ledger.Key]int64, len(keys))
	for rows.Next() {
		var key ledger.Key
		var revision int64
		if err := rows.Scan(&key.Workspace, &key.Kind, &key.ID, &revision); err != nil {
			return nil, err
		}
		found[key] = revision
	}
	return found, rows.Err()
}
