package evidence_test

import (
	"crypto/ed25519"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"countersign/evidence"
)

// A batch that does not hold is gone through one by one: the report is that of a
// verification without batches, but for the rule that it names.
func TestBatchNamesEachBadSignature(t *testing.T) {
	key := newKey(t)
	c := many(t, 300, key) // several segments
	bad := []int{0, 127, 128, 299}
	for _, i := range bad {
		c.events[i].Signature = flip(c.events[i].Signature)
	}
	export := c.export(t, key, start)
	_, plain := verify(t, export, trust(key), evidence.Options{})
	if plain.SignatureRule != evidence.SignatureRule {
		t.Errorf("the report names the rule %q", plain.SignatureRule)
	}
	var largest atomic.Int64
	batch := &evidence.Batch{Rule: "the rule of a test", Valid: func(list []evidence.Signature) bool {
		for old := largest.Load(); int64(len(list)) > old && !largest.CompareAndSwap(old, int64(len(list))); old = largest.Load() {
		}
		return !slices.ContainsFunc(list, func(s evidence.Signature) bool { return !ed25519.Verify(s.Public, s.Message, s.Signature) })
	}}
	_, batched := verify(t, export, trust(key), evidence.Options{Batch: batch})
	if batched.SignatureRule != batch.Rule {
		t.Errorf("the report names the rule %q, want %q", batched.SignatureRule, batch.Rule)
	}
	var named []int
	for _, f := range batched.Result(evidence.CheckSignatures).Findings {
		named = append(named, int(f.Sequence)-1)
	}
	if !slices.Equal(named, bad) {
		t.Errorf("named %v, want %v", named, bad)
	}
	batched.SignatureRule = plain.SignatureRule
	if !reflect.DeepEqual(batched, plain) {
		t.Errorf("the reports differ: %+v, %+v", batched, plain)
	}
	// A batch is never the whole of a long chain, which would not be flat.
	if n := largest.Load(); n < 2 || n > 128 {
		t.Errorf("the largest batch had %d signatures", n)
	}
	// Negative control: what the batch accepts is all that stands between a
	// changed signature and the verdict.
	blind := &evidence.Batch{Valid: func([]evidence.Signature) bool { return true }}
	if failed, _ := verify(t, export, trust(key), evidence.Options{Batch: blind}); len(failed) > 0 {
		t.Errorf("a batch that accepts everything: failed %q", failed)
	}
}

// The export's own signature is accepted by the same rule, and an untrusted key
// never reaches the batch.
func TestBatchOfTheManifest(t *testing.T) {
	key, alien := newKey(t), newKey(t)
	refuse := &evidence.Batch{Valid: func([]evidence.Signature) bool { return false }}
	failed, _ := verify(t, many(t, 3, key).export(t, key, start), trust(key), evidence.Options{Batch: refuse})
	if want := []string{"manifest signature", "signatures"}; !slices.Equal(failed, want) {
		t.Errorf("failed %q, want %q", failed, want)
	}
	accept := &evidence.Batch{Valid: func([]evidence.Signature) bool { t.Error("a key that is not trusted was used"); return true }}
	failed, _ = verify(t, many(t, 3, alien).export(t, alien, start), trust(key), evidence.Options{Batch: accept})
	if want := []string{"key match", "manifest signature", "signatures"}; !slices.Equal(failed, want) {
		t.Errorf("failed %q, want %q", failed, want)
	}
}
