package control_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// A snapshot has the latest 100 receipts, with the one before them as an anchor when there
// are more, and says how many there are, and what its head is.
func TestLatestReceipts(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		b.approved("restore-pool")
		for n := int64(2); n <= 103; n++ {
			if n >= 99 {
				v := b.now().Receipts
				first, items := max(1, n-99), v.Items
				if v.Total != n || int64(len(items)) != min(n, 100) || v.Truncated != (n > 100) || items[0].Sequence != first || !v.Verified.OK {
					t.Errorf("of %d: total %d, %d from %d, truncated %v, %+v", n, v.Total, len(items), items[0].Sequence, v.Truncated, v.Verified)
				}
				if v.Head != fmt.Sprintf("%d:%s", n, items[len(items)-1].Hash) {
					t.Errorf("of %d: the head is %s", n, v.Head)
				}
				if v.Truncated != (v.Anchor != nil) || v.Anchor != nil && (v.Anchor.Sequence != first-1 || v.Anchor.Hash != items[0].PreviousHash) {
					t.Errorf("of %d: the anchor is %+v", n, v.Anchor)
				}
			}
			switch {
			case n == 2:
				b.fill(97)
				n = 98
			case n < 103:
				b.read()
			}
		}
		h.restart()
		before := b.now()
		if again := b.now(); again.Receipts.Head != before.Receipts.Head || before.Receipts.Total != 103 || !before.Receipts.Verified.OK || b.form() != "" {
			t.Errorf("looking changed %s to %s", before.Receipts.Head, again.Receipts.Head)
		}
		subject, _, err := h.ledger.Load(t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: incident.Kind, ID: before.Session.ID})
		must(t, err)
		if len(subject.State) >= ledger.MaxState/8 {
			t.Errorf("the state has %d bytes", len(subject.State))
		}
		if n := len(b.chain()); n != 103 {
			t.Errorf("the export has %d receipts", n)
		}
	})
}

// fill adds so many receipts. The snapshots of the answers are not verified.
func (b *browser) fill(n int) {
	b.h.t.Helper()
	config := b.h.config
	config.Keys = nil
	filler := *b
	filler.on = control.New(config)
	for range n {
		filler.read()
	}
}

// What a snapshot returns is hashed anew and held between anchor and head, and what was
// altered is found by the check that covers it.
func TestAltered(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		s := b.approved("restore-pool")
		b.executed(s)
		b.fill(100)
		_, stranger, err := ed25519.GenerateKey(rand.Reader)
		must(t, err)
		type sees struct{ hashes, links, signatures bool }
		for what, c := range map[string]struct {
			alter func([]evidence.Event) // of the anchor and 100
			want  sees
		}{
			"nothing (the control)": {func([]evidence.Event) {}, sees{true, true, true}},
			"the data": {func(l []evidence.Event) {
				l[7].Data = bytes.Replace(l[7].Data, []byte("success"), []byte("blocked"), 1)
			}, sees{false, true, false}},
			"the time": {func(l []evidence.Event) { l[7].Timestamp = "2026-03-04T05:06:08.000Z" }, sees{false, true, false}},
			"the data, hashed anew": {func(l []evidence.Event) {
				l[7].Data = bytes.Replace(l[7].Data, []byte("success"), []byte("blocked"), 1)
				d, err := l[7].Digest()
				must(t, err)
				l[7].Hash = fmt.Sprintf("%x", d)
			}, sees{true, false, false}},
			"a hash":                 {func(l []evidence.Event) { l[7].Hash = strings.Repeat("1", 64) }, sees{false, false, true}},
			"a link":                 {func(l []evidence.Event) { l[7].PreviousHash = strings.Repeat("1", 64) }, sees{false, false, false}},
			"the anchor":             {func(l []evidence.Event) { l[0].Hash = strings.Repeat("1", 64) }, sees{true, false, true}},
			"the order":              {func(l []evidence.Event) { l[7], l[8] = l[8], l[7] }, sees{true, false, true}},
			"one in another's place": {func(l []evidence.Event) { l[7] = l[8] }, sees{true, false, true}},
			"a signature":            {func(l []evidence.Event) { l[7].Signature = l[8].Signature }, sees{true, true, false}},
			"no signature":           {func(l []evidence.Event) { l[7].Signature = "" }, sees{true, true, false}},
			"the signer":             {func(l []evidence.Event) { l[7].KeyID = evidence.KeyID(stranger.Public().(ed25519.PublicKey)) }, sees{true, true, false}},
			"a stranger's":           {func(l []evidence.Event) { l[100] = sealed(t, stranger, l[100]) }, sees{true, true, false}},
		} {
			h.ledger.events = func(list []evidence.Event) []evidence.Event {
				c.alter(list)
				return list
			}
			v := b.now().Receipts.Verified
			h.ledger.events = nil
			if got := (sees{v.Hashes, v.Links, v.Signatures}); got != c.want || v.OK != (c.want == sees{true, true, true}) {
				t.Errorf("%s: verified %v, %+v, want %+v", what, v.OK, got, c.want)
			}
		}
		h.ledger.load = func(s *ledger.Subject) {
			if s.Kind == incident.Kind {
				s.Head = strings.Repeat("1", 64)
			}
		}
		if v := b.now().Receipts.Verified; v.OK || v.Links || !v.Hashes || !v.Signatures {
			t.Errorf("the head: %+v", v)
		}
		h.ledger.load = nil
		h.ledger.events = func(list []evidence.Event) []evidence.Event { return list[:len(list)-1] }
		if v := b.now().Receipts.Verified; v.OK || v.Links || !v.Hashes || !v.Signatures {
			t.Errorf("a chain without its newest receipt: %+v", v)
		}
		h.ledger.events = nil
		// What others add while it is read is not in it.
		short := &browser{h: h}
		short.read()
		for _, b := range []*browser{b, short} {
			elsewhere := &browser{h: h, on: h.replica(), cookie: b.cookie}
			h.ledger.load = func(s *ledger.Subject) {
				if s.Kind == incident.Kind {
					elsewhere.read()
				}
			}
			v := b.now().Receipts
			h.ledger.load = nil
			if last := v.Items[len(v.Items)-1]; !v.Verified.OK || last.Sequence != v.Total || b.now().Receipts.Total != v.Total+1 {
				t.Errorf("while others ask: %d of %d, %+v", last.Sequence, v.Total, v.Verified)
			}
		}
	})
}

