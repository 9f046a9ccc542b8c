package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
)

const (
	maxPage = 1000 // rows of one read
	maxFind = 100
)

const (
	subjectColumns = `s.workspace, s.kind, s.id, s.revision, s.sequence, s.head, s.state, s.due, s.updated`
	// Without the key, which the caller has: the driver allocates for every column.
	readSubject = `SELECT revision, sequence, head, state, due, updated FROM subjects WHERE workspace = ? AND kind = ? AND id = ?`
	readEvents  = `SELECT sequence, id, type, data, timestamp, previous_hash, hash, signature, key_id FROM events
		WHERE workspace = ? AND kind = ? AND subject = ? AND sequence > ? ORDER BY sequence LIMIT ?`
	readRecord = `SELECT fingerprint, subject_kind, subject_id, object, sequence FROM idempotency
		WHERE workspace = ? AND principal = ? AND key = ?`
	readFate       = `SELECT subject_kind, subject_id, fate, cause, execution FROM spent_permits WHERE workspace = ? AND permit = ?`
	readCredential = `SELECT kind, subject, generation, origin, expires FROM credentials WHERE workspace = ? AND hash = ?`
	readTexts      = `SELECT commitment, salt, text FROM texts WHERE workspace = ? AND kind = ? AND subject = ? ORDER BY commitment`
	readText       = `SELECT commitment, salt, text FROM texts WHERE workspace = ? AND kind = ? AND subject = ? AND commitment = ?`
	readSealed     = `SELECT bytes FROM sealed WHERE workspace = ? AND kind = ? AND subject = ? AND name = ?`
	readDue        = `SELECT workspace, kind, id, due FROM subjects WHERE due <= ? AND due >= ?
		AND (due, workspace, kind, id) > (?2, ?, ?, ?) ORDER BY due, workspace, kind, id LIMIT ?`
)

// reads are the connections that cannot write, with their statements.
type reads struct {
	db *sql.DB

	subject, events, record, fate, credential, texts, text, sealed, due, blobs, missing *sql.Stmt

	finds sync.Map // statements of Find by their text; a handful, by the number of attributes
}

// openReads refuses a file with other migrations than this program's.
func openReads(ctx context.Context, path string) (*reads, error) {
	db, err := sql.Open("sqlite", readerDSN(path))
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	r := &reads{db: db}
	applied, err := recorded(ctx, db)
	if err == nil {
		err = migrations.Check(applied)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: %w", err), r.close())
	}
	for query, stmt := range map[string]**sql.Stmt{
		readSubject: &r.subject, readEvents: &r.events, readRecord: &r.record, readFate: &r.fate,
		readCredential: &r.credential, readTexts: &r.texts, readText: &r.text, readSealed: &r.sealed, readDue: &r.due, readBlobs: &r.blobs, readMissing: &r.missing,
	} {
		s, err := db.PrepareContext(ctx, query)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("sqlite: %w", err), r.close())
		}
		*stmt = s
	}
	return r, nil
}

// find returns the statement of a text, prepared once.
func (r *reads) find(ctx context.Context, text string) (*sql.Stmt, error) {
	if known, found := r.finds.Load(text); found {
		return known.(*sql.Stmt), nil
	}
	s, err := r.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if known, found := r.finds.LoadOrStore(text, s); found {
		return known.(*sql.Stmt), s.Close()
	}
	return s, nil
}

// close ends the statements with their connections.
func (r *reads) close() error { return r.db.Close() }

// found turns the absence of a row into ledger.ErrNotFound.
func found(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return ledger.ErrNotFound
	}
	return fmt.Errorf("sqlite: %w", err)
}

// scanSubject reads the columns of readSubject behind those of into.
func scanSubject(row interface{ Scan(...any) error }, s *ledger.Subject, into ...any) error {
	var due, updated sql.NullInt64
	if err := row.Scan(append(into, &s.Revision, &s.Sequence, &s.Head, &s.State, &due, &updated)...); err != nil {
		return err
	}
	if due.Valid {
		s.Due = time.UnixMilli(due.Int64).UTC()
	}
	if updated.Valid {
		s.UpdatedAt = time.UnixMilli(updated.Int64).UTC()
	}
	return nil
}

