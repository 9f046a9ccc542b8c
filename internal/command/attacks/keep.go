package attacks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"countersign/internal/command"
)

// keep is the folder of --out, nil without it: the report, the exported evidence and the
// public keys that it is checked with. What is in it when a suite ends early is as it was
// found until then; the report then has no sum.
type keep struct {
	dir   string
	lines *os.File // the report
}

// newKeep makes the folder, which must not be there yet: nothing of another suite can be
// taken for this one's.
func newKeep(dir string) (*keep, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return nil, command.Usage("--out: %s is there already; give a new folder", dir)
	} else if err != nil {
		return nil, command.Usage("--out: %w; give a new folder in one that exists", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "report.jsonl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return &keep{dir, f}, nil
}

// report appends an object to the report.
func (k *keep) report(v any) error {
	if k == nil {
		return nil
	}
	return object(k.lines, v)
}

// file keeps a file under a new name.
func (k *keep) file(name string, content []byte) error {
	if k == nil {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(k.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// discard removes the folder of a suite that has not begun.
func (k *keep) discard() error {
	if k == nil {
		return nil
	}
	return errors.Join(k.lines.Close(), os.RemoveAll(k.dir))
}

func (k *keep) close() error {
	if k == nil {
		return nil
	}
	return errors.Join(k.lines.Sync(), k.lines.Close())
}
