package tools

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

	"countersign/internal/contextturn/content"
)

// Build is one Build opened for use. It is safe for concurrent use. As many calls
// as there are processors run at once; others wait for them.
type Build struct {
	manifest content.Manifest
	docs     []*content.Document // in the order of refs, without their texts; the row is the place plus one
	lengths  []int               // words of a document
	place    map[string]int      // by ref
	over     [][]int             // who supersedes a document
	against  [][]int             // who is in conflict with a document, from both sides
	profiles map[string]bool     // that some document names
	segments int                 // of the index
	size     int64

	folder  *folder
	db      *sql.DB
	lists   *sql.Stmt // of some words, of one segment
	stems   *sql.Stmt // of one document
	text    *sql.Stmt // of one document
	running chan struct{}
	limit   time.Duration // maxWork, less in a test

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
	return openBuild(ctx, manifest, load, maxSegment)
}

func openBuild(ctx context.Context, manifest content.Manifest, load Load, segmentBytes int) (*Build, error) {
	if _, _, err := manifest.Encode(); err != nil {
		return nil, fmt.Errorf("tools: open a Build: %w", err)
	}
	folder, err := newFolder()
	if err != nil {
		return nil, fmt.Errorf("tools: open a Build: %w", err)
	}
	b := &Build{manifest: manifest, folder: folder, place: make(map[string]int, len(manifest.Documents)), profiles: map[string]bool{}, limit: maxWork}
	if err = b.fill(ctx, load, segmentBytes); err == nil {
		err = b.serve(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("tools: open a Build: %w", errors.Join(err, b.Close()))
	}
	return b, nil
}

// Manifest is what the Build was opened from. It is not to be changed.
func (b *Build) Manifest() content.Manifest { return b.manifest }

// Size is about how many bytes the Build takes: those of its documents, once on the disk
// and once more as far as they are held in memory, and those of the index.
func (b *Build) Size() int64 { return b.size }

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

// during runs a call while the Build is open: once there is room for it and for as long
// as the package comment allows.
func (b *Build) during(ctx context.Context, call func(ctx context.Context) error) error {
	select {
	case b.running <- struct{}{}:
		defer func() { <-b.running }()
	case <-ctx.Done():
		return fmt.Errorf("tools: wait for other calls: %w", ctx.Err())
	}
	leave, err := b.enter()
	if err != nil {
		return err
	}
	defer leave()
	work, cancel := context.WithTimeoutCause(ctx, b.limit, ErrTooLong)
	defer cancel()
	err = call(work)
	switch {
	case err == nil || work.Err() == nil || errors.Is(err, ErrNotFound):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("tools: given up: %w", ctx.Err())
	}
	return ErrTooLong
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

// serve opens the finished file for reading.
func (b *Build) serve(ctx context.Context) (err error) {
	b.db, err = b.open("mode=ro&immutable=1&_pragma=mmap_size(1073741824)&_pragma=cache_size(-4096)")
	if err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(b.folder.path, "index"))
	if err != nil {
		return err
	}
	b.size = b.manifest.Bytes() + info.Size()
	readers := runtime.GOMAXPROCS(0)
	b.running = make(chan struct{}, readers)
	b.db.SetMaxOpenConns(readers)
	b.db.SetMaxIdleConns(readers)
	for _, s := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&b.lists, `SELECT term, places FROM json_each(?) CROSS JOIN list WHERE segment = ? AND term = value`},
		{&b.stems, `SELECT stems FROM item WHERE id = ?`},
		{&b.text, `SELECT text FROM item WHERE id = ?`},
	} {
		if *s.to, err = b.db.PrepareContext(ctx, s.sql); err != nil {
			return err
		}
	}
	return nil
}

// view is what one profile sees, by place, and the statistics of that alone.
type view struct {
	visible    []bool
	superseded []bool  // by a document that is visible
	documents  int     // that are visible
	length     float64 // of a visible document on average, in words
}

// maxViews bounds the views that are kept, by profiles that some document names. All
// others share one.
const maxViews = 256

func (b *Build) view(profile string) *view {
	if !b.profiles[profile] {
		profile = ""
	}
	if v, ok := b.views.Load(profile); ok {
		return v.(*view)
	}
	v := &view{visible: make([]bool, len(b.docs)), superseded: make([]bool, len(b.docs))}
	words := 0
	for i, d := range b.docs {
		if d.VisibleTo(profile) {
			v.visible[i] = true
			v.documents++
			words += b.lengths[i]
		}
	}
	v.length = float64(words) / float64(max(v.documents, 1))
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
