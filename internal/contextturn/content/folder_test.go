package content

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func page(id string, matter ...string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("---\nid: " + id + "\ntitle: Page " + id + "\n" + strings.Join(append(matter, ""), "\n") + "---\nText of " + id + ".\n")}
}

func caseFile(id, task string, expect ...string) *fstest.MapFile {
	return &fstest.MapFile{Data: fmt.Appendf(nil, `{"id": %q, "task": %q, "expectRefs": ["%s"]}`, id, task, strings.Join(expect, `", "`))}
}

func TestReadFolder(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"b.md": page("b"), "deep/er/a.md": page("a", "supersedes: [b]"), "zz.md": page("0a"), "tests/2.json": caseFile("one", "What?", "a", "b"),
		"tests/1.json": caseFile("two", "How?", "0a"), ".git/config": page("x"), ".DS_Store": page("y"), "deep/.draft.md": page("z"),
	}
	var progress []string
	folder, faults, err := ReadFolder(fsys, func(done, total int) { progress = append(progress, fmt.Sprintf("%d/%d", done, total)) })
	if err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	if got := refs(folder.Documents); !slices.Equal(got, []string{"0a", "a", "b"}) {
		t.Errorf("documents %v", got)
	}
	if folder.Documents[1].File != "deep/er/a.md" || folder.Cases[0].ID != "one" || folder.Cases[1].ID != "two" || folder.Cases[0].File != "tests/2.json" {
		t.Errorf("%+v %+v", folder.Documents[1], folder.Cases)
	}
	if want := []string{".DS_Store", ".git", "deep/.draft.md"}; !slices.Equal(folder.Skipped, want) {
		t.Errorf("skipped %v, want %v", folder.Skipped, want)
	}
	if want := []string{"1/5", "2/5", "3/5", "4/5", "5/5"}; !slices.Equal(progress, want) {
		t.Errorf("progress %v", progress)
	}
	if _, _, err := folder.Manifest.Encode(); err != nil {
		t.Error(err)
	}
}

