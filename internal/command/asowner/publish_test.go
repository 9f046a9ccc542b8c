package asowner

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/internal/canon"
	"countersign/internal/channel/edge"
	"countersign/internal/command"
)

// shelf is a server's end of publishing: what it has stored, and what was sent.
type shelf struct {
	t        *testing.T
	stored   map[string]int // how often each document has arrived
	requests int            // of documents
	cut      int            // the request of documents that is answered by nothing; 0: none
	asked    int            // hashes
	built    map[string]any
}

// shelf answers what publishing to the project asks.
func (h *house) shelf(of projectPath) *shelf {
	s := &shelf{t: h.t, stored: map[string]int{}}
	path := "POST /api/projects/" + of.id()
	read := func(r *http.Request, most int, v any) {
		raw, err := io.ReadAll(r.Body)
		if err != nil || len(raw) > most || json.Unmarshal(raw, v) != nil {
			s.t.Errorf("%s: %d bytes of at most %d, %v", r.URL.Path, len(raw), most, err)
		}
	}
	h.answers[path+"/documents/missing"] = func(w http.ResponseWriter, r *http.Request) {
		var body struct{ SHA256 []string }
		read(r, edge.MaxBody, &body)
		s.asked += len(body.SHA256)
		missing := []string{}
		for _, hash := range body.SHA256 {
			if s.stored[hash] == 0 {
				missing = append(missing, hash)
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"missing": missing})
	}
	h.answers[path+"/documents"] = func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Documents []struct{ SHA256, Text string }
		}
		read(r, edge.LargestBody, &body)
		if s.requests++; s.requests == s.cut {
			panic(http.ErrAbortHandler)
		}
		if len(body.Documents) == 0 || len(body.Documents) > 1000 {
			s.t.Errorf("%d documents at once", len(body.Documents))
		}
		for _, d := range body.Documents {
			if canon.Hash([]byte(d.Text)) != d.SHA256 {
				s.t.Errorf("a text and another's hash")
			}
			s.stored[d.SHA256]++
		}
		io.WriteString(w, `{"stored":[]}`)
	}
	h.answers[path+"/builds"] = func(w http.ResponseWriter, r *http.Request) {
		read(r, edge.LargestBody, &s.built)
		raw, err := json.Marshal(s.built["manifest"])
		if err != nil {
			s.t.Error(err)
		}
		digest, err := canonical(raw)
		if err != nil {
			s.t.Error(err)
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"environment":"production","number":1,"digest":%q,"documents":3,"changes":{"added":3,"changed":0,"removed":0}}`, digest)
	}
	return s
}

// canonical is the SHA-256 of JSON in its canonical form.
func canonical(raw []byte) (string, error) {
	var v any
	if err := canon.Unmarshal(raw, &v); err != nil {
		return "", err
	}
	b, err := canon.Marshal(v)
	return canon.Hash(b), err
}

// folder writes many small documents and some of nearly the largest size.
func folder(t *testing.T, small, large int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range small + large {
		text := fmt.Sprintf("---\nid: doc-%05d\ntitle: Document %d\n---\nText \"%d\".\n", i, i, i)
		if i >= small {
			text += strings.Repeat("A line of \"text\".\n", 13_000)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.md", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An upload that was interrupted goes on where it was: each document arrives once, in
// requests that a server takes. Published again, nothing is sent but the questions.
func TestInterruptedUpload(t *testing.T) {
	h := newHouse(t)
	h.flags.JSON = false
	of := projectPath{"acme", "support"}
	s := h.shelf(of)
	const small, large = 1010, 16
	publish := func(dir string) func(command.Streams) error {
		return func(streams command.Streams) error {
			return (&publishCommand{Folder: dir, Env: "production", inProject: inProject{of, h.flags}}).Run(t.Context(), streams)
		}
	}
	dir := folder(t, small, large)
	s.cut = 2
	if text := h.ends(command.NotReady, publish(dir)); !strings.Contains(text, "did not all arrive, give the same command again") || s.built != nil {
		t.Errorf("%s, built %v", text, s.built)
	}
	before := len(s.stored)
	if before == 0 || before >= small+large {
		t.Fatalf("%d documents have arrived", before)
	}
	h.ends(command.Done, publish(dir))
	if len(s.stored) != small+large || s.asked != 2*(small+large) {
		t.Errorf("%d documents stored, %d asked about", len(s.stored), s.asked)
	}
	for hash, n := range s.stored {
		if n != 1 {
			t.Errorf("%s arrived %d times", hash, n)
		}
	}
	requests := s.requests
	if out := h.out.String(); !strings.HasPrefix(out, "production Build 1: published\n  digest   ") || !strings.HasSuffix(out, "  changes  3 added, 0 changed, 0 removed\n") {
		t.Errorf("printed %q", out)
	}
	h.ends(command.Done, publish(dir))
	if s.requests != requests || s.built["environment"] != "production" {
		t.Errorf("%d requests of documents, before %d", s.requests, requests)
	}
	// A server that lost the answer, one that published something else, and one that refuses.
	dir = folder(t, 2, 0)
	route := "POST /api/projects/" + of.id() + "/builds"
	h.answers[route] = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	if text := h.ends(command.NotReady, publish(dir)); !strings.Contains(text, "it is unknown whether that was done, give the same command again") {
		t.Error(text)
	}
	h.answers[route] = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"environment":"production","number":2,"digest":%q}`, strings.Repeat("0", 64))
	}
	if text := h.ends(command.NotReady, publish(dir)); !strings.Contains(text, "published another digest") || h.out.Len() > 0 {
		t.Error(text)
	}
	h.answers[route] = problem(400, `{"reasonCode":"INVALID_REQUEST","errors":[{"location":"body.manifest","message":"is bad"}]}`)
	if text := h.ends(command.WrongUsage, publish(dir)); !strings.Contains(text, "body.manifest: is bad") {
		t.Error(text)
	}
}

