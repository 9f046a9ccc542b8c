package evidence_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
)

// WriteExport signs nothing that a reader would refuse.
func TestWriteExportRefuses(t *testing.T) {
	key := newKey(t)
	broken := errors.New("database on fire")
	build := func() *chain {
		c := &chain{subject: subject(run)}
		c.add(t, key, start, "a", map[string]any{"subject": c.subject, "one": c.text("one")})
		c.add(t, key, start, "b", map[string]any{"two": c.text("two")})
		c.add(t, key, start, "c", map[string]any{})
		return c
	}
	seal := func(run string, after evidence.Link, d evidence.Draft) evidence.Event {
		events, err := evidence.Seal(key, run, after, start, []evidence.Draft{d})
		if err != nil {
			t.Fatal(err)
		}
		return events[0]
	}
	for name, tc := range map[string]struct {
		damage func(c *chain, s *evidence.Source)
		want   string
	}{
		"nothing wrong": {func(*chain, *evidence.Source) {}, ""},
		"no texts":      {func(_ *chain, s *evidence.Source) { s.Texts = nil }, ""},
		"an older head": {func(c *chain, s *evidence.Source) {
			s.Head, s.Events, s.Texts = evidence.Link{Sequence: 2, Hash: c.events[1].Hash}, each(c.events[:2]), nil
		}, ""},
		"another head":   {func(_ *chain, s *evidence.Source) { s.Head.Hash = evidence.Genesis }, "the events end in"},
		"a later head":   {func(_ *chain, s *evidence.Source) { s.Head.Sequence++ }, "the events end in"},
		"too few events": {func(c *chain, s *evidence.Source) { s.Events = each(c.events[:2]) }, "the events end in"},
		"no events": {func(_ *chain, s *evidence.Source) {
			s.Events, s.Head = each([]evidence.Event{}), evidence.Link{Hash: evidence.Genesis}
		}, "the events end in"},
		"a gap":              {func(c *chain, s *evidence.Source) { s.Events = each(slices.Delete(slices.Clone(c.events), 1, 2)) }, "event 3 does not follow"},
		"another order":      {func(c *chain, s *evidence.Source) { s.Events = each([]evidence.Event{c.events[1], c.events[0]}) }, "event 2 does not follow"},
		"a changed type":     {func(c *chain, s *evidence.Source) { c.events[1].Type = "z" }, "event 2 does not hash"},
		"a changed data":     {func(c *chain, s *evidence.Source) { c.events[1].Data = []byte("{}") }, "event 2 does not hash"},
		"broken data":        {func(c *chain, s *evidence.Source) { c.events[1].Data = []byte("{") }, "ends early"},
		"data with more":     {func(c *chain, s *evidence.Source) { c.events[1].Data = append(c.events[1].Data, `,"x":1`...) }, "bytes follow"},
		"data not canonical": {func(c *chain, s *evidence.Source) { c.events[2].Data = []byte("{ }") }, "canonical form"},
		"a broken signature": {func(c *chain, s *evidence.Source) { c.events[1].Signature += "=" }, "event 2: want the member signature"},
		"a capital key id":   {func(c *chain, s *evidence.Source) { c.events[1].KeyID = "ABCDEFABCDEFABCD" }, "event 2: want the member keyId"},
		"an id that is none": {func(c *chain, s *evidence.Source) {
			c.events[2] = seal(run, evidence.Link{Sequence: 2, Hash: c.events[1].Hash}, evidence.Draft{ID: "e3", Type: "c"})
		}, "event 3: want the member id as a UUIDv7"},
		"an event of another run": {func(c *chain, s *evidence.Source) {
			c.events[2] = seal("another", evidence.Link{Sequence: 2, Hash: c.events[1].Hash}, evidence.Draft{ID: id(3), Type: "c"})
		}, "event 3 is of another subject"},
		"another subject":        {func(_ *chain, s *evidence.Source) { s.Subject.Issuer = "other" }, "does not state the subject"},
		"no machine":             {func(_ *chain, s *evidence.Source) { s.Subject.Machine = 0 }, "subject: want the member machine"},
		"another format":         {func(_ *chain, s *evidence.Source) { s.Subject.Format = "countersign-evidence/2" }, "subject: want the member format"},
		"no kind":                {func(_ *chain, s *evidence.Source) { s.Subject.Kind = "" }, "subject: want the member kind"},
		"a subject with NUL":     {func(_ *chain, s *evidence.Source) { s.Subject.Issuer = "\x00" }, "U+0000"},
		"texts in another order": {func(c *chain, s *evidence.Source) { slices.Reverse(c.texts) }, "ascending"},
		"a text twice":           {func(c *chain, s *evidence.Source) { c.texts[1] = c.texts[0] }, "ascending"},
		"a stray text": {func(c *chain, s *evidence.Source) {
			s.Texts = each([]evidence.Text{evidence.NewText([16]byte{}, "stray")})
		}, "no event refers to it"},
		"a changed text": {func(c *chain, s *evidence.Source) { c.texts[0].Text += "!" }, "do not hash to its name"},
		"a short salt":   {func(c *chain, s *evidence.Source) { c.texts[0].Salt = c.texts[0].Salt[:15] }, "do not hash to its name"},
		"a text of broken UTF-8": {func(c *chain, s *evidence.Source) {
			bad := evidence.NewText([16]byte{}, "\xff")
			*c = chain{subject: c.subject, texts: []evidence.Text{bad}}
			c.add(t, key, start, "a", map[string]any{"subject": c.subject, "bad": bad.Commit()})
			*s = c.source()
		}, "not UTF-8"},
		"events that fail": {func(c *chain, s *evidence.Source) {
			s.Events = func(yield func(evidence.Event, error) bool) {
				_ = yield(c.events[0], nil) && yield(evidence.Event{}, broken)
			}
		}, broken.Error()},
		"texts that fail": {func(c *chain, s *evidence.Source) {
			s.Texts = func(yield func(evidence.Text, error) bool) { yield(evidence.Text{}, broken) }
		}, broken.Error()},
	} {
		c := build()
		s := c.source()
		tc.damage(c, &s)
		var out bytes.Buffer
		err := evidence.WriteExport(&out, key, start, s)
		if tc.want == "" {
			if failed, _ := verify(t, out.Bytes(), trust(key), evidence.Options{}); err != nil || len(failed) > 0 {
				t.Errorf("%s: %v, failed %q", name, err, failed)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
		if _, err := evidence.ReadExport(&out); err == nil {
			t.Errorf("%s: what was written is an export", name)
		}
	}
}

// failingWriter takes n bytes.
type failingWriter struct{ n int }

var errFull = errors.New("no space left")

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.n -= len(b); w.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriteExportReportsTheWriter(t *testing.T) {
	key := newKey(t)
	c := many(t, 30, key)
	size := len(c.export(t, key, start))
	for n := 0; n < size; n += size / 10 {
		if err := evidence.WriteExport(&failingWriter{n}, key, start, c.source()); !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes: %v", n, err)
		}
	}
	if err := evidence.WriteExport(&failingWriter{size}, key, start, c.source()); err != nil {
		t.Errorf("room for all: %v", err)
	}
}

// Texts that belong to no event, or not to their name, make a reader refuse.
func TestReadExportRefusesTexts(t *testing.T) {
	older, newer := newKey(t), newKey(t)
	c := manyShapes(t, run, older, newer)
	export := string(c.export(t, newer, start))
	var format *evidence.FormatError
	for name, damaged := range map[string]string{
		"another text": strings.Replace(export, `"text":"Buy one`, `"text":"Buy two`, 1),
		"another salt": strings.Replace(export, `"salt":"A`, `"salt":"B`, 1),
		"another name": strings.Replace(export, `"texts":{"`+c.texts[0].Commitment, `"texts":{"`+flip(c.texts[0].Commitment), 1),
	} {
		if damaged == export {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := evidence.ReadExport(strings.NewReader(damaged)); !errors.As(err, &format) {
			t.Errorf("%s: %v, want a FormatError", name, err)
		}
	}
	x, err := evidence.ReadExport(strings.NewReader(export))
	if err != nil || len(x.Events) != 12 || len(x.Texts) != 3 || x.Count != 12 {
		t.Errorf("the export as it was: %v", err)
	}
}

// A refusal says where and what is wanted, and nothing of what was there.
func TestFormatErrors(t *testing.T) {
	key := newKey(t)
	c := &chain{subject: subject(run)}
	c.add(t, key, start, "first", map[string]any{"subject": c.subject, "t": c.text("text")})
	c.add(t, key, start, "second", map[string]any{"secret": "SECRET"})
	export := string(c.export(t, key, start))
	name := c.texts[0].Commitment
	e2 := c.events[1]
	if !strings.Contains(export, `"type":"second"`) {
		t.Fatal("the second event is not where it was")
	}
	for _, tc := range []struct{ find, replace, want string }{
		{`{"count":2`, `{"Count":2`, `evidence: export: want the member count, canonical and in its place`},
		{`{"count":2`, `["count":2`, `evidence: export: want the member count, canonical and in its place`},
		{`{"count":2`, `{"count":0`, `evidence: export: want the member count as an integer from 1`},
		{`{"count":2`, `{"count":-2`, `evidence: export: want the member count as an integer from 1`},
		{`{"count":2`, `{"count":02`, `evidence: export: want the member count as an integer from 1`},
		{`{"count":2`, `{"count":2.0`, `evidence: export: want the member count as an integer from 1`},
		{`{"count":2`, `{"count":9007199254740992`, `evidence: export: want the member count as an integer from 1`},
		{`"events":[{`, `"events":{{`, `evidence: event 1: want another event or the end of the list`},
		{`"events":[`, `"events":[ `, `evidence: event 1: want an object in the canonical form of RFC 8785`},
		{`,"exportedAt"`, `,"exportedAs":1,"exportedAt"`, `evidence: export: want the member exportedAt, canonical and in its place`},
		{`"head":"`, `"head":"SECRET`, `evidence: export: want the member head as 64 lowercase hex digits`},
		{`"exportedAt":"2026`, `"exportedAt":"26`, `evidence: export: want the member exportedAt as RFC 3339 in UTC with milliseconds`},
		{`"publicKey":"`, `"publicKey":"A`, `evidence: export: want the member publicKey as base64url without padding of 32 bytes`},
		{`"format":"countersign-export/1"`, `"format":"SECRET"`, `evidence: export: want the member format as countersign-export/1`},
		{`"format":"countersign-export/1"`, `"format":[1,{}]`, `evidence: export: want the member format as countersign-export/1`},
		{`"format":"countersign-export/1"`, `"format":`, `evidence: export: want an object in the canonical form of RFC 8785`},
		{`"subject":{"format":"countersign-evidence/1","id":"` + run + `","issuer":"http://localhost:8420","kind":"run","machine":1,"workspace":"default"},"texts"`,
			`"subject":{"format":"countersign-evidence/1","id":"` + run + `","issuer":"http://localhost:8420","kind":"run","machine":"1","workspace":"default"},"texts"`,
			`evidence: subject: want the member machine as an integer from 1`},
		{`"texts":{`, `"texts":[`, `evidence: texts: want an object`},
		{`"texts":{"` + name + `":{"salt"`, `"texts":{"SECRET":{"salt"`, `evidence: texts: want names of 64 lowercase hex digits, ascending`},
		{`"texts":{"` + name + `":{`, `"texts":{"` + name + `",{`, `evidence: text ` + name + `: want a value`},
		{`"texts":{"` + name + `":{"salt"`, `"texts":{"` + name + `":{"pepper":1,"salt"`, `evidence: text ` + name + `: want no other member before salt`},
		{`,"text":"text"}`, `}`, `evidence: text ` + name + `: want the member text`},
		{`,"text":"text"}`, `,"text":1}`, `evidence: text ` + name + `: want the member text as a string`},
		{`,"text":"text"}`, `,"text":"text","u":1}`, `evidence: text ` + name + `: want no member behind "text"`},
		{`,"text":"text"}}}`, `,"text":"text"}};`, `evidence: end of the export: want one newline and nothing behind it`},
		{`,"text":"text"}}}`, `,"text":"text"}:}}`, `evidence: text ` + name + `: want another text or the end of the texts behind it`},
		{`"type":"second"}`, `"type":""}`, `evidence: event 2: want the member type as a string that is not empty`},
		{`"type":"second"}`, `"Type":"second"}`, `evidence: event 2: want an object in the canonical form of RFC 8785`},
		{`"type":"second"}`, `"typed":"second"}`, `evidence: event 2: want the member type`},
		{`"type":"second"}`, `"type":"second","typed":1}`, `evidence: event 2: want no member behind "type"`},
		{`"type":"second"}`, `"type":"second"};`, `evidence: event 2: want an object in the canonical form of RFC 8785`},
		{`"type":"second"}`, `"type":"second"}:{}`, `evidence: event 3: want another event or the end of the list`},
		{`"id":"` + id(2), `"id":"` + strings.Replace(id(2), "-7", "-4", 1), `evidence: event 2: want the member id as a UUIDv7 in lowercase`},
		{`"id":"` + id(2), `"id":"` + strings.Replace(id(2), "-9", "-c", 1), `evidence: event 2: want the member id as a UUIDv7 in lowercase`},
		{`"id":"` + id(2), `"id":"` + strings.ReplaceAll(id(2), "-", "0"), `evidence: event 2: want the member id as a UUIDv7 in lowercase`},
		{`"sequence":2`, `"sequence":0`, `evidence: event 2: want the member sequence as an integer from 1`},
		{`"sequence":2`, `"sequence":"2"`, `evidence: event 2: want the member sequence as an integer from 1`},
		{`"hash":"` + e2.Hash, `"hash":"` + strings.ToUpper(e2.Hash), `evidence: event 2: want the member hash as 64 lowercase hex digits`},
		{`"previousHash":"` + e2.PreviousHash, `"previousHash":"0`, `evidence: event 2: want the member previousHash as 64 lowercase hex digits`},
		{`"SECRET"`, `0.5`, `evidence: event 2: want an object in the canonical form of RFC 8785`},
	} {
		damaged := strings.Replace(export, tc.find, tc.replace, 1)
		if damaged == export {
			t.Errorf("%s does not stand in the export", tc.find)
			continue
		}
		_, err := evidence.ReadExport(strings.NewReader(damaged))
		_, verifyErr := evidence.Verify(strings.NewReader(damaged), trust(key), evidence.Options{})
		if err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v\nwant %s", tc.replace, err, tc.want)
		}
		if fmt.Sprint(verifyErr) != fmt.Sprint(err) {
			t.Errorf("%s: Verify says %v", tc.replace, verifyErr)
		}
	}
	if _, err := evidence.ReadExport(strings.NewReader(export + "\n")); err == nil {
		t.Error("a second newline was accepted")
	}
}

// No input makes a reader hold more than one element of bounded size.
func TestElementBound(t *testing.T) {
	endless := strings.Repeat("x", evidence.MaxElement+1)
	var format *evidence.FormatError
	if _, err := evidence.ReadExport(strings.NewReader(`{"count":1,"events":[{"data":"` + endless)); !errors.As(err, &format) || format.Where != "event 1" {
		t.Errorf("an endless event: %v", err)
	}
	// A string of nothing but escapes is no slower than its length.
	if _, err := evidence.ReadExport(strings.NewReader(`{"count":1,"events":["` + strings.Repeat(`\\`, evidence.MaxElement/32) + `"]`)); !errors.As(err, &format) {
		t.Errorf("an event of escapes: %v", err)
	}
}

func TestSealRefuses(t *testing.T) {
	key := newKey(t)
	var deep any = 1
	for range 32 {
		deep = []any{deep}
	}
	at := evidence.Link{Hash: evidence.Genesis}
	seal := func(d evidence.Draft) error {
		_, err := evidence.Seal(key, run, at, start, []evidence.Draft{d})
		return err
	}
	for name, d := range map[string]evidence.Draft{
		"a fraction":        {ID: id(1), Type: "a", Data: 0.5},
		"2^53":              {ID: id(1), Type: "a", Data: int64(1) << 53},
		"not a number":      {ID: id(1), Type: "a", Data: math.Inf(1)},
		"NUL":               {ID: id(1), Type: "a", Data: "\x00"},
		"a NUL in the type": {ID: id(1), Type: "\x00"},
		"an event too deep": {ID: id(1), Type: "a", Data: deep},
		"repeated members":  {ID: id(1), Type: "a", Data: json.RawMessage(`{"a":1,"a":1}`)},
	} {
		if err := seal(d); err == nil {
			t.Errorf("%s was sealed", name)
		}
	}
	if err := seal(evidence.Draft{ID: id(1), Type: "a", Data: deep.([]any)[0]}); err != nil {
		t.Errorf("31 levels of data: %v", err)
	}
	e := evidence.Event{ID: id(1), Type: "a", Data: []byte("{")}
	if _, err := e.Digest(); err == nil {
		t.Error("broken data has a digest")
	}
}

func TestExportWriteRefuses(t *testing.T) {
	key := newKey(t)
	read := func() *evidence.Export {
		x, err := evidence.ReadExport(bytes.NewReader(many(t, 2, key).export(t, key, start)))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for name, change := range map[string]func(x *evidence.Export){
		"a subject without kind": func(x *evidence.Export) { x.Subject.Kind = "" },
		"an event without type":  func(x *evidence.Export) { x.Events[0].Type = "" },
		"a stray text":           func(x *evidence.Export) { x.Texts = []evidence.Text{evidence.NewText([16]byte{}, "stray")} },
	} {
		x := read()
		change(x)
		if err := x.Write(&bytes.Buffer{}); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}

func TestTimes(t *testing.T) {
	at := time.Date(2026, 1, 2, 4, 4, 5, 678_999_999, time.FixedZone("", 3600))
	if got := evidence.FormatTime(at); got != "2026-01-02T03:04:05.678Z" {
		t.Errorf("got %s", got)
	}
	ours := evidence.TimeOf(at)
	if ours.String() != "2026-01-02T03:04:05.678Z" || ours.Add(1500*time.Microsecond).Sub(ours) != time.Millisecond || ours.Time().Location() != time.UTC {
		t.Errorf("got %s", ours)
	}
	var read evidence.Time
	b, err := json.Marshal(ours)
	if err != nil || json.Unmarshal(b, &read) != nil || read != ours {
		t.Errorf("%s reads as %s, %v", b, read, err)
	}
	for _, s := range []string{"", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.6Z", "2026-01-02T03:04:05.6780Z", "2026-01-02T03:04:05.678+00:00", "2026-01-02t03:04:05.678z",
		"2026-01-02 03:04:05.678Z", "2026-02-30T03:04:05.678Z", "2026-01-02T24:00:00.000Z", "2026-01-02T03:04:05,678Z", "2026-01-02T03:04:60.000Z", " 2026-01-02T03:04:05.678Z"} {
		if got, err := evidence.ParseTime(s); err == nil {
			t.Errorf("ParseTime(%q) = %s", s, got)
		}
		if err := read.UnmarshalText([]byte(s)); err == nil || read != ours {
			t.Errorf("UnmarshalText(%q) = %v, left %s", s, err, read)
		}
	}
}

func TestCommitments(t *testing.T) {
	h, g := strings.Repeat("0a", 32), strings.Repeat("f9", 32)
	c := func(text string, length int) string { return fmt.Sprintf(`{"length":%d,"text":"%s"}`, length, text) }
	for data, want := range map[string][]evidence.Commitment{
		c(h, 0): {{Text: h, Length: 0}},
		`{"a":` + c(h, 1) + `,"b":[` + c(g, 2) + `,` + c(h, 3) + `]}`: {{Text: h, Length: 1}, {Text: g, Length: 2}, {Text: h, Length: 3}},
		`{"a":{"length":` + c(h, 7) + `,"text":"` + g + `"}}`:         {{Text: h, Length: 7}},
		c(h, 9007199254740991):                      {{Text: h, Length: 9007199254740991}},
		c(h, -1):                                    nil,
		c(h[1:], 1):                                 nil,
		c(h+"0", 1):                                 nil,
		c(strings.ToUpper(h), 1):                    nil,
		`{"length":"1","text":"` + h + `"}`:         nil,
		`{"length":1,"text":"` + h + `","u":1}`:     nil,
		`{"a":0,"length":1,"text":"` + h + `"}`:     nil,
		`{"length":1,"note":"","text":"` + h + `"}`: nil,
		`{"length":null,"text":"` + h + `"}`:        nil,
		`{"length":[],"text":"` + h + `"}`:          nil,
		`{"length":1}`:                              nil,
		`{"length":1,"text":"`:                      nil,
		`["{\"length\":1,\"text\":\"` + h + `\"}"]`: nil,
		`["{","length"]`:                            nil,
		`{}`:                                        nil,
		``:                                          nil,
	} {
		if got := slices.Collect(evidence.Commitments([]byte(data))); !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", data, got, want)
		}
	}
	for range evidence.Commitments([]byte("[" + c(h, 1) + "," + c(g, 1) + "]")) {
		break // a caller may stop
	}
}
