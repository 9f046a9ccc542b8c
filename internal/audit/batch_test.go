package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/edwards25519"

	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/canon"
)

// long seals n events behind one another.
func long(t *testing.T, n int) (evidence.SigningKey, *evidence.Export) {
	t.Helper()
	key := evidence.NewSigningKey(ed25519.NewKeyFromSeed(seed(t)))
	const run = "01980000-0000-7000-8000-000000000000"
	subject := evidence.Subject{Format: evidence.Format, Kind: "test", ID: run, Workspace: "default", Issuer: "http://localhost:8420", Machine: 1}
	var drafts []evidence.Draft
	for i := range n {
		drafts = append(drafts, evidence.Draft{ID: fmt.Sprintf("01980000-0000-7000-9000-%012x", i), Type: "test", Data: map[string]any{"subject": subject, "i": i}})
	}
	now := time.Now()
	events := got(evidence.Seal(key, run, evidence.Link{Hash: evidence.Genesis}, now, drafts))(t)
	var b bytes.Buffer
	must(t, evidence.WriteExport(&b, key, now, evidence.Source{
		Subject: subject, Head: evidence.Link{Sequence: int64(n), Hash: events[n-1].Hash},
		Events: func(yield func(evidence.Event, error) bool) {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		},
	}))
	return key, got(evidence.ReadExport(&b))(t)
}

func written(t *testing.T, x *evidence.Export) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, x.Write(&b))
	return b.Bytes()
}

func another(digits string) string {
	for _, c := range []byte("0A") {
		if digits[20] != c {
			return digits[:20] + string(c) + digits[21:]
		}
	}
	panic("unreachable")
}

// Batches come to the verdicts of the plain verification, finding for finding.
func TestBatchVerdicts(t *testing.T) {
	key, whole := long(t, 300) // several segments
	trusted := evidence.Keys{{Public: key.Public()}}
	for _, tc := range []struct {
		name   string
		failed []evidence.Check
		change func(*evidence.Export)
	}{
		{"untouched", nil, func(*evidence.Export) {}},
		{"a signature", []evidence.Check{evidence.CheckSignatures}, func(x *evidence.Export) {
			x.Events[130].Signature = another(x.Events[130].Signature)
		}},
		{"every signature", []evidence.Check{evidence.CheckSignatures}, func(x *evidence.Export) {
			for i := range x.Events {
				x.Events[i].Signature = another(x.Events[i].Signature)
			}
		}},
		{"signatures of two events exchanged", []evidence.Check{evidence.CheckSignatures}, func(x *evidence.Export) {
			x.Events[5].Signature, x.Events[6].Signature = x.Events[6].Signature, x.Events[5].Signature
		}},
		{"a hash", []evidence.Check{evidence.CheckHashes, evidence.CheckSignatures, evidence.CheckOrder}, func(x *evidence.Export) {
			x.Events[130].Hash = strings.Repeat("0", 64)
		}},
		{"an event dropped", []evidence.Check{evidence.CheckOrder, evidence.CheckHead}, func(x *evidence.Export) { x.Events = slices.Delete(x.Events, 130, 131) }},
		{"two events exchanged", []evidence.Check{evidence.CheckOrder}, func(x *evidence.Export) {
			x.Events[130], x.Events[131] = x.Events[131], x.Events[130]
		}},
		{"data", []evidence.Check{evidence.CheckHashes}, func(x *evidence.Export) { x.Events[130].Data = json.RawMessage(`{"i":0}`) }},
		{"the export's signature", []evidence.Check{evidence.CheckManifest}, func(x *evidence.Export) {
			x.Signature = slices.Clone(x.Signature)
			x.Signature[0] ^= 1
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := *whole
			x.Events = slices.Clone(whole.Events)
			tc.change(&x)
			raw := written(t, &x)
			plain, batched := verify(t, raw, audit.Options{Keys: trusted}), verify(t, raw, audit.Options{Keys: trusted, Batch: true})
			var failed []evidence.Check
			for _, r := range batched.Results {
				if !r.OK {
					failed = append(failed, r.Check)
				}
			}
			if !slices.Equal(failed, tc.failed) {
				t.Errorf("failed %q, want %q", failed, tc.failed)
			}
			same(t, plain, batched)
		})
	}
	t.Run("a purchase", func(t *testing.T) {
		c := purchase(t)
		if r := verify(t, c.bytes(t), audit.Options{Keys: c.trusted, Batch: true}); !r.OK() {
			t.Error(printed(t, r))
		}
		for at, raw := 0, c.bytes(t); at < len(raw); at += 4999 {
			changed := bytes.Clone(raw)
			changed[at] ^= 1
			plain, err := audit.Verify(bytes.NewReader(changed), audit.Options{Keys: c.trusted})
			batched, batchErr := audit.Verify(bytes.NewReader(changed), audit.Options{Keys: c.trusted, Batch: true})
			if fmt.Sprint(err) != fmt.Sprint(batchErr) {
				t.Errorf("byte %d: %v, in batches %v", at, err, batchErr)
			} else if err == nil {
				same(t, plain, batched)
			}
		}
	})
}

