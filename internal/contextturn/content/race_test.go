package content

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What becomes a link, or another file, while the folder is read is a fault: it is followed
// neither out of the folder nor to a hidden file in it.
func TestFolderThatChanges(t *testing.T) {
	t.Parallel()
	const secret = "---\nid: b\ntitle: Elsewhere\n---\nSecret.\n"
	for name, c := range map[string]struct {
		change  func(file, outside string) error
		opening bool // between opening and looking
		want    string
	}{
		"nothing":             {func(string, string) error { return nil }, false, ""},
		"a link out of it":    {func(file, outside string) error { return os.Symlink(outside, file) }, false, "b.md: it is a link"},
		"a relative link out": {func(file, _ string) error { return os.Symlink("../outside.md", file) }, false, "b.md: it is a link"},
		"a link in it":        {func(file, _ string) error { return os.Symlink(".hidden.md", file) }, false, "b.md: it is a link"},
		"a link to nothing":   {func(file, _ string) error { return os.Symlink("nothing", file) }, false, "b.md: it is a link"},
		"a folder":            {func(file, _ string) error { return os.Mkdir(file, 0o700) }, false, "b.md: it is not a regular file"},
		"another file":        {func(file, _ string) error { return os.WriteFile(file, []byte(secret), 0o600) }, true, "b.md: another file has taken its place"},
	} {
		parent := t.TempDir()
		dir, outside := filepath.Join(parent, "folder"), filepath.Join(parent, "outside.md")
		must(t, os.Mkdir(dir, 0o700))
		for file, text := range map[string]string{
			outside: secret, filepath.Join(dir, ".hidden.md"): secret,
			filepath.Join(dir, "a.md"): "---\nid: a\ntitle: A\n---\nText.\n", filepath.Join(dir, "b.md"): "---\nid: b\ntitle: B\n---\nText.\n",
		} {
			must(t, os.WriteFile(file, []byte(text), 0o600))
		}
		root, err := os.OpenRoot(dir)
		must(t, err)
		change := func() {
			file := filepath.Join(dir, "b.md")
			if name != "nothing" {
				must(t, os.Rename(file, filepath.Join(parent, "old")))
			}
			must(t, c.change(file, outside))
		}
		fsys := &changing{FS: root.FS(), after: func(file string) {
			if c.opening && file == "b.md" {
				change()
			}
		}}
		folder, faults, err := ReadFolder(fsys, func(done, _ int) {
			if !c.opening && done == 1 {
				change()
			}
		})
		must(t, root.Close())
		report := fmt.Sprint(Error(faults))
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want == "" && (folder == nil || len(folder.Documents) != 2):
			t.Errorf("control: %s", report)
		case c.want != "" && (folder != nil || len(faults) != 1 || !strings.Contains(report, c.want)):
			t.Errorf("%s: %+v, %s", name, folder, report)
		}
	}
}

// changing is a file system that something happens to after a file is opened.
type changing struct {
	fs.FS
	after func(file string)
}

func (c *changing) Open(file string) (fs.File, error) {
	f, err := c.FS.Open(file)
	c.after(file)
	return f, err
}

func (c *changing) Lstat(file string) (fs.FileInfo, error) { return fs.Lstat(c.FS, file) }
func (c *changing) ReadLink(file string) (string, error)   { return fs.ReadLink(c.FS, file) }

// The name of a file cannot turn a report into another.
func TestFaultInOneLine(t *testing.T) {
	t.Parallel()
	for f, want := range map[Fault]string{
		{File: "a\x1b[2J\nb.md", Line: 3, Text: "it is bad"}:            `a\x1b[2J\nb.md:3: it is bad`,
		{File: "\u202edm.a\u009b", Text: "its id is that of x\r\ny.md"}: `\u202edm.a\u009b: its id is that of x\r\ny.md`,
		{Text: "it\u2028's"}:                            `it\u2028's`,
		{File: "\u00e4 \u3000'\"\\.md", Text: "\u65e5"}: "\u00e4 \u3000'\"\\.md: \u65e5",
	} {
		if got := f.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
