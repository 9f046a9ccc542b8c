package keys_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/keys"
)

// What Init made can be taken back; what was there before stays.
func TestRemove(t *testing.T) {
	dir := initialized(t)
	if err := keys.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	dir = initialized(t)
	mine := filepath.Join(dir, "notes")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := keys.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "notes" {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// A folder that holds something else is not called an incomplete installation, and
// one that lost its keys is.
func TestOtherContent(t *testing.T) {
	for name, other := range map[string]bool{"notes": true, "countersign.db": false, "keys.new": false, "owner.secret": false} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, loadErr := keys.Load(dir)
		for _, err := range []error{keys.Init(dir), loadErr} {
			if errors.Is(err, keys.ErrOtherContent) != other || strings.Contains(err.Error(), "is incomplete") == other {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
