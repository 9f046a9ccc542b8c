package audit_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/machine"
	"countersign/internal/supervision/freeze"
)

// L-8: the chain of a workspace's freezes is replayed by its own machine, and what it
// tells unlawfully is named; another machine's is not proved.
func TestFreezeChain(t *testing.T) {
	key := evidence.NewSigningKey(ed25519.NewKeyFromSeed(seed(t)))
	options := audit.Options{Keys: evidence.Keys{{Public: key.Public()}}}
	subject := evidence.Subject{Format: evidence.Format, Kind: "workspace", ID: "default", Workspace: "default", Issuer: "http://localhost:8420", Machine: 1}
	reason := evidence.Commitment{Text: strings.Repeat("a", 64), Length: 4}
	told := func(s evidence.Subject, events ...machine.Event[freeze.State]) *audit.Report {
		var drafts []evidence.Draft
		for i, e := range events {
			drafts = append(drafts, evidence.Draft{ID: "01980000-0000-7000-9000-00000000000" + string(rune('0'+i)), Type: e.EventType(), Data: e})
		}
		return verify(t, exported(t, key, s, drafts), options)
	}
	session := strings.Repeat("5", 64)
	opened := &freeze.Opened{Subject: subject}
	frozen, lifted := &freeze.Frozen{Epoch: 1, Reason: reason, By: "owner", Session: session}, &freeze.Unfrozen{Epoch: 1, Reason: reason, By: "owner", Session: session}

	r := told(subject, opened, frozen)
	if !r.OK() || r.Lawfulness.Status != "frozen" || r.Lawfulness.Reason != "every transition is lawful; the workspace is frozen since 2026-03-01T09:00:00.000Z, freeze 1" {
		t.Errorf("a frozen workspace: %+v", r.Lawfulness)
	}
	r = told(subject, opened, frozen, lifted)
	if !r.OK() || r.Lawfulness.Status != "open" || r.Lawfulness.Reason != "every transition is lawful; the workspace is not frozen; it was frozen once" {
		t.Errorf("a workspace that was frozen: %+v", r.Lawfulness)
	}
	r = told(subject, opened, frozen, lifted, lifted)
	if r.OK() || !r.Report.OK() || r.Lawfulness.Unlawful[0].Rule != "unfrozen-open" || r.Lawfulness.Unlawful[0].Sequence != 4 {
		t.Errorf("lifted twice: %+v", r.Lawfulness)
	}
	if text := printed(t, r); !strings.Contains(text, "\n  workspace default, issued by http://localhost:8420\n") || !strings.Contains(text, "breaks the rule unfrozen-open") || strings.Contains(text, "store") {
		t.Errorf("printed: %s", text)
	}
	other := subject
	other.Machine = 2
	if r = told(other, &freeze.Opened{Subject: other}); r.OK() || r.Lawfulness.Known || !strings.Contains(r.Lawfulness.Reason, `no machine 2 for a chain of kind "workspace"`) {
		t.Errorf("another machine: %+v", r.Lawfulness)
	}
}
