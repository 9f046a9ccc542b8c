package evidence_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"

	"github.com/gowebpki/jcs"
)

// A document is an export as any JSON reader sees it. It is written by a
// canonicalizer that is not ours.
type document map[string]any

func open(t testing.TB, export []byte) document {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(export))
	d.UseNumber()
	var doc document
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func (d document) events() []any              { return d["events"].([]any) }
func (d document) event(i int) map[string]any { return d.events()[i].(map[string]any) }

func (d document) bytes(t testing.TB) []byte {
	t.Helper()
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := jcs.Transform(raw)
	if err != nil {
		t.Fatal(err)
	}
	return append(canonical, '\n')
}

// flip returns another text of the same kind: the last hex digit or base64url
// character but one is changed.
func flip(s string) string {
	at, other := len(s)-2, byte('0')
	if s[at] == '0' {
		other = '1'
	}
	return s[:at] + string(other) + s[at+1:]
}

type tampering struct {
	name   string
	change func(d document)
	failed []string // the checks that find it, sorted
	names  int      // index of the event that a finding names, -1: none
}

// tamperings lists every kind of change on every event, with the checks that
// must find it. The reasons are in design order: what a hash covers, what a
// signature signs, what follows what.
func tamperings(t testing.TB, whole, other document, older, newer evidence.SigningKey) (all []tampering) {
	n := len(whole.events())
	last := n - 1
	add := func(names int, name string, change func(d document), failed ...string) {
		slices.Sort(failed)
		all = append(all, tampering{name, change, slices.Compact(failed), names})
	}
	if1 := func(condition bool, then string) []string {
		if condition {
			return []string{then}
		}
		return nil
	}
	for i := range n {
		member := func(name, how string, to func(e map[string]any) any, failed ...string) {
			add(i, fmt.Sprintf("event %d: %s %s", i+1, name, how), func(d document) { d.event(i)[name] = to(d.event(i)) }, failed...)
		}
		flipped := func(name string) func(e map[string]any) any {
			return func(e map[string]any) any { return flip(e[name].(string)) }
		}
		shifted := func(by time.Duration) func(e map[string]any) any {
			return func(e map[string]any) any {
				at, err := evidence.ParseTime(e["timestamp"].(string))
				if err != nil {
					t.Fatal(err)
				}
				return evidence.FormatTime(at.Add(by))
			}
		}
		member("data", "has one member more", func(e map[string]any) any {
			data := maps.Clone(e["data"].(map[string]any))
			data["zz"] = 1
			return data
		}, "hashes")
		member("id", "changed", flipped("id"), "hashes")
		member("type", "changed", func(e map[string]any) any { return e["type"].(string) + "x" }, "hashes")
		member("runId", "changed", flipped("runId"), "hashes", "subject")
		member("sequence", "one more", func(map[string]any) any { return i + 2 }, "hashes", "order")
		member("previousHash", "changed", flipped("previousHash"), "hashes", "order")
		member("timestamp", "a millisecond later", shifted(time.Millisecond), "hashes")
		if i > 0 {
			member("timestamp", "before the one before", shifted(-11*time.Millisecond), "hashes", "timestamps")
		}
		member("hash", "changed", flipped("hash"), append(append([]string{"hashes", "signatures"},
			if1(i < last, "order")...), if1(i == last, "head and count")...)...)
		member("signature", "changed", flipped("signature"), "signatures")
		member("signature", "of another event", func(map[string]any) any { return whole.event((i + 1) % n)["signature"] }, "signatures")
		member("keyId", "of nobody", flipped("keyId"), "key match", "signatures")
		if i < 5 {
			member("keyId", "of the newer key", func(map[string]any) any { return newer.ID }, append([]string{"signatures"}, if1(i < 4, "key order")...)...)
		} else {
			member("keyId", "of the older key", func(map[string]any) any { return older.ID }, append([]string{"signatures"}, if1(i > 5, "key order")...)...)
		}

		texts := if1(ownText[i+1], "texts")
		if i == 1 {
			// The erased text is named again by a later event, the empty one is not.
			texts = []string{"texts"}
		}
		if i == 2 {
			texts = nil
		}
		edge := append(if1(i == 0, "subject"), if1(i < last, "order")...)
		add(-1, fmt.Sprintf("event %d dropped", i+1), func(d document) {
			d["events"] = slices.Delete(slices.Clone(d.events()), i, i+1)
		}, slices.Concat([]string{"head and count"}, edge, texts)...)
		add(-1, fmt.Sprintf("event %d dropped, count lowered", i+1), func(d document) {
			d["events"] = slices.Delete(slices.Clone(d.events()), i, i+1)
			d["count"] = n - 1
		}, slices.Concat([]string{"manifest signature"}, edge, texts, if1(i == last, "head and count"))...)
		if i > 0 {
			lost := []string{}
			for _, with := range []int{0, 1, 5} {
				lost = append(lost, if1(with >= i, "texts")...)
			}
			add(-1, fmt.Sprintf("truncated behind event %d", i), func(d document) { d["events"] = d.events()[:i] },
				slices.Concat([]string{"head and count"}, lost)...)
		}
		if i < last {
			add(-1, fmt.Sprintf("events %d and %d swapped", i+1, i+2), func(d document) {
				events := slices.Clone(d.events())
				events[i], events[i+1] = events[i+1], events[i]
				d["events"] = events
			}, slices.Concat([]string{"order", "timestamps"}, if1(i == 0, "subject"), if1(i == 4, "key order"), if1(i+1 == last, "head and count"))...)
		}
		add(i, fmt.Sprintf("event %d stands twice", i+1), func(d document) {
			d["events"] = slices.Insert(slices.Clone(d.events()), i, d.events()[i])
		}, "order", "head and count")
		named := i
		if i == 0 {
			named = 1 // the first event of another run is sound in itself
		}
		add(named, fmt.Sprintf("event %d spliced from another run", i+1), func(d document) {
			events := slices.Clone(d.events())
			events[i] = other.events()[i]
			d["events"] = events
		}, slices.Concat([]string{"order", "subject"}, if1(i == last, "head and count"))...)
		add(-1, fmt.Sprintf("everything up to event %d spliced from another run", i+1), func(d document) {
			d["events"] = slices.Concat(other.events()[:i+1], d.events()[i+1:])
		}, slices.Concat([]string{"subject"}, if1(i < last, "order"), if1(i == last, "head and count"))...)
	}

	set := func(name string, to any, failed ...string) {
		add(-1, "envelope: "+name, func(d document) { d[name] = to }, failed...)
	}
	set("count", n+1, "head and count", "manifest signature")
	set("head", flip(whole["head"].(string)), "head and count", "manifest signature")
	set("keyId", older.ID, "key match", "manifest signature")
	set("keyId", flip(newer.ID), "key match", "manifest signature")
	set("publicKey", flip(whole["publicKey"].(string)), "key match", "manifest signature")
	set("exportedAt", "2030-01-01T00:00:00.000Z", "manifest signature")
	set("signature", flip(whole["signature"].(string)), "manifest signature")
	set("signature", whole.event(last)["signature"], "manifest signature")
	for _, member := range []string{"kind", "id", "workspace", "issuer"} {
		stated := maps.Clone(whole["subject"].(map[string]any))
		stated[member] = stated[member].(string) + "x"
		add(-1, "envelope: subject."+member, func(d document) { d["subject"] = stated }, "subject", "manifest signature")
	}
	machine := maps.Clone(whole["subject"].(map[string]any))
	machine["machine"] = 2
	set("subject", machine, "subject", "manifest signature")

	for name, entry := range whole["texts"].(map[string]any) {
		text := func(how string, change func(texts map[string]any)) {
			add(-1, "text "+how, func(d document) {
				texts := maps.Clone(d["texts"].(map[string]any))
				change(texts)
				d["texts"] = texts
			}, "texts")
		}
		with := func(member, value string) map[string]any {
			changed := maps.Clone(entry.(map[string]any))
			changed[member] = value
			return changed
		}
		text("changed", func(texts map[string]any) { texts[name] = with("text", "another") })
		text("with another salt", func(texts map[string]any) { texts[name] = with("salt", strings.Repeat("A", 22)) })
		text("under another name", func(texts map[string]any) { texts[flip(name)] = texts[name]; delete(texts, name) })
		text("that no event refers to", func(texts map[string]any) {
			stray := evidence.NewText([16]byte{}, "stray")
			texts[stray.Commitment] = map[string]any{"salt": strings.Repeat("A", 22), "text": "stray"}
		})
	}
	return all
}

