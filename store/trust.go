package store

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"

	"countersign/dispatch"
)

// trustLimit bounds a trust file in bytes: some hundred keys.
const trustLimit = 64 << 10

// trust holds the keys whose permits count. It is safe for concurrent use.
type trust struct {
	file string // empty: the keys never change

	mu   sync.Mutex
	keys []dispatch.TrustedKey
	text []byte // of the file that keys are from; nil: none
}

// now returns the keys of the file as it is now. It is read for every permit: size,
// time and inode of a file that was written in place may be those it had. A file
// that is gone or damaged is an error and not the former keys: one of them may just
// have been withdrawn.
func (t *trust) now() ([]dispatch.TrustedKey, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == "" {
		return t.keys, nil
	}
	text, err := readTrust(t.file)
	if err == nil && (t.text == nil || !bytes.Equal(text, t.text)) {
		t.text = nil
		if t.keys, err = dispatch.ParseKeys(text); err == nil {
			t.text = text
		}
	}
	if err != nil {
		return nil, fmt.Errorf("store: no permit counts until the trust file is the control plane's dispatch.pub: %s: %w", t.file, err)
	}
	return t.keys, nil
}

// readTrust returns a trust file's bytes.
func readTrust(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, trustLimit+1))
	if err != nil {
		return nil, err
	}
	if len(text) > trustLimit {
		return nil, fmt.Errorf("over %d bytes", trustLimit)
	}
	return text, nil
}
