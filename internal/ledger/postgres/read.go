package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"countersign/evidence"
	"countersign/internal/ledger"
)

const (
	eventsLimit = 1000
	findLimit   = 100
	dueLimit    = 1000
)

// storable says whether the database could hold these texts. What it cannot
// hold is not found, and never an error.
func storable(texts ...string) bool {
	for _, s := range texts {
		if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
			return false
		}
	}
	return true
}

// time returns the ledger's time for a time of the server.
func (l *Ledger) time(server time.Time) time.Time {
	return server.Add(l.options.Clock.Offset()).UTC().Truncate(time.Millisecond)
}

// Now returns the time that decisions and expiries are measured with: the
// server's clock plus the offset.
func (l *Ledger) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	var now time.Time
	if err := l.reads.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("postgres: now: %w", err)
	}
	return l.time(now), nil
}

// Load reads a subject and the time that came with the read, which is not before
// the subject's UpdatedAt. The time is valid with [ledger.ErrNotFound] too.
func (l *Ledger) Load(ctx context.Context, key ledger.Key) (ledger.Subject, time.Time, error) {
	if !storable(key.Workspace, key.Kind, key.ID) {
		now, err := l.Now(ctx)
		if err == nil {
			err = ledger.ErrNotFound
		}
		return ledger.Subject{}, now, err
	}
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	var server time.Time
	var revision, sequence, due, updated *int64
	var head *string
	subject := ledger.Subject{Key: key}
	err := l.reads.QueryRow(ctx, `
		SELECT clock.now, s.revision, s.sequence, s.head, s.state, s.due, s.updated
		FROM (SELECT clock_timestamp() AS now) clock
		LEFT JOIN subjects s ON s.workspace = $1 AND s.kind = $2 AND s.id = $3`, key.Workspace, key.Kind, key.ID).
		Scan(&server, &revision, &sequence, &head, &subject.State, &due, &updated)
	if err != nil {
		return ledger.Subject{}, time.Time{}, fmt.Errorf("postgres: load: %w", err)
	}
	now := l.time(server)
	if revision == nil {
		return ledger.Subject{}, now, ledger.ErrNotFound
	}
	subject.Revision, subject.Sequence, subject.Head = *revision, *sequence, *head
	subject.Due, subject.UpdatedAt = moment(due), moment(updated)
	if now.Before(subject.UpdatedAt) {
		now = subject.UpdatedAt
	}
	return subject, now, nil
}

func moment(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms).UTC()
}

// Events returns the events of a subject with a sequence above after, in order;
// none is no error. A limit below 1 or above 1,000 means 1,000.
func (l *Ledger) Events(ctx context.Context, key ledger.Key, after int64, limit int) ([]evidence.Event, error) {
	if !storable(key.Workspace, key.Kind, key.ID) {
		return nil, nil
	}
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	rows, err := l.reads.Query(ctx, `
		SELECT id, sequence, type, data, timestamp, previous_hash, hash, signature, key_id FROM events
		WHERE workspace = $1 AND kind = $2 AND subject = $3 AND sequence > $4 ORDER BY sequence LIMIT $5`,
		key.Workspace, key.Kind, key.ID, after, bounded(limit, eventsLimit))
	if err != nil {
		return nil, fmt.Errorf("postgres: events: %w", err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (evidence.Event, error) {
		e := evidence.Event{RunID: key.ID}
		var data []byte
		err := row.Scan(&e.ID, &e.Sequence, &e.Type, &data, &e.Timestamp, &e.PreviousHash, &e.Hash, &e.Signature, &e.KeyID)
		e.Data = data
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: events: %w", err)
	}
	return events, nil
}

func bounded(limit, most int) int {
	if limit < 1 || limit > most {
		return most
	}
	return limit
}

// Find returns subjects, newest id first. A limit below 1 or above 100 means 100.
func (l *Ledger) Find(ctx context.Context, q ledger.Query) ([]ledger.Subject, error) {
	sql, args := finding(q)
	if sql == "" {
		return nil, nil
	}
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	rows, err := l.reads.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("postgres: find: %w", err)
	}
	subjects, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ledger.Subject, error) {
		s := ledger.Subject{Key: ledger.Key{Workspace: q.Workspace, Kind: q.Kind}}
		var due, updated *int64
		err := row.Scan(&s.ID, &s.Revision, &s.Sequence, &s.Head, &s.State, &due, &updated)
		s.Due, s.UpdatedAt = moment(due), moment(updated)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: find: %w", err)
	}
	return subjects, nil
}

