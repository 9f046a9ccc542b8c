package asowner

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"countersign/internal/command"
)

// house is a server that answers as it is told, and the secret for it.
type house struct {
	t        *testing.T
	answers  map[string]http.HandlerFunc // by method and path
	requests []string
	secret   string
	flags    signedIn
	out, err bytes.Buffer
}

const (
	signIn  = "POST /api/v1/owner/session"
	signOut = "DELETE /api/v1/owner/session"
	runs    = "/api/v1/owner/runs"
	id      = "01940e2e-7c00-7000-8000-000000000001"
)

func newHouse(t *testing.T) *house {
	h := &house{t: t, secret: base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))}
	file := filepath.Join(t.TempDir(), "owner.secret")
	if err := os.WriteFile(file, []byte(h.secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.answers = map[string]http.HandlerFunc{
		signIn: func(w http.ResponseWriter, r *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "countersign_owner", Value: "session"})
			w.Write([]byte(`{}`))
		},
		signOut:              func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"GET " + runs:        func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(`{"runs":[],"nextCursor":null}`)) },
		"GET " + freezeRoute: func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, standing(false, 0)) },
		"POST " + runs:       func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, // no answer
	}
	var one sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one.Lock() // an answer that is broken off orders nothing
		defer one.Unlock()
		what := r.Method + " " + r.URL.Path
		h.requests = append(h.requests, what)
		if cookie, err := r.Cookie("countersign_owner"); what != signIn && (err != nil || cookie.Value != "session") {
			t.Errorf("%s without the session", what)
		}
		if answer := h.answers[what]; answer != nil {
			answer(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	h.flags = signedIn{Origin: server.URL, SecretFile: file}
	return h
}

// ends runs a command, which must end with the status.
func (h *house) ends(status int, run func(command.Streams) error) string {
	h.t.Helper()
	h.requests = nil
	h.out.Reset()
	h.err.Reset()
	err := run(command.Streams{Out: &h.out, Err: &h.err})
	if got := command.StatusOf(err); got != status {
		h.t.Errorf("status %d, want %d: %v", got, status, err)
	}
	text := h.err.String()
	if err != nil {
		text += err.Error()
	}
	if strings.Contains(text+h.out.String(), h.secret) {
		h.t.Error("the secret is shown")
	}
	return text
}

func problem(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
}

// A session is ended whether what it was for succeeded or not; one that could not be
// ended is told, and is no failure of what was done.
func TestSignsOut(t *testing.T) {
	h := newHouse(t)
	list := func(s command.Streams) error { return (&listCommand{Limit: 1, signedIn: h.flags}).Run(t.Context(), s) }
	h.ends(command.Done, list)
	want := []string{signIn, "GET " + freezeRoute, "GET " + runs, signOut}
	if !slices.Equal(h.requests, want) {
		t.Errorf("%q, want %q", h.requests, want)
	}
	h.answers[signOut] = problem(503, `{"reasonCode":"LEDGER_UNAVAILABLE","detail":"later"}`)
	if text := h.ends(command.Done, list); !strings.Contains(text, "the session was not ended") {
		t.Error(text)
	}
	h.answers["GET "+runs] = problem(409, `{"reasonCode":"FROZEN","detail":"x"}`)
	h.ends(command.NotHolding, list)
	if !slices.Equal(h.requests, want) {
		t.Errorf("after a refusal: %q", h.requests)
	}
}

// A run that may have been created is not called one that was not.
func TestCreateWithoutAnswer(t *testing.T) {
	h := newHouse(t)
	body := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(body, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	create := func(s command.Streams) error {
		return (&createCommand{Body: body, signedIn: h.flags}).Run(t.Context(), s)
	}
	if text := h.ends(command.NotReady, create); !strings.Contains(text, "unknown whether a run was created, look at `countersign run list`") {
		t.Error(text)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	h.answers["POST "+runs] = func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // only then the server notices that the client leaves
		interrupt()
		<-r.Context().Done()
	}
	if text := h.ends(command.NotHolding, func(s command.Streams) error {
		return (&createCommand{Body: body, signedIn: h.flags}).Run(ctx, s)
	}); !strings.Contains(text, "interrupted: it is unknown whether a run was created") || h.requests[len(h.requests)-1] != signOut {
		t.Errorf("%s, %q", text, h.requests)
	}
	h.answers["POST "+runs] = problem(400, `{"reasonCode":"INVALID_REQUEST","detail":"next","errors":[{"location":"body.mode","message":"bad\u001b[0m"}]}`)
	if text := h.ends(command.WrongUsage, create); strings.Contains(text, "unknown whether") || !strings.Contains(text, "400 INVALID_REQUEST: body.mode: bad[0m; next") {
		t.Errorf("%q", text)
	}
}

// The status of a refusal says whose move it is, whatever command met it.
func TestStatusOfRefusals(t *testing.T) {
	h := newHouse(t)
	show := func(s command.Streams) error {
		return (&showCommand{oneRun{ID: id, signedIn: h.flags}}).Run(t.Context(), s)
	}
	for status, want := range map[int]int{
		400: command.WrongUsage, 404: command.WrongUsage, 413: command.WrongUsage, 415: command.WrongUsage, 501: command.WrongUsage,
		403: command.NotHolding, 409: command.NotHolding,
		401: command.NotReady, 429: command.NotReady, 500: command.NotReady, 502: command.NotReady, 503: command.NotReady,
	} {
		h.answers["GET "+runs+"/"+id] = problem(status, `{"reasonCode":"SOMETHING","detail":"What happened."}`)
		if text := h.ends(want, show); !strings.Contains(text, "SOMETHING: What happened.") {
			t.Errorf("%d: %s", status, text)
		}
	}
}

// What answers and is no countersign server is told from one that refuses.
func TestAnotherServer(t *testing.T) {
	h := newHouse(t)
	show := func(s command.Streams) error {
		return (&showCommand{oneRun{ID: id, signedIn: h.flags}}).Run(t.Context(), s)
	}
	for name, answer := range map[string]http.HandlerFunc{
		"not found":   http.NotFound,
		"redirect":    http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound).ServeHTTP,
		"a page":      func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"no cookie":   func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) },
		"other views": nil,
	} {
		if answer == nil {
			h = newHouse(t)
			h.answers["GET "+runs+"/"+id] = func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"x":1}`)) }
		} else {
			h.answers[signIn] = answer
		}
		if text := h.ends(command.NotReady, show); text == "" || h.out.Len() > 0 {
			t.Errorf("%s: %q, %q", name, text, &h.out)
		}
	}
}

// What is no evidence of the run is not saved as such.
func TestExportOfSomethingElse(t *testing.T) {
	h := newHouse(t)
	out := filepath.Join(t.TempDir(), "evidence.json")
	for _, body := range []string{`{}`, `<html>`, `{"format":"countersign-export/1","subject":{"id":"01940e2e-7c00-7000-8000-000000000002"},"count":1,"head":"x"}`} {
		h.answers["GET "+runs+"/"+id+"/evidence"] = func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(body)) }
		h.ends(command.NotReady, func(s command.Streams) error {
			return (&exportCommand{Out: out, oneRun: oneRun{ID: id, signedIn: h.flags}}).Run(t.Context(), s)
		})
		if _, err := os.Stat(out); err == nil || h.out.Len() > 0 {
			t.Errorf("%s was saved", body)
		}
	}
}

// What is said is about the one refusal: the advice of its reason does not follow a
// detail that knows better, and a wait has its length.
func TestOneAdvice(t *testing.T) {
	h := newHouse(t)
	list := func(s command.Streams) error { return (&listCommand{Limit: 1, signedIn: h.flags}).Run(t.Context(), s) }
	h.answers["GET "+runs] = problem(502, `{"reasonCode":"DISPATCH_UNCONFIRMED","detail":"The run has failed."}`)
	if text := h.ends(command.NotReady, list); strings.Contains(text, "paused") || !strings.Contains(text, "DISPATCH_UNCONFIRMED: The run has failed.") {
		t.Errorf("%q", text)
	}
	h.answers["GET "+runs] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "52")
		problem(429, `{"reasonCode":"RATE_LIMITED","detail":"Try again after Retry-After."}`)(w, r)
	}
	if text := h.ends(command.NotReady, list); !strings.Contains(text, "RATE_LIMITED: Try again after Retry-After. Retry-After is 52s.") {
		t.Errorf("%q", text)
	}
}
