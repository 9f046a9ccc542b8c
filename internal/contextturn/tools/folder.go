package tools

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// folderName begins the name of every temporary folder of an index.
const folderName = "countersign-build-"

// folder is a temporary folder that is locked while it is in use, so that what a
// process left behind that was killed can be told from what is in use.
type folder struct {
	path string
	lock *os.File
}

// newFolder removes what killed processes left and makes a folder. The lock is
// taken before it gets its name: under that name it is never free while it is used.
func newFolder() (*folder, error) {
	sweep(os.TempDir())
	path, err := os.MkdirTemp("", folderName)
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	unnamed := filepath.Join(path, "lock.new")
	f.lock, err = os.OpenFile(unnamed, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		err = os.Rename(unnamed, filepath.Join(path, "lock"))
	}
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

// remove removes the folder and frees its lock.
func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	if f.lock == nil {
		return err
	}
	return errors.Join(err, syscall.Flock(int(f.lock.Fd()), syscall.LOCK_UN), f.lock.Close())
}

// sweep removes the folders of this user in dir that nobody holds. One that cannot be
// removed stays: it takes room, but a Build can do without that room being freed.
func sweep(dir string) {
	left, err := filepath.Glob(filepath.Join(dir, folderName+"*"))
	if err != nil {
		return // the pattern of an odd TMPDIR; MkdirTemp tells
	}
	for _, path := range left {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(path)
		}
		lock.Close()
	}
}
