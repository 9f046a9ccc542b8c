package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"countersign/evidence"
	"countersign/internal/contextturn/turn"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
)

// bareIndex is the same text in a table of SQLite's own full text search, in a file of its
// own, differentTasks for the five best with their text. It stems as SQLite does and decides nothing.
type bareIndex struct {
	db   *sql.DB
	stmt *sql.Stmt
}

func newBareIndex(ctx context.Context, dir string, lib *library) (*bareIndex, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bare.index")+"?_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)")
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, `CREATE VIRTUAL TABLE docs USING fts5(ref UNINDEXED, title, tags, body, tokenize='porter unicode61')`); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	for _, d := range lib.documents {
		if _, err := tx.ExecContext(ctx, `INSERT INTO docs VALUES (?, ?, ?, ?)`, d.Ref, d.Title, strings.Join(d.Tags, " "), d.Text); err != nil {
			return nil, errors.Join(err, tx.Rollback(), db.Close())
		}
	}
	if err := tx.Commit(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	db.SetMaxOpenConns(runtime.NumCPU()) // more would only wait for a core
	stmt, err := db.PrepareContext(ctx, `SELECT ref, body FROM docs WHERE docs MATCH ? ORDER BY bm25(docs, 0, 8, 4, 1) LIMIT 5`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &bareIndex{db, stmt}, nil
}

// ask returns the text of the five best.
func (b *bareIndex) ask(ctx context.Context, task string) (string, error) {
	rows, err := b.stmt.QueryContext(ctx, `"`+strings.Join(strings.Fields(task), `" OR "`)+`"`)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var text strings.Builder
	for rows.Next() {
		var ref, body string
		if err := rows.Scan(&ref, &body); err != nil {
			return "", err
		}
		text.WriteString(body)
	}
	if text.Len() == 0 {
		return "", fmt.Errorf("the bare index has nothing for %q", task)
	}
	return text.String(), rows.Err()
}

// contextFloor is the least that a turn can cost: the engine's commits of the Changes that
// the product makes, ready made but for ids and seals. It searches nothing, reads nothing,
// decides nothing and encodes nothing.
type contextFloor struct {
	ledger committing
	key    evidence.SigningKey
	shape  shape
}

func newContextFloors(ctx context.Context, o order, l closable) (callers []cycler, err error) {
	recorded, err := recordTurn(ctx, filepath.Dir(o.Dir))
	if err != nil {
		return nil, err
	}
	loaded, err := keys.Load(o.Dir)
	if err != nil {
		return nil, err
	}
	for range o.Callers {
		callers = append(callers, &contextFloor{ledger: l, key: loaded.Evidence(), shape: recorded})
	}
	return callers, nil
}

// recordTurn lets the product do a turn in a folder of its own and returns its Changes.
func recordTurn(ctx context.Context, dir string) (_ shape, err error) {
	parent, err := os.MkdirTemp(dir, "shape-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(parent)) }()
	dir = filepath.Join(parent, "control")
	if err := initFolder(ctx, dir, ""); err != nil {
		return nil, err
	}
	l, err := sqlite.Open(ctx, ledgerFile(dir), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	r := &turnRecorder{Ledger: l}
	list, err := newContexts(ctx, order{Dir: dir, Callers: 1}, r)
	if err != nil {
		return nil, err
	}
	for range 3 {
		r.changes = nil
		if _, _, err := list[0].next(ctx); err != nil {
			return nil, err
		}
	}
	return r.changes, nil
}

// turnRecorder keeps the Changes that pass through it.
type turnRecorder struct {
	*sqlite.Ledger
	mu      sync.Mutex
	changes shape
}

func (r *turnRecorder) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	r.mu.Lock()
	r.changes = append(r.changes, c)
	r.mu.Unlock()
	return r.Ledger.Commit(ctx, c)
}

func (f *contextFloor) next(ctx context.Context) (string, string, error) {
	id, interaction := "trn_"+bareID(), "int_"+bareID()
	at := ledger.Subject{Head: evidence.Genesis}
	for i := range f.shape {
		recorded := &f.shape[i]
		c := ledger.Change{}
		for _, w := range recorded.Writes {
			next := ledger.Write{Key: w.Key, State: w.State, Attributes: w.Attributes, Texts: w.Texts, Head: evidence.Genesis}
			next.ID = interaction
			if w.Kind == turn.Kind {
				next.ID, next.Revision, next.Head = id, at.Revision, at.Head
				if !w.Due.IsZero() {
					next.Due = time.Now().Add(turn.Life)
				}
				drafts := make([]evidence.Draft, len(w.Events))
				for j, e := range w.Events {
					drafts[j] = evidence.Draft{ID: bareID(), Type: e.Type, Data: e.Data}
				}
				events, err := evidence.Seal(f.key, id, at.Link(), time.Now(), drafts)
				if err != nil {
					return "", "", err
				}
				next.Events = events
				last := &events[len(events)-1]
				at.Revision, at.Sequence, at.Head = at.Revision+1, last.Sequence, last.Hash
			}
			c.Writes = append(c.Writes, next)
		}
		if r := recorded.Record; r != nil {
			record := *r
			record.Key, record.Subject.ID, record.Object, record.Principal = bareID(), id, id, "bench"
			c.Record = &record
		}
		if err := f.ledger.Commit(ctx, c).Err(); err != nil {
			return "", "", err
		}
	}
	return id, interaction, nil
}

// auditTurns verifies and replays every turn with an acknowledged end, and looks for its
// interaction. Of the floor it asks only that the chains verify.
func auditTurns(ctx context.Context, o order, acks []acknowledged) (_ *audited, err error) {
	l, err := openLedger(ctx, o.Dir, o.Database, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	p, err := openPlane(o.Dir, l)
	if err != nil {
		return nil, err
	}
	a := &auditing{plane: p}
	for _, x := range acks {
		a.turn(ctx, x, !o.Floor)
	}
	if len(acks) == 0 {
		a.problem("nothing was acknowledged")
	}
	return &a.audited, nil
}

func (a *auditing) turn(ctx context.Context, x acknowledged, lawful bool) {
	replay, found, completed := turn.NewReplay(), false, false
	var file strings.Builder
	key := ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: turn.Kind, ID: x.runID}
	exportErr := a.plane.ExportChain(ctx, key, &file)
	report, err := evidence.Verify(strings.NewReader(file.String()), evidence.Keys{{Public: a.plane.keys.Evidence().Public()}}, evidence.Options{Workers: 1, Each: func(e evidence.Event) error {
		replay.Apply(e)
		found = found || strings.Contains(string(e.Data), x.permitID)
		completed = completed || e.Type == "contextturn.completed"
		return nil
	}})
	if err := errors.Join(exportErr, err); err != nil {
		if lawful { // a floor's chain says in its first event that it is another's
			a.problem("turn %s: %v", x.runID, err)
		}
		return
	}
	a.events += int(report.Count)
	switch {
	case !report.OK():
		a.problem("the chain of turn %s does not verify", x.runID)
	case !completed || lawful && !found:
		a.problem("turn %s: the acknowledged delivery or completion is not there", x.runID)
	case lawful && (!replay.Known() || len(replay.Unlawful()) > 0):
		a.problem("turn %s is not lawful: %v", x.runID, replay.Unlawful())
	}
}
