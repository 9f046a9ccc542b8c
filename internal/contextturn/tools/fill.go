package tools

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
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

// schema: a segment is of documents that stand together, and is written in the order of
// its terms, so that nothing is ever moved. The places of a list are those of its documents.
const schema = `
CREATE TABLE list (segment INTEGER, term TEXT, places BLOB NOT NULL, PRIMARY KEY (segment, term)) WITHOUT ROWID;
CREATE TABLE item (id INTEGER PRIMARY KEY, stems TEXT NOT NULL, text TEXT NOT NULL);
`

func (b *Build) open(query string) (*sql.DB, error) {
	file := url.URL{Scheme: "file", OmitHost: true, Path: filepath.Join(b.folder.path, "index"), RawQuery: query}
	return sql.Open("sqlite", file.String())
}

// row is one document on its way into the index.
type row struct {
	doc     *content.Document
	stems   stems
	terms   []string // the same, in order
	weights []int    // how often each stands there, a title and a tag counted as more
	length  int      // in words
	text    string
}

// batch is some rows or why there are none.
type batch struct {
	rows []row
	err  error
}

// fill writes the file. One goroutine reads documents while this one indexes.
func (b *Build) fill(ctx context.Context, load Load, segmentBytes int) (err error) {
	db, err := b.open("_pragma=journal_mode(off)&_pragma=synchronous(off)&_pragma=locking_mode(exclusive)&_pragma=cache_size(-8192)")
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
	lists, err := tx.PrepareContext(ctx, `INSERT INTO list (segment, term, places) VALUES (?, ?, ?)`)
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
	part := segment{}
	for batch := range batches {
		if batch.err != nil {
			return batch.err
		}
		for _, r := range batch.rows {
			id := len(b.docs) + 1
			if _, err := items.ExecContext(ctx, id, string(r.stems), r.text); err != nil {
				return err
			}
			part.add(len(b.docs), r.terms, r.weights)
			b.place[r.doc.Ref] = len(b.docs)
			b.docs = append(b.docs, r.doc)
			b.lengths = append(b.lengths, r.length)
			for _, profile := range r.doc.Profiles {
				b.profiles[profile] = true
			}
			if part.bytes > segmentBytes || len(b.docs) == len(b.manifest.Documents) {
				if err := part.write(ctx, lists, b.segments); err != nil {
					return err
				}
				part = segment{}
				b.segments++
			}
		}
	}
	if len(b.docs) != len(b.manifest.Documents) {
		return fmt.Errorf("%d of %d documents: %w", len(b.docs), len(b.manifest.Documents), context.Cause(ctx))
	}
	if err := content.Error(content.Check(b.docs, b.manifest.Cases)); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	b.relate()
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

// Weights of a word by where it stands.
const (
	weightTitle = 8
	weightTag   = 4
	weightText  = 1
)

// row takes a document apart. Its texts stay in the row alone.
func (s *stemmer) row(d *content.Document) row {
	r := row{doc: d, text: d.Text}
	weights := map[string]int{}
	for _, part := range []struct {
		text   string
		weight int
	}{{d.Title, weightTitle}, {strings.Join(d.Tags, " "), weightTag}, {d.Text, weightText}} {
		s.each(part.text, func(_, _ int, stem string) bool {
			weights[stem] += part.weight
			r.length++
			return true
		})
	}
	r.terms = slices.Sorted(maps.Keys(weights))
	r.weights = make([]int, len(r.terms))
	for i, term := range r.terms {
		r.weights[i] = weights[term]
	}
	r.stems = stems(strings.Join(r.terms, "\n"))
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