// same compares all but the rule, and what each prints of it.
func same(t *testing.T, plain, batched *audit.Report) {
	t.Helper()
	if text := printed(t, batched); !strings.Contains(text, "signatures by ZIP 215") || strings.Contains(printed(t, plain), "ZIP 215") {
		t.Errorf("the rule is not told: %s", text)
	}
	batched.SignatureRule = plain.SignatureRule
	if !reflect.DeepEqual(plain, batched) {
		t.Errorf("another report: %+v, in batches %+v", plain, batched)
	}
}

// TestBatchRule makes what the two rules differ on: the holder of a key adds a
// point of order 8 to R. Such a signature is accepted by ZIP 215 and refused by
// the standard library, whatever stands beside it.
func TestBatchRule(t *testing.T) {
	key, x := long(t, 300)
	trusted := evidence.Keys{{Public: key.Public()}}
	x.Events[130].Signature = canon.EncodeBase64(withTorsion(t, key, digest(t, x.Events[130])))
	for _, tc := range []struct {
		name   string
		change func()
		named  []int64 // by ZIP 215
	}{
		{"all others are good", func() {}, nil},
		{"a neighbour is bad", func() { x.Events[131].Signature = another(x.Events[131].Signature) }, []int64{132}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.change()
			export := written(t, x)
			for _, rule := range []struct {
				batch bool
				named []int64
			}{{true, tc.named}, {false, append([]int64{131}, tc.named...)}} {
				var named []int64
				for _, f := range verify(t, export, audit.Options{Keys: trusted, Batch: rule.batch}).Result(evidence.CheckSignatures).Findings {
					named = append(named, f.Sequence)
				}
				if !slices.Equal(named, rule.named) {
					t.Errorf("batch %t: named %v, want %v", rule.batch, named, rule.named)
				}
			}
		})
	}
}

func digest(t *testing.T, e evidence.Event) []byte {
	t.Helper()
	sum := got(e.Digest())(t)
	return sum[:]
}

// withTorsion signs by RFC 8032 section 5.1.6 with a point of order 8 added to R.
func withTorsion(t *testing.T, key evidence.SigningKey, message []byte) []byte {
	t.Helper()
	// The encoding of a point of order 8 (ZIP 215, the small-order points).
	torsion := got(new(edwards25519.Point).SetBytes([]byte{
		0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
		0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
	}))(t)
	h := sha512.Sum512(key.Private.Seed())
	s := got(edwards25519.NewScalar().SetBytesWithClamping(h[:32]))(t)
	random := make([]byte, 64)
	rand.Read(random)
	r := got(edwards25519.NewScalar().SetUniformBytes(random))(t)
	point := new(edwards25519.Point).ScalarBaseMult(r)
	encoded := point.Add(point, torsion).Bytes()
	challenge := sha512.Sum512(slices.Concat(encoded, key.Public(), message))
	k := got(edwards25519.NewScalar().SetUniformBytes(challenge[:]))(t)
	return append(encoded, k.MultiplyAdd(k, s, r).Bytes()...)
}

// Memory does not grow with the number of events in batches either.
func TestBatchIsFlat(t *testing.T) {
	key, x := long(t, 100)
	export := written(t, x)
	prefix, list, _ := bytes.Cut(export, []byte(`"events":[`))
	list, suffix, _ := bytes.Cut(list, []byte(`],"exportedAt"`))
	peak := func(events int) (high uint64) {
		// The same events over and over: out of order, with signatures that hold.
		readers := []io.Reader{bytes.NewReader(prefix), strings.NewReader(`"events":[`), bytes.NewReader(list)}
		for range events/100 - 1 {
			readers = append(readers, strings.NewReader(","), bytes.NewReader(list))
		}
		readers = append(readers, strings.NewReader(`],"exportedAt"`), bytes.NewReader(suffix))
		n := 0
		_, err := evidence.Verify(io.MultiReader(readers...), evidence.Keys{{Public: key.Public()}}, evidence.Options{Workers: 1, Batch: &audit.ZIP215, Each: func(evidence.Event) error {
			if n++; n%250 == 0 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				high = max(high, m.HeapAlloc)
			}
			return nil
		}})
		if err != nil || n != events {
			t.Fatalf("%d events, %v", n, err)
		}
		return high
	}
	// Kept whole, the 4,500 more would weigh several MB; the runtime's own share moves
	// by one under load.
	if few, lots := peak(500), peak(5_000); lots > few+3<<20 {
		t.Errorf("500 events: %d bytes live, 5,000 events: %d", few, lots)
	}
}