// sealed is an event that somebody else has signed.
func sealed(t *testing.T, key ed25519.PrivateKey, e evidence.Event) evidence.Event {
	t.Helper()
	list, err := evidence.Seal(evidence.NewSigningKey(key), e.RunID, evidence.Link{Sequence: e.Sequence - 1, Hash: e.PreviousHash}, dawn, []evidence.Draft{{ID: e.ID, Type: e.Type, Data: e.Data}})
	must(t, err)
	if list[0].Hash != e.Hash {
		t.Fatal("it is not the same event")
	}
	return list[0]
}

// A session has room for 10,000 receipts, the last of them for what changes it; then nothing
// is taken any more, not even a retry, and nothing is written.
func TestFull(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		s := b.approved("restore-pool")
		b.executed(s)
		h.change(func(s *incident.Session) { s.Events = 9_999 })
		if _, reason := b.read(); reason != incident.ReceiptConflict {
			t.Errorf("a read in a place that is spared: %s", reason)
		}
		if _, reason := b.do(incident.Reset, incident.API, resetting(b.now().Version), ""); reason != "" {
			t.Errorf("the last: %s", reason)
		}
		h.ledger.load = nil // what is stored is full now
		before := b.now()
		for what, do := range map[string]func() (string, bool){
			"read":      func() (string, bool) { a, reason := b.read(); return reason, a.Receipt != nil },
			"retry":     func() (string, bool) { a, reason := b.execute(s); return reason, a.Receipt != nil },
			"other key": func() (string, bool) { a, reason := b.execute(altered(s, "key")); return reason, a.Receipt != nil },
			"approve": func() (string, bool) {
				a, reason := b.do(incident.Approve, incident.Human, approving(s), b.form())
				return reason, a.Receipt != nil
			},
			"stage": func() (string, bool) {
				a, reason := b.do(incident.Stage, incident.API, staging("restore-pool", before.Version), "")
				return reason, a.Receipt != nil
			},
			"reset": func() (string, bool) {
				a, reason := b.do(incident.Reset, incident.API, resetting(before.Version), "")
				return reason, a.Receipt != nil
			},
		} {
			if reason, left := do(); reason != incident.ReceiptConflict || left {
				t.Errorf("%s: %q, a receipt %v", what, reason, left)
			}
		}
		if after := b.now(); after.Receipts.Head != before.Receipts.Head || after.Version != before.Version || after.Execution == nil {
			t.Errorf("%s became %s", before.Receipts.Head, after.Receipts.Head)
		}
	})
}
