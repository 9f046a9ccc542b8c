package attacks

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/command"
	"countersign/internal/keys"
	"countersign/internal/supervision/attack"
	"countersign/internal/supervision/decide"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// benchWith is a bench whose control plane has open doors.
func benchWith(t *testing.T, doors decide.Doors) *bench {
	t.Helper()
	control := filepath.Join(t.TempDir(), "control")
	must(t, app.Init(t.Context(), control, ""))
	plane, err := app.Open(t.Context(), app.Config{Dir: control, Addr: "localhost:0", Doors: doors})
	must(t, err)
	b := &bench{where: "SQLite of a test", plane: plane}
	b.later(plane.Close)
	b.serve(plane.Serve)
	t.Cleanup(func() { must(t, b.close()) })
	must(t, b.signIn(t.Context(), control))
	return b
}

// carriedOut is what the command prints of one attack on a bench.
func carriedOut(t *testing.T, b *bench, c Command) (string, error) {
	t.Helper()
	lines, err := c.lines()
	must(t, err)
	var out, problems bytes.Buffer
	err = c.carryOut(context.Background(), b, lines, command.Streams{Out: &out, Err: &problems})
	return out.String(), err
}

// A line that is not blocked says why, counts what it did, and the status is 1. With the
// guard in place the same line is blocked.
func TestAnOpenDoorIsStatusOne(t *testing.T) {
	c := Command{ID: "B11", Service: attack.Bank}
	out, err := carriedOut(t, benchWith(t, decide.Doors{Checks: []int64{9}, Machine: true}), c)
	if !errors.Is(err, command.ErrDiffers) || command.StatusOf(err) != 1 {
		t.Errorf("ended with %v, status %d", err, command.StatusOf(err))
	}
	for _, want := range []string{"200 ALLOW RELEVANT", "NOT BLOCKED: answered 200 ALLOW RELEVANT instead of 200 PAUSE EFFECT_MISMATCH", `{"total":1,"blocked":0,"permits":1,"effects":1}` + "\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	out, err = carriedOut(t, benchWith(t, decide.Doors{}), c)
	if err != nil || !strings.Contains(out, `{"total":1,"blocked":1,"permits":0,"effects":0}`+"\n") {
		t.Errorf("without the door: %v\n%s", err, out)
	}
}

// A line whose evidence does not verify is not blocked, however it was answered.
func TestEvidenceThatDoesNotVerify(t *testing.T) {
	b := benchWith(t, decide.Doors{})
	stranger := filepath.Join(t.TempDir(), "stranger")
	must(t, app.Init(t.Context(), stranger, ""))
	k, err := keys.Load(stranger)
	must(t, err)
	b.audit.Keys = evidence.Keys{{Public: k.Evidence().Public()}}
	out, err := carriedOut(t, b, Command{ID: "B11", Service: attack.Bank, JSON: true})
	if !errors.Is(err, command.ErrDiffers) || !strings.Contains(out, `"blocked":false,"problem":"the evidence of run `) || !strings.HasSuffix(out, `{"total":1,"blocked":0,"permits":0,"effects":0}`+"\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
