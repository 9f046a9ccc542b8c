package main

import (
	"bytes"
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