// finding is the statement of [Ledger.Find]; "" when nothing can match. The index of the
// first attribute's value yields ids newest first, and each is looked up by its key, so that
// what is read does not grow with what does not match. As joins the planner would go through
// every subject where the server has no statistics yet: what it may not turn into one is a
// scalar subquery, and one with OFFSET.
func finding(q ledger.Query) (sql string, args []any) {
	texts := []string{q.Workspace, q.Kind, q.Before}
	args = []any{q.Workspace, q.Kind}
	parameter := func(value any) string {
		args = append(args, value)
		return fmt.Sprintf("$%d", len(args))
	}
	ids := "SELECT x.id FROM subjects x WHERE x.workspace = $1 AND x.kind = $2"
	for i, a := range q.Where {
		texts = append(texts, a.Name, a.Value)
		name, value := parameter(a.Name), parameter(a.Value)
		has := "name = " + name + " AND hashtextextended(value, 0) = hashtextextended(" + value + ` COLLATE "C", 0) AND value = ` + value
		if i == 0 {
			ids = "SELECT x.id FROM attributes x WHERE x.workspace = $1 AND x.kind = $2 AND " + has
			continue
		}
		ids += " AND (SELECT true FROM attributes a WHERE a.workspace = $1 AND a.kind = $2 AND a.id = x.id AND " + has + ")"
	}
	if q.Before != "" {
		ids += " AND x.id < " + parameter(q.Before)
	}
	ids += " ORDER BY x.id DESC LIMIT " + parameter(bounded(q.Limit, findLimit))
	if !storable(texts...) {
		return "", nil
	}
	return `SELECT s.id, s.revision, s.sequence, s.head, s.state, s.due, s.updated FROM (` + ids + `) found
		CROSS JOIN LATERAL (SELECT * FROM subjects s WHERE s.workspace = $1 AND s.kind = $2 AND s.id = found.id OFFSET 0) s ORDER BY s.id DESC`, args
}

// one reads one row or returns [ledger.ErrNotFound].
func (l *Ledger) one(ctx context.Context, what string, into []any, sql string, texts ...string) error {
	if !storable(texts...) {
		return ledger.ErrNotFound
	}
	args := make([]any, len(texts))
	for i, s := range texts {
		args[i] = s
	}
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	err := l.reads.QueryRow(ctx, sql, args...).Scan(into...)
	if errors.Is(err, pgx.ErrNoRows) {
		return ledger.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("postgres: %s: %w", what, err)
	}
	return nil
}

// Record returns the record of an idempotency key or [ledger.ErrNotFound].
func (l *Ledger) Record(ctx context.Context, workspace, principal, key string) (ledger.Record, error) {
	r := ledger.Record{Workspace: workspace, Principal: principal, Key: key, Subject: ledger.Key{Workspace: workspace}}
	err := l.one(ctx, "record", []any{&r.Fingerprint, &r.Subject.Kind, &r.Subject.ID, &r.Object, &r.Sequence},
		`SELECT fingerprint, subject_kind, subject_id, object, sequence FROM idempotency WHERE workspace = $1 AND principal = $2 AND key = $3`,
		workspace, principal, key)
	if err != nil {
		return ledger.Record{}, err
	}
	return r, nil
}

// Fate returns the end of a permit or [ledger.ErrNotFound] while it has none.
func (l *Ledger) Fate(ctx context.Context, workspace, permitID string) (ledger.Fate, error) {
	f := ledger.Fate{Workspace: workspace, PermitID: permitID, Subject: ledger.Key{Workspace: workspace}}
	err := l.one(ctx, "fate", []any{&f.Subject.Kind, &f.Subject.ID, &f.Fate, &f.Cause, &f.Execution},
		`SELECT subject_kind, subject_id, fate, cause, execution FROM spent_permits WHERE workspace = $1 AND permit = $2`, workspace, permitID)
	if err != nil {
		return ledger.Fate{}, err
	}
	return f, nil
}

