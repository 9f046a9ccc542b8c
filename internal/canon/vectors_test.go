package canon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
)

type vector struct {
	Name      string
	UTF8      *string
	Hex       *string
	Canonical string
	SHA256    string
	Refused   string
}

func (v vector) input(t testing.TB) []byte {
	t.Helper()
	if (v.UTF8 == nil) == (v.Hex == nil) {
		t.Fatalf("%s: want one of utf8 and hex", v.Name)
	}
	if v.UTF8 != nil {
		return []byte(*v.UTF8)
	}
	b, err := hex.DecodeString(*v.Hex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// readVectors fails when the file holds fewer cases than it is known to.
func readVectors[C any](t testing.TB, name string, atLeast int) []C {
	t.Helper()
	raw, err := os.ReadFile("../../vectors/canonical/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []C }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < atLeast {
		t.Fatalf("%s holds %d cases, want at least %d", name, len(file.Cases), atLeast)
	}
	return file.Cases
}

func TestVectorsAccepted(t *testing.T) {
	for _, v := range readVectors[vector](t, "accepted.json", 29) {
		t.Run(v.Name, func(t *testing.T) {
			in := v.input(t)
			got, err := Canonical(in)
			if err != nil || string(got) != v.Canonical {
				t.Fatalf("got %s, %v, want %s", got, err, v.Canonical)
			}
			if Hash(got) != v.SHA256 {
				t.Errorf("hash %s, want %s", Hash(got), v.SHA256)
			}
			if !IsCanonical(got) {
				t.Error("the canonical form is not recognised")
			}
			if IsCanonical(in) != (string(in) == v.Canonical) {
				t.Error("the input is taken for canonical, or not, wrongly")
			}
		})
	}
}

func TestVectorsRefused(t *testing.T) {
	whys := []string{"number", "character", "member", "depth", "syntax"}
	for _, v := range readVectors[vector](t, "refused.json", 50) {
		t.Run(v.Name, func(t *testing.T) {
			in := v.input(t)
			if !slices.Contains(whys, v.Refused) {
				t.Fatalf("unknown kind of refusal %q", v.Refused)
			}
			if got, err := Canonical(in); err == nil {
				t.Errorf("Canonical accepts it as %s", got)
			}
			var at *SyntaxError
			if err := Check(in); !errors.As(err, &at) {
				t.Errorf("Check says %v, want a SyntaxError", err)
			}
			if IsCanonical(in) {
				t.Error("IsCanonical accepts it")
			}
			var into any
			if err := Unmarshal(in, &into); err == nil {
				t.Error("Unmarshal accepts it")
			}
			if err := Decode(in, &into); err == nil {
				t.Error("Decode accepts it")
			}
		})
	}
}

// The preimage of a digest is the domain, a zero byte and the canonical fields.
func TestVectorsDigests(t *testing.T) {
	type digest struct {
		Domain      string
		Fields      json.RawMessage
		PreimageHex string
		SHA256      string
	}
	for _, v := range readVectors[digest](t, "digests.json", 4) {
		fields, err := Canonical(v.Fields)
		if err != nil {
			t.Fatal(err)
		}
		preimage := append([]byte("countersign/"+v.Domain+"/1\x00"), fields...)
		sum := sha256.Sum256(preimage)
		if hex.EncodeToString(preimage) != v.PreimageHex || hex.EncodeToString(sum[:]) != v.SHA256 {
			t.Errorf("%s: got %x", v.Domain, preimage)
		}
	}
}
