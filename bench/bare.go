package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"runtime"
	"sync/atomic"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
)

// The bare program writes what a cycle writes and signs what a cycle signs, and
// does nothing else: no decision, no reading, no JSON, no check of what it gets.
// It is as fast as its author could make it with the same driver, schema,
// durability and grouping: statements are prepared once, hashing and signing are
// the callers', one goroutine writes.
//
// Its SQL is that of the SQLite engine, guards included.
const (
	bareFreeze = `SELECT CASE name WHEN 'frozen' THEN -1 ELSE CAST(value AS INTEGER) END FROM attributes
		WHERE workspace = ? AND kind = ? AND id = ? AND name IN ('frozen', 'freezes') ORDER BY name DESC LIMIT 1`
	bareGuard   = `SELECT revision FROM subjects WHERE workspace = ? AND kind = ? AND id = ?`
	bareSubject = `INSERT INTO subjects (workspace, kind, id, revision, sequence, head, state, attributes, due, updated)
		VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	bareUpdate = `UPDATE subjects SET revision = revision + 1, sequence = sequence + ?, head = ?, state = ?, attributes = ?,
		due = ?, updated = coalesce(?, updated)
		WHERE workspace = ? AND kind = ? AND id = ? AND revision = ? AND head = ? AND sequence = coalesce(?, sequence) AND attributes = ?`
	bareEvent = `INSERT INTO events (workspace, kind, subject, sequence, id, type, data, timestamp, previous_hash, hash,
		signature, key_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	bareText   = `INSERT INTO texts (workspace, kind, subject, commitment, salt, text) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	bareRecord = `INSERT INTO idempotency (workspace, principal, key, fingerprint, subject_kind, subject_id, object, sequence)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	barePermit = `INSERT INTO spent_permits (workspace, permit, subject_kind, subject_id, fate, cause, execution)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
)

// statement is one statement with its values; rows is how many it must change, -1
// for a read.
type statement struct {
	query string
	args  []driver.NamedValue
	rows  int64
}

func do(query string, rows int64, args ...any) statement {
	s := statement{query: query, rows: rows, args: make([]driver.NamedValue, len(args))}
	for i, a := range args {
		s.args[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return s
}

type bareJob struct {
	statements []statement
	answer     chan error
}

// bareWriter is the one goroutine that writes, with the grouping of the product.
type bareWriter struct {
	conn  driver.Conn
	stmts map[string]driver.Stmt
	jobs  chan *bareJob
	limit int
	delay time.Duration
}

func openBareWriter(o order) (*bareWriter, error) {
	db, err := sql.Open("sqlite", "") // for its driver; opens nothing
	if err != nil {
		return nil, err
	}
	defer db.Close()
	q := url.Values{
		"mode": {"rw"}, "_busy_timeout": {"5000"}, "_txlock": {"immediate"},
		"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(1000)", "secure_delete(1)", "temp_store(2)"},
	}
	u := url.URL{Scheme: "file", Path: ledgerFile(o.Dir), RawQuery: q.Encode()}
	conn, err := db.Driver().Open(u.String())
	if err != nil {
		return nil, err
	}
	w := &bareWriter{conn: conn, stmts: map[string]driver.Stmt{}, jobs: make(chan *bareJob, 1024), limit: o.Batch, delay: o.Delay}
	if w.limit <= 0 {
		w.limit = 64
	}
	return w, nil
}

func (w *bareWriter) run() {
	var group []*bareJob
	for {
		group = append(group[:0], <-w.jobs)
		for range 3 {
			group = w.drain(group)
			runtime.Gosched()
		}
		group = w.drain(group)
		err := w.commit(group)
		for _, j := range group {
			j.answer <- err
		}
	}
}

func (w *bareWriter) drain(group []*bareJob) []*bareJob {
	for len(group) < w.limit {
		select {
		case j := <-w.jobs:
			group = append(group, j)
		default:
			return group
		}
	}
	return group
}

func (w *bareWriter) commit(group []*bareJob) error {
	if err := w.exec(do("BEGIN IMMEDIATE", -1)); err != nil {
		return err
	}
	for _, j := range group {
		if err := w.exec(do("SAVEPOINT change", -1)); err != nil {
			return err
		}
		for _, s := range j.statements {
			if err := w.exec(s); err != nil {
				return err
			}
		}
		if err := w.exec(do("RELEASE change", -1)); err != nil {
			return err
		}
	}
	if err := w.exec(do("COMMIT", -1)); err != nil {
		return err
	}
	if w.delay > 0 {
		time.Sleep(w.delay)
	}
	return nil
}

func (w *bareWriter) exec(s statement) error {
	stmt, ok := w.stmts[s.query]
	if !ok {
		var err error
		if stmt, err = w.conn.Prepare(s.query); err != nil {
			return err
		}
		w.stmts[s.query] = stmt
	}
	if s.query == bareFreeze || s.query == bareGuard {
		rows, err := stmt.(driver.StmtQueryContext).QueryContext(context.Background(), s.args)
		if err != nil {
			return err
		}
		if err := rows.Next(make([]driver.Value, 1)); err != nil && err != io.EOF {
			return err
		}
		return rows.Close()
	}
	result, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), s.args)
	if err != nil || s.rows < 0 {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n != s.rows {
		err = fmt.Errorf("the bare program changed %d rows, want %d", n, s.rows)
	}
	return err
}

func (w *bareWriter) submit(statements []statement) error {
	j := &bareJob{statements, make(chan error, 1)}
	w.jobs <- j
	return <-j.answer
}

// bareCaller keeps the chain of one run.
type bareCaller struct {
	writer   *bareWriter
	shape    shape
	private  ed25519.PrivateKey
	id       string
	revision map[string]int64 // by kind
	sequence int64
	head     string
	buffer   []byte
}

var bareIDs atomic.Int64

// bareID is time-ordered and of the length of a UUID, as the product's ids are.
func bareID() string {
	return fmt.Sprintf("%08x-0000-7000-8000-%012x", time.Now().UnixMilli()>>12, bareIDs.Add(1))
}

// newBare records a cycle of the product, then makes an empty ledger with the
// product's schema and one subject pair for each caller.
func newBare(ctx context.Context, o order) ([]cycler, error) {
	recorded, err := recordCycle(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	if err := sqlite.Create(ctx, ledgerFile(o.Dir)); err != nil {
		return nil, err
	}
	writer, err := openBareWriter(o)
	if err != nil {
		return nil, err
	}
	go writer.run()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	var callers []cycler
	for range o.Callers {
		c := &bareCaller{writer: writer, shape: recorded, private: private, id: bareID(), revision: map[string]int64{}, head: evidence.Genesis}
		var statements []statement
		for _, kind := range []string{ledger.KindRun, ledger.KindService} {
			statements = append(statements, do(bareSubject, 1, ledger.DefaultWorkspace, kind, c.id, int64(0), evidence.Genesis, []byte("{}"), attributesOf(kind), nil, nil))
			c.revision[kind] = 1
		}
		if err := writer.submit(statements); err != nil {
			return nil, err
		}
		callers = append(callers, c)
	}
	return callers, nil
}

// attributesOf stands for the digest of unchanged attributes.
func attributesOf(kind string) []byte {
	if kind == ledger.KindService {
		return []byte{}
	}
	return make([]byte, sha256.Size)
}

func (c *bareCaller) next(context.Context) (string, string, error) {
	permit := bareID()
	for i := range c.shape {
		if err := c.writer.submit(c.change(&c.shape[i], permit)); err != nil {
			return "", "", err
		}
	}
	return c.id, permit, nil
}

// change gives the recorded Change this run's place, hashes and signatures.
func (c *bareCaller) change(x *ledger.Change, permit string) []statement {
	var out []statement
	if x.Freezable {
		out = append(out, do(bareFreeze, -1, x.Workspace, ledger.KindWorkspace, x.Workspace))
	}
	for _, g := range x.Guards {
		out = append(out, do(bareGuard, -1, g.Workspace, g.Kind, c.id))
	}
	for i := range x.Writes {
		out = c.write(out, &x.Writes[i])
	}
	if r := x.Record; r != nil {
		out = append(out, do(bareRecord, 1, r.Workspace, "run:"+c.id, "key-of-"+permit, r.Fingerprint, r.Subject.Kind, c.id, bareID(), c.sequence))
	}
	for _, f := range x.Fates {
		out = append(out, do(barePermit, 1, f.Workspace, permit, f.Subject.Kind, c.id, f.Fate, f.Cause, bareID()))
	}
	return out
}

func (c *bareCaller) write(out []statement, w *ledger.Write) []statement {
	head, before := evidence.Genesis, any(nil)
	if len(w.Events) > 0 {
		head, before = c.head, c.sequence
	}
	var updated, due any
	place := len(out)
	out = append(out, statement{})
	for i := range w.Events {
		e := &w.Events[i]
		now := time.Now()
		updated = now.UnixMilli()
		id, timestamp, previous := bareID(), evidence.FormatTime(now), c.head
		c.buffer = append(append(append(append(c.buffer[:0], e.Data...), id...), previous...), timestamp...)
		sum := sha256.Sum256(c.buffer)
		c.head = hex.EncodeToString(sum[:])
		c.sequence++
		signature := base64.RawURLEncoding.EncodeToString(ed25519.Sign(c.private, sum[:]))
		out = append(out, do(bareEvent, 1, w.Workspace, w.Kind, c.id, c.sequence, id, e.Type, []byte(e.Data), timestamp, previous, c.head, signature, e.KeyID))
	}
	if !w.Due.IsZero() {
		due = time.Now().UnixMilli()
	}
	newHead := evidence.Genesis
	if len(w.Events) > 0 {
		newHead = c.head
	}
	attributes := attributesOf(w.Kind)
	out[place] = do(bareUpdate, 1, int64(len(w.Events)), newHead, w.State, attributes, due, updated, w.Workspace, w.Kind, c.id, c.revision[w.Kind], head, before, attributes)
	c.revision[w.Kind]++
	for _, t := range w.Texts {
		c.buffer = append(append(c.buffer[:0], t.Text...), bareID()...)
		sum := sha256.Sum256(c.buffer)
		out = append(out, do(bareText, 1, w.Workspace, w.Kind, c.id, hex.EncodeToString(sum[:]), t.Salt, []byte(t.Text)))
	}
	return out
}
