package evidence

import "crypto/ed25519"

// Signature is one Ed25519 signature with what it is said to sign.
type Signature struct {
	Public    ed25519.PublicKey
	Message   []byte // the 32 bytes of a hash
	Signature []byte // 64 bytes
}

// Batch checks many signatures at once, which is quicker than one by one. Its
// acceptance rule can differ from the standard library's, so it is used only by
// those who ask for it, and the report names the rule.
type Batch struct {
	// Rule names the acceptance rule for people.
	Rule string
	// Valid reports whether every signature is accepted. Whether one is must not
	// depend on which others stand beside it. The list is never empty; Valid must
	// be safe for concurrent use and may not keep it.
	Valid func([]Signature) bool
}

// SignatureRule is the acceptance rule of a verification without a [Batch].
const SignatureRule = "RFC 8032 as the Go standard library applies it, one signature at a time"

// oneByOne is how signatures are checked when no batch is asked for.
var oneByOne = Batch{SignatureRule, func(list []Signature) bool {
	for _, s := range list {
		if !ed25519.Verify(s.Public, s.Message, s.Signature) {
			return false
		}
	}
	return true
}}

// signed marks the records whose signature is accepted. A list that is not
// accepted as a whole is gone through one by one, so that each bad signature is
// named, and no other.
func (b *Batch) signed(list []Signature, of []*record) {
	if len(list) == 0 {
		return
	}
	whole := b.Valid(list)
	for i, r := range of {
		r.signed = whole || b.Valid(list[i:i+1])
	}
}
