package client

import (
	"errors"
	"os"
	"path/filepath"
)

// SaveNew keeps an answer in a new file that only its owner can read (0600). After a
// crash the whole file is there or none. It is fs.ErrExist when there is something by
// that name, which stays as it is.
func SaveNew(path string, content []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link never takes another file's place.
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
