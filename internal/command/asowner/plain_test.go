package asowner

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/command"
)

// A server's words make no line of their own.
func TestServersWordsStayInTheirLine(t *testing.T) {
	h := newHouse(t)
	h.flags.JSON = false
	of := projectPath{"acme", "support"}
	const id = "01940e2e-7c00-7000-8000-000000000001"
	const forged = `x\n\u001b[2JThe workspace is safe.`
	body := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(body, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	one := oneRun{ID: id, signedIn: h.flags}
	project := "/api/projects/" + of.id()
	for route, c := range map[string]struct {
		status int
		answer string
		run    func(command.Streams) error
	}{
		"POST " + runs: {201, `{"runId":"` + forged + `"}`, func(s command.Streams) error {
			return (&createCommand{Body: body, signedIn: h.flags}).Run(t.Context(), s)
		}},
		"POST " + runs + "/" + id + "/revoke": {200, `{"runId":"` + id + `","status":"` + forged + `","outcome":"` + forged + `"}`, func(s command.Streams) error { return (&revokeCommand{one}).Run(t.Context(), s) }},
		"POST /api/projects": {201, `{"id":"` + forged + `"}`, func(s command.Streams) error {
			return (&projectCreate{theProject{Project: of, signedIn: h.flags}}).Run(t.Context(), s)
		}},
		"GET " + project + "/mcp/clients": {200, `{"clients":[{"id":"` + forged + `","name":"n","profile":"` + forged + `"}],"nextCursor":null}`, func(s command.Streams) error {
			h.answers["POST "+project+"/mcp/clients"] = func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusCreated)
				io.WriteString(w, `{"client":{"id":"`+forged+`"},"token":"seif_x"}`)
			}
			return (&clientCreate{Name: "n", Kind: "custom", Profile: "p", Env: "staging", Turns: "required", inProject: inProject{of, h.flags}}).Run(t.Context(), s)
		}},
	} {
		h.answers[route] = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			io.WriteString(w, c.answer)
		}
		text := h.ends(command.Done, c.run) + h.out.String()
		if !strings.Contains(text, "The workspace is safe.") || strings.Contains(text, "\x1b") || strings.Contains("\n"+text, "\nThe workspace is safe.") || strings.Contains(text, "\n[2J") {
			t.Errorf("%s: %q", route, text)
		}
	}
}
