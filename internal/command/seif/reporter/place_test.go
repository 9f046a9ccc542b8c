package reporter

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/contextclient/outbox"
)

// The outbox is found by its base address alone, however that is spelled.
func TestOutboxOfAddress(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("SEIF_OUTBOX", "")
	at := func(base, token string) string {
		t.Helper()
		t.Setenv("SEIF_BASE_URL", base)
		t.Setenv("SEIF_CLIENT_TOKEN", token)
		path, err := boxPath()
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	want := at("https://h.example/acme/support", token)
	for _, base := range []string{"https://h.example/acme/support/", "https://H.example/acme/support", "https://h.example:443/acme/support", "https://h.example/acme/support/production"} {
		if got := at(base, "seif_another"); got != want {
			t.Errorf("%s: %s, want %s", base, got, want)
		}
	}
	seen := map[string]string{want: "the first"}
	for _, base := range []string{"https://h.example/acme/support/staging", "https://h.example/acme/production", "https://h.example/acme", "https://h.example:8443/acme/support", "https://other.example/acme/support", "http://localhost/acme/support"} {
		if got := at(base, token); seen[got] != "" {
			t.Errorf("%s shares its outbox with %s", base, seen[got])
		} else {
			seen[got] = base
		}
	}
	t.Setenv("SEIF_OUTBOX", "/elsewhere/box")
	if got := at("https://h.example/acme/support", token); got != "/elsewhere/box" {
		t.Error(got)
	}
}

// Clients of one address share its outbox, and none of them destroys what another has put in. A report of a
// turn outlives a refused token and goes with the next one, under its first key.
// S-086: what was not delivered is delivered under its first key.
func TestSharedOutbox(t *testing.T) {
	const next = "seif_" + "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
	p := newPerimeter(t)
	file := filepath.Join(t.TempDir(), "own", "outbox")
	t.Setenv("SEIF_BASE_URL", p.URL+"/acme/support")
	t.Setenv("SEIF_TURN_ID", turnID)
	t.Setenv("SEIF_OUTBOX", file)
	as := func(token string) *Place {
		t.Helper()
		t.Setenv("SEIF_CLIENT_TOKEN", token)
		place, err := FromEnvironment(outbox.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		return place
	}
	flush := func(who *Place, want outbox.Flushed) {
		t.Helper()
		f, err := who.Box.FlushAll(t.Context(), who.Send)
		if f.Unreachable = nil; err != nil || f != want {
			t.Errorf("%+v, %v, want %+v", f, err, want)
		}
	}
	status := 0
	p.says = func(int) int { return status }
	use := intention{"PreToolUse", "mcp__seif__find", "toolu_01"}

	// Of whoever has put it in only the token is refused for the time being.
	for _, c := range []struct{ own, other, waits int }{{401, 401, 1}, {503, 401, 1}, {503, 403, 1}, {503, 404, 1}, {503, 409, 0}, {503, 410, 0}} {
		status = c.own
		if _, kept := errors.AsType[*outbox.KeptError](as(token).report(use)); !kept {
			t.Fatalf("%d: not kept", c.own)
		}
		key := p.requests[len(p.requests)-1].Header.Get("Idempotency-Key")
		status = c.other
		flush(as(next), outbox.Flushed{Dropped: 1 - c.waits, Waiting: c.waits})
		if c.waits == 0 {
			continue
		}
		status = 201
		flush(as(next), outbox.Flushed{Delivered: 1})
		last := p.requests[len(p.requests)-1]
		if got := last.Header.Get("Idempotency-Key"); got != key || last.Header.Get("Authorization") != "Bearer "+next {
			t.Errorf("delivered as %s under %s, want %s", last.Header.Get("Authorization"), got, key)
		}
	}
	for _, own := range []int{403, 404} {
		status = own
		if _, refused := errors.AsType[*outbox.RefusedError](as(token).report(use)); !refused {
			t.Errorf("%d to whoever has put it in: it is kept", own)
		}
	}

	// A bridge's receipt would become that of whoever delivers it.
	status = 503
	if _, _, err := as(token).RecordTransition(t.Context(), "file.read", "x"); err == nil {
		t.Fatal("recorded")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{token, token[5:], next[5:]} {
		if string(raw) == "" || strings.Contains(string(raw), secret) {
			t.Errorf("the file holds %q: %s", secret, raw)
		}
	}
	n := len(p.requests)
	status = 201
	flush(as(next), outbox.Flushed{Waiting: 1})
	if len(p.requests) != n {
		t.Error("it was sent with another token")
	}
	status = 401
	flush(as(token), outbox.Flushed{Dropped: 1})
}