// Now returns the process's time in UTC, in milliseconds.
func (l *Ledger) Now(context.Context) (time.Time, error) { return l.clock.Now(), nil }

// Load reads a subject and the time of the read, which is never before the
// subject's newest timestamp. Without the subject the error is
// ledger.ErrNotFound and the time is valid.
func (l *Ledger) Load(ctx context.Context, key ledger.Key) (ledger.Subject, time.Time, error) {
	s, ok := l.recent.get(key)
	if !ok {
		s = ledger.Subject{Key: key}
		if err := scanSubject(l.reads.subject.QueryRowContext(ctx, key.Workspace, key.Kind, key.ID), &s); err != nil {
			return ledger.Subject{}, l.clock.Now(), found(err)
		}
	}
	now := l.clock.Now()
	if now.Before(s.UpdatedAt) {
		now = s.UpdatedAt
	}
	return s, now, nil
}

// Events returns the events after a sequence, in order, at most limit of them;
// a limit outside 1 to 1,000 means 1,000. No event is no error.
func (l *Ledger) Events(ctx context.Context, key ledger.Key, after int64, limit int) ([]evidence.Event, error) {
	return list(ctx, l.reads.events, func(rows *sql.Rows) (evidence.Event, error) {
		e := evidence.Event{RunID: key.ID}
		var data []byte
		err := rows.Scan(&e.Sequence, &e.ID, &e.Type, &data, &e.Timestamp, &e.PreviousHash, &e.Hash, &e.Signature, &e.KeyID)
		e.Data = json.RawMessage(data)
		return e, err
	}, key.Workspace, key.Kind, key.ID, after, bound(limit, maxPage))
}

func bound(limit, most int) int {
	if limit < 1 || limit > most {
		return most
	}
	return limit
}

func list[T any](ctx context.Context, s *sql.Stmt, scan func(*sql.Rows) (T, error), args ...any) ([]T, error) {
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return collect(rows, scan)
}

