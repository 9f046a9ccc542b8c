package evidence_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"countersign/evidence"

	"github.com/gowebpki/jcs"
)

// readVectors fails when the file holds fewer cases than it is known to.
func readVectors[C any](t testing.TB, name string, atLeast int) []C {
	t.Helper()
	var file struct{ Cases []C }
	if err := json.Unmarshal(readVector(t, name), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < atLeast {
		t.Fatalf("%s holds %d cases, want at least %d", name, len(file.Cases), atLeast)
	}
	return file.Cases
}

func readVector(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("../vectors/evidence/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

type vector struct {
	Name    string
	Export  *string // the bytes, else valid.json
	Edits   []struct{ Find, Replace string }
	Keys    *string // the key file, else evidence.pub
	Head    string
	Refused bool
	Failed  []string
}

func (v vector) bytes(t testing.TB, valid []byte) []byte {
	t.Helper()
	if v.Export != nil {
		return []byte(*v.Export)
	}
	text := string(valid)
	for _, e := range v.Edits {
		if strings.Count(text, e.Find) != 1 {
			t.Fatalf("%s: %q does not stand once in valid.json", v.Name, e.Find)
		}
		text = strings.Replace(text, e.Find, e.Replace, 1)
	}
	return []byte(text)
}

func TestVectorsExports(t *testing.T) {
	valid, pub := readVector(t, "valid.json"), readVector(t, "evidence.pub")
	verified := 0
	for _, v := range readVectors[vector](t, "cases.json", 50) {
		t.Run(v.Name, func(t *testing.T) {
			export := v.bytes(t, valid)
			if v.Refused {
				var format *evidence.FormatError
				if report, err := evidence.Verify(bytes.NewReader(export), trust(newKey(t)), evidence.Options{}); !errors.As(err, &format) || report != nil {
					t.Errorf("Verify: %v, want a FormatError", err)
				}
				if _, err := evidence.ReadExport(bytes.NewReader(export)); !errors.As(err, &format) {
					t.Errorf("ReadExport: %v, want a FormatError", err)
				}
				return
			}
			file := pub
			if v.Keys != nil {
				file = []byte(*v.Keys)
			}
			keys, err := evidence.ParseKeys(file)
			if err != nil {
				t.Fatal(err)
			}
			var o evidence.Options
			if v.Head != "" {
				if o.Head, err = evidence.ParseLink(v.Head); err != nil {
					t.Fatal(err)
				}
			}
			failed, report := verify(t, export, keys, o)
			if !slices.Equal(failed, v.Failed) {
				t.Errorf("failed %q, want %q: %+v", failed, v.Failed, report.Results)
			}
			if len(failed) == 0 {
				verified++
			}
		})
	}
	if verified < 5 {
		t.Errorf("only %d exports verified", verified)
	}
}

func TestVectorsEvents(t *testing.T) {
	type vector struct {
		Event       evidence.Event
		SHA256      string
		Commitments []evidence.Commitment
	}
	for _, v := range readVectors[vector](t, "events.json", 4) {
		digest, err := v.Event.Digest()
		if err != nil || hex.EncodeToString(digest[:]) != v.SHA256 || v.SHA256 != v.Event.Hash {
			t.Errorf("event %d: digest %x, %v, want %s", v.Event.Sequence, digest, err, v.SHA256)
		}
		canonical, err := jcs.Transform(v.Event.Data)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Collect(evidence.Commitments(canonical)); !slices.Equal(got, v.Commitments) {
			t.Errorf("event %d: commitments %+v, want %+v", v.Event.Sequence, got, v.Commitments)
		}
	}
}

func TestVectorsTexts(t *testing.T) {
	type vector struct {
		SaltHex    string
		Text       string
		Commitment evidence.Commitment
	}
	for _, v := range readVectors[vector](t, "texts.json", 4) {
		salt, err := hex.DecodeString(v.SaltHex)
		if err != nil {
			t.Fatal(err)
		}
		if got := evidence.NewText([16]byte(salt), v.Text).Commit(); got != v.Commitment {
			t.Errorf("%q: %+v, want %+v", v.Text, got, v.Commitment)
		}
	}
}
