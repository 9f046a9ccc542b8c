package incident_test

import (
	"slices"
	"testing"
	"time"

	"countersign/internal/runbook/incident"

	"pgregory.net/rapid"
)

// whatever is asked in whatever order and at whatever time,
// nothing is executed without an approval that lives, no key is executed twice, the version
// counts what changed, a reset keeps every receipt, only a fault leads to recovery, and the
// chain replays to the stored state. What is expected is kept here apart from the machine.
func TestAnySession(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := begun(t)
		w.read()
		version, receipts, inPart := int64(1), 1, false
		var stagings []incident.Input // every execution that there was a staging for
		staged := -1                  // of them, the one that is staged
		live := dawn                  // until when the approval of it lives
		executed := map[string]bool{}
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			w.after(rapid.SampledFrom([]time.Duration{0, 0, time.Second, time.Minute, 5*time.Minute - time.Millisecond, 5 * time.Minute, -time.Minute}).Draw(r, "later"))
			now := max(w.now, w.state().UpdatedAt)
			operation := rapid.SampledFrom([]string{"snapshot", "compare", "stage", "stage", "approve", "approve", "execute", "execute", "execute", "reset"}).Draw(r, "operation")
			channel := rapid.SampledFrom([]string{"human", "human", "webmcp", "api"}).Draw(r, "channel")
			seen := incident.Seen{Form: rapid.IntRange(0, 4).Draw(r, "form") > 0, Partial: rapid.IntRange(0, 4).Draw(r, "partial") == 0, Frozen: rapid.IntRange(0, 6).Draw(r, "frozen") == 0}
			in, asked := incident.Input{}, -1
			switch operation {
			case "stage":
				in.MitigationID, in.ExpectedVersion = to(rapid.SampledFrom([]string{mitigated, shifted, "nothing"}).Draw(r, "mitigation")), to(max(1, version-int64(rapid.IntRange(0, 3).Draw(r, "behind")/3)))
			case "reset":
				in.ExpectedVersion = &version
			case "approve", "execute":
				if len(stagings) == 0 {
					operation = "snapshot"
					break
				}
				asked = len(stagings) - 1 - min(len(stagings)-1, rapid.IntRange(0, 3).Draw(r, "earlier")/2)
				in = stagings[asked]
				if operation == "approve" {
					in.IdempotencyKey = nil
				}
			}
			status := w.state().Status
			receipt, reason := w.ask(operation, channel, in, seen)
			s := w.state()
			if receipt != nil {
				receipts++
			}
			if (reason == "" || incident.LeavesReceipt(reason)) != (receipt != nil) || len(w.events) != receipts || s.Events != int64(receipts) {
				r.Fatalf("%s %q: %d receipts of %d", operation, reason, len(w.events), receipts)
			}
			switch {
			case operation == "execute":
				key := *in.IdempotencyKey
				may := asked == staged && now < live && !seen.Frozen
				switch {
				case executed[key]:
					if reason != "" || receipt.Event != "execution.replayed" {
						r.Fatalf("an exact retry: %q, %+v", reason, receipt)
					}
				case may != (reason == ""):
					r.Fatalf("executed at %s: %q, staged %d of %d, live until %s, frozen %t", now, reason, asked, staged, live, seen.Frozen)
				case may:
					if receipt.Event != "mitigation.executed" {
						r.Fatalf("executed: %+v", receipt)
					}
					executed[key], live, inPart = true, dawn, seen.Partial
					version++
				}
			case operation == "approve":
				// A staging is executed at most once, so that one that was executed stays consumed.
				may := channel == "human" && seen.Form && !seen.Frozen && asked == staged && staged >= 0 && !executed[*stagings[staged].IdempotencyKey]
				if may != (reason == "") {
					r.Fatalf("approved: %q", reason)
				}
				if may && now >= live {
					live = now.Add(5 * time.Minute)
				}
			case operation == "stage" && reason == "":
				if inPart {
					r.Fatal("staged after a partial failure")
				}
				version++
				st := receipt.Result.Staged
				stagings, staged, live = append(stagings, incident.Input{ActionDigest: &st.Digest, ResourceVersion: &st.Version, IdempotencyKey: &st.IdempotencyKey}), len(stagings), dawn
			case operation == "reset":
				if reason != "" {
					r.Fatalf("reset: %q", reason)
				}
				version++
				staged, live, inPart = -1, dawn, false
			}
			if s.Version != version || (s.Status == "recovery-required") != inPart || s.Executions != int64(len(executed)) {
				r.Fatalf("%s %q from %s: version %d, want %d; %s, in part %t; %d executions of %d", operation, reason, status, s.Version, version, s.Status, inPart, s.Executions, len(executed))
			}
		}
		w.lawful()
		var keys []string
		for _, e := range w.told {
			if e.Event == "mitigation.executed" {
				if key := e.Result.Execution.IdempotencyKey; slices.Contains(keys, key) {
					r.Fatalf("%s was executed twice", key)
				} else {
					keys = append(keys, key)
				}
			}
		}
	})
}