func collect[T any](rows *sql.Rows, scan func(*sql.Rows) (T, error)) ([]T, error) {
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("sqlite: %w", err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return all, nil
}

// Find returns the subjects that match, newest id first, at most q.Limit of
// them; a limit outside 1 to 100 means 100.
func (l *Ledger) Find(ctx context.Context, q ledger.Query) ([]ledger.Subject, error) {
	var text strings.Builder
	text.WriteString(`SELECT ` + subjectColumns + ` FROM `)
	var args []any
	id := "s.id"
	if len(q.Where) > 0 {
		// CROSS JOIN keeps the order: first the index of the first attribute,
		// which yields ids newest first, then the subject.
		text.WriteString(`attributes a CROSS JOIN subjects s ON s.workspace = a.workspace AND s.kind = a.kind AND s.id = a.id
			WHERE a.workspace = ? AND a.kind = ? AND a.name = ? AND a.value = ?`)
		args = append(args, q.Workspace, q.Kind, q.Where[0].Name, q.Where[0].Value)
		id = "a.id"
		for _, more := range q.Where[1:] {
			text.WriteString(` AND EXISTS (SELECT 1 FROM attributes b WHERE b.workspace = a.workspace AND b.kind = a.kind AND b.id = a.id
				AND b.name = ? AND b.value = ?)`)
			args = append(args, more.Name, more.Value)
		}
	} else {
		text.WriteString(`subjects s WHERE s.workspace = ? AND s.kind = ?`)
		args = append(args, q.Workspace, q.Kind)
	}
	if q.Before != "" {
		text.WriteString(` AND ` + id + ` < ?`)
		args = append(args, q.Before)
	}
	text.WriteString(` ORDER BY ` + id + ` DESC LIMIT ?`)
	args = append(args, bound(q.Limit, maxFind))
	statement, err := l.reads.find(ctx, text.String())
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	rows, err := statement.QueryContext(ctx, args...)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	return collect(rows, func(rows *sql.Rows) (s ledger.Subject, err error) {
		err = scanSubject(rows, &s, &s.Workspace, &s.Kind, &s.ID)
		return s, err
	})
}

// Record returns the idempotency record of a key or ledger.ErrNotFound.
func (l *Ledger) Record(ctx context.Context, workspace, principal, key string) (ledger.Record, error) {
	r := ledger.Record{Workspace: workspace, Principal: principal, Key: key, Subject: ledger.Key{Workspace: workspace}}
	err := l.reads.record.QueryRowContext(ctx, workspace, principal, key).
		Scan(&r.Fingerprint, &r.Subject.Kind, &r.Subject.ID, &r.Object, &r.Sequence)
	if err != nil {
		return ledger.Record{}, found(err)
	}
	return r, nil
}

// Fate returns the end of a permit, or ledger.ErrNotFound while it has none.
func (l *Ledger) Fate(ctx context.Context, workspace, permitID string) (ledger.Fate, error) {
	f := ledger.Fate{Workspace: workspace, PermitID: permitID, Subject: ledger.Key{Workspace: workspace}}
	err := l.reads.fate.QueryRowContext(ctx, workspace, permitID).Scan(&f.Subject.Kind, &f.Subject.ID, &f.Fate, &f.Cause, &f.Execution)
	if err != nil {
		return ledger.Fate{}, found(err)
	}
	return f, nil
}

// Credential returns a credential, expired ones too, and the time of the read;
// or ledger.ErrNotFound.
func (l *Ledger) Credential(ctx context.Context, workspace, hash string) (ledger.Credential, time.Time, error) {
	c := ledger.Credential{Workspace: workspace, Hash: hash}
	var expires int64
	err := l.reads.credential.QueryRowContext(ctx, workspace, hash).Scan(&c.Kind, &c.Subject, &c.Generation, &c.Origin, &expires)
	now := l.clock.Now()
	if err != nil {
		return ledger.Credential{}, now, found(err)
	}
	c.ExpiresAt = time.UnixMilli(expires).UTC()
	return c, now, nil
}

// Text returns one text of a subject. An erased one is [ledger.ErrNotFound].
func (l *Ledger) Text(ctx context.Context, key ledger.Key, commitment string) (evidence.Text, error) {
	var t evidence.Text
	var text []byte
	err := l.reads.text.QueryRowContext(ctx, key.Workspace, key.Kind, key.ID, commitment).Scan(&t.Commitment, &t.Salt, &text)
	t.Text = string(text)
	return t, found(err)
}

// Texts returns the texts of a subject that are not erased, by commitment.
func (l *Ledger) Texts(ctx context.Context, key ledger.Key) ([]evidence.Text, error) {
	return list(ctx, l.reads.texts, func(rows *sql.Rows) (t evidence.Text, err error) {
		var text []byte
		err = rows.Scan(&t.Commitment, &t.Salt, &text)
		t.Text = string(text)
		return t, err
	}, key.Workspace, key.Kind, key.ID)
}

// SealedValue returns an encrypted value or ledger.ErrNotFound.
func (l *Ledger) SealedValue(ctx context.Context, key ledger.Key, name string) ([]byte, error) {
	var bytes []byte
	err := l.reads.sealed.QueryRowContext(ctx, key.Workspace, key.Kind, key.ID, name).Scan(&bytes)
	return bytes, found(err)
}

// Due returns subjects whose Due is not after now, longest overdue first, those
// behind after; a limit outside 1 to 1,000 means 1,000.
func (l *Ledger) Due(ctx context.Context, after ledger.Overdue, limit int) ([]ledger.Overdue, error) {
	return list(ctx, l.reads.due, func(rows *sql.Rows) (o ledger.Overdue, err error) {
		var due int64
		err = rows.Scan(&o.Workspace, &o.Kind, &o.ID, &due)
		o.Since = time.UnixMilli(due).UTC()
		return o, err
	}, l.clock.Now().UnixMilli(), after.Since.UnixMilli(), after.Workspace, after.Kind, after.ID, bound(limit, maxPage))
}
