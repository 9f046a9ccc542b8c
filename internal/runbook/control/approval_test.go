package control_test

import (
	"testing"
	"time"

	"countersign/internal/runbook/incident"
)

// An approval that has ended may be given anew while the same action is staged, as another
// record; one that was used is never given again (R-027, R-038, G-25).
func TestApprovedAgain(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		s := b.approved("restore-pool")
		first := b.now().Approval
		h.clock.Move(5 * time.Minute)
		a, reason := b.execute(s)
		is(t, "after the first approval", a, reason, incident.ApprovalExpired, blocked)
		a, reason = b.approve()
		is(t, "approve again", a, reason, "", ok)
		second := b.now().Approval
		if second.Grant.ID == first.Grant.ID || second.ApprovedAt.Sub(first.ApprovedAt) != 5*time.Minute || *second.Grant.EffectDigest != s.Digest || b.now().Staged.Digest != s.Digest {
			t.Errorf("the new approval is %+v", second)
		}
		if x := b.executed(s); x.ApprovalID != second.Grant.ID {
			t.Errorf("executed under %s, want the new approval", x.ApprovalID)
		}
		used := b.now().Approval
		if used.ConsumedAt == nil || used.ConsumedAt.Sub(second.ApprovedAt) != 0 {
			t.Errorf("consumed at %v (R-021)", used.ConsumedAt)
		}
		for _, later := range []time.Duration{0, 5 * time.Minute} {
			h.clock.Move(later)
			if nonce := b.form(); nonce != "" {
				t.Error("the page has a form for an approval that was used")
			}
			a, reason = b.approve()
			is(t, "approve what was used", a, reason, incident.ApprovalConsumed, blocked)
			a, reason = b.execute(altered(s, "key"))
			is(t, "execute it under another key", a, reason, incident.ApprovalConsumed, blocked)
			if now := b.now().Approval; now.ConsumedAt == nil || now.Grant.ID != second.Grant.ID {
				t.Errorf("it was armed again: %+v", now)
			}
		}
		b.chain()
	})
}

// While an approval lives, to approve again is the same record: the button pressed twice,
// and by another nonce nothing. R-019, G-25, L-9.
func TestApprovedTwice(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		s := b.stage("restore-pool")
		nonce := b.form()
		if again := b.form(); again != nonce {
			t.Error("a reload shows another form, and the first page's button would not do")
		}
		first, reason := b.do(incident.Approve, incident.Human, approving(s), nonce)
		is(t, "approve", first, reason, "", ok)
		h.clock.Move(time.Minute)
		second, reason := b.do(incident.Approve, incident.Human, approving(s), nonce)
		is(t, "pressed twice", second, reason, "", ok)
		if told(t, second.Receipt).Event != incident.EventRepeated || second.Result.Approval.Grant.ID != first.Result.Approval.Grant.ID || second.Result.Approval.Grant.ExpiresAt != first.Result.Approval.Grant.ExpiresAt {
			t.Errorf("the second is %+v", second.Result.Approval)
		}
		if b.form() != "" {
			t.Error("there is a form while the approval lives")
		}
		h.clock.Move(4 * time.Minute)
		a, reason := b.do(incident.Approve, incident.Human, approving(s), nonce)
		is(t, "the old nonce after the end", a, reason, incident.ApprovalRequired, blocked)
		b.chain()
	})
}

