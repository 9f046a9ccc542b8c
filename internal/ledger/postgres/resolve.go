package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/internal/ledger"
)

// resolveLimit bounds how long the fate of a transaction is looked for.
const resolveLimit = 5 * time.Second

// fence takes an advisory lock that only this session knows, for its life. When
// it is free again, no transaction of the session is under way any more.
func fence(ctx context.Context, c *pgx.Conn) error {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	key := int64(binary.BigEndian.Uint64(b[:]))
	if _, err := c.Exec(ctx, `SELECT pg_advisory_lock($1)`, key); err != nil {
		return err
	}
	c.PgConn().CustomData()["fence"] = key
	return nil
}

func fenceOf(c *pgx.Conn) (int64, error) {
	key, ok := c.PgConn().CustomData()["fence"].(int64)
	if !ok {
		return 0, errors.New("a writer's session without its lock")
	}
	return key, nil
}

// resolve finds out what became of a group whose answer was lost.
func (l *Ledger) resolve(group []*job, lost *lostError) []ledger.Result {
	ctx, cancel := context.WithTimeout(context.Background(), resolveLimit)
	defer cancel()
	results := make([]ledger.Result, len(group))
	for {
		err := l.lookUp(ctx, group, lost, results)
		if err == nil {
			return results
		}
		select {
		case <-ctx.Done():
			for i := range results {
				results[i] = ledger.Result{Outcome: ledger.Unknown, Cause: fmt.Errorf("postgres: %w; then: %w", lost, err)}
			}
			return results
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lookUp waits until the lost session has ended and reads the fate of each
// Change from the database.
func (l *Ledger) lookUp(ctx context.Context, group []*job, lost *lostError, results []ledger.Result) error {
	conn, err := l.writes.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	// The session may wait for a lock or not have noticed that its client is
	// gone. The lock itself tells which process it is.
	if _, err := conn.Exec(ctx, `
		SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid <> pg_backend_pid()
		  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		  AND (classid::int8 << 32 | objid::int8) = $1`, lost.fence); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lost.fence); err != nil {
		return err
	}
	for i, j := range group {
		stored, err := isStored(ctx, conn, j.change)
		switch {
		case errors.Is(err, errUntold):
			results[i] = ledger.Result{Outcome: ledger.Unknown, Cause: fmt.Errorf("postgres: %w; then: %w", lost, err)}
		case err != nil:
			return err
		case stored:
			results[i] = ledger.Result{Outcome: ledger.Stored}
		default:
			results[i] = notStored(lost)
		}
	}
	return nil
}

// errUntold says that no row of a Change can tell whether it was stored.
var errUntold = errors.New("the subject has moved on since, and the change left no row of its own")

// isStored looks for a row that only this Change can have written.
func isStored(ctx context.Context, q querier, c *ledger.Change) (bool, error) {
	for i := range c.Writes {
		w := &c.Writes[i]
		if len(w.Events) == 0 {
			continue
		}
		e := w.Events[0]
		return found(ctx, q, `SELECT FROM events WHERE workspace = $1 AND kind = $2 AND subject = $3 AND sequence = $4 AND id = $5`,
			w.Workspace, w.Kind, w.ID, e.Sequence, e.ID)
	}
	if r := c.Record; r != nil {
		return found(ctx, q, `SELECT FROM idempotency WHERE workspace = $1 AND principal = $2 AND key = $3 AND fingerprint = $4
			AND subject_kind = $5 AND subject_id = $6 AND object = $7 AND sequence = $8`,
			r.Workspace, r.Principal, r.Key, r.Fingerprint, r.Subject.Kind, r.Subject.ID, r.Object, r.Sequence)
	}
	if len(c.Fates) > 0 {
		f := c.Fates[0]
		return found(ctx, q, `SELECT FROM spent_permits WHERE workspace = $1 AND permit = $2 AND subject_kind = $3 AND subject_id = $4
			AND fate = $5 AND cause = $6 AND execution = $7`,
			f.Workspace, f.PermitID, f.Subject.Kind, f.Subject.ID, f.Fate, f.Cause, f.Execution)
	}
	if len(c.Credentials) > 0 {
		k := c.Credentials[0]
		return found(ctx, q, `SELECT FROM credentials WHERE workspace = $1 AND hash = $2`, k.Workspace, k.Hash)
	}
	if len(c.Writes) > 0 {
		return subjectTells(ctx, q, &c.Writes[0])
	}
	present, err := found(ctx, q, `SELECT FROM credentials WHERE workspace = $1 AND hash = ANY($2)`, c.Scope(), c.Revoke)
	return !present && err == nil, err
}

// subjectTells compares a Write without events with the subject as it stands.
func subjectTells(ctx context.Context, q querier, w *ledger.Write) (bool, error) {
	var revision int64
	var state []byte
	err := q.QueryRow(ctx, `SELECT revision, state FROM subjects WHERE workspace = $1 AND kind = $2 AND id = $3`,
		w.Workspace, w.Kind, w.ID).Scan(&revision, &state)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case revision <= w.Revision:
		return false, nil
	case revision == w.Revision+1 && bytes.Equal(state, w.State):
		return true, nil
	case revision == w.Revision+1:
		return false, nil
	}
	return false, errUntold
}

func found(ctx context.Context, q querier, sql string, args ...any) (bool, error) {
	var exists bool
	err := q.QueryRow(ctx, `SELECT EXISTS (`+sql+`)`, args...).Scan(&exists)
	return exists, err
}