// H-157: whatever is changed, added, left out or put in another order in an export is found.
func TestTamper(t *testing.T) {
	older, newer := newKey(t), newKey(t)
	keys := trust(older, newer)
	c := manyShapes(t, run, older, newer)
	export := c.export(t, newer, start.Add(time.Hour))
	whole := open(t, export)
	other := open(t, manyShapes(t, flip(run), older, newer).export(t, newer, start.Add(time.Hour)))

	if failed, _ := verify(t, export, keys, evidence.Options{}); len(failed) > 0 {
		t.Fatalf("the untouched export fails %q", failed)
	}
	if !bytes.Equal(whole.bytes(t), export) {
		t.Fatal("another canonicalizer writes the export with other bytes")
	}
	onlyBy := map[string]int{}
	all := tamperings(t, whole, other, older, newer)
	for _, tamper := range all {
		damaged := open(t, export)
		tamper.change(damaged)
		failed, report := verify(t, damaged.bytes(t), keys, evidence.Options{Workers: 1})
		if !slices.Equal(failed, tamper.failed) {
			t.Errorf("%s: found by %q, want %q", tamper.name, failed, tamper.failed)
		}
		if tamper.names >= 0 {
			e := damaged.event(tamper.names)
			sequence, _ := json.Number(fmt.Sprint(e["sequence"])).Int64()
			if !names(report, sequence, e["id"].(string)) {
				t.Errorf("%s: no finding names event %d, %s", tamper.name, sequence, e["id"])
			}
		}
		if len(failed) == 1 {
			onlyBy[failed[0]]++
		}
	}
	if len(all) < 12*18 {
		t.Errorf("only %d changes were tried", len(all))
	}
	// Negative control: without the check the change would go unseen, so the
	// table depends on every one of them. A key outside the list and an event
	// that lies about its order show in a second check as well.
	for _, check := range []string{"hashes", "signatures", "head and count", "manifest signature", "texts"} {
		if onlyBy[check] == 0 {
			t.Errorf("no change is found by %q alone", check)
		}
	}
}

