package incident_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/internal/canon"
	"countersign/internal/runbook/incident"
)

// G-24: every operation in every status: what it is refused for, and
// what status and version follow. Approval and reads leave the version.
func TestEveryOperation(t *testing.T) {
	other := incident.Input{ActionDigest: to(hash("a")), ResourceVersion: to(int64(1)), IdempotencyKey: to("rr_" + hash("b")[:32])}
	for _, c := range []struct {
		name  string
		begin func(testing.TB) *world
		wait  time.Duration
		// reasons of stage, approve, execute with the key of what is staged; "" when allowed
		stage, approve, execute string
		executed                string // status after it
		status                  string // before
	}{
		{"investigating", begun, 0, "", "nothing_staged", "nothing_staged", "", "investigating"},
		{"awaiting-approval", staged, 0, "", "", "approval_required", "", "awaiting-approval"},
		{"approved", approved, 0, "", "", "", "mitigated", "awaiting-approval"},
		{"approved, at its last moment", approved, 5*time.Minute - time.Millisecond, "", "", "", "mitigated", "awaiting-approval"},
		{"approved, and expired", approved, 5 * time.Minute, "", "", "approval_expired", "", "awaiting-approval"},
		{"mitigated", executed, 0, "", "approval_consumed", "", "mitigated", "mitigated"},
		{"recovery-required", failed, 0, "recovery_required", "approval_consumed", "", "recovery-required", "recovery-required"},
		{"reset", func(t testing.TB) *world { w := executed(t); w.reset(); return w }, 0, "", "nothing_staged", "nothing_staged", "", "investigating"},
		{"reset after a partial failure", func(t testing.TB) *world { w := failed(t); w.reset(); return w }, 0, "", "nothing_staged", "nothing_staged", "", "investigating"},
	} {
		for _, operation := range incident.Operations {
			w := c.begin(t).after(c.wait)
			before := w.state()
			approval, execution := other, other
			if before.Staged != nil {
				approval, execution = w.approval(), w.execution()
			}
			approval.IdempotencyKey = nil
			in := map[string]incident.Input{
				"compare": {MitigationID: to(shifted)}, "stage": {MitigationID: to(shifted), ExpectedVersion: &before.Version}, "reset": {ExpectedVersion: &before.Version},
				"approve": approval, "execute": execution,
			}[operation]
			receipt, got := w.ask(operation, "human", in, incident.Seen{Form: true})
			want := map[string]string{"stage": c.stage, "approve": c.approve, "execute": c.execute}[operation]
			status, version := c.status, before.Version
			switch {
			case want != "":
			case operation == "stage":
				status, version = "awaiting-approval", version+1
			case operation == "reset":
				status, version = "investigating", version+1
			case operation == "execute" && c.executed != c.status:
				status, version = c.executed, version+1
			}
			after := w.state()
			if before.Status != c.status || got != want || after.Status != status || after.Version != version {
				t.Errorf("%s, %s: %q to %s at %d, want %q to %s at %d", c.name, operation, got, after.Status, after.Version, want, status, version)
			}
			if receipt == nil || receipt.Result.Status != status || receipt.ResourceVersion != version || receipt.Result.Metrics != after.Metrics || after.Events != before.Events+1 {
				t.Errorf("%s, %s: the receipt tells %+v", c.name, operation, receipt)
			}
			w.lawful()
		}
	}
}

