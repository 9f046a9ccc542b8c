package store

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"countersign/dispatch"
)

// trustLimit bounds a trust file in bytes: some hundred keys.
const trustLimit = 64 << 10

// settled is how long ago a file must have been written for its time to tell the
// next change: file systems stamp in steps of some milliseconds, and a clock that
// is shared over a network may lag.
const settled = 2 * time.Second

// trust holds the keys whose permits count. It is safe for concurrent use.
type trust struct {
	file string // empty: the keys never change

	mu   sync.Mutex
	keys []dispatch.TrustedKey
	read os.FileInfo // of the file that keys are from; nil: look again
}

// now returns the keys of the file as it is now. A file that is gone or damaged
// is an error and not the former keys: one of them may just have been withdrawn.
func (t *trust) now() ([]dispatch.TrustedKey, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == "" {
		return t.keys, nil
	}
	if info, err := os.Stat(t.file); err == nil && t.read != nil && sameFile(info, t.read) {
		return t.keys, nil
	}
	t.read = nil
	keys, info, err := readTrust(t.file)
	if err != nil {
		return nil, fmt.Errorf("store: no permit counts until the trust file is the control plane's dispatch.pub: %w", err)
	}
	t.keys = keys
	if time.Since(info.ModTime()) > settled {
		t.read = info
	}
	return keys, nil
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// readTrust returns the keys with what the file was before it was read.
func readTrust(name string) ([]dispatch.TrustedKey, os.FileInfo, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, trustLimit+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > trustLimit {
		return nil, nil, fmt.Errorf("%s has over %d bytes", name, trustLimit)
	}
	keys, err := dispatch.ParseKeys(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return keys, info, nil
}
