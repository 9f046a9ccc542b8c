package evidence_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"countersign/evidence"
)

// FuzzReadExport: what is read is written with the same bytes, and an export
// that was changed never verifies.
func FuzzReadExport(f *testing.F) {
	// The same keys in every process of the fuzzer: an input means the same to all.
	older, newer := namedKey("older"), namedKey("newer")
	keys := trust(older, newer)
	c := manyShapes(f, run, older, newer)
	c.events = c.events[:6]
	sealed := c.export(f, newer, start.Add(time.Hour))
	f.Add([]byte(nil), uint16(0), byte(0))
	f.Add(sealed, uint16(0), byte(0))
	n := 0
	for _, v := range readVectors[vector](f, "cases.json", 50) {
		f.Add(v.bytes(f, readVector(f, "valid.json")), uint16(n*67), byte(1<<(n%8)))
		n++
	}
	f.Fuzz(func(t *testing.T, file []byte, at uint16, with byte) {
		damaged := bytes.Clone(sealed)
		damaged[int(at)%len(damaged)] ^= with
		for _, file := range [][]byte{file, damaged} {
			report, err := evidence.Verify(bytes.NewReader(file), keys, evidence.Options{Workers: 1})
			verified, whole := err == nil && report.OK(), bytes.Equal(file, sealed)
			if whole && !verified {
				t.Fatalf("the sealed export does not verify: %v", err)
			}
			if verified && !whole && !erasedFrom(file, sealed) {
				t.Fatal("a changed export verifies")
			}
			x, readErr := evidence.ReadExport(bytes.NewReader(file))
			if readErr != nil {
				var format *evidence.FormatError
				if !errors.As(readErr, &format) || format.Where == "" || format.Want == "" {
					t.Fatalf("refused with %v", readErr)
				}
				if err == nil && report.Result(evidence.CheckTexts).OK {
					t.Fatalf("Verify reports on what ReadExport refuses: %v", readErr)
				}
				continue
			}
			if err != nil {
				t.Fatalf("Verify refuses what ReadExport reads: %v", err)
			}
			var again bytes.Buffer
			if err := x.Write(&again); err != nil || !bytes.Equal(again.Bytes(), file) {
				t.Fatalf("written again with other bytes: %v", err)
			}
		}
	})
}

func namedKey(name string) evidence.SigningKey {
	seed := sha256.Sum256([]byte(name))
	return evidence.NewSigningKey(ed25519.NewKeyFromSeed(seed[:]))
}

// erasedFrom reports whether file is the sealed export without some of its
// texts, the one change that evidence is made to allow.
func erasedFrom(file, sealed []byte) bool {
	head, _, found := bytes.Cut(sealed, []byte(`"texts":`))
	return found && bytes.HasPrefix(file, head) && len(file) < len(sealed)
}

func FuzzParseKeys(f *testing.F) {
	key := trust(namedKey("older"), namedKey("newer"))
	f.Add(string(key.Format()))
	key[0].NotAfter = start
	f.Add(string(key.Format()))
	f.Add(string(readVector(f, "evidence.pub")))
	f.Add("x\n")
	f.Fuzz(func(t *testing.T, file string) {
		keys, err := evidence.ParseKeys([]byte(file))
		if err != nil {
			return
		}
		again, err := evidence.ParseKeys(keys.Format())
		if err != nil || len(again) != len(keys) {
			t.Fatalf("%q is written %q: %v", file, keys.Format(), err)
		}
		for i := range keys {
			if !keys[i].Public.Equal(again[i].Public) || !keys[i].NotAfter.Truncate(time.Millisecond).Equal(again[i].NotAfter) {
				t.Fatalf("key %d of %q was changed", i, file)
			}
		}
	})
}
