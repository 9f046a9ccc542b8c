package evidence_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"countersign/evidence"
)

// TestGoldenExport writes an export by hand, member by member, from the text
// of the format and with nothing but the standard library (H-151).
func TestGoldenExport(t *testing.T) {
	key := newKey(t)
	sha := func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) }
	sign := func(hash string) string {
		raw, err := hex.DecodeString(hash)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(ed25519.Sign(key.Private, raw))
	}
	keyID := sha(string(key.Public()))[:16]
	public := base64.RawURLEncoding.EncodeToString(key.Public())
	zeros := "0000000000000000000000000000000000000000000000000000000000000000"
	id1, id2 := "01980000-0000-7000-9000-000000000001", "01980000-0000-7000-9000-000000000002"

	subject := `{"format":"countersign-evidence/1","id":"run \"A\"","issuer":"","kind":"run","machine":7,"workspace":"café"}`
	salt := "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"
	commitment := sha(salt + "née\n")
	data1 := `{"subject":` + subject + `,"task":{"length":5,"text":"` + commitment + `"}}`
	data2 := `[1,"\u001f😀"]`
	event := func(data, id, previous, sequence, timestamp, kind string) (hash, text string) {
		hash = sha(`{"data":` + data + `,"id":"` + id + `","previousHash":"` + previous + `","runId":"run \"A\"","sequence":` + sequence +
			`,"timestamp":"` + timestamp + `","type":"` + kind + `"}`)
		return hash, `{"data":` + data + `,"hash":"` + hash + `","id":"` + id + `","keyId":"` + keyID + `","previousHash":"` + previous +
			`","runId":"run \"A\"","sequence":` + sequence + `,"signature":"` + sign(hash) + `","timestamp":"` + timestamp + `","type":"` + kind + `"}`
	}
	hash1, event1 := event(data1, id1, zeros, "1", "2026-03-04T05:06:07.008Z", "run.created")
	hash2, event2 := event(data2, id2, hash1, "2", "2026-03-04T05:06:07.999Z", "x")
	signature := sign(sha(`{"count":2,"exportedAt":"2026-03-04T06:00:00.000Z","format":"countersign-export/1","head":"` + hash2 +
		`","keyId":"` + keyID + `","publicKey":"` + public + `","subject":` + subject + `}`))
	envelope := func(texts string) string {
		return `{"count":2,"events":[` + event1 + `,` + event2 + `],"exportedAt":"2026-03-04T06:00:00.000Z","format":"countersign-export/1","head":"` + hash2 +
			`","keyId":"` + keyID + `","publicKey":"` + public + `","signature":"` + signature + `","subject":` + subject + `,"texts":` + texts + "}\n"
	}
	full := envelope(`{"` + commitment + `":{"salt":"AQIDBAUGBwgJCgsMDQ4PEA","text":"née\n"}}`)
	erased := envelope(`{}`)

	// The same by the package.
	c := &chain{subject: evidence.Subject{Format: evidence.Format, Kind: "run", ID: `run "A"`, Workspace: "café", Machine: 7}}
	task := evidence.NewText([16]byte([]byte(salt)), "née\n")
	for i, data := range []any{map[string]any{"task": task.Commit(), "subject": c.subject}, []any{1, "\x1f😀"}} {
		at := time.Date(2026, 3, 4, 6, 6, 7, []int{8_999_999, 999_000_000}[i], time.FixedZone("", 3600)) // what is below a millisecond is cut
		c.add(t, key, at, []string{"run.created", "x"}[i], data)
	}
	exportedAt := time.Date(2026, 3, 4, 6, 0, 0, 0, time.UTC)
	if got := c.export(t, key, exportedAt); string(got) != erased {
		t.Errorf("without texts\ngot  %s\nwant %s", got, erased)
	}
	c.texts = []evidence.Text{task}
	if got := c.export(t, key, exportedAt); string(got) != full {
		t.Errorf("with its text\ngot  %s\nwant %s", got, full)
	}

	for _, tc := range []struct {
		export string
		texts  evidence.Texts
	}{{full, evidence.Texts{Present: 1}}, {erased, evidence.Texts{Erased: 1}}} {
		failed, report := verify(t, []byte(tc.export), trust(key), evidence.Options{Head: evidence.Link{Sequence: 1, Hash: hash1}})
		if len(failed) > 0 {
			t.Errorf("fails %q", failed)
		}
		if report.Texts != tc.texts || report.Count != 2 || report.Head != hash2 || report.KeyID != keyID || report.Subject != c.subject ||
			report.ExportedAt.String() != "2026-03-04T06:00:00.000Z" {
			t.Errorf("report %+v", report)
		}
		x, err := evidence.ReadExport(bytes.NewReader([]byte(tc.export)))
		if err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		if err := x.Write(&again); err != nil || again.String() != tc.export {
			t.Errorf("written again: %v\n%s", err, again.String())
		}
	}

	// An event's own digest is the same, also when its data are not canonical yet.
	for _, data := range []string{data2, " [ 1, \"\\u001F\\ud83d\\ude00\" ] "} {
		e := c.events[1]
		e.Data = []byte(data)
		if digest, err := e.Digest(); err != nil || fmt.Sprintf("%x", digest) != hash2 {
			t.Errorf("digest %x, %v, want %s", digest, err, hash2)
		}
	}
}