// Every file that is wrong is in the report, with what to do, and there is nothing
// to publish.
func TestFolderFaults(t *testing.T) {
	t.Parallel()
	good := fstest.MapFS{"a.md": page("a"), "b.md": page("b"), "tests/c.json": caseFile("c", "What?", "a")}
	with := func(name string, file *fstest.MapFile) fstest.MapFS {
		fsys := fstest.MapFS{name: file}
		for n, f := range good {
			if n != name {
				fsys[n] = f
			}
		}
		return fsys
	}
	raw := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	many := strings.Split(strings.TrimSpace(strings.Repeat("a ", MaxExpected+1)), " ")
	for _, c := range []struct {
		name string
		fsys fstest.MapFS
		want string
	}{
		{"a link", with("l.md", &fstest.MapFile{Data: []byte("a.md"), Mode: fs.ModeSymlink}), "l.md: it is a link"},
		{"a linked folder", with("l", &fstest.MapFile{Data: []byte("deep"), Mode: fs.ModeSymlink}), "l: it is a link"},
		{"a pipe", with("p.md", &fstest.MapFile{Mode: fs.ModeNamedPipe}), "p.md: it is not a regular file"},
		{"a picture", with("p.png", raw("x")), "p.png: it is neither a document"},
		{"a document among the tests", with("tests/d.md", page("d")), "tests/d.md: it is neither a document"},
		{"a test too deep", with("tests/deep/d.json", caseFile("d", "What?", "a")), "tests/deep/d.json: it is neither"},
		{"an empty document", with("e.md", raw("")), "e.md: the file is empty"},
		{"too long", with("e.md", raw(strings.Repeat("a", MaxDocument+1))), "e.md: it has more than 262144 bytes"},
		{"much too long", with("e.md", raw(strings.Repeat("a", 2*MaxDocument))), "e.md: it has more than 262144 bytes"},
		{"not UTF-8", with("e.md", raw("---\n\xff")), "e.md:2: it is not UTF-8"},
		{"front matter", with("e.md", page("e", "titel: x")), `e.md:4: unknown key "titel"`},
		{"an id twice", with("e.md", page("a")), "e.md:2: its id a is that of a.md"},
		{"supersedes itself", with("e.md", page("e", "supersedes: [e]")), "e.md:4: supersedes names the document itself"},
		{"supersedes what is not here", with("e.md", page("e", "supersedes: [nothing]")), "e.md:4: supersedes names nothing, which is not here"},
		{"is in conflict with what is not here", with("e.md", page("e", "conflicts: [nothing]")), "e.md:4: conflicts names nothing, which is not here"},
		{"in conflict with itself", with("e.md", page("e", "conflicts: [e]")), "e.md:4: conflicts names the document itself"},
		{"a circle", fstest.MapFS{"a.md": page("a", "supersedes: [b]"), "b.md": page("b", "supersedes: [c]"), "c.md": page("c", "supersedes: [a]")}, "a.md:4: it supersedes itself by way of a, b, c"},
		{"nothing at all", fstest.MapFS{}, "there are no documents"},
		{"tests alone", fstest.MapFS{"tests/c.json": caseFile("c", "What?", "a")}, "tests/c.json:1: expectRefs names a, which is not here"},
		{"a case that is not JSON", with("tests/d.json", raw("{")), "tests/d.json: it is not"},
		{"a case with another member", with("tests/d.json", raw(`{"id":"d","task":"x","expectRefs":["a"],"profile":"x"}`)), "unknown member"},
		{"a case of wrong type", with("tests/d.json", raw(`{"id":"d","task":5,"expectRefs":["a"]}`)), "wrong type"},
		{"a member twice", with("tests/d.json", raw(`{"id":"d","id":"e","task":"x","expectRefs":["a"]}`)), "a member stands twice"},
		{"a case without a task", with("tests/d.json", raw(`{"id":"d","expectRefs":["a"]}`)), "tests/d.json: its task is empty"},
		{"a case without an id", with("tests/d.json", raw(`{"task":"x","expectRefs":["a"]}`)), "tests/d.json: its id is not of"},
		{"a case that expects nothing", with("tests/d.json", raw(`{"id":"d","task":"x"}`)), "tests/d.json: expectRefs has 0 entries"},
		{"a case that expects much", with("tests/d.json", caseFile("d", "x", many...)), "tests/d.json:1: expectRefs has 21 entries"},
		{"a case that expects one twice", with("tests/d.json", caseFile("d", "x", "a", "a")), "tests/d.json:1: expectRefs[1] stands there twice"},
		{"a case that expects no id", with("tests/d.json", caseFile("d", "x", "a b")), "tests/d.json:1: expectRefs[0] is not an id"},
		{"a case that expects what is not here", with("tests/d.json", caseFile("d", "x", "nothing")), "tests/d.json:1: expectRefs names nothing"},
		{"a long task", with("tests/d.json", caseFile("d", strings.Repeat("é", MaxTask+1), "a")), "tests/d.json:1: its task has more than 4000 characters"},
		{"a case id twice", with("tests/d.json", caseFile("c", "x", "a")), "tests/d.json:1: its id c is that of tests/c.json"},
		{"the line of an entry", with("e.md", page("e", "supersedes:\n  - a\n  - nothing")), "e.md:6: supersedes names nothing"},
		{"the line of a member", with("tests/d.json", raw("{\n\"id\": \"d\",\n\"task\": \"\\\"expectRefs\\\": x\",\n\"expectRefs\": [\"nothing\"]\n}\n")), "tests/d.json:4: expectRefs names nothing"},
		{"the line of a wrong type", with("tests/d.json", raw("{\n\"id\": \"d\",\n\"task\": 5,\n\"expectRefs\": [\"a\"]\n}\n")), "tests/d.json:3: it is not"},
		{"a long case", with("tests/d.json", raw(strings.Repeat(" ", MaxCase+1))), "tests/d.json: it has more than 32768 bytes"},
	} {
		folder, faults, err := ReadFolder(c.fsys, nil)
		if err != nil || folder != nil {
			t.Errorf("%s: %+v, %v", c.name, folder, err)
		}
		report := fmt.Sprint(Error(faults))
		if !strings.Contains(report, c.want) || !strings.Contains(report, ";") {
			t.Errorf("%s: %s, want %s", c.name, report, c.want)
		}
		if c.name != "tests alone" && len(faults) != 1 {
			t.Errorf("%s: %d faults: %s", c.name, len(faults), report)
		}
	}
	if _, faults, err := ReadFolder(good, nil); err != nil || len(faults) > 0 { // the control
		t.Error(faults, err)
	}
	// A report names every file, and blames none for naming one that could not be read.
	fsys := with("broken.md", page("broken", "titel: x"))
	fsys["names.md"] = page("names", "supersedes: [broken]")
	fsys["twice.md"] = page("a")
	fsys["empty.md"] = raw("")
	_, faults, err := ReadFolder(fsys, nil)
	var files []string
	for _, f := range faults {
		files = append(files, f.File)
	}
	if want := []string{"broken.md", "empty.md", "twice.md"}; err != nil || !slices.Equal(files, want) {
		t.Errorf("%v, %v, want %v", faults, err, want)
	}
}

