package propose

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"countersign/internal/authority"
	"countersign/internal/canon"
)

// sample is a well-formed report as a tree, to be damaged.
func sample() map[string]any {
	return tree(`{
		"goalRestatement": "Buy one keyboard.",
		"candidates": [
			{"id": "a", "action": {"kind": "service", "operationId": "shop.item", "targetRef": "tgt_1", "args": {"item": "keyboard"}}, "purpose": "look", "disposition": "proposed", "rejectionReason": null},
			{"id": "b", "action": {"kind": "click", "operationId": "shop.item", "targetRef": "tgt_2", "url": "u", "value": "v", "args": {}}, "purpose": "look", "disposition": "rejected", "rejectionReason": "not needed"}
		],
		"selectedCandidateId": "a",
		"justification": {"summary": "next step", "evidenceRefs": ["obs"]},
		"expectedEffect": {"operationId": "shop.item", "transactionProposalId": null, "disclosedFields": ["f"], "postconditions": ["p"]},
		"uncertainties": ["none"]
	}`)
}

func tree(text string) map[string]any {
	var t map[string]any
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		panic(err)
	}
	return t
}

// at returns the object that holds the last name of a path, and that name.
func at(root any, path string) (map[string]any, string) {
	names := strings.Split(path, "/")
	for _, name := range names[:len(names)-1] {
		switch node := root.(type) {
		case map[string]any:
			root = node[name]
		case []any:
			root = node[name[0]-'0']
		}
	}
	return root.(map[string]any), names[len(names)-1]
}

func text(n int) string { return strings.Repeat("é", n) } // two bytes, one character

