package tools

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"countersign/internal/contextturn/content"
)

// Build is one Build opened for use. It is safe for concurrent use; calls do not
// wait for each other.
type Build struct {
	manifest content.Manifest
	docs     []*content.Document // in the order of refs, without their texts; the row is the place plus one
	place    map[string]int      // by ref
	over     [][]int             // who supersedes a document
	against  [][]int             // who is in conflict with a document, from both sides

	folder *folder
	db     *sql.DB
	match  *sql.Stmt // row and score of every document with one of the words
	counts *sql.Stmt // in how many documents each of the words stands
	stems  *sql.Stmt // of one document
	text   *sql.Stmt // of one document

	views sync.Map // of profiles; at most maxViews
	kept  sync.Mutex
	count int

	closing sync.RWMutex // held for reading by every call
	closed  bool
	closeIt sync.Once
	failed  error
}

// Load returns the bytes of the documents of these hashes, in their order. It is
// asked for at most 500 documents and about 8 MiB at once.
type Load func(ctx context.Context, hashes []string) ([][]byte, error)

// Open checks every document of the manifest and makes the index. Close frees it.
func Open(ctx context.Context, manifest content.Manifest, load Load) (*Build, error) {
	if _, _, err := manifest.Encode(); err != nil {
		return nil, fmt.Errorf("tools: open a Build: %w", err)
	}
	folder, err := newFolder()
	if err != nil {
		return nil, fmt.Errorf("tools: open a Build: %w", err)
	}
	b := &Build{manifest: manifest, folder: folder, place: make(map[string]int, len(manifest.Documents))}
	if err = b.fill(ctx, load); err == nil {
		err = b.serve(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("tools: open a Build: %w", errors.Join(err, b.Close()))
	}
	return b, nil
}

// Manifest is what the Build was opened from. It is not to be changed.
func (b *Build) Manifest() content.Manifest { return b.manifest }

// Close waits for the calls that are running and removes the index. Later calls
// are ErrClosed. Further calls return what the first one did.
func (b *Build) Close() error {
	b.closeIt.Do(func() {
		b.closing.Lock()
		defer b.closing.Unlock()
		b.closed = true
		if b.db != nil {
			b.failed = b.db.Close()
		}
		b.failed = errors.Join(b.failed, b.folder.remove())
	})
	return b.failed
}

// enter keeps the Build open until leave.
func (b *Build) enter() (leave func(), err error) {
	b.closing.RLock()
	if b.closed {
		b.closing.RUnlock()
		return nil, ErrClosed
	}
	return b.closing.RUnlock, nil
}

// serve opens the finished file for reading, by as many as there are processors.
func (b *Build) serve(ctx context.Context) (err error) {
	b.db, err = b.open("mode=ro&immutable=1&_pragma=mmap_size(1073741824)&_pragma=cache_size(-4096)")
	if err != nil {
		return err
	}
	readers := max(4, runtime.GOMAXPROCS(0))
	b.db.SetMaxOpenConns(readers)
	b.db.SetMaxIdleConns(readers)
	for _, s := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&b.match, `SELECT rowid, bm25(words, 8, 4, 1) FROM words WHERE words MATCH ?`},
		{&b.counts, `SELECT term, docs FROM json_each(?) JOIN term ON term = value`},
		{&b.stems, `SELECT stems FROM item WHERE id = ?`},
		{&b.text, `SELECT text FROM item WHERE id = ?`},
	} {
		if *s.to, err = b.db.PrepareContext(ctx, s.sql); err != nil {
			return err
		}
	}
	return nil
}

// view is what one profile sees, by place.
type view struct {
	visible    []bool
	superseded []bool // by a document that is visible
}

// maxViews bounds the views that are kept.
const maxViews = 256

func (b *Build) view(profile string) *view {
	if v, ok := b.views.Load(profile); ok {
		return v.(*view)
	}
	v := &view{make([]bool, len(b.docs)), make([]bool, len(b.docs))}
	for i, d := range b.docs {
		v.visible[i] = d.VisibleTo(profile)
	}
	for i, over := range b.over {
		for _, o := range over {
			v.superseded[i] = v.superseded[i] || v.visible[o]
		}
	}
	b.kept.Lock()
	defer b.kept.Unlock()
	if b.count < maxViews {
		b.count++
		b.views.Store(strings.Clone(profile), v)
	}
	return v
}

// seen returns the document of ref if the profile may see it.
func (b *Build) seen(v *view, ref string) (place int, err error) {
	place, known := b.place[ref]
	if !known || !v.visible[place] {
		return 0, ErrNotFound
	}
	return place, nil
}

// refs names the documents at the places that are visible.
func (b *Build) refs(v *view, places []int) []string {
	names := []string{}
	for _, p := range places {
		if v.visible[p] {
			names = append(names, b.docs[p].Ref)
		}
	}
	return names
}