// Credential returns a hashed secret, expired or not, and the time that came
// with the read; [ledger.ErrNotFound] when there is none. The caller compares
// ExpiresAt with the time.
func (l *Ledger) Credential(ctx context.Context, workspace, hash string) (ledger.Credential, time.Time, error) {
	c := ledger.Credential{Workspace: workspace, Hash: hash}
	if !storable(workspace, hash) {
		workspace, hash = "", "" // names nothing, and the time is still read
	}
	var server time.Time
	var kind, subject, origin *string
	var generation, expires *int64
	err := l.one(ctx, "credential", []any{&server, &kind, &subject, &generation, &origin, &expires}, `
		SELECT clock.now, c.kind, c.subject, c.generation, c.origin, c.expires
		FROM (SELECT clock_timestamp() AS now) clock LEFT JOIN credentials c ON c.workspace = $1 AND c.hash = $2`, workspace, hash)
	if err != nil {
		return ledger.Credential{}, time.Time{}, err
	}
	now := l.time(server)
	if kind == nil {
		return ledger.Credential{}, now, ledger.ErrNotFound
	}
	c.Kind, c.Subject, c.Generation, c.Origin, c.ExpiresAt = *kind, *subject, *generation, *origin, moment(expires)
	return c, now, nil
}

// Text returns one text of a subject. An erased one is [ledger.ErrNotFound].
func (l *Ledger) Text(ctx context.Context, key ledger.Key, commitment string) (evidence.Text, error) {
	var t evidence.Text
	var text []byte
	err := l.one(ctx, "text", []any{&t.Commitment, &t.Salt, &text},
		`SELECT commitment, salt, text FROM texts WHERE workspace = $1 AND kind = $2 AND subject = $3 AND commitment = $4`, key.Workspace, key.Kind, key.ID, commitment)
	t.Text = string(text)
	return t, err
}

// Texts returns the texts of a subject that are not erased, by commitment.
func (l *Ledger) Texts(ctx context.Context, key ledger.Key) ([]evidence.Text, error) {
	if !storable(key.Workspace, key.Kind, key.ID) {
		return nil, nil
	}
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	rows, err := l.reads.Query(ctx, `
		SELECT commitment, salt, text FROM texts WHERE workspace = $1 AND kind = $2 AND subject = $3 ORDER BY commitment`,
		key.Workspace, key.Kind, key.ID)
	if err != nil {
		return nil, fmt.Errorf("postgres: texts: %w", err)
	}
	texts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (evidence.Text, error) {
		var t evidence.Text
		var text []byte
		err := row.Scan(&t.Commitment, &t.Salt, &text)
		t.Text = string(text)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: texts: %w", err)
	}
	return texts, nil
}

// SealedValue returns an encrypted value or [ledger.ErrNotFound].
func (l *Ledger) SealedValue(ctx context.Context, key ledger.Key, name string) ([]byte, error) {
	var b []byte
	err := l.one(ctx, "sealed value", []any{&b},
		`SELECT bytes FROM sealed WHERE workspace = $1 AND kind = $2 AND subject = $3 AND name = $4`, key.Workspace, key.Kind, key.ID, name)
	return b, err
}

// Due returns subjects whose Due is not after now, longest overdue first, those
// behind after. A limit below 1 or above 1,000 means 1,000.
func (l *Ledger) Due(ctx context.Context, after ledger.Overdue, limit int) ([]ledger.Overdue, error) {
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	rows, err := l.reads.Query(ctx, `
		SELECT workspace, kind, id, due FROM subjects
		WHERE due <= (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 + $1::int8)
		  AND (due, workspace, kind, id) > ($3, $4, $5, $6)
		ORDER BY due, workspace, kind, id LIMIT $2`, l.options.Clock.Offset().Milliseconds(), bounded(limit, dueLimit),
		after.Since.UnixMilli(), after.Workspace, after.Kind, after.ID)
	if err != nil {
		return nil, fmt.Errorf("postgres: due: %w", err)
	}
	overdue, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o ledger.Overdue, err error) {
		var due int64
		err = row.Scan(&o.Workspace, &o.Kind, &o.ID, &due)
		o.Since = time.UnixMilli(due).UTC()
		return o, err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: due: %w", err)
	}
	return overdue, nil
}
