package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ErrLocked is returned when another process works in the file's folder.
var ErrLocked = errors.New("sqlite: the folder is in use by another process")

// folderLock is the lock of a folder, held until unlock or the process's end,
// however it ends.
type folderLock struct{ file *os.File }

func lockFolder(path string) (folderLock, error) {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return folderLock{}, fmt.Errorf("sqlite: lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return folderLock{f}, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return folderLock{}, fmt.Errorf("%w: %s", ErrLocked, filepath.Dir(path))
	}
	return folderLock{}, fmt.Errorf("sqlite: lock: %w", err)
}

// unlock frees the lock by name: closing the file alone would leave it to a
// child of this process that was forked and has not yet called exec.
func (l folderLock) unlock() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
