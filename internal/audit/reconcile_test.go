package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/audit"
)

// published is a chain of vectors/chains with the key that signs those: its seed is
// the hash of a public sentence.
func published(t *testing.T, file string) chain {
	t.Helper()
	folder := filepath.Join("..", "..", "vectors", "chains")
	seed := sha256.Sum256([]byte("countersign test vectors: evidence key, not for use"))
	return chain{
		export:  got(evidence.ReadExport(bytes.NewReader(got(os.ReadFile(filepath.Join(folder, file)))(t))))(t),
		signing: evidence.NewSigningKey(ed25519.NewKeyFromSeed(seed[:])),
		trusted: got(evidence.ParseKeys(got(os.ReadFile(filepath.Join(folder, "evidence.pub")))(t)))(t),
	}
}

// L-4: an auditor is told how many receipts a probe found, how many say otherwise than
// the owner did, and of how many effects there is only the owner's word.
func TestReconciliationIsReported(t *testing.T) {
	found, contradicted := published(t, "lawful-probed.json"), published(t, "lawful-contradicted.json")
	for _, c := range []struct {
		name                           string
		chain                          chain
		lookedUp, contradicted, stated int
		says, cannot                   string
	}{
		{"probed", found, 1, 0, 0, "; 1 found by a probe", ""},
		{"contradicted", contradicted, 1, 1, 0, "; 1 found by a probe; 1 against what the owner stated", ""},
		{"stated", contradicted.until("execution.probed"), 0, 0, 1, "; 1 missing, with the owner's statement in its place", "a statement is the owner's word"},
	} {
		var raw []byte
		if raw = c.chain.bytes(t); c.name == "stated" {
			events := c.chain.export.Events
			last := events[len(events)-1]
			raw = c.chain.sealed(t, events, evidence.Link{Sequence: last.Sequence, Hash: last.Hash})
		}
		r := verify(t, raw, audit.Options{Keys: c.chain.trusted})
		text := printed(t, r)
		if !r.OK() || r.Receipts.LookedUp != c.lookedUp || r.Receipts.Contradicted != c.contradicted || r.Receipts.Stated != c.stated {
			t.Errorf("%s: %+v\n%s", c.name, r.Receipts, text)
		}
		if !strings.Contains(text, c.says) || strings.Contains(text, "a statement is the owner's word") != (c.cannot != "") {
			t.Errorf("%s: want %q in\n%s", c.name, c.says, text)
		}
	}
}

// until is the chain before the first event of a type.
func (c chain) until(kind string) chain {
	shorter := *c.export
	for i, e := range shorter.Events {
		if e.Type == kind {
			shorter.Events = shorter.Events[:i]
			break
		}
	}
	c.export = &shorter
	return c
}

// What a look-up or a contradiction tells is held against the store's receipt.
func TestReconciliationIsChecked(t *testing.T) {
	for _, c := range []struct {
		name, kind, want string
		f                func(map[string]any) bool
	}{
		{"a receipt of nobody that decides nothing", "execution.probed", "does not verify", func(d map[string]any) bool {
			d["answer"], d["receipt"] = "unverifiable", flipped(d["receipt"].(string))
			return true
		}},
		{"the look-up's own receipt is another", "hosted.receipt", "does not verify", func(d map[string]any) bool {
			if d["observedBy"] != "look_up" {
				return false
			}
			d["receipt"] = flipped(d["receipt"].(string))
			return true
		}},
		{"a contradiction that the receipt does not make", "execution.contradicted", "receiptResult is not what", func(d map[string]any) bool {
			d["receiptResult"] = "refused"
			return true
		}},
		{"a closed dispatch told as a refusal", "execution.receipt", "result is not what", func(d map[string]any) bool {
			if d["result"] != "applied" {
				return false
			}
			d["result"] = "closed"
			return true
		}},
	} {
		chain := published(t, "lawful-contradicted.json")
		r := verify(t, chain.edited(t, c.kind, c.f), audit.Options{Keys: chain.trusted})
		named := false
		for _, f := range r.Receipts.Findings {
			named = named || strings.Contains(f.Problem, c.want)
		}
		if r.Receipts.OK || !named {
			t.Errorf("%s: %+v", c.name, r.Receipts)
		}
	}
}
