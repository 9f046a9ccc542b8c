package content

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"countersign/internal/canon"
)

// Folder is what a folder of documents and tests holds.
type Folder struct {
	Documents []*Document // in the order of their refs
	Cases     []Case      // in the order of their ids
	Manifest  Manifest
	Skipped   []string // hidden files and folders, which are never published
}

// ReadFolder reads every document and test case below the root of fsys. Documents
// are the files *.md, at any depth; cases are the files tests/*.json; hidden files
// and folders are skipped and named. Any other file, a link or a device is a fault:
// nothing is left out in silence. So is what becomes a link while the folder is read. That
// no link leads out of the folder is for fsys to ensure, see [os.Root].
//
// With faults the Folder is nil, except for an error of the file system there is
// then no error. progress, if not nil, is called after each file with how many of
// how many are read.
func ReadFolder(fsys fs.FS, progress func(done, total int)) (*Folder, []Fault, error) {
	folder := &Folder{}
	files, faults, err := folder.list(fsys)
	if err != nil {
		return nil, nil, fmt.Errorf("content: %w", err)
	}
	for i, file := range files {
		limit := MaxDocument
		if isCase(file) {
			limit = MaxCase
		}
		raw, fault, err := readFile(fsys, file, limit)
		switch {
		case fault != nil:
			faults = append(faults, in(file, []Fault{*fault})...)
		case err != nil:
			return nil, nil, fmt.Errorf("content: %w", err)
		default:
			faults = append(faults, in(file, folder.take(file, raw))...)
		}
		if progress != nil {
			progress(i+1, len(files))
		}
	}
	faults = append(faults, check(folder.Documents, folder.Cases, len(faults) == 0)...)
	if len(faults) > 0 {
		slices.SortStableFunc(faults, func(a, b Fault) int { return strings.Compare(a.File, b.File) })
		return nil, faults, nil
	}
	slices.SortFunc(folder.Documents, func(a, b *Document) int { return strings.Compare(a.Ref, b.Ref) })
	slices.SortFunc(folder.Cases, func(a, b Case) int { return strings.Compare(a.ID, b.ID) })
	folder.Manifest = NewManifest(folder.Documents, folder.Cases)
	if _, _, err := folder.Manifest.Encode(); err != nil {
		return nil, []Fault{{Text: fmt.Sprintf("%v; shorten ids, titles and tasks of cases, or make two projects", err)}}, nil
	}
	return folder, nil, nil
}

// list finds what is to be read, and what cannot be.
func (f *Folder) list(fsys fs.FS) (files []string, faults []Fault, err error) {
	documents := 0
	err = fs.WalkDir(fsys, ".", func(file string, entry fs.DirEntry, err error) error {
		hidden := file != "." && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			return err
		case hidden:
			f.Skipped = append(f.Skipped, file)
			if entry.IsDir() {
				return fs.SkipDir
			}
		case entry.IsDir():
		case irregular(entry.Type()) != nil:
			faults = append(faults, in(file, []Fault{*irregular(entry.Type())})...)
		case isCase(file):
			files = append(files, file)
		case path.Ext(file) == ".md" && !strings.HasPrefix(file, "tests/"):
			if documents++; documents > MaxDocuments {
				faults = []Fault{{Text: fmt.Sprintf("there are more than %d documents; make two projects", MaxDocuments)}}
				files = nil
				return fs.SkipAll
			}
			files = append(files, file)
		default:
			faults = append(faults, Fault{File: file, Text: "it is neither a document (*.md) nor a test case (tests/*.json); move it out of the folder"})
		}
		return nil
	})
	return files, faults, err
}

func isCase(file string) bool {
	return path.Dir(file) == "tests" && path.Ext(file) == ".json"
}

// irregular says why a file of the type is not read, or nothing.
func irregular(t fs.FileMode) *Fault {
	switch {
	case t&fs.ModeSymlink != 0:
		return &Fault{Text: "it is a link; put the file itself here"}
	case !t.IsRegular():
		return &Fault{Text: "it is not a regular file; remove it"}
	}
	return nil
}

// readFile reads one byte more than limit at most, so that a file that grows is
// bounded like any other. What was opened has to be what stands there: a file may have
// become a link since the folder was listed.
func readFile(fsys fs.FS, file string, limit int) ([]byte, *Fault, error) {
	f, err := fsys.Open(file)
	if err == nil {
		defer f.Close()
	}
	there, lost := fs.Lstat(fsys, file)
	if lost == nil {
		if fault := irregular(there.Mode()); fault != nil {
			return nil, fault, nil
		}
	}
	if err := errors.Join(err, lost); err != nil {
		return nil, nil, err
	}
	opened, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if _, real := f.(*os.File); real && !os.SameFile(opened, there) {
		return nil, &Fault{Text: "another file has taken its place while the folder was read; give the command again"}, nil
	}
	raw, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	return raw, nil, err
}

// memberName finds the members of a case. In the text of a value a quote is escaped, so
// that none is found there.
var memberName = regexp.MustCompile(`"([A-Za-z]+)"[ \t\r\n]*:`)

// memberLines are the lines on which the members of a case stand.
func memberLines(raw []byte) map[string]int {
	lines := map[string]int{}
	for _, at := range memberName.FindAllSubmatchIndex(raw, 20) {
		lines[string(raw[at[2]:at[3]])] = 1 + bytes.Count(raw[:at[0]], []byte("\n"))
	}
	return lines
}

// take adds one file and returns its faults.
func (f *Folder) take(file string, raw []byte) []Fault {
	if !isCase(file) {
		d, faults := ParseDocument(raw)
		if len(faults) > 0 {
			return faults
		}
		d.File = file
		f.Documents = append(f.Documents, d)
		return nil
	}
	if fault := unreadable(raw, MaxCase); fault != nil {
		return []Fault{*fault}
	}
	c := Case{File: file, lines: memberLines(raw)}
	if err := canon.Unmarshal(raw, &c); err != nil {
		line := 0
		if s, ok := errors.AsType[*canon.SyntaxError](err); ok {
			member, _, _ := strings.Cut(strings.TrimPrefix(s.Pointer, "/"), "/")
			line = c.lines[member]
		}
		return []Fault{{Line: line, Text: fmt.Sprintf("it is not {\"id\", \"task\", \"expectRefs\"} in JSON (%s); correct it", strings.TrimPrefix(err.Error(), "canon: "))}}
	}
	if member, text := c.wrong(); text != "" {
		return []Fault{{Line: c.lines[member], Text: text}}
	}
	f.Cases = append(f.Cases, c)
	return nil
}
