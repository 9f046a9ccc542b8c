package control_test

import (
	"testing"

	"countersign/internal/runbook/incident"
)

// The whole workflow: blocked without an approval, executed once with it, told again to a
// retry.
func TestWorkflow(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		if s, err := h.Snapshot(t.Context(), ""); err != nil || s.Session != nil || s.Version != 1 || s.Receipts.Total != 0 {
			t.Fatalf("before the first request: %+v, %v", s, err)
		}
		staged := b.stage("restore-pool")
		if a, reason := b.execute(staged); reason != incident.ApprovalRequired || a.Receipt == nil {
			t.Fatalf("without an approval: %s", reason)
		}
		if _, reason := b.approve(); reason != "" {
			t.Fatalf("approve: %s", reason)
		}
		first, reason := b.execute(staged)
		if reason != "" || first.Replayed || first.Snapshot.Status != incident.Mitigated || first.Snapshot.Version != 3 {
			t.Fatalf("execute: %s, %+v", reason, first)
		}
		again, reason := b.execute(staged)
		if reason != "" || !again.Replayed || again.Result.Execution.ID != first.Result.Execution.ID || again.Snapshot.Version != 3 {
			t.Fatalf("the retry: %s, %+v", reason, again)
		}
		if v := again.Snapshot.Receipts; v.Total != 5 || !v.Verified.OK || v.Truncated {
			t.Fatalf("receipts %+v", v)
		}
		if n := len(b.chain()); n != 5 {
			t.Errorf("%d receipts in the export, want 5", n)
		}
	})
}