// G-25: what is looked at first. Each row breaks its own condition and,
// as far as they go together, all that come after it.
func TestPrecedenceOfExecution(t *testing.T) {
	everything := incident.Seen{Foreign: true, Frozen: true}
	for _, c := range []struct {
		name  string
		world *world
		in    func(incident.Input) incident.Input // of the execution of what was staged first
		seen  incident.Seen
		want  string
	}{
		{"exact retry, everything else gone", func() *world { w := executed(t); w.reset(); return w.after(time.Hour) }(), nil, everything, ""},
		{"same key, another digest", func() *world { w := executed(t); w.reset(); return w.after(time.Hour) }(), digest(hash("a")), everything, "idempotency_conflict"},
		{"same key, another version", func() *world { w := executed(t); w.reset(); return w.after(time.Hour) }(), version(9), everything, "idempotency_conflict"},
		{"nothing staged", func() *world { w := approved(t); w.reset(); return w }(), nil, everything, "nothing_staged"},
		{"another digest", func() *world { w := staged(t); return w }(), digest(hash("a")), everything, "stale_execution"},
		{"another version", func() *world { w := staged(t); return w }(), version(1), everything, "stale_execution"},
		{"staged anew", func() *world { w := approved(t); w.stage(mitigated); return w }(), nil, everything, "stale_execution"},
		{"never approved", staged(t), otherKey, everything, "approval_required"},
		{"another session's key", executed(t).after(time.Hour), otherKey, everything, "identity_mismatch"},
		{"used", executed(t).after(time.Hour), otherKey, incident.Seen{Frozen: true}, "approval_consumed"},
		{"expired", approved(t).after(5 * time.Minute), otherKey, incident.Seen{Frozen: true}, "approval_expired"},
		{"another key", approved(t), otherKey, incident.Seen{Frozen: true}, "stale_execution"},
		{"frozen", approved(t), nil, incident.Seen{Frozen: true}, "FROZEN"},
		{"nothing in the way", approved(t).after(5*time.Minute - time.Millisecond), nil, incident.Seen{}, ""},
	} {
		in := c.world.first()
		if c.in != nil {
			in = c.in(in)
		}
		before := canon.MustMarshal(c.world.state().Execution)
		receipt, got := c.world.ask("execute", "api", in, c.seen)
		if got != c.want || receipt == nil || (receipt.Event == "request.blocked") != (c.want != "") {
			t.Errorf("%s: %q, want %q; %+v", c.name, got, c.want, receipt)
		}
		if after := canon.MustMarshal(c.world.state().Execution); c.want != "" && string(after) != string(before) {
			t.Errorf("%s: something was executed: %s", c.name, after)
		}
		c.world.lawful()
	}
}

// first is the execution of what was staged first in the session.
func (w *world) first() incident.Input {
	w.t.Helper()
	s := w.told[0].Result.Staged
	return incident.Input{ActionDigest: &s.Digest, ResourceVersion: &s.Version, IdempotencyKey: &s.IdempotencyKey}
}

func digest(d string) func(incident.Input) incident.Input {
	return func(in incident.Input) incident.Input { in.ActionDigest = &d; return in }
}

func version(n int64) func(incident.Input) incident.Input {
	return func(in incident.Input) incident.Input { in.ResourceVersion = &n; return in }
}

func otherKey(in incident.Input) incident.Input {
	in.IdempotencyKey = to("rr_" + hash("c")[:32])
	return in
}

// L-9: what an approval is refused for, in this order. Only the form
// of the page approves, whatever the caller says beside it.
func TestPrecedenceOfApproval(t *testing.T) {
	reset := func() *world { w := approved(t); w.reset(); return w }
	for _, c := range []struct {
		name    string
		world   *world
		channel string
		in      func(incident.Input) incident.Input
		seen    incident.Seen
		want    string
		silent  bool
	}{
		{"a tool", reset(), "webmcp", nil, incident.Seen{Form: true, Frozen: true}, "approval_required", false},
		{"the simulator", staged(t), "simulator", nil, incident.Seen{Form: true}, "approval_required", false},
		{"a program", staged(t), "api", nil, incident.Seen{Form: true}, "approval_required", false},
		{"nothing staged", reset(), "human", digest(hash("a")), incident.Seen{Frozen: true}, "nothing_staged", false},
		{"another digest", executed(t), "human", digest(hash("a")), incident.Seen{Frozen: true}, "stale_approval", true},
		{"another version", executed(t), "human", version(1), incident.Seen{Frozen: true}, "stale_approval", true},
		{"used", executed(t), "human", nil, incident.Seen{Frozen: true}, "approval_consumed", false},
		{"without the form", staged(t), "human", nil, incident.Seen{Frozen: true}, "approval_required", false},
		{"frozen", staged(t), "human", nil, incident.Seen{Form: true, Frozen: true}, "FROZEN", false},
		{"frozen, while one lives", approved(t), "human", nil, incident.Seen{Form: true, Frozen: true}, "FROZEN", false},
		{"the form of the page", staged(t), "human", nil, incident.Seen{Form: true}, "", false},
	} {
		in := c.world.first()
		in.IdempotencyKey = nil
		if c.in != nil {
			in = c.in(in)
		}
		before := c.world.state()
		receipt, got := c.world.ask("approve", c.channel, in, c.seen)
		if got != c.want || (receipt == nil) != c.silent {
			t.Errorf("%s: %q, want %q; %+v", c.name, got, c.want, receipt)
		}
		if after := c.world.state(); c.want != "" && after.Approvals != before.Approvals {
			t.Errorf("%s: something was approved", c.name)
		}
		c.world.lawful()
	}
}

