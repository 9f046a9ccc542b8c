package audit

import (
	"github.com/hdevalence/ed25519consensus"

	"countersign/evidence"
)

// ZIP215 checks signatures in batches by the rule of ZIP 215. That rule accepts
// what the standard library accepts and a little more: signatures that only
// the holder of the private key can make, with points outside the prime-order
// group or in a second spelling. Whether one is accepted does not depend on the
// others of its batch, save with a chance of 2^-128.
var ZIP215 = evidence.Batch{
	Rule: "ZIP 215, in batches: all that RFC 8032 accepts in the standard library, and some signatures that only the key's holder can make",
	Valid: func(list []evidence.Signature) bool {
		v := ed25519consensus.NewPreallocatedBatchVerifier(len(list))
		for _, s := range list {
			v.Add(s.Public, s.Message, s.Signature)
		}
		return v.Verify()
	},
}
