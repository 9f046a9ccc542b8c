package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/machine"
	"countersign/internal/supervision/guardian"
)

// policyChain exports the chain of a policy that was drafted and edited, sealed by key.
func policyChain(t *testing.T, key evidence.SigningKey, id string, events ...machine.Event[guardian.State]) []byte {
	t.Helper()
	var drafts []evidence.Draft
	for i, e := range events {
		drafts = append(drafts, evidence.Draft{ID: "01980000-0000-7000-9000-00000000000" + string(rune('0'+i)), Type: e.EventType(), Data: e})
	}
	return exported(t, key, policySubject(id), drafts)
}

func policySubject(id string) evidence.Subject {
	return evidence.Subject{Format: evidence.Format, Kind: "guardian", ID: id, Workspace: "default", Issuer: "http://localhost:8420", Machine: 1}
}

func exported(t *testing.T, key evidence.SigningKey, subject evidence.Subject, drafts []evidence.Draft) []byte {
	t.Helper()
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	events := got(evidence.Seal(key, subject.ID, evidence.Link{Hash: evidence.Genesis}, now, drafts))(t)
	last := events[len(events)-1]
	var b bytes.Buffer
	must(t, evidence.WriteExport(&b, key, now, evidence.Source{
		Subject: subject, Head: evidence.Link{Sequence: last.Sequence, Hash: last.Hash},
		Events: func(yield func(evidence.Event, error) bool) {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		},
	}))
	return b.Bytes()
}

// The chains of policies and of the inventory are replayed by their own machines, and
// what they tell unlawfully is named.
func TestGuardianChains(t *testing.T) {
	key := evidence.NewSigningKey(ed25519.NewKeyFromSeed(seed(t)))
	options := audit.Options{Keys: evidence.Keys{{Public: key.Public()}}}
	const id = "01980000-0000-7000-8000-000000000001"
	policy := guardian.Policy{
		Name: "Purchases", Service: "merchant", Environment: "local", Mode: "bounded", Provider: "replay", Operations: []string{"merchant.catalog"}, Channels: []string{"http"},
	}
	drafted := &guardian.Drafted{Subject: policySubject(id), Policy: policy}

	r := verify(t, policyChain(t, key, id, drafted, &guardian.Edited{Revision: 2, Policy: policy}), options)
	if !r.OK() || r.Lawfulness.Status != "draft" || r.Lawfulness.Reason != "every transition is lawful; the policy is at revision 2, never published" {
		t.Errorf("a lawful policy: %+v", r.Lawfulness)
	}
	r = verify(t, policyChain(t, key, id, drafted, &guardian.PublishedEvent{Version: 1, Revision: 1, VerificationID: "none", Policy: policy}), options)
	if r.OK() || !r.Report.OK() || r.Lawfulness.Failures != 1 || r.Lawfulness.Unlawful[0].Rule != "publication-unverified" || r.Lawfulness.Unlawful[0].Sequence != 2 {
		t.Errorf("published without a verification: %+v", r.Lawfulness)
	}
	if r.Lawfulness.Status != "published" {
		t.Errorf("status %s", r.Lawfulness.Status)
	}
	if text := printed(t, r); !strings.Contains(text, "guardian policy "+id) || !strings.Contains(text, "breaks the rule publication-unverified") {
		t.Errorf("printed: %s", text)
	}
	other := *drafted
	other.Subject.Machine = 2
	subject := policySubject(id)
	subject.Machine = 2
	r = verify(t, exported(t, key, subject, []evidence.Draft{{ID: id, Type: "guardian.drafted", Data: &other}}), options)
	if r.OK() || r.Lawfulness.Known || !strings.Contains(r.Lawfulness.Reason, `no machine 2 for a chain of kind "guardian"`) {
		t.Errorf("another machine: %+v", r.Lawfulness)
	}
	subject = policySubject("default")
	subject.Kind = "inventory"
	r = verify(t, exported(t, key, subject, []evidence.Draft{
		{ID: id, Type: "inventory.opened", Data: &guardian.Opened{Subject: subject}}, {ID: id[:35] + "2", Type: "guardian.listed", Data: &guardian.Listed{GuardianID: id}},
	}), options)
	if !r.OK() || r.Lawfulness.Reason != "every transition is lawful; the inventory lists 0 services and 1 policies" {
		t.Errorf("an inventory: %+v", r.Lawfulness)
	}
	r = verify(t, exported(t, key, subject, []evidence.Draft{
		{ID: id, Type: "inventory.opened", Data: &guardian.Opened{Subject: subject}}, {ID: id[:35] + "2", Type: "run.paused", Data: struct{}{}},
	}), options)
	if r.OK() || r.Lawfulness.Unlawful[0].Rule != "event-type" {
		t.Errorf("a run's event in an inventory: %+v", r.Lawfulness)
	}
}