// Only the page's form approves, once, for its session, digest and version,
// R-067, L-9.
func TestOnlyTheFormApproves(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		for _, without := range []string{"", "form"} {
			h.config.Without = without
			h.open()
			b, other := &browser{h: h}, &browser{h: h}
			other.stage("restore-pool") // has the same digest and version
			foreign := other.form()
			s := b.stage("restore-pool")
			if s.Digest != other.now().Staged.Digest || s.Version != other.now().Staged.Version {
				t.Fatal("the sessions have not the same action staged")
			}
			a, reason := b.do(incident.Approve, incident.Human, approving(s), foreign)
			if without == "" {
				is(t, "another session's nonce for the same action", a, reason, incident.ApprovalRequired, blocked)
			} else {
				is(t, "control: another session's nonce", a, reason, "", ok)
				b.stage("restore-pool")
			}
			old := b.form() // for the action before
			b.stage("scale-workers")
			b.stage("restore-pool")
			good := b.form()
			// tried approves, and fails unless that is refused, or taken by the control.
			tried := func(what, channel, nonce string) {
				t.Helper()
				s := b.now().Staged
				a, reason := b.do(incident.Approve, channel, approving(s), nonce)
				if without == "form" && channel == incident.Human {
					is(t, "control: "+what, a, reason, "", ok)
				} else {
					is(t, what, a, reason, incident.ApprovalRequired, blocked)
				}
			}
			for what, nonce := range map[string]string{
				"the nonce of an action that was staged before": old, "no nonce": "", "half a nonce": good[:32], "a nonce and more": good + "0",
			} {
				b.stage("restore-pool")
				tried(what, incident.Human, nonce)
			}
			for _, channel := range []string{incident.WebMCP, incident.Simulator, incident.API} {
				tried("by "+channel, channel, b.form())
			}
			if without == "" && b.now().Approval != nil {
				t.Error("it is approved")
			}
			b.stage("restore-pool")
			good = b.form()
			a, reason = b.do(incident.Approve, incident.Human, approving(b.now().Staged), good)
			is(t, "by the form", a, reason, "", ok)
			if r := told(t, a.Receipt); r.Channel != incident.Human || r.Result.Approval.Arrival != "page-form-nonce" || r.Tool != nil {
				t.Errorf("the receipt says %+v", r)
			}
			// The next one of the same action has another nonce.
			h.clock.Move(5 * time.Minute)
			if without == "" {
				tried("a nonce that has approved once", incident.Human, good)
			}
			b.chain()
		}
	})
}

// Who approves what is no longer staged has lost to whoever staged, and leaves no receipt:
//
func TestStaleApproval(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		a, reason := b.do(incident.Approve, incident.Human, approving(&incident.Staged{Digest: incident.Digest("restore-pool", 2), Version: 2}), "")
		is(t, "nothing staged", a, reason, incident.NothingStaged, blocked)
		old := b.stage("restore-pool")
		nonce := b.form()
		s := b.stage("restore-pool")
		for what, in := range map[string]*incident.Staged{"old": old, "another digest": altered(s, "digest"), "another version": altered(s, "version")} {
			a, reason := b.do(incident.Approve, incident.Human, approving(in), nonce)
			is(t, what, a, reason, incident.StaleApproval, "")
		}
		if n := len(b.chain()); n != 3 {
			t.Errorf("%d receipts, want 3", n)
		}
	})
}

// Were the session itself to say that an approval which was used may be used again, the
// ledger would not have it: an approval has one fate, and a key one record.,
//
func TestUsedOnceByTheLedger(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		s := b.approved("restore-pool")
		first := b.executed(s)
		other := altered(s, "key")
		armed := func(s *incident.Session) {
			s.Approval.ConsumedAt, s.Approval.Used = nil, nil
			s.Staged.IdempotencyKey = other.IdempotencyKey
		}
		h.change(armed)
		a, reason := b.execute(other)
		is(t, "the approval used again under another key", a, reason, incident.ExecutionConflict, "")
		h.change(func(s *incident.Session) {
			s.Approval.ConsumedAt, s.Approval.Used, s.Approval.Grant.ID = nil, nil, "another"
		})
		h.ledger.fails = "no record" // looked up, not found, and there when it is committed
		a, reason = b.execute(s)
		is(t, "the key used again under another approval", a, reason, incident.ExecutionConflict, "")
		h.ledger.fails = ""
		a, reason = b.execute(s)
		is(t, "and looked up again", a, reason, "", ok)
		if !a.Replayed || *a.Result.Execution != *first {
			t.Errorf("told %+v", a.Result.Execution)
		}
		h.ledger.load = nil
		if now := b.now(); now.Version != 3 {
			t.Errorf("executed again, at %d", now.Version)
		}
		// Control: what the session was made to say would pass.
		h.change(func(s *incident.Session) {
			armed(s)
			s.Approval.Grant.ID = "another"
		})
		a, reason = b.execute(other)
		is(t, "control: neither was used", a, reason, "", ok)
	})
}
