package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/internal/client"
	"countersign/internal/keys"
)

// readmeSession is the shell session below a heading of the README.
func readmeSession(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	must(t, err)
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, block, shown := strings.Cut(section, "\n```sh\n")
	block, _, closed := strings.Cut(block, "\n```\n")
	if !found || !shown || !closed {
		t.Fatalf("the README shows no shell session under %q", heading)
	}
	return block
}

// shell types a session into a shell, in a folder of its own, and returns what it
// prints. As at a prompt, a command that fails does not end it.
func shell(t *testing.T, session, origin, token string) string {
	t.Helper()
	for _, name := range []string{"sh", "curl", "jq"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("the README's session needs %s: %v", name, err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-u", "-c", session)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "ORIGIN="+origin, "TOKEN="+token)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Errorf("the session ends with %v\n%s", err, &problems)
	}
	if problems.Len() > 0 {
		t.Errorf("the session complains:\n%s", &problems)
	}
	return out.String()
}

// losing passes everything on to a control plane, but loses the first answer under
// each of some paths.
func losing(t *testing.T, origin string, paths ...string) (front string, lost func() int) {
	t.Helper()
	to, err := url.Parse(origin)
	must(t, err)
	var mu sync.Mutex
	dropped := map[string]bool{}
	drop := func(path string) bool {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range paths {
			if p == path && !dropped[p] {
				dropped[p] = true
				return true
			}
		}
		return false
	}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if drop(r.URL.Path) {
			pass.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(dropped)
	}
}

// Whoever types what the README says is the agent: the permitted action is done
// once, and its result is there again under the same key. So it is when the answers
// are lost that the README supposes to be, and so with what the demo itself shows.
func TestReadmeSession(t *testing.T) {
	t.Parallel()
	readme := readmeSession(t, "Be the agent yourself")
	const turns, operation = "/api/v1/turns", "/api/v1/operation"
	for _, c := range []struct {
		name    string
		session string // empty: what the demo shows
		lost    []string
		results int // how often the result is printed
	}{
		{"as it stands", readme, nil, 2},
		{"the answer to the report is lost", readme, []string{turns}, 2},
		{"both first answers are lost", readme, []string{turns, operation}, 1},
		{"what the demo shows", "", nil, 1},
		// Control: it is the key that brings the result again.
		{"another key for each try", strings.Replace(readme, "my-first-operation", "my-operation-in-$try", 1), nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			_, origin, token, _ := waitingDemo(t, dir)
			front, lost := losing(t, origin, c.lost...)
			session := c.session
			if session == "" {
				session = fmt.Sprintf(firstCommands, front, token, "later")
			}
			out := shell(t, session, front, token)
			if lost() != len(c.lost) {
				t.Errorf("%d answers were lost, want %d", lost(), len(c.lost))
			}
			var results []string
			for line := range strings.Lines(out) {
				if strings.Contains(line, `"executionId"`) {
					results = append(results, line)
				}
			}
			if len(results) != c.results || !strings.Contains(results[0], `"state":"verified"`) || results[0] != results[len(results)-1] {
				t.Errorf("results %q, want the same verified one %d times\n%s", results, c.results, out)
			}
			counts := countEvents(t, origin, dir)
			if counts["turn.proposed"] != 1 || counts["execution.dispatched"] != 1 || counts["execution.verified"] != 1 {
				t.Errorf("the newest run has the events %v, want one report and one execution", counts)
			}
		})
	}
}

// countEvents counts the events of the newest run by type.
func countEvents(t *testing.T, origin, dir string) map[string]int {
	t.Helper()
	ctx := context.Background()
	secret, err := keys.ReadSecret(filepath.Join(dir, "control", "owner.secret"))
	must(t, err)
	owner := client.Owner{Origin: origin, HTTP: client.New()}
	r, err := owner.SignIn(ctx, secret)
	must(t, err)
	request, err := http.NewRequestWithContext(ctx, "GET", origin+"/api/v1/owner/runs?limit=1", nil)
	must(t, err)
	request.AddCookie(r.Cookies[0])
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	var list struct {
		Runs []struct{ Timeline []struct{ Type string } }
	}
	must(t, json.NewDecoder(response.Body).Decode(&list))
	if len(list.Runs) != 1 {
		t.Fatalf("%d runs, want the newest", len(list.Runs))
	}
	counts := map[string]int{}
	for _, e := range list.Runs[0].Timeline {
		counts[e.Type]++
	}
	return counts
}

// The README leads to every page of the contract and of the documentation, and names every
// package that is for programs of others.
func TestReadmeLeadsEverywhere(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	contract, _ := filepath.Glob("../../api/*.md")
	docs, _ := filepath.Glob("../../docs/*.md")
	if len(contract) < 4 || len(docs) < 5 {
		t.Fatalf("pages: %q, %q", contract, docs)
	}
	for _, page := range append(contract, docs...) {
		if name := strings.TrimPrefix(page, "../../"); !strings.Contains(string(readme), "]("+name) {
			t.Errorf("the README has no link to %s", name)
		}
	}
	for _, name := range []string{"dispatch", "evidence", "contextclient"} {
		if !strings.Contains(string(readme), "`go doc ./"+name+"`") {
			t.Errorf("the README does not name package %s", name)
		}
	}
}
