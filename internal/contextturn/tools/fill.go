package tools

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // the driver

	"countersign/internal/canon"
	"countersign/internal/contextturn/content"
)

// A batch is what is loaded at once.
const (
	batchDocuments = 500
	batchBytes     = 8 << 20
)

// schema: words are our stems with a space between, which the tokenizer ascii
// takes apart and leaves as they are.
const schema = `
CREATE VIRTUAL TABLE words USING fts5(title, tags, text, content='', tokenize='ascii');
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, 'row');
CREATE TABLE item (id INTEGER PRIMARY KEY, stems TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE term (term TEXT PRIMARY KEY, docs INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO words (words, rank) VALUES ('automerge', 0);
`

const finish = `
INSERT INTO words (words) VALUES ('optimize');
INSERT INTO term (term, docs) SELECT term, doc FROM vocabulary;
`

func (b *Build) open(query string) (*sql.DB, error) {
	file := url.URL{Scheme: "file", OmitHost: true, Path: filepath.Join(b.folder.path, "index"), RawQuery: query}
	return sql.Open("sqlite", file.String())
}

// row is one document on its way into the index.
type row struct {
	doc               *content.Document
	title, tags, text string // stems with a space between
	stems             stems
	whole             string
}

// batch is some rows or why there are none.
type batch struct {
	rows []row
	err  error
}

// fill writes the file. One goroutine reads documents while this one indexes.
func (b *Build) fill(ctx context.Context, load Load) (err error) {
	db, err := b.open("_pragma=journal_mode(off)&_pragma=synchronous(off)&_pragma=locking_mode(exclusive)&_pragma=cache_size(-65536)")
	if err != nil {
		return err
	}
	defer func() {
		if closed := db.Close(); err == nil {
			err = closed
		}
	}()
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after a commit; without one the file goes
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	words, err := tx.PrepareContext(ctx, `INSERT INTO words (rowid, title, tags, text) VALUES (?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	items, err := tx.PrepareContext(ctx, `INSERT INTO item (id, stems, text) VALUES (?, ?, ?)`)
	if err != nil {
		return err
	}
	stop, cancel := context.WithCancel(ctx)
	batches := make(chan batch, 1)
	go func() {
		defer close(batches)
		defer func() { // a reader that fails on a document must not end the process
			if v := recover(); v != nil {
				select {
				case batches <- batch{err: fmt.Errorf("%w: reading failed: %v", ErrDamaged, v)}:
				case <-stop.Done():
				}
			}
		}()
		b.prepare(stop, load, batches)
	}()
	defer func() { // the goroutine ends with this function
		cancel()
		for range batches {
		}
	}()
	for batch := range batches {
		if batch.err != nil {
			return batch.err
		}
		for _, r := range batch.rows {
			id := len(b.docs) + 1
			if _, err := words.ExecContext(ctx, id, r.title, r.tags, r.text); err != nil {
				return err
			}
			if _, err := items.ExecContext(ctx, id, string(r.stems), r.whole); err != nil {
				return err
			}
			b.place[r.doc.Ref] = len(b.docs)
			b.docs = append(b.docs, r.doc)
		}
	}
	if len(b.docs) != len(b.manifest.Documents) {
		return fmt.Errorf("%d of %d documents: %w", len(b.docs), len(b.manifest.Documents), context.Cause(ctx))
	}
	if err := content.Error(content.Check(b.docs, b.manifest.Cases)); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	b.relate()
	if _, err := tx.ExecContext(ctx, finish); err != nil {
		return err
	}
	return tx.Commit()
}

// prepare loads, checks and takes apart every document, in order.
func (b *Build) prepare(ctx context.Context, load Load, out chan<- batch) {
	s := newStemmer()
	for rest := b.manifest.Documents; len(rest) > 0; {
		n, bytes := 0, 0
		for n < len(rest) && n < batchDocuments && (n == 0 || bytes+rest[n].Bytes <= batchBytes) {
			bytes += rest[n].Bytes
			n++
		}
		rows, err := prepared(ctx, rest[:n], load, s)
		select {
		case out <- batch{rows, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
		rest = rest[n:]
	}
}

func prepared(ctx context.Context, entries []content.Entry, load Load, s *stemmer) ([]row, error) {
	hashes := make([]string, len(entries))
	for i, e := range entries {
		hashes[i] = e.SHA256
	}
	loaded, err := load(ctx, hashes)
	if err != nil {
		return nil, err
	}
	if len(loaded) != len(entries) {
		return nil, fmt.Errorf("%w: %d of %d documents are there", ErrDamaged, len(loaded), len(entries))
	}
	rows := make([]row, len(entries))
	for i, e := range entries {
		if canon.Hash(loaded[i]) != e.SHA256 {
			return nil, fmt.Errorf("%w: %s has another hash", ErrDamaged, e.Ref)
		}
		d, faults := content.ParseDocument(loaded[i])
		if err := content.Error(faults); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, e.Ref, err)
		}
		if d.Entry() != e {
			return nil, fmt.Errorf("%w: %s has another id, title or size", ErrDamaged, e.Ref)
		}
		rows[i] = s.row(d)
	}
	return rows, nil
}

// row takes a document apart. Its texts stay in the row alone.
func (s *stemmer) row(d *content.Document) row {
	var all []string
	stemmed := func(text string) string {
		first := len(all)
		s.each(text, func(_, _ int, stem string) bool {
			all = append(all, stem)
			return true
		})
		return strings.Join(all[first:], " ")
	}
	r := row{doc: d, title: stemmed(d.Title), tags: stemmed(strings.Join(d.Tags, " ")), text: stemmed(d.Text), whole: d.Text}
	slices.Sort(all)
	r.stems = stems("\n" + strings.Join(slices.Compact(all), "\n") + "\n")
	d.Text, d.Raw = "", ""
	return r
}

// relate turns refs around: who supersedes a document, who is in conflict with it.
func (b *Build) relate() {
	b.over, b.against = make([][]int, len(b.docs)), make([][]int, len(b.docs))
	for i, d := range b.docs {
		for _, ref := range d.Supersedes {
			old := b.place[ref]
			b.over[old] = append(b.over[old], i)
		}
		for _, ref := range d.Conflicts {
			other := b.place[ref]
			b.against[i] = append(b.against[i], other)
			b.against[other] = append(b.against[other], i)
		}
	}
	for i := range b.against {
		slices.Sort(b.against[i])
		b.against[i] = slices.Compact(b.against[i])
	}
}
