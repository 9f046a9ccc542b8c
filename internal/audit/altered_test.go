package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/canon"
)

// Who approved, what exactly, by which policy and by which machine stands in the signed
// evidence: altered in the file it does not verify, and sealed anew by somebody else it is
// not signed by a trusted key.
func TestAlteredAuthority(t *testing.T) {
	const folder = "../../vectors/chains"
	trusted := got(evidence.ParseKeys(got(os.ReadFile(filepath.Join(folder, "evidence.pub")))(t)))(t)
	_, private, err := ed25519.GenerateKey(nil)
	must(t, err)
	stranger := evidence.NewSigningKey(private)
	for _, c := range []struct {
		what, file, event string
		way               []string
	}{
		{"who approved", "lawful-exact-local.json", "approval.granted", []string{"approver"}},
		{"by whom", "lawful-exact-local.json", "approval.granted", []string{"approvedBy"}},
		{"what was approved", "lawful-exact-local.json", "approval.granted", []string{"effectDigest"}},
		{"the amount approved", "lawful-exact-local.json", "approval.granted", []string{"amountCents"}},
		{"the amount granted", "lawful-exact-hosted.json", "grant.created", []string{"grant", "maxTotalCents"}},
		{"the arguments that were checked", "lawful-exact-hosted.json", "policy.checked", []string{"effectDigest"}},
		{"the action that was checked", "lawful-exact-hosted.json", "policy.checked", []string{"actionDigest"}},
		{"the action of the permit", "lawful-exact-hosted.json", "permit.issued", []string{"permit", "bindings", "actionDigest"}},
		{"the effect of the permit", "lawful-exact-hosted.json", "permit.issued", []string{"permit", "effectDigest"}},
		{"the verdict", "lawful-exact-hosted.json", "guardian.decided", []string{"decision"}},
		{"who judged", "lawful-exact-hosted.json", "guardian.decided", []string{"provider"}},
		{"the version of the machine and its checks", "lawful-exact-local.json", "run.created", []string{"subject", "machine"}},
	} {
		raw := got(os.ReadFile(filepath.Join(folder, c.file)))(t)
		if r := verify(t, raw, audit.Options{Keys: trusted}); !r.OK() {
			t.Fatalf("%s: %s", c.file, printed(t, r))
		}
		var export map[string]any
		must(t, canon.Unmarshal(raw, &export))
		if !alter(export, c.event, c.way) {
			t.Errorf("%s: %s has no %s in %s", c.what, c.file, strings.Join(c.way, "."), c.event)
			continue
		}
		altered := append(got(canon.Marshal(export))(t), '\n')
		if r, err := audit.Verify(bytes.NewReader(altered), audit.Options{Keys: trusted}); err == nil && (r.OK() || r.Report.OK()) {
			t.Errorf("%s can be altered", c.what)
		}
		resealed := sealedAnew(t, altered, stranger)
		if r, err := audit.Verify(bytes.NewReader(resealed), audit.Options{Keys: trusted}); err == nil && (r.OK() || r.Report.OK()) {
			t.Errorf("%s can be altered by whoever seals it anew", c.what)
		}
		// Control: the same file verifies for who trusts the stranger, as far as bytes go.
		theirs := evidence.Keys{{Public: stranger.Public()}}
		if r, err := audit.Verify(bytes.NewReader(resealed), audit.Options{Keys: theirs}); err != nil || !r.Report.OK() {
			t.Errorf("control: %s, sealed anew: %v", c.what, err)
		}
	}
}

// alter changes a member of the data of the last event of a type.
func alter(export map[string]any, event string, way []string) bool {
	events := export["events"].([]any)
	for _, e := range slices.Backward(events) {
		e := e.(map[string]any)
		if e["type"] != event {
			continue
		}
		at, _ := e["data"].(map[string]any)
		for _, step := range way[:len(way)-1] {
			at, _ = at[step].(map[string]any)
		}
		name := way[len(way)-1]
		switch old := at[name].(type) {
		case string:
			last := old[len(old)-1]
			at[name] = old[:len(old)-1] + string(rune(map[bool]byte{true: '1', false: '0'}[last == '0']))
			return true
		case float64:
			at[name] = old + 1
			return true
		case json.Number:
			at[name] = json.Number("77")
			return true
		}
		return false
	}
	return false
}

// sealedAnew is the export with every event hashed and signed again.
func sealedAnew(t *testing.T, raw []byte, key evidence.SigningKey) []byte {
	t.Helper()
	x := got(evidence.ReadExport(bytes.NewReader(raw)))(t)
	at := evidence.Link{Hash: evidence.Genesis}
	var events []evidence.Event
	for _, e := range x.Events {
		when := got(evidence.ParseTime(e.Timestamp))(t)
		sealed := got(evidence.Seal(key, e.RunID, at, when, []evidence.Draft{{ID: e.ID, Type: e.Type, Data: e.Data}}))(t)
		events = append(events, sealed...)
		at = evidence.Link{Sequence: sealed[0].Sequence, Hash: sealed[0].Hash}
	}
	subject := got(events[0].Subject())(t)
	var b bytes.Buffer
	must(t, evidence.WriteExport(&b, key, x.ExportedAt.Time(), evidence.Source{Subject: subject, Head: at, Events: each(events), Texts: each(x.Texts)}))
	return b.Bytes()
}

func each[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}
