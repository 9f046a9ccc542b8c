package control_test

import (
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

const (
	ok      = incident.Success
	blocked = incident.Blocked
)

// altered is s with the digest of another action, another version or another key.
func altered(s *incident.Staged, member string) *incident.Staged {
	c := *s
	switch member {
	case "digest":
		c.Digest = incident.Digest("scale-workers", s.Version)
	case "version":
		c.Version++
	case "key":
		c.IdempotencyKey = "rr_" + strings.Repeat("0", 32)
	}
	return &c
}

// The table of five rows by which requests to execute are decided, R-036 (with a
// version, too), R-037, R-038.
func TestFiveRows(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		s := b.approved("restore-pool")
		first, reason := b.execute(s)
		is(t, "first matching request with an active approval", first, reason, "", ok)
		if x := first.Result.Execution; first.Replayed || x.Status != incident.Mitigated || x.After != (incident.Metrics{LatencyMillis: 1200, ErrorsPerMille: 6, PoolPercent: 31}) {
			t.Errorf("executed: %+v, replayed %v", x, first.Replayed)
		}
		again, reason := b.execute(s)
		is(t, "exact retry", again, reason, "", ok)
		if !again.Replayed || *again.Result.Execution != *first.Result.Execution {
			t.Errorf("the retry is told %+v, the first %+v", again.Result.Execution, first.Result.Execution)
		}
		for _, member := range []string{"digest", "version"} {
			a, reason := b.execute(altered(s, member))
			is(t, "same key, another "+member, a, reason, incident.IdempotencyConflict, blocked)
		}
		a, reason := b.execute(altered(s, "key"))
		is(t, "consumed approval", a, reason, incident.ApprovalConsumed, blocked)
		next := b.approved("shift-traffic")
		for _, member := range []string{"digest", "version"} {
			a, reason := b.execute(altered(next, member))
			is(t, "another "+member, a, reason, incident.StaleExecution, blocked)
		}
		old := *s // of before, under a key that has no record
		old.IdempotencyKey = next.IdempotencyKey
		a, reason = b.execute(&old)
		is(t, "old digest and version", a, reason, incident.StaleExecution, blocked)
		h.clock.Move(5 * time.Minute)
		a, reason = b.execute(next)
		is(t, "expired approval", a, reason, incident.ApprovalExpired, blocked)
		if n := len(b.chain()); n != 13 || b.now().Execution.ID != first.Result.Execution.ID {
			t.Errorf("%d receipts, want one of each of 13 requests", n)
		}
	})
}

// change changes the session's state as the plane reads it.
func (h *house) change(f func(*incident.Session)) {
	h.ledger.load = func(subject *ledger.Subject) {
		if subject.Kind != incident.Kind {
			return
		}
		s, err := incident.Decode(subject.State)
		if err == nil {
			f(s)
			subject.State, err = canon.Marshal(s)
		}
		if err != nil {
			panic(err)
		}
	}
}

