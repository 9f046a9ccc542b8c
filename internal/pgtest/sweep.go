package pgtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	folderPrefix = "countersign-pg-"
	socketPrefix = "cspg-"
	lockFile     = "lock"
)

// hold marks a server's folder as in use for the life of this process. The lock
// file names the socket's folder.
func hold(folder, socket string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: lock: %w", err), f.Close())
	}
	if _, err := f.WriteString(socket); err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: lock: %w", err), f.Close())
	}
	return f, nil
}

// sweep removes what killed test processes left under base: folders whose lock
// file names a socket and is free. What it cannot remove stays for the next.
func sweep(base string) {
	folders, err := filepath.Glob(filepath.Join(base, folderPrefix+"*"))
	if err != nil {
		return
	}
	for _, folder := range folders {
		f, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			// A server whose parent was killed a moment ago may still be stopping:
			// its pid file goes last.
			_, running := os.Stat(filepath.Join(folder, "data", "postmaster.pid"))
			socket, err := os.ReadFile(f.Name())
			if err == nil && errors.Is(running, os.ErrNotExist) && strings.HasPrefix(string(socket), "/tmp/"+socketPrefix) {
				_ = os.RemoveAll(string(socket))
				_ = os.RemoveAll(folder)
			}
		}
		_ = f.Close()
	}
}