// the record of an approval says what was approved, by which
// session, in which version, until when, and when it was used.
func TestApproval(t *testing.T) {
	w := staged(t).after(time.Minute)
	a := w.approve().Result.Approval
	s := w.state().Staged
	if a.Session != session || a.IncidentID != "INC-2841" || a.MitigationID != "restore-pool" || a.Version != 2 || *a.Grant.EffectDigest != actionDigest("INC-2841", "restore-pool", 2) ||
		*a.Grant.ProposalID != s.ProposalID || a.ApprovedAt != w.now || a.Grant.ExpiresAt.Sub(w.now) != 5*time.Minute || a.ConsumedAt != nil || a.Grant.Kind != "exact" || a.Grant.MaxUses["execute_approved_mitigation"] != 1 || a.Arrival != "page-form-nonce" {
		t.Errorf("the approval is %+v", a)
	}
	// Asked for again while it lives, it is the same record; once it has ended, a new one.
	again := w.after(5*time.Minute - time.Millisecond).approve()
	if string(canon.MustMarshal(again.Result.Approval)) != string(canon.MustMarshal(a)) || again.Event != "approval.repeated" || w.state().Approvals != 1 {
		t.Errorf("asked again: %+v", again)
	}
	anew := w.after(time.Millisecond).approve()
	if b := anew.Result.Approval; b.Grant.ID == a.Grant.ID || b.ApprovedAt != w.now || anew.Event != "approval.granted" || w.state().Approvals != 2 {
		t.Errorf("approved anew: %+v", anew)
	}
	x := w.execute().Result.Execution
	used := w.state().Approval
	if used.ConsumedAt == nil || *used.ConsumedAt != w.now || !used.Consumed() || used.Live(w.now) || x.ApprovalID != used.Grant.ID || w.told[len(w.told)-1].Result.Approval != nil {
		t.Errorf("used: %+v", used)
	}
	if w.state().Executions != 1 || x.Digest != *a.Grant.EffectDigest || x.Version != 2 || w.state().Version != 3 || x.ExecutedAt != w.now {
		t.Errorf("executed: %+v", x)
	}
	w.lawful()
	unused := incident.Approval{ConsumedAt: nil, Grant: used.Grant, Used: used.Used}
	if !unused.Consumed() {
		t.Error("a counted use does not consume")
	}
}