// Everything that an approval binds, changed alone, blocks the execution, which passes when
// it is changed back.
func TestBoundValues(t *testing.T) {
	second := evidence.TimeOf(dawn.Add(time.Second))
	onEach(t, func(t *testing.T, h *house) {
		for what, c := range map[string]struct {
			present string                  // the member of the request that is another
			held    func(*incident.Session) // what the session holds instead
			head    bool                    // the chain has another head than was read
			reason  string
			outcome string
		}{
			"the digest presented":           {present: "digest", reason: incident.StaleExecution, outcome: blocked},
			"the version presented":          {present: "version", reason: incident.StaleExecution, outcome: blocked},
			"the key presented":              {present: "key", reason: incident.StaleExecution, outcome: blocked},
			"the digest that is staged":      {held: func(s *incident.Session) { s.Staged.Digest = incident.Digest("scale-workers", 2) }, reason: incident.StaleExecution, outcome: blocked},
			"the version that is staged":     {held: func(s *incident.Session) { s.Staged.Version++ }, reason: incident.StaleExecution, outcome: blocked},
			"the key that is staged":         {held: func(s *incident.Session) { s.Staged.IdempotencyKey = "rr_" + strings.Repeat("1", 32) }, reason: incident.StaleExecution, outcome: blocked},
			"the approval":                   {held: func(s *incident.Session) { s.Approval = nil }, reason: incident.ApprovalRequired, outcome: blocked},
			"the digest approved":            {held: func(s *incident.Session) { *s.Approval.Grant.EffectDigest = incident.Digest("scale-workers", 2) }, reason: incident.StaleExecution, outcome: blocked},
			"the proposal approved":          {held: func(s *incident.Session) { *s.Approval.Grant.ProposalID = "0197-other" }, reason: incident.StaleExecution, outcome: blocked},
			"the tool approved":              {held: func(s *incident.Session) { s.Approval.Grant.Operations = []string{"stage_mitigation"} }, reason: incident.StaleExecution, outcome: blocked},
			"the approval, marked consumed":  {held: func(s *incident.Session) { s.Approval.ConsumedAt = &second }, reason: incident.ApprovalConsumed, outcome: blocked},
			"the uses of the approval":       {held: func(s *incident.Session) { s.Approval.Used = map[string]int64{"execute_approved_mitigation": 1} }, reason: incident.ApprovalConsumed, outcome: blocked},
			"the end of the approval":        {held: func(s *incident.Session) { s.Approval.Grant.ExpiresAt = evidence.TimeOf(dawn) }, reason: incident.ApprovalExpired, outcome: blocked},
			"the session of the approval":    {held: func(s *incident.Session) { s.Approval.Session = "ses_" + strings.Repeat("0", 32) }, reason: incident.IdentityMismatch, outcome: blocked},
			"the head of the receipts":       {head: true, reason: incident.ExecutionConflict},
			"nothing (the control of these)": {outcome: ok},
		} {
			b := &browser{h: h}
			s := b.approved("restore-pool")
			if c.held != nil {
				h.change(c.held)
			}
			if c.head {
				h.ledger.load = func(s *ledger.Subject) { s.Head = strings.Repeat("0", 64) }
			}
			a, reason := b.execute(altered(s, c.present))
			is(t, what, a, reason, c.reason, c.outcome)
			h.ledger.load = nil
			if at := b.now(); c.outcome != ok && (at.Status != incident.AwaitingApproval || at.Version != 2 || at.Execution != nil) {
				t.Errorf("%s: blocked, and the incident is %s at %d", what, at.Status, at.Version)
			}
		}
	})
}

