package keys

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"countersign/internal/canon"
)

// size is the length in bytes of every key, seed and secret.
const size = 32

// maxFile bounds what is read of a file in bytes: a list of some hundred keys.
const maxFile = 64 << 10

// fresh returns size random bytes.
func fresh() []byte {
	b := make([]byte, size)
	rand.Read(b) // never fails: crypto/rand ends the process instead
	return b
}

func tag(name string) string { return "countersign-" + name + "-key/1 " }

func encodeKey(name string, key []byte) []byte {
	return []byte(tag(name) + canon.EncodeBase64(key) + "\n")
}

// readKey reads keys/NAME.key or a successor of it.
func readKey(path, name string) ([]byte, error) {
	raw, err := readSecretFile(path)
	if err != nil {
		return nil, err
	}
	text, tagged := strings.CutPrefix(string(raw), tag(name))
	key, ok := decodeLine(text)
	if !tagged || !ok {
		return nil, fmt.Errorf("keys: %s is not a %s key file", path, name)
	}
	return key, nil
}

// ReadSecret reads the owner secret from the file at path. The result is the
// text that signs in, without the line feed.
func ReadSecret(path string) (string, error) {
	raw, err := readSecretFile(path)
	if err != nil {
		return "", err
	}
	if _, ok := decodeLine(string(raw)); !ok {
		return "", fmt.Errorf("keys: %s is not an owner secret file", path)
	}
	return strings.TrimSuffix(string(raw), "\n"), nil
}

func decodeLine(line string) ([]byte, bool) {
	text, ended := strings.CutSuffix(line, "\n")
	b, err := canon.DecodeBase64(text)
	return b, ended && err == nil && len(b) == size
}

// readSecretFile reads a file that only its owner may read. The permissions are
// those of the file that was opened, so that they cannot change in between.
func readSecretFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	defer f.Close()
	if err := private(f, path); err != nil {
		return nil, err
	}
	return readBounded(f, path)
}

func private(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return &PermissionError{Path: path, Mode: mode}
	}
	return nil
}

func readBounded(f *os.File, path string) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("keys: %s has more than %d bytes", path, maxFile)
	}
	return raw, nil
}

// write puts content at path so that after a crash either the old file or the
// whole new one is there.
func write(path string, content []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	defer os.Remove(f.Name()) // without effect after the rename
	err = errors.Join(f.Chmod(mode), writeAll(f, content), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

func writeAll(f *os.File, content []byte) error {
	_, err := f.Write(content)
	return err
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}