// whatever ends a version ends its approval.
func TestApprovalEnds(t *testing.T) {
	for name, end := range map[string]func(*world){"stage": func(w *world) { w.stage(mitigated) }, "reset": func(w *world) { w.reset(); w.stage(mitigated) }} {
		w := approved(t)
		end(w)
		if w.state().Approval != nil {
			t.Errorf("%s: the approval is still there", name)
		}
		if _, got := w.ask("execute", "webmcp", w.execution(), incident.Seen{}); got != "approval_required" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// R-040, G-26: who named an old version to stage, approve or reset leaves no receipt, and
// nothing changes. An execution of an old version does.
func TestSilentRefusals(t *testing.T) {
	for _, c := range []struct {
		operation string
		in        incident.Input
		reason    string
	}{
		{"stage", incident.Input{MitigationID: to(mitigated), ExpectedVersion: to(int64(1))}, "stale_state"},
		{"stage", incident.Input{MitigationID: to(mitigated), ExpectedVersion: to(int64(3))}, "stale_state"},
		{"reset", incident.Input{ExpectedVersion: to(int64(1))}, "stale_reset"},
		{"approve", incident.Input{ActionDigest: to(hash("a")), ResourceVersion: to(int64(2))}, "stale_approval"},
	} {
		w := staged(t)
		before := string(w.raw)
		if receipt, got := w.ask(c.operation, "human", c.in, incident.Seen{Form: true}); receipt != nil || got != c.reason || string(w.raw) != before || len(w.events) != 1 {
			t.Errorf("%s: %q, %+v", c.operation, got, receipt)
		}
	}
	for _, reason := range []string{"stale_state", "stale_approval", "stale_reset", "receipt_conflict", "execution_conflict"} {
		if incident.LeavesReceipt(reason) {
			t.Errorf("%s leaves a receipt", reason)
		}
	}
	for _, reason := range []string{
		"nothing_staged", "invalid_mitigation", "stale_execution", "approval_required", "identity_mismatch", "approval_expired", "approval_consumed", "idempotency_conflict", "recovery_required", "FROZEN",
	} {
		if !incident.LeavesReceipt(reason) {
			t.Errorf("%s leaves no receipt", reason)
		}
	}
}

// G-26: what names no mitigation of the catalog is an error, and told as one.
func TestInvalidMitigation(t *testing.T) {
	for operation, in := range map[string]incident.Input{"compare": {MitigationID: to("drop-tables")}, "stage": {MitigationID: to("drop-tables"), ExpectedVersion: to(int64(7))}} {
		w := staged(t)
		receipt, got := w.ask(operation, "webmcp", in, incident.Seen{})
		if got != "invalid_mitigation" || receipt == nil || receipt.Outcome != "error" || receipt.Event != "request.blocked" || *receipt.Result.ReasonCode != got || w.state().Staged.MitigationID != mitigated {
			t.Errorf("%s: %q, %+v", operation, got, receipt)
		}
		w.lawful()
	}
}

// A comparison tells what was compared: the one in focus, or all.
func TestCompared(t *testing.T) {
	w := begun(t)
	all := w.allow(w.ask("compare", "webmcp", incident.Input{}, incident.Seen{}))
	one := w.allow(w.ask("compare", "webmcp", incident.Input{MitigationID: to(scaled)}, incident.Seen{}))
	if !slices.Equal(all.Result.Compared, []string{mitigated, shifted, scaled}) || !slices.Equal(one.Result.Compared, []string{scaled}) {
		t.Errorf("compared %v and %v", all.Result.Compared, one.Result.Compared)
	}
}

// G-24: recovery is required after an execution in part and after nothing else; then the
// measures are those that were last seen, and only a reset leads out.
func TestPartialFailure(t *testing.T) {
	w := failed(t)
	x := w.told[2]
	if x.Outcome != "partial_failure" || x.Result.Execution.Status != "recovery-required" || x.Result.Execution.After != x.Result.Execution.Before || w.state().Metrics != incident.TheIncident.Baseline {
		t.Errorf("in part: %+v", x)
	}
	again := w.execute()
	if again.Event != "execution.replayed" || again.Outcome != "partial_failure" || w.state().Executions != 1 {
		t.Errorf("the retry: %+v", again)
	}
	w.reset()
	if w.state().Status != "investigating" || len(w.events) != 5 {
		t.Errorf("after the reset: %+v", w.state())
	}
	w.lawful()
	// A fault of another operation's request is none.
	for _, operation := range []string{"snapshot", "compare", "stage", "reset"} {
		w := begun(t)
		in := incident.Input{}
		if operation == "stage" {
			in.MitigationID = to(mitigated)
		}
		if operation == "stage" || operation == "reset" {
			in.ExpectedVersion = to(int64(1))
		}
		if w.ask(operation, "api", in, incident.Seen{Partial: true}); w.state().Status == "recovery-required" {
			t.Errorf("%s leads to recovery-required", operation)
		}
	}
}

// a reset keeps the receipts and the newest execution, by which a lost answer
// is found again.
func TestReset(t *testing.T) {
	w := executed(t)
	receipts := len(w.events)
	w.reset()
	s := w.state()
	if len(w.events) != receipts+1 || s.Execution == nil || s.Status != "investigating" || s.Staged != nil || s.Approval != nil || s.Metrics != incident.TheIncident.Baseline || s.Version != 4 {
		t.Errorf("after the reset: %+v", s)
	}
	receipt, reason := w.ask("execute", "api", w.first(), incident.Seen{})
	if reason != "" || receipt.Event != "execution.replayed" || w.state().Status != "investigating" || w.state().Version != 4 {
		t.Errorf("the lost answer: %q, %+v", reason, receipt)
	}
	w.lawful()
}

// a replay tells the stored result, its status and measures too, whatever has
// become of the incident since. Its receipt's version is that of now.
func TestReplayTellsWhatWas(t *testing.T) {
	w := executed(t)
	lost := w.execution()
	was := w.told[len(w.told)-1].Result
	w.reset()
	w.stage(shifted)
	r := w.allow(w.ask("execute", "api", lost, incident.Seen{}))
	if r.Result.Status != "mitigated" || r.Result.Metrics != was.Metrics || was.Metrics == incident.TheIncident.Baseline || r.ResourceVersion != 5 {
		t.Errorf("the replay tells %+v at version %d, stored was %+v", r.Result, r.ResourceVersion, was)
	}
	if s := w.state(); s.Status != "awaiting-approval" || s.Metrics != incident.TheIncident.Baseline || s.Executions != 1 {
		t.Errorf("the replay changed the incident: %+v", s)
	}
	w.lawful()
}

// The chain holds 10,000 receipts (L-14). What an agent can ask for without end does not
// keep out a person's approval, its execution or a reset: reading, comparing, staging and
// being refused leave the last 1,000 places, and retries that are told again the last 100.
func TestSpared(t *testing.T) {
	const read, compare, stage, refused, approve, again, execute, retry, resets = "read", "compare", "stage", "refused", "approve", "approve again", "execute", "retry", "reset"
	ask := map[string]func(*world) (*incident.Receipt, string){
		read: func(w *world) (*incident.Receipt, string) {
			return w.ask("snapshot", "api", incident.Input{}, incident.Seen{})
		},
		compare: func(w *world) (*incident.Receipt, string) {
			return w.ask("compare", "api", incident.Input{}, incident.Seen{})
		},
		stage: func(w *world) (*incident.Receipt, string) {
			return w.ask("stage", "api", incident.Input{MitigationID: to(shifted), ExpectedVersion: to(w.state().Version)}, incident.Seen{})
		},
		resets: func(w *world) (*incident.Receipt, string) {
			return w.ask("reset", "api", incident.Input{ExpectedVersion: to(w.state().Version)}, incident.Seen{})
		},
	}
	form := func(w *world) (*incident.Receipt, string) {
		s := w.state().Staged
		return w.ask("approve", "human", incident.Input{ActionDigest: &s.Digest, ResourceVersion: &s.Version}, incident.Seen{Form: true})
	}
	run := func(w *world) (*incident.Receipt, string) {
		return w.ask("execute", "api", w.execution(), incident.Seen{})
	}
	ask[approve], ask[again], ask[execute], ask[retry], ask[refused] = form, form, run, run, run
	at := map[string]func(testing.TB) *world{approve: staged, refused: staged, again: approved, execute: approved, retry: executed, resets: failed, read: staged, compare: staged, stage: staged}
	for what, room := range map[string]int64{
		read: 9_000, compare: 9_000, stage: 9_000, refused: 9_000, again: 9_900, retry: 9_900, approve: 10_000, execute: 10_000, resets: 10_000,
	} {
		for _, events := range []int64{room - 1, room} {
			w := at[what](t)
			s := w.state()
			s.Events = events
			w.raw = canon.MustMarshal(s)
			before := string(w.raw)
			receipt, reason := ask[what](w)
			switch {
			case events < room && (receipt == nil || reason == "receipt_conflict" || w.state().Events != room):
				t.Errorf("%s as receipt %d: %q, %+v", what, room, reason, receipt)
			case events == room && (receipt != nil || reason != "receipt_conflict" || string(w.raw) != before):
				t.Errorf("%s behind %d receipts: %q, %+v", what, room, reason, receipt)
			}
		}
	}
	// Spammed to the last place that it gets, an agent has kept nobody out.
	w := staged(t)
	s := w.state()
	s.Events = 8_999
	w.raw = canon.MustMarshal(s)
	for range 2 {
		ask[read](w)
		ask[refused](w)
	}
	for _, what := range []string{approve, execute, retry, resets} {
		if _, reason := ask[what](w); reason != "" {
			t.Errorf("%s in a spared place: %s", what, reason)
		}
	}
	// What was refused anyway says why beside that it has no place.
	d := incident.Begin(func() *incident.Session { s := staged(t).state(); s.Events = 9_000; return s }(), subject, session, dawn, [32]byte{})
	if _, denial := d.Do(incident.Request{Operation: "execute", Channel: "api", Input: staged(t).execution()}, incident.Seen{}); denial == nil || !strings.HasPrefix(denial.Detail, "The staged action is not approved. ") {
		t.Errorf("a refusal without a place: %+v", denial)
	}
}

// A decision whose time is before the newest receipt happens at that receipt's time: an
// approval does not live longer because a clock went back.
func TestClockBack(t *testing.T) {
	w := approved(t).after(5 * time.Minute)
	w.read()
	if _, got := w.after(-time.Hour).ask("execute", "api", w.execution(), incident.Seen{}); got != "approval_expired" {
		t.Errorf("after the clock went back: %q", got)
	}
	w.lawful()
}

// The form of a request: each operation has its members, no other is taken, and each is
// bounded. The problem names the member.
func TestProblem(t *testing.T) {
	full := incident.Input{MitigationID: to(mitigated), ExpectedVersion: to(int64(1)), ActionDigest: to(hash("a")), ResourceVersion: to(int64(1)), IdempotencyKey: to("rr_" + hash("b")[:32])}
	members := map[string]struct {
		clear func(*incident.Input)
		copy  func(*incident.Input)
		bad   []incident.Input
		good  []incident.Input
	}{
		"mitigationId": {func(in *incident.Input) { in.MitigationID = nil }, func(in *incident.Input) { in.MitigationID = full.MitigationID }, each(func(s string) incident.Input { return incident.Input{MitigationID: &s} },
			"", "-a", "Restore", "a b", "a_b", "a`b", "a{b", "a/b", "a:b", "ü", fmt.Sprintf("%065d", 0)), each(func(s string) incident.Input { return incident.Input{MitigationID: &s} }, "a", "z-", "0", "9", "other", fmt.Sprintf("%064d", 0))},
		"expectedVersion": {func(in *incident.Input) { in.ExpectedVersion = nil }, func(in *incident.Input) { in.ExpectedVersion = full.ExpectedVersion }, each(func(n int64) incident.Input { return incident.Input{ExpectedVersion: &n} },
			0, -1, 1<<53), each(func(n int64) incident.Input { return incident.Input{ExpectedVersion: &n} }, 1, 1<<53-1)},
		"actionDigest": {func(in *incident.Input) { in.ActionDigest = nil }, func(in *incident.Input) { in.ActionDigest = full.ActionDigest }, each(func(s string) incident.Input { return incident.Input{ActionDigest: &s} },
			"", hash("A"), hash("a")[1:], hash("a")+"a", hash("g")), each(func(s string) incident.Input { return incident.Input{ActionDigest: &s} }, hash("0"))},
		"resourceVersion": {func(in *incident.Input) { in.ResourceVersion = nil }, func(in *incident.Input) { in.ResourceVersion = full.ResourceVersion }, each(func(n int64) incident.Input { return incident.Input{ResourceVersion: &n} },
			0, -1, 1<<53), each(func(n int64) incident.Input { return incident.Input{ResourceVersion: &n} }, 1, 1<<53-1)},
		"idempotencyKey": {func(in *incident.Input) { in.IdempotencyKey = nil }, func(in *incident.Input) { in.IdempotencyKey = full.IdempotencyKey }, each(func(s string) incident.Input { return incident.Input{IdempotencyKey: &s} },
			"", "rr_", "rr_"+hash("a")[:31], "rr_"+hash("a")[:33], "rr_"+hash("A")[:32], "xx_"+hash("a")[:32], hash("a")[:32]), each(func(s string) incident.Input { return incident.Input{IdempotencyKey: &s} }, "rr_"+hash("0")[:32])},
	}
	takes := map[string][]string{
		"snapshot": {}, "compare": {"mitigationId?"}, "stage": {"mitigationId", "expectedVersion"}, "approve": {"actionDigest", "resourceVersion"},
		"execute": {"actionDigest", "resourceVersion", "idempotencyKey"}, "reset": {"expectedVersion"},
	}
	problem := func(operation, channel string, in incident.Input) string {
		r := incident.Request{Operation: operation, Channel: channel, Input: in}
		got, _, _ := strings.Cut(r.Problem(), ":")
		return got
	}
	for operation, names := range takes {
		in := full
		for name, m := range members {
			if !slices.Contains(names, name) && !slices.Contains(names, name+"?") {
				m.clear(&in)
			}
		}
		if got := problem(operation, "human", in); got != "" {
			t.Errorf("%s is refused for %s", operation, got)
		}
		if got := problem(operation, "phone", in); got != "channel" {
			t.Errorf("%s by phone: %q", operation, got)
		}
		for name, m := range members {
			required, taken := slices.Contains(names, name), slices.Contains(names, name) || slices.Contains(names, name+"?")
			without, with := in, in
			m.clear(&without)
			m.copy(&with)
			want := ""
			if required {
				want = name
			}
			if got := problem(operation, "api", without); got != want {
				t.Errorf("%s without %s: %q", operation, name, got)
			}
			want = name
			if taken {
				want = ""
			}
			if got := problem(operation, "api", with); got != want {
				t.Errorf("%s with %s: %q", operation, name, got)
			}
			for i, list := range [][]incident.Input{m.good, m.bad} {
				for _, one := range list {
					changed := merge(in, one)
					want := name
					if i == 0 && taken {
						want = ""
					}
					if got := problem(operation, "api", changed); got != want {
						t.Errorf("%s with %s: %q, want %q", operation, canon.MustMarshal(one), got, want)
					}
				}
			}
		}
	}
	if got := problem("delete", "human", incident.Input{}); got != "operation" {
		t.Errorf("another operation: %q", got)
	}
}

func each[V any](f func(V) incident.Input, values ...V) (list []incident.Input) {
	for _, v := range values {
		list = append(list, f(v))
	}
	return list
}

// merge puts the one member of b into a.
func merge(a, b incident.Input) incident.Input {
	for _, m := range []struct{ to, from **string }{{&a.MitigationID, &b.MitigationID}, {&a.ActionDigest, &b.ActionDigest}, {&a.IdempotencyKey, &b.IdempotencyKey}} {
		if *m.from != nil {
			*m.to = *m.from
		}
	}
	for _, m := range []struct{ to, from **int64 }{{&a.ExpectedVersion, &b.ExpectedVersion}, {&a.ResourceVersion, &b.ResourceVersion}} {
		if *m.from != nil {
			*m.to = *m.from
		}
	}
	return a
}
