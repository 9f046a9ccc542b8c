package attacks

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/command"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/supervision/attack"
	"countersign/internal/supervision/decide"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open9 leaves out check 9, and the machine that would refuse what it lets through.
func open9(c *app.Config) { c.Doors = decide.Doors{Checks: []int64{9}, Machine: true} }

// lateEffect has the service take an effect of the n-th dispatch too late.
func lateEffect(n int) func(*app.Config) {
	return func(c *app.Config) {
		clock, intents := new(ledger.Clock), 0
		c.Clock = clock
		c.Fault = func(point string) {
			if point != "after-intent" {
				return
			}
			if intents++; intents == n {
				clock.Move(31 * time.Second) // no dispatch lives that long
			}
		}
	}
}

// benchWith is a bench of a test.
func benchWith(t *testing.T, edits ...func(*app.Config)) *bench {
	t.Helper()
	control := filepath.Join(t.TempDir(), "control")
	must(t, app.Init(t.Context(), control, ""))
	c := app.Config{Dir: control, Addr: "localhost:0"}
	for _, f := range edits {
		f(&c)
	}
	plane, err := app.Open(t.Context(), c)
	must(t, err)
	b := &bench{where: "SQLite of a test", plane: plane}
	b.later(plane.Close)
	b.serve(plane.Serve)
	t.Cleanup(func() { must(t, b.close()) })
	must(t, b.signIn(t.Context(), control))
	return b
}

// carriedOut is what the command prints of attacks on a bench.
func carriedOut(t *testing.T, b *bench, c Command, more ...attack.Line) (out, problems string, err error) {
	t.Helper()
	lines, err := c.lines()
	must(t, err)
	var o, p bytes.Buffer
	err = c.carryOut(context.Background(), b, append(lines, more...), command.Streams{Out: &o, Err: &p})
	return o.String(), p.String(), err
}

// A line that is not blocked says why, counts what it did, and the status is 1. With the
// guard in place the same line is blocked.
func TestAnOpenDoorIsStatusOne(t *testing.T) {
	c := Command{ID: "B11", Service: attack.Bank}
	out, problems, err := carriedOut(t, benchWith(t, open9), c)
	if !errors.Is(err, command.ErrDiffers) || command.StatusOf(err) != 1 || !strings.Contains(problems, "\n0 of 1 blocked, 1 open, 1 permits, 1 effects\n") {
		t.Errorf("ended with %v, status %d: %s", err, command.StatusOf(err), problems)
	}
	for _, want := range []string{" OPEN    answered 200 ALLOW RELEVANT instead of 200 PAUSE EFFECT_MISMATCH; 1 permits, 1 effects\n", `{"total":1,"blocked":0,"permits":1,"effects":1}` + "\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	out, problems, err = carriedOut(t, benchWith(t), c)
	if err != nil || !strings.HasSuffix(out, `{"total":1,"blocked":1,"permits":0,"effects":0}`+"\n") || !strings.Contains(problems, "\n1 of 1 blocked, 0 permits, 0 effects\n") {
		t.Errorf("without the door: %v\n%s%s", err, out, problems)
	}
}

// A line that could not be carried out is told apart from one that is open: the status is
// 3, and 1 as soon as another line is open.
func TestNotCarriedOutIsStatusThree(t *testing.T) {
	c := Command{ID: "B12", Service: attack.Bank}
	out, problems, err := carriedOut(t, benchWith(t, lateEffect(2)), c) // the read before it goes through
	if err == nil || command.StatusOf(err) != 3 || !strings.Contains(problems, "\n0 of 1 blocked, 1 not carried out, 0 permits, 0 effects\n") {
		t.Errorf("ended with %v, status %d: %s", err, command.StatusOf(err), problems)
	}
	for _, want := range []string{" NOT CARRIED OUT the twin was not carried out: ", `{"total":1,"blocked":0,"permits":0,"effects":0}` + "\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	_, problems, err = carriedOut(t, benchWith(t, lateEffect(2), open9), c, attack.Line{ID: "B11", Service: attack.Bank})
	if command.StatusOf(err) != 1 || !strings.Contains(problems, "\n0 of 2 blocked, 1 open, 1 not carried out, 1 permits, 1 effects\n") {
		t.Errorf("ended with %v, status %d: %s", err, command.StatusOf(err), problems)
	}
}

// A frozen workspace is no breach: no line is told, and the status is 3.
func TestFrozenIsStatusThree(t *testing.T) {
	b := benchWith(t)
	r, err := b.owner.Once(t.Context(), "POST", "/api/v1/owner/freeze", map[string]string{"reason": "An agent orders what nobody asked for."})
	must(t, err)
	out, _, err := carriedOut(t, b, Command{ID: "B12", Service: attack.Bank, JSON: true})
	if r.Status != 200 || command.StatusOf(err) != 3 || !strings.Contains(err.Error(), "FROZEN") || strings.Contains(out, "B12") {
		t.Errorf("%d, %v, status %d: %s", r.Status, err, command.StatusOf(err), out)
	}
}

// A line whose evidence does not verify is not blocked, however it was answered.
func TestEvidenceThatDoesNotVerify(t *testing.T) {
	b := benchWith(t)
	stranger := filepath.Join(t.TempDir(), "stranger")
	must(t, app.Init(t.Context(), stranger, ""))
	k, err := keys.Load(stranger)
	must(t, err)
	b.audit.Keys = evidence.Keys{{Public: k.Evidence().Public()}}
	out, _, err := carriedOut(t, b, Command{ID: "B11", Service: attack.Bank, JSON: true})
	if !errors.Is(err, command.ErrDiffers) || !strings.Contains(out, `"outcome":"open","blocked":false,"problem":"the evidence of run `) || !strings.Contains(out, `,"evidenceVerified":false}`+"\n") ||
		!strings.HasSuffix(out, `{"total":1,"blocked":0,"permits":0,"effects":0}`+"\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Shapes that were answered differently are each named; what they share is said once.
func TestAnswersOfShapes(t *testing.T) {
	malformed, mismatch := attack.Answer{Status: 400, Code: "MALFORMED_PROPOSAL"}, attack.Answer{Status: 403, Code: "PERMIT_MISMATCH"}
	required, effect := attack.Answer{Status: 200, Decision: "PAUSE", Code: "APPROVAL_REQUIRED"}, attack.Answer{Status: 200, Decision: "PAUSE", Code: "EFFECT_MISMATCH"}
	for want, list := range map[string][]attack.Answer{
		"400 MALFORMED_PROPOSAL":                       {malformed, malformed, malformed},
		"400 MALFORMED_PROPOSAL; 403 PERMIT_MISMATCH":  {malformed, mismatch},
		"200 PAUSE APPROVAL_REQUIRED; EFFECT_MISMATCH": {required, effect, effect},
	} {
		r := &attack.Result{}
		for _, a := range list {
			r.Shapes = append(r.Shapes, attack.Shape{Finding: attack.Finding{Got: &a}})
		}
		if got := answers(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
