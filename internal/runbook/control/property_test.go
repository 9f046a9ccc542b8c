package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/internal/runbook/incident"

	"pgregory.net/rapid"
)

// sketch is what a reader of the requirements would note down of a session, kept apart from
// the machine.
type sketch struct {
	version  int64
	status   string
	staged   *incident.Staged
	approval string // "", live or used
	until    time.Duration
	gave     string // the nonce of the newest approval
	done     map[string]*incident.Execution
	receipts int64
}

// executed says what an execution comes to (G-25).
func (k *sketch) executed(s *incident.Staged, theirs string, now time.Duration, frozen bool) (reason string, replayed bool) {
	if x := k.done[s.IdempotencyKey]; x != nil {
		if x.Digest == s.Digest && x.Version == s.Version {
			return "", true
		}
		return incident.IdempotencyConflict, false
	}
	switch {
	case k.staged == nil:
		return incident.NothingStaged, false
	case s.Digest != k.staged.Digest || s.Version != k.staged.Version:
		return incident.StaleExecution, false
	case k.approval == "":
		return incident.ApprovalRequired, false
	case s.IdempotencyKey == theirs:
		return incident.IdentityMismatch, false
	case k.approval == "used":
		return incident.ApprovalConsumed, false
	case now >= k.until:
		return incident.ApprovalExpired, false
	case s.IdempotencyKey != k.staged.IdempotencyKey:
		return incident.StaleExecution, false
	case frozen:
		return "FROZEN", false
	}
	return "", false
}

// approved says what an approval comes to (L-9, G-25).
func (k *sketch) approved(channel string, s *incident.Staged, nonce, shown string, now time.Duration, frozen bool) (reason string, repeated bool) {
	live := k.approval == "live" && now < k.until
	switch {
	case channel != incident.Human:
		return incident.ApprovalRequired, false
	case k.staged == nil:
		return incident.NothingStaged, false
	case s.Digest != k.staged.Digest || s.Version != k.staged.Version:
		return incident.StaleApproval, false
	case k.approval == "used":
		return incident.ApprovalConsumed, false
	case live && nonce != k.gave || !live && nonce != shown || nonce == "":
		return incident.ApprovalRequired, false
	case frozen:
		return "FROZEN", false
	}
	return "", live
}

