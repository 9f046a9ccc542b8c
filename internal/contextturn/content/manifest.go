package content

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"countersign/internal/canon"
)

// Format names the form of a manifest.
const Format = "countersign-build/1"

// MaxManifest bounds an encoded manifest, in bytes: with what is around it, it is one
// request.
const MaxManifest = 8<<20 - 64<<10

// Entry names one document of a Build.
type Entry struct {
	Ref    string `json:"ref"`
	Title  string `json:"title"`
	SHA256 string `json:"sha256"` // of the document's bytes, in lower-case hex
	Bytes  int    `json:"bytes"`
}

// Case is one test of a Build.
type Case struct {
	ID         string   `json:"id"`
	Task       string   `json:"task"`
	ExpectRefs []string `json:"expectRefs"`
	File       string   `json:"-"` // where a folder has it; "" elsewhere

	lines map[string]int // of its members, in a folder
}

// Manifest is a Build: which documents, by hash, and which cases. Documents are in
// the order of their refs, cases in that of their ids.
type Manifest struct {
	Format    string  `json:"format"`
	Documents []Entry `json:"documents"`
	Cases     []Case  `json:"cases"`
}

// NewManifest makes the manifest of documents and cases, whatever their order.
func NewManifest(docs []*Document, cases []Case) Manifest {
	m := Manifest{Format: Format, Documents: make([]Entry, len(docs)), Cases: slices.Clone(cases)}
	for i, d := range docs {
		m.Documents[i] = d.Entry()
	}
	slices.SortFunc(m.Documents, func(a, b Entry) int { return strings.Compare(a.Ref, b.Ref) })
	slices.SortFunc(m.Cases, func(a, b Case) int { return strings.Compare(a.ID, b.ID) })
	return m
}

// ErrManifest is wrapped by every error about a manifest.
var ErrManifest = errors.New("content: not a manifest")

// Encode returns the canonical form of m and its SHA-256 in lower-case hex, which
// is the digest of the Build. A manifest that [DecodeManifest] would refuse is an
// error.
func (m Manifest) Encode() (raw []byte, digest string, err error) {
	if err := m.check(); err != nil {
		return nil, "", err
	}
	raw, err = canon.Marshal(m)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if len(raw) > MaxManifest {
		return nil, "", fmt.Errorf("%w: more than %d bytes", ErrManifest, MaxManifest)
	}
	return raw, canon.Hash(raw), nil
}

// DecodeManifest reads the canonical form of a manifest and nothing else.
func DecodeManifest(raw []byte) (Manifest, error) {
	var m Manifest
	if len(raw) > MaxManifest {
		return m, fmt.Errorf("%w: more than %d bytes", ErrManifest, MaxManifest)
	}
	if !canon.Exactly(raw, &m) {
		return Manifest{}, fmt.Errorf("%w: not its canonical form", ErrManifest)
	}
	return m, m.check()
}

// Bytes is the size of all documents together.
func (m Manifest) Bytes() int64 {
	var sum int64
	for _, e := range m.Documents {
		sum += int64(e.Bytes)
	}
	return sum
}

// Find returns the entry of a ref.
func (m Manifest) Find(ref string) (Entry, bool) {
	i, found := slices.BinarySearchFunc(m.Documents, ref, func(e Entry, ref string) int { return cmp.Compare(e.Ref, ref) })
	if !found {
		return Entry{}, false
	}
	return m.Documents[i], true
}

func (m Manifest) check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrManifest}, args...)...)
	}
	switch {
	case m.Format != Format:
		return wrong("its format is not %s", Format)
	case len(m.Documents) == 0:
		return wrong("it has no documents")
	case len(m.Documents) > MaxDocuments:
		return wrong("%d documents, at most %d are allowed", len(m.Documents), MaxDocuments)
	case len(m.Cases) > MaxCases:
		return wrong("%d cases, at most %d are allowed", len(m.Cases), MaxCases)
	}
	for i, e := range m.Documents {
		switch {
		case !IsRef(e.Ref):
			return wrong("documents[%d] has no proper ref", i)
		case i > 0 && m.Documents[i-1].Ref >= e.Ref:
			return wrong("documents[%d] is not behind the one before it by ref", i)
		case !utf8.ValidString(e.Title) || badLine(e.Title, MaxTitle) != "":
			return wrong("documents[%d] has no proper title", i)
		case !canon.IsHash(e.SHA256):
			return wrong("documents[%d] has no proper sha256", i)
		case e.Bytes < 1 || e.Bytes > MaxDocument:
			return wrong("documents[%d] has %d bytes, 1 to %d are allowed", i, e.Bytes, MaxDocument)
		}
	}
	if total := m.Bytes(); total > MaxBuild {
		return wrong("%d bytes of documents, at most %d are allowed", total, MaxBuild)
	}
	for i, c := range m.Cases {
		if i > 0 && m.Cases[i-1].ID >= c.ID {
			return wrong("cases[%d] is not behind the one before it by id", i)
		}
		if _, text := c.wrong(); text != "" {
			return wrong("cases[%d]: %s", i, text)
		}
		for _, ref := range c.ExpectRefs {
			if _, known := m.Find(ref); !known {
				return wrong("cases[%d] expects a ref that is not among the documents", i)
			}
		}
	}
	return nil
}

// wrong says what is wrong with a case by itself, and in which member.
func (c Case) wrong() (member, text string) {
	switch {
	case !IsRef(c.ID):
		return "id", "its id is not of A-Z a-z 0-9 . _ : / - with a letter or a digit first; change it"
	case !utf8.ValidString(c.Task) || strings.ContainsRune(c.Task, 0):
		return "task", "its task is not UTF-8 without U+0000; correct it"
	case strings.TrimSpace(c.Task) == "":
		return "task", "its task is empty; write what is asked"
	case utf8.RuneCountInString(c.Task) > MaxTask:
		return "task", fmt.Sprintf("its task has more than %d characters; shorten it", MaxTask)
	case len(c.ExpectRefs) == 0 || len(c.ExpectRefs) > MaxExpected:
		return "expectRefs", fmt.Sprintf("expectRefs has %d entries, 1 to %d are allowed; name what must be found", len(c.ExpectRefs), MaxExpected)
	}
	for i, ref := range c.ExpectRefs {
		if !IsRef(ref) {
			return "expectRefs", fmt.Sprintf("expectRefs[%d] is not an id; correct it", i)
		}
		if slices.Contains(c.ExpectRefs[:i], ref) {
			return "expectRefs", fmt.Sprintf("expectRefs[%d] stands there twice; keep one", i)
		}
	}
	return "", ""
}
