package propose

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"countersign/internal/authority"
	"countersign/internal/canon"
)

// outcomes are a well-formed outcome of each kind.
func outcomes() map[string]map[string]any {
	wrap := func(outcome map[string]any) map[string]any { return map[string]any{"version": 1, "outcome": outcome} }
	return map[string]map[string]any{
		"proposal":               wrap(map[string]any{"kind": "proposal", "report": sample()}),
		"clarification":          wrap(map[string]any{"kind": "clarification", "question": "Which one?"}),
		"authorization_required": wrap(map[string]any{"kind": "authorization_required", "operationId": "shop.submit", "transactionProposalId": nil, "explanation": "It spends."}),
		"refusal":                wrap(map[string]any{"kind": "refusal", "explanation": "I will not."}),
	}
}

// malformedOutcome is [malformed] for an outcome.
func malformedOutcome(t *testing.T, raw []byte) string {
	t.Helper()
	o, err := ParseOutcome(raw)
	if err == nil {
		return ""
	}
	if o != nil {
		t.Fatal("an outcome beside an error")
	}
	return problems(t, err, authority.MalformedModelReport)
}

// H-069 H-031 H-183: the four kinds of outcome.
func TestParseOutcome(t *testing.T) {
	named := outcomes()["authorization_required"]
	named["outcome"].(map[string]any)["transactionProposalId"] = "p1"
	report, err := ParseReport(encode(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	id := "p1"
	for _, c := range []struct {
		root map[string]any
		want Outcome
	}{
		{outcomes()["proposal"], Outcome{Kind: "proposal", Report: report}},
		{outcomes()["clarification"], Outcome{Kind: "clarification", Text: "Which one?"}},
		{outcomes()["authorization_required"], Outcome{Kind: "authorization_required", Text: "It spends.", OperationID: "shop.submit"}},
		{named, Outcome{Kind: "authorization_required", Text: "It spends.", OperationID: "shop.submit", ProposalID: &id}},
		{outcomes()["refusal"], Outcome{Kind: "refusal", Text: "I will not."}},
	} {
		got, err := ParseOutcome(encode(t, c.root))
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: %+v, %v", encode(t, c.root), got, err)
		}
	}
}

// H-008 H-035: unknown members, a missing one, another version and text beyond its bound are
// malformed, each named at its place; a member of one kind is unknown in another.
func TestMalformedOutcomes(t *testing.T) {
	const ok = ""
	for _, c := range []struct {
		kind, path string
		value      any // nil deletes
		want       string
	}{
		{"refusal", "version", nil, "/version: is missing; want 1"},
		{"refusal", "version", 2, "/version: want 1"},
		{"refusal", "version", 0, "/version: want 1"},
		{"refusal", "version", "1", "/version: want 1"},
		{"refusal", "outcome", nil, "/outcome: is missing; want an object"},
		{"refusal", "outcome", []any{}, "/outcome: want an object"},
		{"refusal", "permit", "x", "/permit: unknown member; want version, outcome"},
		{"refusal", "outcome/kind", nil, "/outcome/kind: is missing; want a string of 1 to 64 characters"},
		{"refusal", "outcome/kind", "allow", "/outcome/kind: want one of proposal, clarification, authorization_required, refusal"},
		{"refusal", "outcome/kind", "Refusal", "/outcome/kind: want one of proposal, clarification, authorization_required, refusal"},
		{"refusal", "outcome/kind", 7, "/outcome/kind: want a string of 1 to 64 characters"},
		{"refusal", "outcome/report", sample(), "/outcome/report: unknown member; want kind, explanation"},
		{"refusal", "outcome/question", "x", "/outcome/question: unknown member; want kind, explanation"},
		{"refusal", "outcome/explanation", nil, "/outcome/explanation: is missing; want a string of 1 to 1000 characters"},
		{"refusal", "outcome/explanation", "", "/outcome/explanation: want a string of 1 to 1000 characters"},
		{"refusal", "outcome/explanation", text(1000), ok},
		{"refusal", "outcome/explanation", text(1001), "/outcome/explanation: want a string of 1 to 1000 characters"},
		{"clarification", "outcome/question", nil, "/outcome/question: is missing; want a string of 1 to 500 characters"},
		{"clarification", "outcome/question", text(500), ok},
		{"clarification", "outcome/question", text(501), "/outcome/question: want a string of 1 to 500 characters"},
		{"clarification", "outcome/explanation", "x", "/outcome/explanation: unknown member; want kind, question"},
		{"authorization_required", "outcome/operationId", nil, "/outcome/operationId: is missing; want a string of 1 to 200 characters"},
		{"authorization_required", "outcome/operationId", text(201), "/outcome/operationId: want a string of 1 to 200 characters"},
		{"authorization_required", "outcome/transactionProposalId", nil, "/outcome/transactionProposalId: is missing; want a string of 1 to 64 characters"},
		{"authorization_required", "outcome/transactionProposalId", "", "/outcome/transactionProposalId: want a string of 1 to 64 characters"},
		{"authorization_required", "outcome/transactionProposalId", text(64), ok},
		{"authorization_required", "outcome/explanation", text(1001), "/outcome/explanation: want a string of 1 to 1000 characters"},
		{"authorization_required", "outcome/grant", "x", "/outcome/grant: unknown member; want kind, operationId, transactionProposalId, explanation"},
		{"proposal", "outcome/report", nil, "/outcome/report: is missing; want an object"},
		{"proposal", "outcome/explanation", "x", "/outcome/explanation: unknown member; want kind, report"},
		{"proposal", "outcome/report/permit", "x", "/outcome/report/permit: unknown member; want goalRestatement, candidates, selectedCandidateId, justification, expectedEffect, uncertainties"},
		{"proposal", "outcome/report/uncertainties", nil, "/outcome/report/uncertainties: is missing; want an array of 0 to 12 elements"},
		{"proposal", "outcome/report/candidates/0/action/args", map[string]any{"feeCents": 5}, "/outcome/report/candidates/0/action/args/feeCents: want a decimal string of cents"},
	} {
		root := outcomes()[c.kind]
		parent, name := at(any(root), c.path)
		if parent[name] = c.value; c.value == nil {
			delete(parent, name)
		}
		if got := malformedOutcome(t, encode(t, root)); got != c.want {
			t.Errorf("%s, %s as %.40v: %q, want %q", c.kind, c.path, c.value, got, c.want)
		}
	}
	good := string(encode(t, outcomes()["refusal"]))
	for name, raw := range map[string]string{
		"empty": "", "null": "null", "array": "[" + good + "]", "cut": good[:len(good)-1], "trailing": good + "{}", "a bare report": string(encode(t, sample())),
		"twice": strings.Replace(good, `"kind"`, `"kind":"refusal","kind"`, 1), "in prose": "Here it is: " + good, "fenced": "```json\n" + good + "\n```",
		"a version that is no integer": strings.Replace(good, `"version":1`, `"version":1.0`, 1),
	} {
		if malformedOutcome(t, []byte(raw)) == "" {
			t.Errorf("%s was accepted", name)
		}
	}
	room := MaxOutcome - len(good)
	if got := malformedOutcome(t, []byte(good+strings.Repeat(" ", room))); got != "" {
		t.Errorf("65536 bytes: %s", got)
	}
	if got := malformedOutcome(t, []byte(good+strings.Repeat(" ", room+1))); got != ": want at most 65536 bytes" {
		t.Errorf("65537 bytes: %q", got)
	}
}

// FuzzParseOutcome: what parses says in its canonical form exactly what was read.
func FuzzParseOutcome(f *testing.F) {
	for _, root := range outcomes() {
		raw := canon.MustMarshal(root)
		f.Add(raw)
		f.Add(raw[:len(raw)/2])
	}
	for _, raw := range []string{"", "{}", `{"version":1,"outcome":{"kind":"refusal","explanation":"é\n"}}`, `{"version":2,"outcome":{}}`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := ParseOutcome(raw)
		if err != nil {
			if o != nil {
				t.Fatal("an outcome beside an error")
			}
			return
		}
		said := map[string]any{"kind": o.Kind}
		switch o.Kind {
		case "proposal":
			said["report"] = o.Report
		case "clarification":
			said["question"] = o.Text
		case "authorization_required":
			said["operationId"], said["transactionProposalId"], said["explanation"] = o.OperationID, o.ProposalID, o.Text
		case "refusal":
			said["explanation"] = o.Text
		default:
			t.Fatalf("kind %q", o.Kind)
		}
		encoded, err := canon.Marshal(map[string]any{"version": 1, "outcome": said})
		if err != nil {
			t.Fatal(err)
		}
		if canonical, err := canon.Canonical(raw); err != nil || !bytes.Equal(canonical, encoded) {
			t.Fatalf("an outcome was read as\n%s\nand says, %v,\n%s", encoded, err, canonical)
		}
	})
}