// ear hears a text, once.
type ear struct {
	text  string
	once  sync.Once
	heard chan struct{}
}

func (e *ear) Write(b []byte) (int, error) {
	if strings.Contains(string(b), e.text) {
		e.once.Do(func() { close(e.heard) })
	}
	return len(b), nil
}

// What takes long says how far it is, on stderr alone, not before its time, and with --json
// not at all. It does not count what nobody waits for.
func TestProgress(t *testing.T) {
	h := newHouse(t)
	of := projectPath{"acme", "support"}
	dir := folder(t, 3, 9)
	for name, c := range map[string]struct {
		every time.Duration
		json  bool
		want  []string
	}{
		"every time": {1, false, []string{"Read 1 of 12 files.", "Read 12 of 12 files.", "Stored 10 of 12 documents."}},
		"in time":    {time.Hour, false, nil},
		"json":       {1, true, nil},
	} {
		h.shelf(of)
		h.flags.JSON = c.json
		heard := &ear{text: "The documents are there; the server makes the Build: 0s.", heard: make(chan struct{})}
		route := "POST /api/projects/" + of.id() + "/builds"
		publish := h.answers[route]
		h.answers[route] = func(w http.ResponseWriter, r *http.Request) {
			if len(c.want) > 0 {
				select { // it is told while it goes on
				case <-heard.heard:
				case <-r.Context().Done():
				}
			}
			publish(w, r)
		}
		text := h.ends(command.Done, func(streams command.Streams) error {
			streams.Err = io.MultiWriter(streams.Err, heard)
			return (&publishCommand{Folder: dir, Env: "production", inProject: inProject{of, h.flags}, every: c.every}).Run(t.Context(), streams)
		})
		for _, line := range c.want {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("%s: %q lacks %q", name, text, line)
			}
		}
		if len(c.want) == 0 && text != "" || strings.Contains(h.out.String(), " of ") {
			t.Errorf("%s: %q, %q", name, text, &h.out)
		}
	}
}

// A token goes to stdout alone, and an answer without one is no success.
func TestTokenAlone(t *testing.T) {
	h := newHouse(t)
	of := projectPath{"acme", "support"}
	route := "POST /api/projects/" + of.id() + "/mcp/clients"
	const token = "seif_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	create := func(s command.Streams) error {
		return (&clientCreate{Name: "n", Kind: "custom", Profile: "p", Env: "staging", Turns: "required", inProject: inProject{of, h.flags}}).Run(t.Context(), s)
	}
	h.answers[strings.Replace(route, "POST", "GET", 1)] = func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"clients":[],"nextCursor":null}`)
	}
	answer := func(body string) {
		h.answers[route] = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, body)
		}
	}
	answer(`{"client":{"id":"cli_1"},"token":"` + token + `"}`)
	if text := h.ends(command.Done, create); h.out.String() != token+"\n" || strings.Contains(text, token) || !strings.Contains(text, "/acme/support/staging: SEIF_BASE_URL") {
		t.Errorf("%q, %q", &h.out, text)
	}
	for _, body := range []string{`{}`, `{"client":{"id":"x"}}`, `{"token":"a\u001b[2J"}`, `[]`} {
		answer(body)
		if h.ends(command.NotReady, create); h.out.Len() > 0 {
			t.Errorf("%s: printed %q", body, &h.out)
		}
	}
	delete(h.answers, route)
	h.answers[route] = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	if text := h.ends(command.NotReady, create); !strings.Contains(text, "it is unknown whether that was done, look at `countersign client list`") {
		t.Error(text)
	}
}
