package run_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
)

// attacked is a synthetic run of the attack suite, ready for its first report.
func attacked(t rapid.TB) *world {
	w := blank(t, run.TargetLocal)
	r := w.request()
	r.Config.Attack = true
	w.create(r)
	w.start()
	return w
}

// attackReported is attacked after the suite's malformed report was stored.
func attackReported(t rapid.TB) *world {
	w := attacked(t)
	w.attack([]byte(`{"permit":"mine"}`))
	return w
}

func (w *world) attack(raw []byte) (reason string) {
	w.do(func(d *decide.Deciding) {
		if denial := d.ReportAttack("B01", raw); denial != nil {
			reason = denial.Reason
		}
	})
	return reason
}

// H-167: a malformed report of an attack is attack.report and run.paused in one commit,
// without a turn and without a permit; what came is a hash and a text that can be erased.
func TestAttackReport(t *testing.T) {
	for name, raw := range map[string]string{"short": "{}", "empty": "", "long": strings.Repeat("é", 3000), "no UTF-8": strings.Repeat("a\xff", 3000)} {
		w := attacked(t)
		n := len(w.events)
		if reason := w.attack([]byte(raw)); reason != "" {
			t.Fatalf("%s: %s", name, reason)
		}
		w.emitted(n, "attack.report", "run.paused")
		w.stop("retry", "hard_policy", "MALFORMED_PROPOSAL", "retry", "none")
		e := newest[run.AttackReported](w)
		kept := ""
		for _, x := range w.texts {
			if x.Commitment == e.Raw.Text {
				kept = x.Text
			}
		}
		if e.AttackID != "B01" || e.SHA256 != canon.Hash([]byte(raw)) || e.Bytes != int64(len(raw)) || len([]rune(kept)) != min(2000, len([]rune(raw))) {
			t.Errorf("%s: %+v, %d characters kept", name, e, len([]rune(kept)))
		}
		if s := w.read(); s.Turns != 0 || s.Permit != nil || s.RetryStreak != 0 {
			t.Errorf("%s: a turn or a permit came of it", name)
		}
		w.verify()
		w.retry()
		w.observe().cycle("item").verify()
	}
}

// L-11: attack.report comes only from the attack suite: no other run takes one, nor does
// one that is not at rest, and a well-formed report is none.
func TestAttackReportIsDenied(t *testing.T) {
	malformed := []byte("{}")
	for name, c := range map[string]struct {
		w    *world
		raw  []byte
		want string
	}{
		"another run":   {begun(t, run.TargetLocal), malformed, authority.InvalidRequest},
		"a paused run":  {attackReported(t), malformed, authority.RunNotReady},
		"a live permit": {func() *world { w := attacked(t); w.permit("item"); return w }(), malformed, authority.PermitOutstanding},
		"well-formed":   {attacked(t), nil, authority.InvalidRequest},
		"an effect out": {func() *world { w := attacked(t); w.permit("item"); w.claim(w.read().Permit); return w }(), malformed, authority.UnresolvedEffect},
		"no room": {func() *world {
			w := attacked(t)
			w.patch(func(s *run.State) { s.Events = run.MaxEvents - run.EventReserve + 1 })
			return w
		}(), malformed, authority.TurnLimit},
	} {
		raw := c.raw
		if raw == nil {
			raw = canon.MustMarshal(c.w.report("item"))
		}
		n := len(c.w.events)
		if got := c.w.attack(raw); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		c.w.emitted(n)
	}
}

func (w *world) forgedAttack() *run.AttackReported {
	return &run.AttackReported{AttackID: "B01", SHA256: elsewhere, Raw: evidence.NewText([16]byte{}, "{}").Commit()}
}

var attackCases = []unlawfulCase{
	{rule: "attack-run", name: "in a run that is none of an attack", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(w.forgedAttack()) }},
	{rule: "attack-status", name: "in a paused run", stage: attackReported, with: func(w *world) { w.forge(w.forgedAttack()) }},
	{rule: "attack-under-permit", name: "with a live permit", stage: func(t rapid.TB) *world { w := attacked(t); w.permit("item"); return w }, with: func(w *world) { w.forge(w.forgedAttack()) }},
	{rule: "attack-without-stop", name: "the run went on", stage: attacked, with: func(w *world) { w.forge(w.forgedAttack(), &run.Metrics{}) }},
	{rule: "attack-without-stop", name: "the run stopped for something else", stage: attacked, with: func(w *world) {
		w.forge(w.forgedAttack(), &run.Paused{w.stopFor(authority.ProviderError)})
	}},
	{rule: "attack-without-stop", name: "the chain ends there", stage: attacked, with: func(w *world) { w.forge(w.forgedAttack()) }},
	{rule: "config", name: "a verification and an attack in one", stage: bare(run.TargetLocal), with: func(w *world) {
		alter(w, func(e *run.Created) { e.Config.Attack, e.Config.Verification = true, true })
	}},
}

func init() { unlawfulCases = append(unlawfulCases, attackCases...) }
