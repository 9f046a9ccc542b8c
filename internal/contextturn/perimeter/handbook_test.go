package perimeter_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/turn"
)

// The handbook of more than 200 documents, published on either engine, is answered from
// alike, byte for byte: each case as a task and as a test, each title as a query.
func TestEnginesAnswerAlike(t *testing.T) {
	folder, faults, err := content.ReadFolder(os.DirFS("../tools/testdata/handbook"), nil)
	if err != nil || len(faults) > 0 {
		t.Fatal(faults, err)
	}
	if len(folder.Documents) < 200 || len(folder.Cases) < 10 {
		t.Fatalf("%d documents, %d cases", len(folder.Documents), len(folder.Cases))
	}
	answers := map[string][]string{}
	onEach(t, func(t *testing.T, h *house) {
		files := make([]string, len(folder.Documents))
		for i, d := range folder.Documents {
			files[i] = d.Raw
		}
		_, err := h.PutDocuments(t.Context(), h.project, files)
		must(t, err)
		_, err = h.Publish(t.Context(), h.project, project.Production, false, folder.Manifest, session)
		must(t, err)
		by, _ := h.client(project.Absent)
		ask := func(r tools.Request) {
			t.Helper()
			a, err := h.Call(t.Context(), by, "", r)
			must(t, err)
			raw, err := json.Marshal(a.Result)
			must(t, err)
			answers[t.Name()] = append(answers[t.Name()], string(raw))
		}
		for _, c := range folder.Cases {
			ask(tools.Request{Tool: turn.Compass, Task: &c.Task})
			ask(tools.Request{Tool: turn.Test, CaseID: &c.ID})
		}
		for _, d := range folder.Documents[:50] {
			ask(tools.Request{Tool: turn.Find, Query: &d.Title})
		}
	})
	engines := slices.Collect(maps.Values(answers))
	if len(engines) != 2 || !slices.Equal(engines[0], engines[1]) {
		t.Errorf("%d engines, and their answers differ", len(engines))
	}
}
