package audit_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"countersign/evidence"
	"countersign/internal/audit"
)

// TestChainVectors verifies every published chain: all are perfectly signed, and
// of the unlawful ones the broken rule and its event are named.
func TestChainVectors(t *testing.T) {
	const folder = "../../vectors/chains"
	trusted := got(evidence.ParseKeys(got(os.ReadFile(filepath.Join(folder, "evidence.pub")))(t)))(t)
	var index struct {
		Cases []struct {
			File, Rule, Title string
			Sequence          int64
		}
	}
	must(t, json.Unmarshal(got(os.ReadFile(filepath.Join(folder, "index.json")))(t), &index))
	lawful, unlawful := 0, 0
	for _, c := range index.Cases {
		t.Run(c.File, func(t *testing.T) {
			r := verify(t, got(os.ReadFile(filepath.Join(folder, c.File)))(t), audit.Options{Keys: trusted})
			if !r.Report.OK() {
				t.Errorf("integrity: %s", printed(t, r))
			}
			if c.Rule == "" {
				lawful++
				if !r.OK() {
					t.Errorf("lawful: %s", printed(t, r))
				}
				return
			}
			unlawful++
			if r.OK() || r.Lawfulness.Proved || r.Lawfulness.Failures == 0 {
				t.Fatal("not found to be unlawful")
			}
			if u := r.Lawfulness.Unlawful[0]; u.Rule != c.Rule || u.Sequence != c.Sequence || u.EventID == "" {
				t.Errorf("named %s at event %d (%s), want %s at %d", u.Rule, u.Sequence, u.EventID, c.Rule, c.Sequence)
			}
		})
	}
	if lawful == 0 || unlawful < 25 {
		t.Errorf("%d lawful and %d unlawful chains, want some and at least 25", lawful, unlawful)
	}
}

// TestChangedBytes changes single bytes all over the export of a real purchase;
// none of the results verifies. That every member of every event is bound is for
// the tests of package evidence.
func TestChangedBytes(t *testing.T) {
	c := purchase(t)
	raw := c.bytes(t)
	for at := 0; at < len(raw); at += 9973 {
		changed := bytes.Clone(raw)
		changed[at] ^= 1
		if r, err := audit.Verify(bytes.NewReader(changed), audit.Options{Keys: c.trusted}); err == nil && r.OK() {
			t.Errorf("byte %d can be changed", at)
		}
	}
}
