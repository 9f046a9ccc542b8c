package dispatch

import (
	"crypto/ed25519"
	"testing"

	"countersign/internal/canon"
)

func FuzzPermit(f *testing.F) {
	key, keys := fuzzKey()
	token := sealPermit(key, validPermit())
	for _, seed := range []string{token, token[1:], token + ".", "..", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePermit(s, keys)
		if err == nil && sealPermit(key, p) != s {
			t.Fatal("what parses does not encode to the same bytes")
		}
		if err == nil && s != token {
			t.Fatal("another token than the one that was signed verifies")
		}
	})
}

func FuzzReceipt(f *testing.F) {
	key, keys := fuzzKey()
	token, err := validReceipt().Sign(key)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{token, token[1:], token + ".", "..", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := ParseReceipt(s, keys); err == nil && s != token {
			t.Fatal("another token than the one that was signed verifies")
		}
	})
}

// Payloads that are signed but odd: what parses encodes to the same bytes.
func FuzzSignedPayload(f *testing.F) {
	key, keys := fuzzKey()
	permit, receipt := canon.MustMarshal(validPermit()), canon.MustMarshal(validReceipt())
	for _, seed := range [][]byte{permit, receipt, append(permit[:len(permit)-1:len(permit)-1], `,"x":1}`...), []byte(`{}`), []byte(`null`)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		token := seal(permitType, key, payload)
		if p, err := ParsePermit(token, keys); err == nil && sealPermit(key, p) != token {
			t.Fatal("a permit with two spellings")
		}
		token = seal(receiptType, key, payload)
		if r, err := ParseReceipt(token, keys); err == nil {
			if again, err := r.Sign(key); err != nil || again != token {
				t.Fatal("a receipt with two spellings")
			}
		}
	})
}

// fuzzKey is the same in every fuzzing process, which the seeds need.
func fuzzKey() (ed25519.PrivateKey, []TrustedKey) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	return key, []TrustedKey{{Public: key.Public().(ed25519.PublicKey)}}
}