func TestFolderOfTheDisk(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.md"), page("a").Data, 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "secret.md")
	if err := os.WriteFile(outside, page("secret").Data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "link.md")); err != nil {
		t.Fatal(err)
	}
	folder, faults, err := ReadFolder(os.DirFS(root), nil)
	if err != nil || folder != nil || len(faults) != 1 || faults[0].File != "link.md" {
		t.Errorf("a link out of the folder: %+v, %v, %v", folder, faults, err)
	}
	if err := os.Remove(filepath.Join(root, "link.md")); err != nil {
		t.Fatal(err)
	}
	if folder, faults, err = ReadFolder(os.DirFS(root), nil); err != nil || len(faults) > 0 || len(folder.Documents) != 1 {
		t.Errorf("%+v, %v, %v", folder, faults, err)
	}
	if _, _, err = ReadFolder(os.DirFS(filepath.Join(root, "nothing")), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestTooManyDocuments(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{}
	file := page("a")
	for i := range MaxDocuments + 1 {
		fsys[fmt.Sprintf("%05d.md", i)] = file
	}
	read := 0
	folder, faults, err := ReadFolder(fsys, func(int, int) { read++ })
	if folder != nil || err != nil || len(faults) != 1 || !strings.Contains(faults[0].Text, "more than 20000 documents") || read > 0 {
		t.Errorf("%v, %v, %d read", faults, err, read)
	}
	docs := make([]*Document, MaxDocuments+1)
	for i := range docs {
		docs[i] = &Document{Ref: fmt.Sprintf("d%d", i), Bytes: MaxDocument}
	}
	cases := make([]Case, MaxCases+1)
	for i := range cases {
		cases[i] = Case{ID: fmt.Sprintf("c%d", i), Task: "x", ExpectRefs: []string{"d1"}}
	}
	report := fmt.Sprint(Error(Check(docs, cases)))
	for _, want := range []string{"20001 documents", "2001 test cases", "at most 536870912"} {
		if !strings.Contains(report, want) {
			t.Errorf("%s: no %s", report, want)
		}
	}
}

// A chain as long as a Build is no circle and needs no stack.
func TestLongChainOfSupersedes(t *testing.T) {
	t.Parallel()
	docs := make([]*Document, MaxDocuments)
	for i := range docs {
		docs[i] = &Document{Ref: fmt.Sprintf("d%d", i), Bytes: 1}
		if i > 0 {
			docs[i].Supersedes = []string{docs[i-1].Ref}
		}
	}
	slices.Reverse(docs)
	if faults := Check(docs, nil); len(faults) > 0 {
		t.Errorf("%d faults: %v", len(faults), faults[0])
	}
	docs[len(docs)-1].Supersedes = []string{docs[0].Ref}
	if faults := Check(docs, nil); len(faults) != 1 || !strings.Contains(faults[0].Text, "supersedes itself by way of d19999, d19998, d19997, d19996, d19995 and 19995 more;") {
		t.Errorf("%d faults: %.100v", len(faults), faults)
	}
}

func TestAnErrorIsShort(t *testing.T) {
	t.Parallel()
	docs := make([]*Document, 100)
	for i := range docs { // each supersedes every other: circles without number
		docs[i] = &Document{Ref: fmt.Sprintf("d%d", i), Bytes: 1}
		for j := range docs {
			if i != j {
				docs[i].Supersedes = append(docs[i].Supersedes, fmt.Sprintf("d%d", j))
			}
		}
		docs[i].Conflicts = []string{"nothing"}
	}
	faults := Check(docs, nil)
	text := fmt.Sprint(Error(faults))
	if len(faults) != 100+maxCircles || !strings.HasSuffix(text, "and 100 more") || strings.Count(text, "\n") != 20 {
		t.Errorf("%d faults: %s", len(faults), text)
	}
}
