package audit_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"countersign/evidence"
)

var updateVectors = flag.Bool("update", false, "write the vectors of the test anew")

// TestContextVectors holds vectors/context against the machines of the context
// perimeter: the files are the ones that are made here, and of each kind of chain there
// is a lawful one and some that are not. That each comes to what the index says is for
// the test of its kind.
func TestContextVectors(t *testing.T) {
	d := newDesk(t)
	d.publishes("context", "Exports of the chains of the context perimeter, perfectly hashed and signed. Those with a rule are unlawful: the event at sequence breaks that rule, and nothing else is wrong. The key is a published test key; trust it for nothing.",
		slices.Concat(d.turns(), d.interactions(), d.receipts(), d.projects(), d.clients(), d.gaps()), "contextturn", "interaction", "bridge", "project", "contextclient", "gap")
}

// publishes holds a folder of vectors against the chains: the files are these, with an
// index, and of each kind there is a lawful one and three that are not.
func (d desk) publishes(name, about string, chains []told, kinds ...string) {
	t := d.t
	t.Helper()
	folder := filepath.Join("..", "..", "vectors", name)
	type vector struct {
		File     string `json:"file"`
		Kind     string `json:"kind"`
		Rule     string `json:"rule,omitempty"`     // empty: the chain is lawful
		Sequence int64  `json:"sequence,omitempty"` // of the event that breaks the rule
		Status   string `json:"status,omitempty"`   // of a lawful one
	}
	files, lawful, unlawful := map[string][]byte{}, map[string]int{}, map[string]int{}
	var index []vector
	for _, c := range chains {
		r := d.verify(c.raw)
		v := vector{File: c.name + ".json", Kind: r.Subject.Kind, Rule: c.rule, Status: c.status}
		if c.rule == "" {
			lawful[v.Kind]++
		} else {
			unlawful[v.Kind]++
			v.Sequence = r.Lawfulness.Unlawful[0].Sequence
		}
		if files[v.File] != nil {
			t.Errorf("%s is there twice", v.File)
		}
		files[v.File], index = c.raw, append(index, v)
	}
	for _, kind := range kinds {
		if lawful[kind] < 1 || unlawful[kind] < 3 {
			t.Errorf("%s: %d lawful and %d unlawful chains", kind, lawful[kind], unlawful[kind])
		}
	}
	encoded, err := json.MarshalIndent(map[string]any{"about": about, "cases": index}, "", " ")
	must(t, err)
	files["index.json"] = append(encoded, '\n')
	files["evidence.pub"] = evidence.Keys{{Public: d.key.Public()}}.Format()
	if *updateVectors {
		must(t, os.RemoveAll(folder))
		must(t, os.MkdirAll(folder, 0o755))
		for name, content := range files {
			must(t, os.WriteFile(filepath.Join(folder, name), content, 0o644))
		}
	}
	var present []string
	for _, entry := range got(os.ReadDir(folder))(t) {
		present = append(present, entry.Name())
	}
	if want := slices.Sorted(maps.Keys(files)); !slices.Equal(present, want) {
		t.Errorf("the folder holds %v, want %v", present, want)
	}
	for name, want := range files {
		if content, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !bytes.Equal(content, want) {
			t.Errorf("%s is not what is made here (%v); go test -run %s -update . writes it anew", name, err, t.Name())
		}
	}
}
