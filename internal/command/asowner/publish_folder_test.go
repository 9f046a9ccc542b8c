package asowner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/command"
)

// changer changes something once a text is written.
type changer struct {
	text   string
	change func()
}

func (c *changer) Write(b []byte) (int, error) {
	if c.change != nil && strings.Contains(string(b), c.text) {
		c.change()
		c.change = nil
	}
	return len(b), nil
}

// A folder whose file or whose own folder becomes a link while it is read is not published:
// nothing from outside of it is.
func TestFolderIsNotLeft(t *testing.T) {
	h := newHouse(t)
	of := projectPath{"acme", "support"}
	for name, swap := range map[string]func(dir, outside string) error{
		"file": func(dir, outside string) error {
			return os.Symlink(filepath.Join(outside, "1.md"), filepath.Join(dir, "1.md"))
		},
		"folder": func(dir, outside string) error { return os.Symlink(outside, filepath.Join(dir, "sub")) },
		"none":   nil,
	} {
		s := h.shelf(of)
		dir, outside := folder(t, 2, 0), t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		for file, id := range map[string]string{filepath.Join(dir, "sub", "1.md"): "below", filepath.Join(outside, "1.md"): "outside"} {
			if err := os.WriteFile(file, []byte("---\nid: "+id+"\ntitle: T\n---\nText.\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		h.flags.JSON = false
		changed := &changer{text: "Read 1 of 3 files.", change: func() {
			if swap == nil {
				return
			}
			gone := map[string]string{"file": "1.md", "folder": "sub"}[name]
			if err := os.Rename(filepath.Join(dir, gone), filepath.Join(t.TempDir(), "old")); err != nil {
				t.Error(err)
			}
			if err := swap(dir, outside); err != nil {
				t.Error(err)
			}
		}}
		status := command.WrongUsage
		if swap == nil {
			status = command.Done
		}
		h.ends(status, func(streams command.Streams) error {
			streams.Err = changed
			return (&publishCommand{Folder: dir, Env: "production", inProject: inProject{of, h.flags}, every: 1}).Run(t.Context(), streams)
		})
		if changed.change != nil {
			t.Errorf("%s: nothing was changed", name)
		}
		if published := len(s.stored) > 0 || s.built != nil; published != (swap == nil) {
			t.Errorf("%s: published %v, stored %v", name, s.built, s.stored)
		}
	}
}