// Of two faults the one that comes first is told (G-25).
func TestPrecedence(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		theirs := (&browser{h: h}).approved("restore-pool") // the digest and version are everybody's first
		executed := func(b *browser) *incident.Staged {
			s := b.approved("restore-pool")
			b.executed(s)
			return s
		}
		expired := func(b *browser, s *incident.Staged) *incident.Staged {
			h.clock.Move(5 * time.Minute)
			return s
		}
		frozen := func(b *browser) *incident.Staged {
			s := b.approved("restore-pool")
			h.frozen = true
			return s
		}
		// Each makes a session that has both faults, or the second alone, with the request.
		for _, c := range []struct {
			first, then string
			both, alone func(*browser) *incident.Staged
		}{
			{
				incident.IdempotencyConflict, incident.NothingStaged,
				func(b *browser) *incident.Staged { s := executed(b); b.reset(); return altered(s, "version") },
				func(b *browser) *incident.Staged { s := executed(b); b.reset(); return altered(s, "key") },
			},
			{
				incident.NothingStaged, incident.StaleExecution,
				func(*browser) *incident.Staged { return altered(theirs, "digest") },
				func(b *browser) *incident.Staged { return altered(b.stage("restore-pool"), "digest") },
			},
			{
				incident.StaleExecution, incident.ApprovalRequired,
				func(b *browser) *incident.Staged { return altered(b.stage("restore-pool"), "version") },
				func(b *browser) *incident.Staged { return b.stage("restore-pool") },
			},
			{
				incident.ApprovalRequired, incident.IdentityMismatch,
				func(b *browser) *incident.Staged { b.stage("restore-pool"); return theirs },
				func(b *browser) *incident.Staged { b.approved("restore-pool"); return theirs },
			},
			{
				incident.IdentityMismatch, incident.ApprovalConsumed,
				func(b *browser) *incident.Staged { executed(b); return theirs },
				func(b *browser) *incident.Staged { return altered(executed(b), "key") },
			},
			{
				incident.ApprovalConsumed, incident.ApprovalExpired,
				func(b *browser) *incident.Staged { return expired(b, altered(executed(b), "key")) },
				func(b *browser) *incident.Staged { return expired(b, b.approved("restore-pool")) },
			},
			{
				incident.ApprovalExpired, incident.StaleExecution, // of a key that is nobody's
				func(b *browser) *incident.Staged { return expired(b, altered(b.approved("restore-pool"), "key")) },
				func(b *browser) *incident.Staged { return altered(b.approved("restore-pool"), "key") },
			},
			{
				incident.StaleExecution, "FROZEN",
				func(b *browser) *incident.Staged { return altered(frozen(b), "key") },
				frozen,
			},
		} {
			both, alone := &browser{h: h}, &browser{h: h}
			a, reason := both.execute(c.both(both))
			is(t, c.first+" with "+c.then, a, reason, c.first, blocked)
			h.frozen = false
			a, reason = alone.execute(c.alone(alone))
			is(t, c.then+" without "+c.first, a, reason, c.then, blocked)
			h.frozen = false
			both.chain()
		}
	})
}

// An approval is good until the millisecond before five minutes are over, and no longer:
// G-25; whatever a commit waits for.
func TestApprovalEnds(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		for after, want := range map[time.Duration]string{
			5*time.Minute - time.Millisecond: "", 5 * time.Minute: incident.ApprovalExpired, 5*time.Minute + time.Millisecond: incident.ApprovalExpired,
		} {
			b := &browser{h: h}
			s := b.approved("restore-pool")
			if end := b.now().Approval.Grant.ExpiresAt.Sub(b.now().Approval.ApprovedAt); end != 5*time.Minute {
				t.Errorf("an approval lives %s", end)
			}
			h.clock.Move(after)
			a, reason := b.execute(s)
			is(t, "after "+after.String(), a, reason, want, map[bool]string{true: ok, false: blocked}[want == ""])
			b.chain()
		}
		// The decision is made in time, and its commit waits until the end.
		for _, without := range []string{"", "expiry"} {
			for left, want := range map[time.Duration]string{time.Millisecond: "", 0: incident.ApprovalExpired} {
				if without != "" {
					want = "" // the control
				}
				b := &browser{h: h}
				s := b.approved("restore-pool")
				h.clock.Move(5*time.Minute - time.Second)
				waited := false
				h.config.Without, h.config.Fault = without, func(point string) error {
					if point == control.FaultDecided && !waited {
						waited = true
						h.clock.Move(time.Second - left)
					}
					return nil
				}
				h.open()
				a, reason := b.execute(s)
				is(t, "committed "+left.String()+" before the end, without "+without, a, reason, want, map[bool]string{true: ok, false: blocked}[want == ""])
				h.config.Without, h.config.Fault = "", nil
				h.open()
				b.chain()
			}
		}
		// A clock that is set back revives nothing.
		b := &browser{h: h}
		s := b.approved("restore-pool")
		h.clock.Move(5 * time.Minute)
		b.read()
		h.clock.Move(-time.Minute)
		a, reason := b.execute(s)
		is(t, "after the clock was set back", a, reason, incident.ApprovalExpired, blocked)
		if at := b.now(); at.ApprovalState() != "expired" {
			t.Errorf("shown as %s", at.ApprovalState())
		}
		if _, reason := b.approve(); reason != "" {
			t.Errorf("the form that is shown then: %s", reason)
		}
		b.chain()
	})
}
