package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/app"
)

// TestServeSaysWhatIsNotBuilt: a variable that asks for something that is not there
// is answered, not passed over.
func TestServeSaysWhatIsNotBuilt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "control")
	must(t, app.Init(t.Context(), dir, ""))
	a, err := app.Open(t.Context(), app.Config{Dir: dir, Addr: "localhost:0"})
	must(t, err)
	defer a.Close()
	for value, want := range map[string]bool{"": false, "http://localhost:4318": true} {
		t.Setenv(otlpEndpoint, value)
		var out bytes.Buffer
		(&serveCommand{}).announce(a, &out)
		if said := strings.Contains(out.String(), "traces    off: not built"); said != want {
			t.Errorf("%s=%q: said %t\n%s", otlpEndpoint, value, said, &out)
		}
	}
}

// Who starts a server is told whether it serves the incident workflow, where, and how to
// have it; only the flag turns it on.
func TestServeSaysWhetherTheIncidentIsOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "control")
	must(t, app.Init(t.Context(), dir, ""))
	for _, on := range []bool{false, true} {
		c := &serveCommand{Dir: dir, Addr: "localhost:0", Incident: on}
		config, err := c.config(io.Discard)
		must(t, err)
		a, err := app.Open(t.Context(), config)
		must(t, err)
		want := "incident  off: start with --incident\n"
		if on {
			want = "incident  " + a.Origin() + "/incident\n"
		}
		var out bytes.Buffer
		c.announce(a, &out)
		if !strings.Contains(out.String(), want) || strings.Count(out.String(), "incident  ") != 1 {
			t.Errorf("on is %t: want %q in\n%s", on, want, &out)
		}
		// A receipt may say webmcp: that the channel is off is said of runs alone.
		if !strings.Contains(out.String(), "channel   webmcp   off for runs: not built\n") || strings.Contains(out.String(), "webmcp   off:") {
			t.Errorf("of the channel webmcp it says\n%s", &out)
		}
		must(t, a.Close())
	}
}
