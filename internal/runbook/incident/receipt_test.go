package incident_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/runbook/incident"
)

// hashOf is the hash of a receipt by its definition: SHA-256 of the RFC 8785 form of the
// seven members.
func hashOf(e evidence.Event, data any) string {
	return canon.Hash(canon.MustMarshal(map[string]any{"id": e.ID, "runId": e.RunID, "sequence": e.Sequence, "type": e.Type, "data": data, "timestamp": e.Timestamp, "previousHash": e.PreviousHash}))
}

// parsed is event data as JSON has it.
func parsed(t testing.TB, raw []byte) (v map[string]any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	must(t, d.Decode(&v))
	return whole(v).(map[string]any)
}

// whole makes numbers what canonical JSON takes: integers.
func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = whole(member)
		}
	case []any:
		for i, element := range v {
			v[i] = whole(element)
		}
	case json.Number:
		n, _ := v.Int64()
		return n
	}
	return v
}

// alterations are all values that differ from v in exactly one leaf, member or element,
// each with the path to it.
func alterations(path string, v any, add func(path string, v any)) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			alterations(path+"/"+name, member, func(p string, m any) {
				changed := maps.Clone(v)
				changed[name] = m
				add(p, changed)
			})
			without := maps.Clone(v)
			delete(without, name)
			add(path+"/"+name+" left out", without)
		}
		with := maps.Clone(v)
		with["more"] = "x"
		add(path+"/more", with)
	case []any:
		for i, element := range v {
			alterations(fmt.Sprint(path, "/", i), element, func(p string, m any) {
				changed := slices.Clone(v)
				changed[i] = m
				add(p, changed)
			})
		}
		add(path+"/-", append(slices.Clone(v), "x"))
	case int64:
		add(path, v+1)
	case string:
		changed := v + "x"
		if last := len(v) - 1; last >= 0 { // stays of its form: a hash a hash, a time a time
			digit := byte('1')
			if v[last] == digit {
				digit = '2'
			}
			add(path+" by a digit", v[:last]+string(digit))
		}
		add(path, changed)
	case nil:
		add(path, "x")
	default:
		panic(fmt.Sprintf("%T at %s", v, path))
	}
}

// the hash of a receipt covers every member of it, the hash before and the
// time. Sealed anew, a receipt with any member changed is unlawful: nothing in it can be
// made up but the channel, which is what the caller says, and the names of what was made.
func TestReceiptMembers(t *testing.T) {
	w := approved(t)
	w.ask("execute", "api", otherKey(w.execution()), incident.Seen{})
	w.execute()
	w.execute()
	w.reset()
	var names []string
	for i, e := range w.events {
		data := parsed(t, e.Data)
		if hashOf(e, data) != e.Hash {
			t.Fatalf("receipt %d does not have the hash of its definition", i+1)
		}
		var chain []any
		var at []evidence.Time
		for _, before := range w.events[:i+1] {
			when, err := evidence.ParseTime(before.Timestamp)
			must(t, err)
			chain, at = append(chain, parsed(t, before.Data)), append(at, evidence.TimeOf(when))
		}
		if got := rules(sealed(t, chain, at)); len(got) != 0 {
			t.Fatalf("control: unchanged, %d receipts break %v", i+1, got)
		}
		hashes := map[string]string{e.Hash: "nothing"}
		alterations("", data, func(path string, v any) {
			names = append(names, path)
			hash := hashOf(e, v)
			if other := hashes[hash]; other != "" {
				t.Errorf("receipt %d with %s changed has the hash of %s changed", i+1, path, other)
			}
			hashes[hash] = path
			chain[i] = v
			if lawfully(path, data) {
				return
			}
			r := replayed(sealed(t, chain, at))
			if r.Known() && len(r.Unlawful()) == 0 {
				t.Errorf("receipt %d with %s changed is lawful", i+1, path)
			}
		})
		for _, other := range []func(*evidence.Event){
			func(e *evidence.Event) { e.PreviousHash = hash("0")[1:] + "1" }, func(e *evidence.Event) { e.Timestamp = "2026-03-01T09:00:00.001Z" },
			func(e *evidence.Event) { e.Sequence++ }, func(e *evidence.Event) { e.RunID += "0" }, func(e *evidence.Event) { e.ID += "0" }, func(e *evidence.Event) { e.Type += "s" },
		} {
			changed := e
			other(&changed)
			if hashOf(changed, data) == e.Hash {
				t.Errorf("receipt %d: the hash does not cover the envelope", i+1)
			}
		}
	}
	for _, name := range []string{"/session", "/event", "/tool", "/channel", "/identity", "/input/actionDigest", "/result/status", "/outcome", "/detail", "/actionDigest", "/resourceVersion"} {
		if !slices.Contains(names, name) {
			t.Errorf("no receipt has %s", name)
		}
	}
}

// lawfully reports whether the changed member is one that could as well be otherwise: the
// name that a receipt makes (those that it repeats must be what they were), whose workspace
// it is, and which of all wrong keys a refused request had.
func lawfully(path string, data map[string]any) bool {
	makes := map[string]string{"mitigation.staged": "/result/staged/proposalId", "approval.granted": "/result/approval/grant/grantId", "mitigation.executed": "/result/execution/id"}[data["event"].(string)]
	if data["event"] == "request.blocked" {
		return path == "/input/idempotencyKey by a digit"
	}
	return strings.HasPrefix(path, "/subject/workspace") || strings.HasPrefix(path, "/subject/issuer") || makes != "" && path == makes+" by a digit"
}

// Control: the channel of a request that every channel may make is the caller's word.
func TestChannelIsTheCallersWord(t *testing.T) {
	w := begun(t)
	w.read()
	if got := rules(w.forged(func(r *incident.Receipt) { r.Channel = "simulator" })); len(got) != 0 {
		t.Errorf("another channel breaks %v", got)
	}
}
