package audit_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
	"countersign/internal/supervision/records"
)

// what a real control plane recorded of one session, whatever it
// allowed and refused, verifies from its export and nothing else.
func TestRealIncident(t *testing.T) {
	ctx, d := t.Context(), newDesk(t)
	path := filepath.Join(t.TempDir(), "countersign.db")
	must(t, sqlite.Create(ctx, path))
	l := got(sqlite.Open(ctx, path, sqlite.Options{}))(t)
	t.Cleanup(func() { l.Close() })
	frozen := false
	p := control.New(control.Config{
		Ledger: l, Chains: records.New(l, ledger.DefaultWorkspace, d.key), Signing: d.key, Keys: evidence.Keys{{Public: d.key.Public()}}, Issuer: "http://localhost:8420", Workspace: ledger.DefaultWorkspace,
		MAC:    func(parts ...string) []byte { return []byte(canon.Hash([]byte(strings.Join(parts, "\x00"))))[:32] },
		Freeze: func(context.Context) (bool, int64, error) { return frozen, 0, nil },
	})
	cookies, from := map[string]string{}, "one"
	do := func(operation, channel, nonce, want string, in incident.Input) {
		t.Helper()
		a, err := p.Do(ctx, cookies[from], "192.0.2.1", incident.Request{Operation: operation, Channel: channel, Input: in}, nonce)
		if a != nil && a.Cookie != "" {
			cookies[from] = a.Cookie
		}
		if denial, denied := errors.AsType[*authority.Denial](err); denied && denial.Reason == want {
			return
		} else if err != nil || want != "" {
			t.Fatalf("%s: %v, want %q", operation, err, want)
		}
	}
	staged := func() *incident.Staged { t.Helper(); return got(p.Snapshot(ctx, cookies[from]))(t).Staged }
	stage := func(mitigation string) {
		t.Helper()
		version := got(p.Snapshot(ctx, cookies[from]))(t).Version
		do("stage", "webmcp", "", "", incident.Input{MitigationID: &mitigation, ExpectedVersion: &version})
	}
	approve := func(want string) {
		t.Helper()
		s, nonce, err := p.Form(ctx, cookies[from])
		must(t, err)
		do("approve", "human", nonce, want, incident.Input{ActionDigest: &s.Staged.Digest, ResourceVersion: &s.Staged.Version})
	}
	execute := func(s *incident.Staged, key, want string) {
		t.Helper()
		do("execute", "webmcp", "", want, incident.Input{ActionDigest: &s.Digest, ResourceVersion: &s.Version, IdempotencyKey: &key})
	}

	stage("restore-pool")
	foreign := staged().IdempotencyKey
	from = "two"
	do("snapshot", "human", "", "", incident.Input{})
	stage("restore-pool")
	s := staged()
	execute(s, s.IdempotencyKey, "approval_required")
	do("approve", "human", "no-nonce", "approval_required", incident.Input{ActionDigest: &s.Digest, ResourceVersion: &s.Version})
	frozen = true
	approve("FROZEN")
	frozen = false
	approve("")
	execute(s, foreign, "identity_mismatch")
	execute(s, s.IdempotencyKey, "")
	execute(s, s.IdempotencyKey, "")
	other := *s
	other.Version++
	execute(&other, s.IdempotencyKey, "idempotency_conflict")
	approve("approval_consumed")
	stage("shift-traffic")
	execute(s, s.IdempotencyKey, "")
	one := int64(1)
	do("reset", "human", "", "stale_reset", incident.Input{ExpectedVersion: &one})
	four := int64(4)
	do("reset", "human", "", "", incident.Input{ExpectedVersion: &four})

	var export bytes.Buffer
	if found, err := p.Export(ctx, cookies[from], &export); err != nil || !found {
		t.Fatal(found, err)
	}
	r := d.verify(export.Bytes())
	if want := "every transition is lawful; the incident is investigating at version 5 after 1 approval, 1 execution and 14 receipts"; !r.OK() || r.Lawfulness.Reason != want || r.Lawfulness.Status != "investigating" || r.Subject.Kind != "incident" {
		t.Errorf("%+v: %s", r.Lawfulness, printed(t, r))
	}
	for at := 7; at < export.Len(); at += export.Len() / 11 {
		changed := bytes.Clone(export.Bytes())
		changed[at] ^= 1
		if r, err := audit.Verify(bytes.NewReader(changed), audit.Options{Keys: evidence.Keys{{Public: d.key.Public()}}}); err == nil && r.OK() {
			t.Errorf("byte %d can be changed", at)
		}
	}
}
