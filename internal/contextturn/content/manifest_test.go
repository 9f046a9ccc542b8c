package content

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func manifest() Manifest {
	return NewManifest([]*Document{
		{Ref: "b", Title: "Über \"b\"", SHA256: sum("b"), Bytes: 1},
		{Ref: "a", Title: "A", SHA256: sum("a"), Bytes: MaxDocument},
	}, []Case{{ID: "z", Task: "last?", ExpectRefs: []string{"b", "a"}, File: "tests/z.json"}, {ID: "c", Task: "first?", ExpectRefs: []string{"a"}}})
}

// The digest names the Build for all time, so its bytes are written out here.
func TestManifestIsCanonical(t *testing.T) {
	t.Parallel()
	m := manifest()
	want := `{"cases":[{"expectRefs":["a"],"id":"c","task":"first?"},{"expectRefs":["b","a"],"id":"z","task":"last?"}],` +
		`"documents":[{"bytes":262144,"ref":"a","sha256":"` + sum("a") + `","title":"A"},` +
		`{"bytes":1,"ref":"b","sha256":"` + sum("b") + `","title":"Über \"b\""}],"format":"countersign-build/1"}`
	raw, digest, err := m.Encode()
	if err != nil || string(raw) != want || digest != sum(want) {
		t.Fatalf("%s\nwant\n%s\n%s, %v", raw, want, digest, err)
	}
	again, err := DecodeManifest(raw)
	m.Cases[1].File = ""
	if err != nil || !reflect.DeepEqual(again, m) || again.Bytes() != MaxDocument+1 {
		t.Errorf("%+v, %v", again, err)
	}
	if e, ok := again.Find("b"); !ok || e.SHA256 != sum("b") {
		t.Errorf("%+v %v", e, ok)
	}
	if _, ok := again.Find("aa"); ok {
		t.Error("there is no aa")
	}
	for name, raw := range map[string]string{
		"a blank": want + " ", "another order": strings.Replace(want, `"bytes":1,"ref":"b"`, `"ref":"b","bytes":1`, 1), "an unknown member": strings.Replace(want, `"format"`, `"extra":1,"format"`, 1),
		"no cases": strings.Replace(want, `"cases":[{"expectRefs":["a"],"id":"c","task":"first?"},{"expectRefs":["b","a"],"id":"z","task":"last?"}],`, "", 1),
		"nothing":  "", "null": "null", "another format": strings.Replace(want, "build/1", "build/2", 1), "too long": strings.Repeat(" ", MaxManifest+1),
	} {
		if _, err := DecodeManifest([]byte(raw)); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if raw, _, err := NewManifest(manifestDocuments(1), nil).Encode(); err != nil || !strings.HasPrefix(string(raw), `{"cases":[],`) {
		t.Errorf("without cases: %s, %v", raw, err)
	}
}

func manifestDocuments(n int) []*Document {
	docs := make([]*Document, n)
	for i := range docs {
		docs[i] = &Document{Ref: sum(string(rune('a'+i%26)) + strings.Repeat("x", i/26)), Title: "T", SHA256: sum("x"), Bytes: 1}
	}
	return docs
}

func TestManifestBounds(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(m *Manifest){
		"format":           func(m *Manifest) { m.Format = "" },
		"no documents":     func(m *Manifest) { m.Documents, m.Cases = nil, nil },
		"order":            func(m *Manifest) { slices.Reverse(m.Documents) },
		"a ref twice":      func(m *Manifest) { m.Documents[1].Ref = "a"; m.Cases = nil },
		"a ref":            func(m *Manifest) { m.Documents[1].Ref = "b b"; m.Cases = nil },
		"no title":         func(m *Manifest) { m.Documents[0].Title = "" },
		"a long title":     func(m *Manifest) { m.Documents[0].Title = strings.Repeat("a", MaxTitle+1) },
		"a title of two":   func(m *Manifest) { m.Documents[0].Title = "a\nb" },
		"not UTF-8":        func(m *Manifest) { m.Documents[0].Title = "\xff" },
		"a hash":           func(m *Manifest) { m.Documents[0].SHA256 = strings.ToUpper(sum("a")) },
		"no bytes":         func(m *Manifest) { m.Documents[0].Bytes = 0 },
		"many bytes":       func(m *Manifest) { m.Documents[0].Bytes = MaxDocument + 1 },
		"order of cases":   func(m *Manifest) { slices.Reverse(m.Cases) },
		"a case twice":     func(m *Manifest) { m.Cases[1].ID = "c" },
		"a case's id":      func(m *Manifest) { m.Cases[1].ID = "" },
		"a case's task":    func(m *Manifest) { m.Cases[1].Task = " " },
		"U+0000":           func(m *Manifest) { m.Cases[1].Task = "a\x00" },
		"expects nothing":  func(m *Manifest) { m.Cases[1].ExpectRefs = nil },
		"expects unknown":  func(m *Manifest) { m.Cases[1].ExpectRefs = []string{"nothing"} },
		"too many":         func(m *Manifest) { *m = NewManifest(manifestDocuments(MaxDocuments+1), nil) },
		"too many cases":   func(m *Manifest) { m.Cases = make([]Case, MaxCases+1) },
		"too many of them": func(m *Manifest) { m.Documents = full(MaxBuild/MaxDocument + 1) },
	} {
		m := manifest()
		change(&m)
		if raw, digest, err := m.Encode(); !errors.Is(err, ErrManifest) || raw != nil || digest != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := manifest()
	m.Documents, m.Cases = full(MaxBuild/MaxDocument), nil // the control: just as much as is allowed
	if _, _, err := m.Encode(); err != nil {
		t.Error(err)
	}
}

func full(n int) []Entry {
	entries := NewManifest(manifestDocuments(n), nil).Documents
	for i := range entries {
		entries[i].Bytes = MaxDocument
	}
	return entries
}

// A folder whose manifest is longer than one request may be is a fault, not something that
// fails on its way.
func TestLongManifest(t *testing.T) {
	const documents = 20_000
	folder := fstest.MapFS{}
	for i := range documents {
		ref := fmt.Sprintf("%06d-%s", i, strings.Repeat("r", 150))
		file := fmt.Sprintf("---\nid: %s\ntitle: %s\n---\nText.\n", ref, strings.Repeat("t", 190))
		folder[fmt.Sprintf("%06d.md", i)] = &fstest.MapFile{Data: []byte(file)}
	}
	f, faults, err := ReadFolder(folder, nil)
	if err != nil || f != nil || len(faults) != 1 || !strings.Contains(faults[0].Text, "bytes") {
		t.Errorf("%v, %v", faults, err)
	}
}
