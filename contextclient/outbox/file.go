package outbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

var (
	// ErrUnsupported is returned where processes cannot share a file: the system has no flock(2).
	ErrUnsupported = errors.New("outbox: a file that processes share needs flock(2), which this system does not have")
	// ErrFile is wrapped by errors about a file or folder that is not the owner's alone.
	ErrFile = errors.New("outbox: not a private file")
)

// file is a store in a file that processes share. Beside it lie NAME.lock, which is never
// removed, and for the time of a write NAME.new.
type file struct {
	path string
	sync bool
	turn chan struct{} // holds one while the lock is held or waited for
}

func openFile(path string, sync bool) (*file, error) {
	if !filepath.IsAbs(path) || strings.HasSuffix(path, string(filepath.Separator)) {
		return nil, fmt.Errorf("%w: %q, want an absolute path", ErrFile, path)
	}
	if !canLock {
		return nil, ErrUnsupported
	}
	return &file{filepath.Clean(path), sync, make(chan struct{}, 1)}, nil
}

// mark begins the file; the digest of what follows the line stands behind it.
const mark = "countersign-outbox/1 "

// maxFile bounds what is read: every entry at its bounds, and as much again.
const maxFile = 2 * MaxEntries * (MaxBody + 1<<10)

// look reads without the lock, which a whole file needs not.
func (f *file) look() (*State, error) {
	if err := privateFolder(filepath.Dir(f.path)); err != nil {
		return nil, err
	}
	return f.read()
}

func (f *file) update(ctx context.Context, change func(*State) bool) (aside string, err error) {
	folder := filepath.Dir(f.path)
	if err := privateFolder(folder); err != nil {
		return "", err
	}
	unlock, err := f.lock(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	state, err := f.read()
	if errors.Is(err, errUnreadable) {
		if aside, err = f.setAside(); err != nil {
			return "", err
		}
		state = &State{}
	}
	if err != nil {
		return aside, err
	}
	if !change(state) {
		return aside, nil
	}
	return aside, f.write(state)
}

// privateFolder makes the folder if there is none, and refuses one that others could
// exchange a file in.
func privateFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return fmt.Errorf("outbox: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%w: %s is no folder", ErrFile, path)
	}
	return private(info, path, 0o700)
}

func private(info fs.FileInfo, path string, most fs.FileMode) error {
	if !ownedByUs(info) {
		return fmt.Errorf("%w: %s belongs to somebody else", ErrFile, path)
	}
	if mode := info.Mode().Perm(); mode&^most != 0 {
		return fmt.Errorf("%w: %s has the mode %o, others can reach it; chmod %o", ErrFile, path, mode, most)
	}
	return nil
}

// open opens a file that is regular and the owner's alone. The folder is private, so
// that nobody else exchanges it between the two looks.
func open(path string, flag int) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is a link or no file", ErrFile, path)
	}
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = private(info, path, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lock waits for the lock until ctx ends. Whoever waits in the kernel is served in turn, which
// polling would not do; that wait cannot be ended, so that one goroutine at most of this store is in it.
func (f *file) lock(ctx context.Context) (func() error, error) {
	held := func(err error) error { return fmt.Errorf("outbox: its lock is held by others: %w", err) }
	if err := ctx.Err(); err != nil {
		return nil, held(err)
	}
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, held(ctx.Err())
	}
	l, err := open(f.path+".lock", os.O_RDWR|os.O_CREATE)
	if err != nil {
		<-f.turn
		return nil, fmt.Errorf("outbox: %w", err)
	}
	unlock := func() error {
		defer func() { <-f.turn }()
		return release(l)
	}
	locked := make(chan error, 1)
	go func() { locked <- waitLock(l) }()
	select {
	case err := <-locked:
		if err != nil {
			return nil, errors.Join(fmt.Errorf("outbox: %w", err), unlock())
		}
		return unlock, nil
	case <-ctx.Done():
		go func() { // it comes too late, and is given back
			<-locked
			_ = unlock()
		}()
		return nil, held(ctx.Err())
	}
}

var errUnreadable = errors.New("outbox: the file is not as it was written")

// content is what follows the first line.
type content struct {
	Counts  Counts  `json:"counts"`
	Entries []Entry `json:"entries"`
}

func (f *file) read() (*State, error) {
	file, err := open(f.path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return &State{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return parse(raw)
}

func parse(raw []byte) (*State, error) {
	line, rest, _ := bytes.Cut(raw, []byte("\n"))
	sum := sha256.Sum256(rest)
	if string(line) != mark+hex.EncodeToString(sum[:]) || len(raw) > maxFile {
		return nil, errUnreadable
	}
	var c content
	if json.Unmarshal(rest, &c) != nil || len(c.Entries) > MaxEntries {
		return nil, errUnreadable
	}
	return &State{c.Entries, c.Counts}, nil
}

func (s *State) bytes() ([]byte, error) {
	var rest bytes.Buffer
	w := json.NewEncoder(&rest)
	w.SetEscapeHTML(false) // a body stays the bytes that it is
	if err := w.Encode(content{s.Counts, append([]Entry{}, s.Entries...)}); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(rest.Bytes())
	return append([]byte(mark+hex.EncodeToString(sum[:])+"\n"), rest.Bytes()...), nil
}

// setAside gives the file another name, since what is in it may still tell a person something.
func (f *file) setAside() (string, error) {
	aside := f.path + ".unreadable-" + rand.Text()[:8]
	if err := os.Rename(f.path, aside); err != nil {
		return "", fmt.Errorf("outbox: %w", err)
	}
	return aside, nil
}

// write puts the state in place of the former one: whoever looks sees one or the other.
func (f *file) write(s *State) error {
	raw, err := s.bytes()
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	next := f.path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that died
		return fmt.Errorf("outbox: %w", err)
	}
	w, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	_, err = w.Write(raw)
	if err == nil && f.sync {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = os.Rename(next, f.path)
	}
	if err == nil && f.sync {
		err = syncFolder(filepath.Dir(f.path))
	}
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// syncFolder makes the names in a folder durable.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