// Whatever is asked in whatever order and at whatever time: answers, versions and receipts
// are those of the requirements, and the chain is lawful..
func TestAnySession(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		theirs := (&browser{h: h}).stage("restore-pool")
		partial := false
		h.config.Partial = func() bool { return partial }
		h.open()
		address := 0
		rapid.Check(t, func(r *rapid.T) {
			address++
			b := &browser{h: h, remote: fmt.Sprint("192.0.2.", address)}
			b.read()
			k := &sketch{version: 1, status: incident.Investigating, done: map[string]*incident.Execution{}, receipts: 1}
			var stages []*incident.Staged
			for range rapid.IntRange(1, 24).Draw(r, "steps") {
				h.clock.Move(rapid.SampledFrom([]time.Duration{0, 0, 0, 0, time.Millisecond, 5*time.Minute - time.Millisecond, 5 * time.Minute}).Draw(r, "later"))
				h.frozen = rapid.IntRange(0, 7).Draw(r, "frozen") == 0
				partial = rapid.IntRange(0, 5).Draw(r, "partial") == 0
				now := h.clock.Offset()
				version := k.version + rapid.SampledFrom([]int64{0, 0, 0, -1, 1}).Draw(r, "version")
				version = max(1, version)
				s := *theirs // what the request is about: one that was staged, perhaps altered
				if len(stages) > 0 {
					s = *stages[max(0, len(stages)-1-rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(r, "which"))]
				}
				s = *altered(&s, rapid.SampledFrom([]string{"", "", "", "", "", "digest", "version", "key"}).Draw(r, "altered"))
				mitigation := rapid.SampledFrom([]string{"restore-pool", "shift-traffic", "scale-workers", "restart-everything"}).Draw(r, "mitigation")
				want, outcome := "", incident.Success
				do := rapid.SampledFrom([]string{incident.Snapshot, incident.Compare, incident.Stage, incident.Stage, incident.Approve, incident.Approve, incident.Approve, incident.Execute, incident.Execute, incident.Execute, incident.Reset}).Draw(r, "do")
				channel, nonce, in, replayed, repeated := incident.WebMCP, "", incident.Input{}, false, false
				switch do {
				case incident.Compare:
					in.MitigationID = &mitigation
					if mitigation == "restart-everything" {
						want = incident.InvalidMitigation
					}
				case incident.Stage:
					in = staging(mitigation, version)
					switch {
					case mitigation == "restart-everything":
						want = incident.InvalidMitigation
					case k.status == incident.RecoveryRequired:
						want = incident.RecoveryFirst
					case version != k.version:
						want = incident.StaleState
					}
				case incident.Approve:
					shown := b.form()
					channel = rapid.SampledFrom([]string{incident.Human, incident.Human, incident.Human, incident.API}).Draw(r, "channel")
					nonce = rapid.SampledFrom([]string{shown, shown, shown, k.gave, strings.Repeat("0", 64)}).Draw(r, "nonce")
					in = approving(&s)
					want, repeated = k.approved(channel, &s, nonce, shown, now, h.frozen)
				case incident.Execute:
					if rapid.IntRange(0, 7).Draw(r, "foreign") == 0 {
						s.IdempotencyKey = theirs.IdempotencyKey
					}
					in = executing(&s)
					want, replayed = k.executed(&s, theirs.IdempotencyKey, now, h.frozen)
				case incident.Reset:
					in = resetting(version)
					if version != k.version {
						want = incident.StaleReset
					}
				}
				a, reason := b.do(do, channel, in, nonce)
				// What it comes to.
				switch {
				case want == incident.StaleState || want == incident.StaleApproval || want == incident.StaleReset:
					outcome = ""
				case want == incident.InvalidMitigation:
					outcome = incident.Error
				case want != "":
					outcome = incident.Blocked
				case do == incident.Stage:
					k.version++
					k.status, k.approval, k.gave = incident.AwaitingApproval, "", ""
					k.staged = a.Snapshot.Staged
					stages = append(stages, k.staged)
				case do == incident.Approve && !repeated:
					k.approval, k.until, k.gave = "live", now+5*time.Minute, nonce
				case do == incident.Execute && replayed:
					if x := k.done[s.IdempotencyKey]; x.ID != a.Result.Execution.ID {
						r.Fatalf("the replay of %s is told %s", x.ID, a.Result.Execution.ID)
					}
					outcome = k.done[s.IdempotencyKey].Outcome
				case do == incident.Execute:
					k.version++
					k.approval = "used"
					k.done[s.IdempotencyKey] = a.Result.Execution
					k.status = map[string]string{"restore-pool": incident.Mitigated, "shift-traffic": incident.Monitoring, "scale-workers": incident.Monitoring}[k.staged.MitigationID]
					if partial {
						k.status, outcome = incident.RecoveryRequired, incident.PartialFailure
					}
				case do == incident.Reset:
					k.version++
					k.status, k.staged, k.approval, k.gave = incident.Investigating, nil, "", ""
				}
				if outcome != "" {
					k.receipts++
				}
				got := a.Snapshot
				if e := told(t, a.Receipt); reason != want || e.Outcome != outcome || a.Replayed != replayed {
					r.Fatalf("%s is answered %q with %q, replayed %v; want %q with %q, %v", do, reason, e.Outcome, a.Replayed, want, outcome, replayed)
				}
				if got.Version != k.version || got.Status != k.status || got.Receipts.Total != k.receipts || (got.Staged == nil) != (k.staged == nil) || !got.Receipts.Verified.OK {
					r.Fatalf("after %s: %s at %d with %d receipts, want %s at %d with %d", do, got.Status, got.Version, got.Receipts.Total, k.status, k.version, k.receipts)
				}
				if state := map[string]string{"": "none", "used": "consumed", "live": map[bool]string{true: "active", false: "expired"}[now < k.until]}[k.approval]; got.ApprovalState() != state {
					r.Fatalf("after %s the approval is %s, want %s", do, got.ApprovalState(), state)
				}
			}
			h.frozen = false
			if n := int64(len(b.chain())); n != k.receipts {
				r.Fatalf("%d receipts in the export, want %d", n, k.receipts)
			}
		})
	})
}