func names(report *evidence.Report, sequence int64, id string) bool {
	return slices.ContainsFunc(report.Results, func(r evidence.Result) bool {
		return slices.ContainsFunc(r.Findings, func(f evidence.Finding) bool { return f.Sequence == sequence && f.ID == id })
	})
}

// Checks that tampering without the key never meets alone: somebody who holds
// a key sealed these chains, and one check stands between them and a pass.
func TestOneCheckAlone(t *testing.T) {
	older, newer, alien := newKey(t), newKey(t), newKey(t)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	first := map[string]any{"subject": subject(run)}
	sealed := func(build func(c *chain)) []byte {
		c := &chain{subject: subject(run)}
		build(c)
		return c.export(t, newer, at(1000))
	}
	for check, export := range map[string][]byte{
		"timestamps": sealed(func(c *chain) {
			c.add(t, older, at(0), "a", first)
			c.add(t, newer, at(2), "b", map[string]any{})
			c.add(t, newer, at(1), "c", map[string]any{})
		}),
		"key order": sealed(func(c *chain) {
			c.add(t, newer, at(0), "a", first)
			c.add(t, older, at(1), "b", map[string]any{})
		}),
		"texts": sealed(func(c *chain) {
			text := c.text("once")
			c.add(t, newer, at(0), "a", first)
			c.add(t, newer, at(1), "b", text)
			c.texts = nil
			text.Length++
			c.add(t, newer, at(2), "c", text)
		}),
	} {
		if failed, _ := verify(t, export, trust(older, newer), evidence.Options{}); !slices.Equal(failed, []string{check}) {
			t.Errorf("%s: failed %q", check, failed)
		}
	}

	// WriteExport refuses to sign these, so another writer does.
	c := &chain{subject: subject(run)}
	c.add(t, newer, at(0), "a", first)
	c.add(t, newer, at(1), "b", map[string]any{})
	c.add(t, newer, at(2), "c", map[string]any{})
	resign := func(change func(x *evidence.Export)) []byte {
		x, err := evidence.ReadExport(bytes.NewReader(c.export(t, newer, at(1000))))
		if err != nil {
			t.Fatal(err)
		}
		change(x)
		evidence.Resign(&x.Manifest, newer)
		var out bytes.Buffer
		if err := x.Write(&out); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	seal := func(key evidence.SigningKey, run string, after evidence.Link, data any) evidence.Event {
		events, err := evidence.Seal(key, run, after, at(3), []evidence.Draft{{ID: id(4), Type: "d", Data: data}})
		if err != nil {
			t.Fatal(err)
		}
		return events[0]
	}
	last := c.head()
	grow := func(e evidence.Event) func(x *evidence.Export) {
		return func(x *evidence.Export) {
			x.Events = append(x.Events, e)
			x.Count, x.Head = int64(len(x.Events)), e.Hash
		}
	}
	for _, tc := range []struct {
		failed []string
		export []byte
	}{
		{[]string{}, resign(grow(seal(newer, run, last, nil)))},
		{[]string{"order"}, resign(grow(seal(newer, run, evidence.Link{Sequence: 4, Hash: last.Hash}, nil)))},
		{[]string{"order"}, resign(grow(seal(newer, run, evidence.Link{Sequence: 3, Hash: c.events[1].Hash}, nil)))},
		{[]string{"subject"}, resign(grow(seal(newer, "another", last, nil)))},
		{[]string{"key match", "signatures"}, resign(grow(seal(alien, run, last, nil)))},
		{[]string{"subject"}, resign(func(x *evidence.Export) { x.Subject.Machine = 2 })},
		{[]string{"head and count"}, resign(func(x *evidence.Export) { x.Count++ })},
		{[]string{"head and count"}, resign(func(x *evidence.Export) { x.Head = x.Events[0].Hash })},
		{[]string{"hashes"}, resign(func(x *evidence.Export) { x.Events[1].Type = "other" })},
	} {
		if failed, _ := verify(t, tc.export, trust(older, newer), evidence.Options{}); !slices.Equal(failed, tc.failed) {
			t.Errorf("failed %q, want %q", failed, tc.failed)
		}
	}
}

// Every byte of the file counts: whatever one bit becomes, the export is
// refused or fails.
func TestEveryByte(t *testing.T) {
	older, newer := newKey(t), newKey(t)
	keys := trust(older, newer)
	c := &chain{subject: subject(run)}
	c.add(t, older, start, "run.created", map[string]any{"subject": c.subject, "task": c.text("café \"1\"\n")})
	c.add(t, newer, start, "b", map[string]any{"erased": evidence.NewText([16]byte{9}, "gone").Commit(), "list": []any{-12, nil, true, "\x01\\"}})
	c.add(t, newer, start, "c", map[string]any{})
	export := c.export(t, newer, start.Add(time.Hour))
	// found returns the checks that fail, or "refused".
	found := func(damaged []byte) (by []evidence.Check) {
		report, err := evidence.Verify(bytes.NewReader(damaged), keys, evidence.Options{Workers: 1})
		if err != nil {
			return []evidence.Check{"refused"}
		}
		for _, r := range report.Results {
			if !r.OK {
				by = append(by, r.Check)
			}
		}
		return by
	}
	if by := found(export); len(by) > 0 {
		t.Fatalf("the untouched export fails %q", by)
	}
	onlyBy := map[evidence.Check]int{}
	damaged := bytes.Clone(export)
	for i := range export {
		damaged[i] ^= 1 << (i % 7)
		switch by := found(damaged); len(by) {
		case 0:
			t.Errorf("byte %d (%q) changed to %q, and the export verifies", i, export[i], damaged[i])
		case 1:
			onlyBy[by[0]]++
		}
		damaged[i] = export[i]
	}
	// Negative control: with one of these checks switched off, some of the
	// changed bytes would pass.
	for _, check := range []evidence.Check{"refused", evidence.CheckHashes, evidence.CheckSignatures, evidence.CheckManifest, evidence.CheckTexts} {
		if onlyBy[check] == 0 {
			t.Errorf("no changed byte is found by %q alone", check)
		}
	}
	for i := range export {
		var refused *evidence.FormatError
		if _, err := evidence.ReadExport(bytes.NewReader(export[:i])); !errors.As(err, &refused) {
			t.Errorf("cut to %d bytes: %v, want a FormatError", i, err)
		}
	}
}
