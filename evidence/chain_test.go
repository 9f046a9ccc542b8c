package evidence_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
)

// start is the time of every chain's first event.
var start = time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)

func newKey(t testing.TB) evidence.SigningKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return evidence.NewSigningKey(private)
}

// id returns a UUIDv7 with a number in it.
func id(n int) string { return fmt.Sprintf("01980000-0000-7000-9000-%012x", n) }

func subject(run string) evidence.Subject {
	return evidence.Subject{Format: "countersign-evidence/1", Kind: "run", ID: run, Workspace: "default", Issuer: "http://localhost:8420", Machine: 1}
}

// A chain is what a test seals, exports and damages.
type chain struct {
	subject evidence.Subject
	events  []evidence.Event
	texts   []evidence.Text
}

func (c *chain) head() evidence.Link {
	if len(c.events) == 0 {
		return evidence.Link{Hash: evidence.Genesis}
	}
	last := c.events[len(c.events)-1]
	return evidence.Link{Sequence: last.Sequence, Hash: last.Hash}
}

// add seals one event.
func (c *chain) add(t testing.TB, key evidence.SigningKey, at time.Time, kind string, data any) {
	t.Helper()
	n := len(c.events) + 1
	sealed, err := evidence.Seal(key, c.subject.ID, c.head(), at, []evidence.Draft{{ID: id(n), Type: kind, Data: data}})
	if err != nil {
		t.Fatal(err)
	}
	c.events = append(c.events, sealed...)
}

// text salts a text that travels with the chain.
func (c *chain) text(s string) evidence.Commitment {
	t := evidence.NewText([16]byte{byte(len(c.texts)), byte(len(s)), 0xff}, s)
	c.texts = append(c.texts, t)
	return t.Commit()
}

func (c *chain) source() evidence.Source {
	slices.SortFunc(c.texts, func(a, b evidence.Text) int { return strings.Compare(a.Commitment, b.Commitment) })
	return evidence.Source{Subject: c.subject, Head: c.head(), Events: each(c.events), Texts: each(c.texts)}
}

func (c *chain) export(t testing.TB, key evidence.SigningKey, at time.Time) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := evidence.WriteExport(&out, key, at, c.source()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func each[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// ownText are the events of [manyShapes] that alone refer to a text.
var ownText = map[int]bool{1: true, 2: true, 6: true}

// manyShapes is a chain of twelve events, ten milliseconds apart, whose data
// have every shape that JSON has. The first five are signed with older, the
// others with newer.
func manyShapes(t testing.TB, run string, older, newer evidence.SigningKey) *chain {
	c := &chain{subject: subject(run)}
	type object = map[string]any
	erased := evidence.NewText([16]byte{9}, "long gone")
	for i, data := range []any{
		object{"subject": c.subject, "instruction": c.text("Buy one Fieldwork keyboard for $137 total using the approved terms."), "budgetCents": "13700"},
		object{"report": object{"candidates": []any{object{"why": c.text("")}, object{"why": erased.Commit()}}}},
		object{},
		object{"numbers": []any{0, -1, 9007199254740991, -9007199254740991}},
		object{"": nil, "\r": true, "1": false, "ö": "\u2028", "😀": "\x01", "דּ": []any{}},
		object{"note": c.text("café \"quoted\"\n😀"), "again": erased.Commit()},
		object{"deep": []any{[]any{[]any{[]any{object{"deeper": object{"deepest": []any{}}}}}}}},
		object{"text": "no commitment", "length": 3},
		object{"text": strings.Repeat("0", 64), "length": 3, "more": 1},
		object{"long": strings.Repeat("0123456789", 30)},
		object{"escaped": `{"length":1,"text":"` + strings.Repeat("a", 64) + `"}`},
		object{"status": "completed"},
	} {
		key := older
		if i >= 5 {
			key = newer
		}
		c.add(t, key, start.Add(time.Duration(i)*10*time.Millisecond), fmt.Sprintf("type.%d", i+1), data)
	}
	return c
}

const run = "01980000-0000-7000-8000-000000000000"

// verify returns the names of the checks that failed.
func verify(t testing.TB, export []byte, keys evidence.Keys, o evidence.Options) ([]string, *evidence.Report) {
	t.Helper()
	report, err := evidence.Verify(bytes.NewReader(export), keys, o)
	if err != nil {
		t.Fatal(err)
	}
	failed := []string{}
	for _, r := range report.Results {
		if !r.OK {
			failed = append(failed, string(r.Check))
		}
	}
	if report.OK() != (len(failed) == 0) {
		t.Errorf("OK is %t with failed checks %q", report.OK(), failed)
	}
	slices.Sort(failed)
	return failed, report
}

func trust(keys ...evidence.SigningKey) evidence.Keys {
	var list evidence.Keys
	for _, k := range keys {
		list = append(list, evidence.TrustedKey{Public: k.Public()})
	}
	return list
}
