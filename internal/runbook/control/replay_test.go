package control_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// An exact retry is answered from its record whatever has become of the session since:
// G-25.
func TestReplayed(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		s := b.approved("shift-traffic")
		first := b.executed(s)
		if first.Status != incident.Monitoring || first.After.LatencyMillis != 1800 || first.After.ErrorsPerMille != 11 {
			t.Errorf("executed: %+v", first)
		}
		for _, after := range []struct {
			what string
			do   func()
		}{
			{"nothing", func() {}},
			{"restage", func() { b.stage("restore-pool") }},
			{"the approval of another", func() { b.approve() }},
			{"the execution of another", func() { b.executed(b.now().Staged) }},
			{"reset", b.reset},
			{"the end of the approval", func() { h.clock.Move(5 * time.Minute) }},
			{"a restart", h.restart},
			{"a freeze", func() { h.frozen = true }},
			{"a clock set back", func() { h.clock.Move(-time.Hour) }},
			{"almost a day", func() { h.at(24*time.Hour - time.Millisecond) }},
		} {
			after.do()
			before := b.now()
			a, reason := b.execute(s)
			is(t, "after "+after.what, a, reason, "", ok)
			if r := told(t, a.Receipt); !a.Replayed || *a.Result.Execution != *first || r.Event != incident.EventReplayed || r.Result.Execution.ID != first.ID {
				t.Errorf("after %s: replayed %v, told %+v, want %+v", after.what, a.Replayed, a.Result.Execution, first)
			}
			if now := a.Snapshot; now.Version != before.Version || now.Status != before.Status || now.Metrics != before.Metrics || now.Receipts.Total != before.Receipts.Total+1 {
				t.Errorf("after %s: the replay went from %d %s to %d %s", after.what, before.Version, before.Status, now.Version, now.Status)
			}
		}
		b.chain()
	})
}

// A frozen workspace has nothing approved and nothing executed, and says so in a receipt;
// everything else goes on..
func TestFrozen(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		b.stage("restore-pool")
		h.frozen = true
		a, reason := b.approve()
		is(t, "approve", a, reason, "FROZEN", blocked)
		h.frozen = false
		b.approve()
		h.frozen = true
		s := b.now().Staged
		a, reason = b.execute(s)
		is(t, "execute", a, reason, "FROZEN", blocked)
		if at := b.now(); at.ApprovalState() != "active" || at.Version != 2 {
			t.Errorf("%s at %d", at.ApprovalState(), at.Version)
		}
		a, reason = b.read()
		is(t, "read", a, reason, "", ok)
		a, reason = b.do(incident.Compare, incident.API, incident.Input{}, "")
		is(t, "compare", a, reason, "", ok)
		h.frozen = false
		b.executed(s)
		h.frozen = true
		b.reset()
		b.stage("restore-pool")
		b.chain()
	})
}

// freeze has the ledger freeze the workspace, or lift that, as the next of its freezes.
func (h *house) freeze(frozen bool) {
	key := ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindWorkspace, ID: ledger.DefaultWorkspace}
	subject, _, err := h.ledger.engine.Load(h.t.Context(), key)
	if errors.Is(err, ledger.ErrNotFound) {
		subject = ledger.NewSubject(key)
	}
	if h.frozen = frozen; frozen {
		h.epoch++
	}
	w := ledger.Write{Key: key, Revision: subject.Revision, Head: subject.Head, State: []byte(`{}`), Attributes: []ledger.Attribute{{Name: ledger.AttributeFreezes, Value: fmt.Sprint(h.epoch)}}}
	if frozen {
		w.Attributes = append(w.Attributes, ledger.Attribute{Name: ledger.AttributeFrozen, Value: "1"})
	}
	must(h.t, h.ledger.engine.Commit(h.t.Context(), ledger.Change{Writes: []ledger.Write{w}}).Err())
}

// A freeze that comes between a decision and its commit is not overtaken by it, even when it
// was lifted again..
func TestFrozenMeanwhile(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		for what, do := range map[string]func(*browser) (*control.Answer, string){
			"approve": func(b *browser) (*control.Answer, string) {
				b.stage("restore-pool")
				return b.approve()
			},
			"execute": func(b *browser) (*control.Answer, string) { return b.execute(b.approved("restore-pool")) },
		} {
			for _, lifted := range []bool{false, true} {
				b, commits := &browser{h: h}, 0
				h.ledger.commit = func(ctx context.Context, c ledger.Change, commit func(context.Context, ledger.Change) ledger.Result) ledger.Result {
					if c.Freezable && (c.Record != nil) == (what == "execute") {
						if commits++; commits == 1 {
							h.freeze(true)
						}
						if commits == 1 && lifted {
							h.freeze(false)
						}
					}
					return commit(ctx, c)
				}
				a, reason := do(b)
				h.ledger.commit = nil
				want := map[bool]string{false: "FROZEN"}[lifted]
				is(t, what+" while it is frozen", a, reason, want, map[bool]string{false: blocked, true: ok}[lifted])
				if commits != 1+map[bool]int{true: 1}[lifted] {
					t.Errorf("%s: %d commits that a freeze forbids", what, commits)
				}
				if h.frozen {
					h.freeze(false)
				}
				b.chain()
			}
		}
	})
}

// A mitigation that was applied in part needs recovery: nothing is staged on top of it until
// a reset, and a retry is told the same..
func TestPartialFailure(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		partial := true
		h.config.Partial = func() bool { return partial }
		h.open()
		b := &browser{h: h}
		s := b.approved("restore-pool")
		a, reason := b.execute(s)
		is(t, "execute", a, reason, "", incident.PartialFailure)
		if x := a.Result.Execution; x.Outcome != incident.PartialFailure || x.Status != incident.RecoveryRequired || x.After != x.Before || a.Snapshot.Status != incident.RecoveryRequired {
			t.Errorf("executed: %+v", x)
		}
		partial = false
		again, reason := b.execute(s)
		is(t, "the retry", again, reason, "", incident.PartialFailure)
		if !again.Replayed || *again.Result.Execution != *a.Result.Execution {
			t.Errorf("the retry is told %+v", again.Result.Execution)
		}
		refused, reason := b.do(incident.Stage, incident.API, staging("restore-pool", b.now().Version), "")
		is(t, "stage", refused, reason, incident.RecoveryFirst, blocked)
		refused, reason = b.approve()
		is(t, "approve", refused, reason, incident.ApprovalConsumed, blocked)
		refused, reason = b.execute(altered(s, "key"))
		is(t, "execute", refused, reason, incident.ApprovalConsumed, blocked)
		b.read()
		if at := b.now(); at.Status != incident.RecoveryRequired || at.Version != 3 {
			t.Errorf("%s at %d", at.Status, at.Version)
		}
		b.reset()
		if x := b.executed(b.approved("restore-pool")); x.Status != incident.Mitigated {
			t.Errorf("after the reset: %+v", x)
		}
		b.chain()
	})
}
