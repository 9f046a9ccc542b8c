package main

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/dispatch"
	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/store"
)

// installation is a control plane and a store in this process, each with the
// checks that it leaves out.
type installation struct {
	doors       decide.Doors
	without     string                          // a check that the control plane's API leaves out
	shopWithout string                          // a check that the store leaves out
	plane       func(http.Handler) http.Handler // in front of the control plane; nil: nothing
	shop        func(http.Handler) http.Handler // in front of the store; nil: nothing

	dir    string
	origin string
}

// start brings it up until the test ends.
func (i *installation) start(t *testing.T) {
	t.Helper()
	i.dir = t.TempDir()
	control, shop := filepath.Join(i.dir, "control"), filepath.Join(i.dir, "store")
	must(t, app.Init(context.Background(), control, ""))
	k, err := keys.Load(control)
	must(t, err)
	must(t, store.Create(shop))

	server := httptest.NewUnstartedServer(nil)
	shopOrigin := "http://" + server.Listener.Addr().String()
	open, err := store.Open(shop, store.Options{Origin: shopOrigin, Trust: []dispatch.TrustedKey{{Public: k.Dispatch().Public()}}, Without: i.shopWithout})
	must(t, err)
	t.Cleanup(func() { must(t, open.Close()) })
	server.Config.Handler = open.Handler()
	if i.shop != nil {
		server.Config.Handler = i.shop(server.Config.Handler)
	}
	server.Start()
	t.Cleanup(server.Close)

	// What the agent is told is the origin passes everything on.
	front := httptest.NewUnstartedServer(nil)
	i.origin = "http://localhost:" + port(t, front.Listener.Addr().String())
	a, err := app.Open(context.Background(), app.Config{
		Dir: control, Addr: "localhost:0", Origin: i.origin, Doors: i.doors, Without: i.without,
		Store: &gateway.Store{Origin: shopOrigin, Keys: []dispatch.TrustedKey{open.ReceiptKey()}},
	})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-served)
		must(t, a.Close())
	})
	front.Config.Handler = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: a.Addr()})
		r.Out.Host = r.In.Host
	}}
	if i.plane != nil {
		front.Config.Handler = i.plane(front.Config.Handler)
	}
	front.Start()
	t.Cleanup(front.Close)
}

func port(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse("http://" + address)
	must(t, err)
	return u.Port()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// play runs the agent command in a fresh run and returns what it printed and its
// exit status.
func (i *installation) play(t *testing.T, script string) (string, int) {
	t.Helper()
	return agentPlays(i.hand(t), script)
}

// agentPlays runs the agent command with the token in the environment.
func agentPlays(session client.Session, script string) (string, int) {
	var out, log bytes.Buffer
	status := execute([]string{"agent", "--origin", session.Origin, "--script", script}, streams{Out: &out, Err: &log})
	return out.String() + log.String(), status
}

// hand creates a run and puts its token into the environment.
func (i *installation) hand(t *testing.T) client.Session {
	t.Helper()
	ctx := context.Background()
	secret, err := keys.ReadSecret(filepath.Join(i.dir, "control", "owner.secret"))
	must(t, err)
	owner := client.Owner{Origin: i.origin, HTTP: client.New()}
	_, err = owner.SignIn(ctx, secret)
	must(t, err)
	id, _, err := owner.CreateRun(ctx, map[string]string{
		"service": "merchant", "target": "hosted", "channel": "http", "mode": "bounded", "budgetCents": "13700", "instruction": demoInstruction,
	})
	must(t, err)
	session, _, err := owner.IssueToken(ctx, id)
	must(t, err)
	t.Setenv("COUNTERSIGN_TOKEN", session.Token)
	return session
}

// TestAgentNeedsEveryCheck lets the agent play against a server with one check
// switched off, for each check that the scripts provoke.
func TestAgentNeedsEveryCheck(t *testing.T) {
	t.Run("all on", func(t *testing.T) {
		var i installation
		i.start(t)
		for _, script := range []string{"purchase", "overreach"} {
			if out, status := i.play(t, script); status != statusDone {
				t.Errorf("%s: status %d\n%s", script, status, out)
			}
		}
	})
	for _, c := range []struct {
		name, script, step string
		answered           string // without the check: success, or what stands behind it
		installation
	}{
		{"permit binding", "purchase", "swap the body under a live permit", "200", installation{doors: decide.Doors{PermitBinding: true}}},
		{"permit state", "purchase", "spend a permit twice", "409 RUN_NOT_READY", installation{doors: decide.Doors{PermitState: true}}},
		{"owner guard", "purchase", "list all runs as the owner would", "200", installation{without: "owner"}},
		{"store's permit", "purchase", "order at the shop directly", "403 DISPATCH_PERMIT_INVALID", installation{shopWithout: "DISPATCH_PERMIT_REQUIRED"}},
		{"run status", "purchase", "buy again after completion", "500 INTERNAL", installation{doors: decide.Doors{Ready: true}}},
		{"arguments", "overreach", "report an altered quantity", "200 RELEVANT", installation{doors: decide.Doors{Checks: []int64{8}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.start(t)
			out, status := c.play(t, c.script)
			if status != statusDiffers {
				t.Errorf("status %d, want %d", status, statusDiffers)
			}
			for line := range strings.Lines(out) {
				if strings.Contains(line, c.step) && strings.Contains(line, "NOT REFUSED  "+c.answered+" ") {
					return
				}
			}
			t.Errorf("no line says that %q was not refused but answered with %s:\n%s", c.step, c.answered, out)
		})
	}
}

// TestAgentLosesAnswers drops the first answer to every report and to every
// operation. The purchase goes on, and the shop has one order.
func TestAgentLosesAnswers(t *testing.T) {
	var mu sync.Mutex
	lost, seen := 0, map[string]bool{}
	drop := func(r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		name := r.Header.Get("X-Idempotency-Key")
		if r.URL.Path == "/api/v1/turns" {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			name = string(body)
		}
		if r.Method != http.MethodPost || strings.HasPrefix(r.URL.Path, "/api/v1/owner/") || seen[name] {
			return false
		}
		seen[name] = true
		lost++
		return true
	}
	i := installation{plane: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if drop(r) {
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	}}
	i.start(t)
	if out, status := i.play(t, "purchase"); status != statusDone {
		t.Fatalf("status %d\n%s", status, out)
	}
	// Five reports, which the one after the end repeats; five operations, a swapped
	// and a spent one.
	if lost != 12 {
		t.Errorf("%d answers were lost, want 12", lost)
	}
	db, err := sql.Open("sqlite", filepath.Join(i.dir, "store", "store.db"))
	must(t, err)
	defer db.Close()
	var orders int
	must(t, db.QueryRow("SELECT count(*) FROM orders").Scan(&orders))
	if orders != 1 {
		t.Errorf("%d orders at the shop, want 1", orders)
	}
}