func list(n int, v any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// malformed returns what is wrong with a report, a line "pointer: message" for
// each place, and "" for a well-formed one.
func malformed(t *testing.T, raw []byte) string {
	t.Helper()
	r, err := ParseReport(raw)
	if err == nil {
		return ""
	}
	if r != nil {
		t.Fatal("a report beside an error")
	}
	return problems(t, err, authority.MalformedProposal)
}

// problems checks a parser's error and returns its lines.
func problems(t *testing.T, err error, reason string) string {
	t.Helper()
	var denial *authority.Denial
	wrong, ok := errors.AsType[*MalformedError](err)
	if !ok || !errors.As(err, &denial) || denial.Reason != reason || denial.Detail == "" || len(wrong.Problems) == 0 || len(wrong.Problems) > 20 {
		t.Fatalf("error %v, want places and %s", err, reason)
	}
	var lines []string
	for i, p := range wrong.Problems {
		if p.Message == "" || slices.ContainsFunc(wrong.Problems[:i], func(q Problem) bool { return q.Pointer == p.Pointer }) {
			t.Fatalf("problems %q: want one with a message for each place", wrong.Problems)
		}
		lines = append(lines, p.Pointer+": "+p.Message)
	}
	return strings.Join(lines, "\n")
}

func encode(t *testing.T, root any) []byte {
	t.Helper()
	raw, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// H-057 H-058 H-060 H-061 H-062: every member of a report is read as it stands.
func TestParseReport(t *testing.T) {
	r, err := ParseReport(encode(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	want := &Report{
		GoalRestatement: "Buy one keyboard.",
		Candidates: []Candidate{
			{"a", Action{Kind: "service", OperationID: "shop.item", TargetRef: "tgt_1", Args: json.RawMessage(`{"item":"keyboard"}`)}, "look", "proposed", nil},
			{"b", Action{"click", "shop.item", "tgt_2", new("u"), new("v"), json.RawMessage(`{}`)}, "look", "rejected", new("not needed")},
		},
		SelectedCandidateID: "a",
		Justification:       Justification{"next step", []string{"obs"}},
		ExpectedEffect:      ExpectedEffect{"shop.item", nil, []string{"f"}, []string{"p"}},
		Uncertainties:       []string{"none"},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("report %+v", r)
	}
	if s := r.Selected(); s == nil || s.ID != "a" {
		t.Errorf("selected %+v", s)
	}
}

// Behind its door check 1 lets through what it refuses, and reads what is there; a door
// of another check opens nothing.
func TestDoorOfCheckOne(t *testing.T) {
	count := func(n int) func(map[string]any) {
		return func(root map[string]any) { root["candidates"] = list(n, root["candidates"].([]any)[1]) }
	}
	for name, c := range map[string]struct {
		damage     func(map[string]any)
		candidates int
	}{
		"an unknown root member": {func(root map[string]any) { root["permit"] = "p" }, 2},
		"a missing root member":  {func(root map[string]any) { delete(root, "uncertainties") }, 2},
		"no candidate":           {count(0), 0},
		"13 candidates":          {count(13), 13},
		"an amount as a number": {func(root map[string]any) {
			o, _ := at(root, "candidates/0/action/args")
			o["args"] = map[string]any{"amountCents": 5}
		}, 2},
		"a candidate of no shape": {func(root map[string]any) { root["candidates"].([]any)[1] = 7 }, 2},
	} {
		root := sample()
		c.damage(root)
		raw := encode(t, root)
		if r, err := ParseReport(raw); r != nil || err == nil {
			t.Errorf("%s is taken", name)
		}
		if r, err := ParseReport(raw, 2, 11); r != nil || err == nil {
			t.Errorf("%s is taken behind other doors", name)
		}
		if r, err := ParseReport(raw, 1); err != nil || len(r.Candidates) != c.candidates || r.GoalRestatement != "Buy one keyboard." {
			t.Errorf("%s behind the door: %+v, %v", name, r, err)
		}
	}
}

// members are the members of a report that are required, by path (H-050, H-057
// to H-062).
var members = []string{
	"goalRestatement", "candidates", "selectedCandidateId", "justification", "expectedEffect", "uncertainties",
	"candidates/0/id", "candidates/0/action", "candidates/0/purpose", "candidates/0/disposition", "candidates/0/rejectionReason",
	"candidates/1/action/kind", "candidates/1/action/operationId", "candidates/1/action/targetRef", "candidates/1/action/args",
	"justification/summary", "justification/evidenceRefs",
	"expectedEffect/operationId", "expectedEffect/transactionProposalId", "expectedEffect/disclosedFields", "expectedEffect/postconditions",
}

// TestEveryMemberIsRequired, is of one type, and has no neighbour that is not
// named (H-050, H-051, H-056, H-058, H-059).
func TestEveryMemberIsRequired(t *testing.T) {
	nullable := map[string]bool{"candidates/0/rejectionReason": true, "expectedEffect/transactionProposalId": true}
	optional := []string{"candidates/1/action/url", "candidates/1/action/value"}
	for _, path := range append(members, optional...) {
		root := sample()
		parent, name := at(root, path)
		delete(parent, name)
		detail := malformed(t, encode(t, root))
		if slices.Contains(optional, path) {
			if detail != "" {
				t.Errorf("without %s: %s", path, detail)
			}
		} else if !strings.HasPrefix(detail, "/"+path+": is missing; want ") || strings.Contains(detail, "\n") {
			t.Errorf("without %s: %q does not name it alone", path, detail)
		}
		for _, wrong := range []any{nil, 7, true, []any{1}, map[string]any{"x": 1}, ""} {
			parent[name] = wrong
			detail := malformed(t, encode(t, root))
			_, object := wrong.(map[string]any)
			fits := wrong == nil && nullable[path] || wrong == "" && slices.Contains(optional, path) || object && name == "args"
			if (detail == "") != fits || !fits && !strings.HasPrefix(detail, "/"+path) {
				t.Errorf("%s as %v: %q", path, wrong, detail)
			}
		}
		root = sample()
		parent, name = at(root, path)
		upper := strings.ToUpper(name[:1]) + name[1:]
		parent[upper] = parent[name]
		if detail := malformed(t, encode(t, root)); !strings.HasPrefix(detail, "/"+path[:len(path)-len(name)]+upper+": unknown member; want ") || strings.Contains(detail, "\n") {
			t.Errorf("%s in another case beside it: %q", path, detail)
		}
	}
	for _, path := range []string{"x", "candidates/0/x", "candidates/0/action/x", "justification/x", "expectedEffect/x", "permit"} {
		root := sample()
		parent, name := at(root, path)
		parent[name] = "forged"
		if detail := malformed(t, encode(t, root)); !strings.HasPrefix(detail, "/"+path+": unknown member; want ") || strings.Contains(detail, "\n") || strings.Contains(detail, "forged") {
			t.Errorf("unknown %s: %q", path, detail)
		}
	}
}

// TestEveryProblemIsNamed, once, at its own place (RFC 6901), up to a bound, and
// nothing that was submitted but names is repeated.
func TestEveryProblemIsNamed(t *testing.T) {
	root := sample()
	for path, value := range map[string]any{
		"a/b~c": "5ecret", "Uncertainties": "5ecret", "goalRestatement": "", "candidates/0/action": "5ecret", "candidates/1/disposition": "5ecret",
		"candidates/1/action/args": map[string]any{"x/y": []any{map[string]any{"totalCents": "5ecret"}}, "feeCents": 5},
		"justification":            "5ecret", "expectedEffect/postconditions": []any{"p", 5, nil},
	} {
		parent, name := root, path
		if path != "a/b~c" {
			parent, name = at(root, path)
		}
		parent[name] = value
	}
	delete(root, "selectedCandidateId")
	want := []string{
		"/Uncertainties: unknown member; want goalRestatement, candidates, selectedCandidateId, justification, expectedEffect, uncertainties",
		"/a~1b~0c: unknown member; want goalRestatement, candidates, selectedCandidateId, justification, expectedEffect, uncertainties",
		"/goalRestatement: want a string of 1 to 2000 characters",
		"/candidates/0/action: want an object",
		"/candidates/1/action/args/feeCents: want a decimal string of cents",
		"/candidates/1/action/args/x~1y/0/totalCents: want a decimal string of cents",
		"/candidates/1/disposition: want one of proposed, rejected",
		"/selectedCandidateId: is missing; want a string of 1 to 64 characters",
		"/justification: want an object",
		"/expectedEffect/postconditions/1: want a string of 0 to 200 characters",
		"/expectedEffect/postconditions/2: want a string of 0 to 200 characters",
	}
	if got := malformed(t, encode(t, root)); got != strings.Join(want, "\n") {
		t.Errorf("problems\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	root = sample()
	for i := range 500 {
		root[fmt.Sprintf("x%03d", i)] = 1
	}
	if got := strings.Count(malformed(t, encode(t, root)), "\n") + 1; got != 20 {
		t.Errorf("%d problems of 500, want the first 20", got)
	}
}

// TestLengths: just below, equal, just above each bound, in characters (H-062).
func TestLengths(t *testing.T) {
	for _, c := range []struct {
		path        string
		least, most int
	}{
		{"goalRestatement", 1, 2000}, {"selectedCandidateId", 1, 64}, {"candidates/0/id", 1, 64}, {"candidates/0/purpose", 1, 2000},
		{"candidates/1/rejectionReason", 1, 2000}, {"candidates/0/action/operationId", 1, 200}, {"candidates/0/action/targetRef", 1, 200},
		{"candidates/1/action/url", 0, 2000}, {"candidates/1/action/value", 0, 2000}, {"justification/summary", 1, 2000},
		{"expectedEffect/operationId", 1, 200}, {"expectedEffect/transactionProposalId", 1, 64},
	} {
		for n, fits := range map[int]bool{c.least - 1: false, c.least: true, c.most - 1: true, c.most: true, c.most + 1: false} {
			if n < 0 {
				continue
			}
			root := sample()
			parent, name := at(root, c.path)
			parent[name] = text(n)
			if detail := malformed(t, encode(t, root)); (detail == "") != fits {
				t.Errorf("%s of %d characters: %q, want accepted %v", c.path, n, detail, fits)
			}
		}
	}
	for _, c := range []struct {
		path          string
		most, longest int
	}{
		{"uncertainties", 12, 2000}, {"justification/evidenceRefs", 32, 64}, {"expectedEffect/disclosedFields", 32, 200}, {"expectedEffect/postconditions", 32, 200},
	} {
		for _, element := range []struct {
			n, length int
			fits      bool
		}{
			{0, 0, true}, {c.most - 1, 1, true}, {c.most, 1, true}, {c.most + 1, 1, false},
			{1, 0, true}, {1, c.longest - 1, true}, {1, c.longest, true}, {1, c.longest + 1, false},
		} {
			root := sample()
			parent, name := at(root, c.path)
			parent[name] = list(element.n, text(element.length))
			if detail := malformed(t, encode(t, root)); (detail == "") != element.fits {
				t.Errorf("%s with %d elements of %d: %q, want accepted %v", c.path, element.n, element.length, detail, element.fits)
			}
		}
		root := sample()
		parent, name := at(root, c.path)
		parent[name] = []any{7}
		if malformed(t, encode(t, root)) == "" {
			t.Errorf("%s with a number was accepted", c.path)
		}
	}
}

// TestCandidates: 1 to 12 (H-055).
func TestCandidates(t *testing.T) {
	for n, fits := range map[int]bool{0: false, 1: true, 2: true, 11: true, 12: true, 13: false} {
		root := sample()
		all := root["candidates"].([]any)
		candidates := []any{}
		for i := range n {
			c := tree(string(encode(t, all[0])))
			c["id"] = fmt.Sprint("c", i)
			candidates = append(candidates, c)
		}
		root["candidates"] = candidates
		if detail := malformed(t, encode(t, root)); (detail == "") != fits {
			t.Errorf("%d candidates: %q, want accepted %v", n, detail, fits)
		}
	}
}

// TestDispositions: a rejected candidate has an explanation, a proposed one has
// none (H-057, H-067).
func TestDispositions(t *testing.T) {
	for _, c := range []struct {
		disposition any
		reason      any
		fits        bool
	}{
		{"proposed", nil, true}, {"proposed", "because", false}, {"rejected", "because", true}, {"rejected", nil, false}, {"maybe", nil, false}, {"Proposed", nil, false},
	} {
		root := sample()
		parent, _ := at(root, "candidates/0/id")
		parent["disposition"], parent["rejectionReason"] = c.disposition, c.reason
		if detail := malformed(t, encode(t, root)); (detail == "") != c.fits {
			t.Errorf("%v with reason %v: %q, want accepted %v", c.disposition, c.reason, detail, c.fits)
		}
	}
}

// TestKinds are exactly six (H-064).
func TestKinds(t *testing.T) {
	for _, kind := range []string{"navigate", "observe", "click", "fill", "select", "service", "Click", "submit", " click"} {
		root := sample()
		parent, name := at(root, "candidates/0/action/kind")
		parent[name] = kind
		fits := map[string]bool{"navigate": true, "observe": true, "click": true, "fill": true, "select": true, "service": true}[kind]
		if detail := malformed(t, encode(t, root)); (detail == "") != fits {
			t.Errorf("kind %q: %q", kind, detail)
		}
	}
}

// TestArgs: an object of at most 4 KiB in canonical form, whose ...Cents members
// are amounts at any depth (H-052, G-08).
func TestArgs(t *testing.T) {
	for n, fits := range map[int]bool{4095: true, 4096: true, 4097: false} {
		root := sample()
		parent, name := at(root, "candidates/0/action/args")
		parent[name] = map[string]any{"x": strings.Repeat("a", n-len(`{"x":""}`))}
		spaced := strings.ReplaceAll(string(encode(t, root)), `{"x":`, "{   \"x\"  :  ") // spaces do not count
		if detail := malformed(t, []byte(spaced)); (detail == "") != fits {
			t.Errorf("%d bytes: %q, want accepted %v", n, detail, fits)
		}
	}
	for args, fits := range map[string]bool{
		`{}`:                                 true,
		`{"amountCents":"0"}`:                true,
		`{"amountCents":"13700"}`:            true,
		`{"amountCents":"999999999999"}`:     true,
		`{"amountCents":"1000000000000"}`:    false,
		`{"amountCents":13700}`:              false,
		`{"amountCents":"137.00"}`:           false,
		`{"amountCents":"-1"}`:               false,
		`{"amountCents":"01"}`:               false,
		`{"amountCents":""}`:                 false,
		`{"amountCents":null}`:               false,
		`{"amountCents":["1"]}`:              false,
		`{"Cents":1}`:                        false,
		`{"centsAmount":1}`:                  true,
		`{"a":{"b":[{"totalCents":1}]}}`:     false,
		`{"a":{"b":[{"totalCents":"1"}]}}`:   true,
		`{"a":[[{"x":1},{"totalCents":1}]]}`: false,
		`{"n":9007199254740991}`:             true,
		`{"n":9007199254740992}`:             false,
		`{"n":1.5}`:                          false,
		`{"n":1e3}`:                          false,
		`{"s":"\u0000"}`:                     false,
		`{"s":"\ud800"}`:                     false,
		`{"a":1,"a":1}`:                      false,
		`[]`:                                 false,
		`"x"`:                                false,
	} {
		raw := strings.Replace(string(encode(t, sample())), `{"item":"keyboard"}`, args, 1)
		if detail := malformed(t, []byte(raw)); (detail == "") != fits {
			t.Errorf("args %s: %q, want accepted %v", args, detail, fits)
		}
	}
}

// TestMalformedBodies: what is no report at all.
func TestMalformedBodies(t *testing.T) {
	good := string(encode(t, sample()))
	deep := strings.Replace(good, `{"item":"keyboard"}`, strings.Repeat(`{"a":`, 40)+"1"+strings.Repeat("}", 40), 1)
	for name, raw := range map[string]string{
		"empty": "", "null": "null", "array": "[]", "text": `"x"`, "number": "1", "cut": good[:len(good)-1], "trailing": good + "{}", "two": good + good,
		"duplicate": strings.Replace(good, `"uncertainties"`, `"uncertainties":[],"uncertainties"`, 1),
		"utf-8":     strings.Replace(good, "keyboard", "key\xffboard", 1), "deep": deep,
		"comment": strings.Replace(good, `{`, `{/* */`, 1), "bom": "\ufeff" + good,
		"permit forged": strings.Replace(good, `{`, `{"permit":{"permitId":"x"},`, 1),
	} {
		if malformed(t, []byte(raw)) == "" {
			t.Errorf("%s was accepted", name)
		}
	}
	for raw, want := range map[string]string{
		"":          ": want an object",
		"[]":        ": want an object",
		good + "{}": ": want an object",
		strings.Replace(good, `"uncertainties":[`, `"uncertainties":7,"x":[`, 1):        "/x: unknown member",
		strings.Replace(good, `"id":"a"`, `"id":"a","id":"b"`, 1):                       "/candidates/0/id: a member stands twice",
		strings.Replace(good, `"item":"keyboard"`, `"item":1.5`, 1):                     "/candidates/0/action/args/item: a number is not an integer",
		strings.Replace(good, `"summary":"next step"`, `"summary":7`, 1):                "/justification/summary: want a string of 1 to 2000 characters",
		strings.Replace(good, `"kind":"click"`, `"kind":"submit"`, 1):                   "/candidates/1/action/kind: want one of navigate",
		strings.Replace(good, `{"evidenceRefs":["obs"],"summary":"next step"}`, `7`, 1): "/justification: want an object",
	} {
		if detail := malformed(t, []byte(raw)); !strings.HasPrefix(detail, want) {
			t.Errorf("%.60q: %q, want %q", raw, detail, want)
		}
	}
	if detail := malformed(t, []byte("  \n"+good+"\t ")); detail != "" {
		t.Errorf("white space around: %s", detail)
	}
}

// TestParseOperation: the body of POST /operation is exactly one action.
func TestParseOperation(t *testing.T) {
	action := `{"kind":"service","operationId":"shop.item","targetRef":"tgt_1","args":{"item":"keyboard"}}`
	a, err := ParseOperation([]byte(`{"action":` + action + `}`))
	if err != nil || !reflect.DeepEqual(*a, Action{Kind: "service", OperationID: "shop.item", TargetRef: "tgt_1", Args: json.RawMessage(`{"item":"keyboard"}`)}) {
		t.Errorf("action %+v, error %v", a, err)
	}
	for raw, want := range map[string]string{
		"": ": want an object", "{}": "/action: is missing; want an object", `{"action":null}`: "/action: want an object", `{"action":[]}`: "/action: want an object",
		action:                                   "/args: unknown member; want action\n/kind: unknown member; want action\n/operationId: unknown member; want action\n/targetRef: unknown member; want action\n/action: is missing; want an object",
		`{"action":` + action + `,"permit":"x"}`: "/permit: unknown member; want action",
		`{"action":` + action + `}x`:             ": want an object",
		`{"Action":` + action + `}`:              "/Action: unknown member; want action\n/action: is missing; want an object",
		`{"action":` + strings.Replace(action, `{`, `{"selector":"#buy",`, 1) + `}`: "/action/selector: unknown member; want kind, operationId, targetRef, args, url, value",
	} {
		a, err := ParseOperation([]byte(raw))
		if got := problems(t, err, authority.InvalidRequest); a != nil || got != want {
			t.Errorf("%s: %v, %q, want %q", raw, a, got, want)
		}
	}
}

// FuzzParseReport: what parses encodes to its own canonical form, so that nothing
// was dropped, defaulted or read as something else, and parses to the same report.
func FuzzParseReport(f *testing.F) {
	good, err := json.Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	for old, longer := range map[string]string{`["obs"]`: `["obs","a","b"]`, `["f"]`: `["f","g"]`, `["p"]`: `["p","q"]`, `["none"]`: `["none","","one"]`} {
		f.Add([]byte(strings.Replace(string(good), old, longer, 1)))
	}
	for _, raw := range []string{"", "{}", `{"candidates":[]}`, string(good[:len(good)/2]), strings.Replace(string(good), "keyboard", `\u00e9\ud83d\ude00`, 1),
		strings.Replace(string(good), `{"item":"keyboard"}`, `{"z":[1,{"aCents":"5"}],"a":-0}`, 1)} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := ParseReport(raw)
		if err != nil {
			if r != nil {
				t.Fatal("a report beside an error")
			}
			return
		}
		encoded, err := canon.Marshal(r)
		if err != nil {
			t.Fatalf("a report that parses does not encode: %v", err)
		}
		if canonical, err := canon.Canonical(raw); err != nil || !bytes.Equal(canonical, encoded) {
			t.Fatalf("a report was read as\n%s\nand says, %v,\n%s", encoded, err, canonical)
		}
		again, err := ParseReport(encoded)
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("parses again to %+v, %v, want %+v", again, err, r)
		}
		for _, c := range r.Candidates {
			if !canon.IsCanonical(c.Action.Args) {
				t.Fatalf("args are not canonical: %s", c.Action.Args)
			}
		}
	})
}

// TestCandidateThatIsNone: what is no object is named once, and not each member that
// it lacks.
func TestCandidateThatIsNone(t *testing.T) {
	for _, none := range []string{"1", `"a"`, "[]", "null", "true"} {
		root := sample()
		encoded := string(encode(t, root))
		start := strings.Index(encoded, `"candidates":[`) + len(`"candidates":[`)
		raw := encoded[:start] + none + "," + encoded[start:]
		if got := malformed(t, []byte(raw)); got != "/candidates/0: want an object" {
			t.Errorf("%s: %q", none, got)
		}
	}
}
