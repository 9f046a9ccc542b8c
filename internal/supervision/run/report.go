package run

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
)

// Bounds of a report, in Unicode code points unless said otherwise.
const (
	MaxCandidates    = 12 // H-055
	maxID            = 64
	maxProse         = 2000
	maxItem          = 200
	maxItems         = 32
	maxUncertainties = 12
	maxArgs          = 4 << 10 // bytes of canonical JSON
)

// Kinds of action (H-064).
var actionKinds = []string{"navigate", "observe", "click", "fill", "select", "service"}

// Dispositions of a candidate.
const (
	dispositionProposed = "proposed"
	dispositionRejected = "rejected"
)

// Report is a consumer's report on one proposed action, the TurnProposal of
// H-050 to H-071. It is untrusted and grants nothing.
type Report struct {
	GoalRestatement     string         `json:"goalRestatement"`
	Candidates          []Candidate    `json:"candidates"`
	SelectedCandidateID string         `json:"selectedCandidateId"`
	Justification       Justification  `json:"justification"`
	ExpectedEffect      ExpectedEffect `json:"expectedEffect"`
	Uncertainties       []string       `json:"uncertainties"`
}

// Candidate is one action that the consumer considered.
type Candidate struct {
	ID              string  `json:"id"`
	Action          Action  `json:"action"`
	Purpose         string  `json:"purpose"`
	Disposition     string  `json:"disposition"`
	RejectionReason *string `json:"rejectionReason"`
}

// Action names one control of the catalog. URL and Value are optional; Args is
// a canonical JSON object.
type Action struct {
	Kind        string          `json:"kind"`
	OperationID string          `json:"operationId"`
	TargetRef   string          `json:"targetRef"`
	URL         *string         `json:"url,omitzero"`
	Value       *string         `json:"value,omitzero"`
	Args        json.RawMessage `json:"args"`
}

// Justification is the reported rationale; it is no proof of intent (H-070).
type Justification struct {
	Summary      string   `json:"summary"`
	EvidenceRefs []string `json:"evidenceRefs"`
}

// ExpectedEffect is what the consumer says the action will do; it must repeat
// the catalog's words (H-061).
type ExpectedEffect struct {
	OperationID           string   `json:"operationId"`
	TransactionProposalID *string  `json:"transactionProposalId"`
	DisclosedFields       []string `json:"disclosedFields"`
	Postconditions        []string `json:"postconditions"`
}

// Selected returns the candidate that the report selects, or nil unless exactly
// one candidate has that id, ids are unique, and its disposition is proposed.
func (r *Report) Selected() *Candidate {
	var selected *Candidate
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if slices.ContainsFunc(r.Candidates[:i], func(d Candidate) bool { return d.ID == c.ID }) {
			return nil
		}
		if c.ID == r.SelectedCandidateID && c.Disposition == dispositionProposed {
			selected = c
		}
	}
	return selected
}

// ParseReport is check 1: it reads a report strictly. The error is an
// *authority.Denial with MALFORMED_PROPOSAL that names the member.
func ParseReport(raw []byte) (*Report, error) {
	p := parser{}
	root := p.object("", raw, []string{"goalRestatement", "candidates", "selectedCandidateId", "justification", "expectedEffect", "uncertainties"}, nil)
	r := &Report{
		GoalRestatement:     p.text("/goalRestatement", root["goalRestatement"], 1, maxProse),
		SelectedCandidateID: p.text("/selectedCandidateId", root["selectedCandidateId"], 1, maxID),
		Uncertainties:       p.texts("/uncertainties", root["uncertainties"], maxUncertainties, maxProse),
	}
	candidates := p.array("/candidates", root["candidates"], 1, MaxCandidates)
	for i, c := range candidates {
		r.Candidates = append(r.Candidates, p.candidate(fmt.Sprintf("/candidates/%d", i), c))
	}
	j := p.object("/justification", root["justification"], []string{"summary", "evidenceRefs"}, nil)
	r.Justification = Justification{
		Summary:      p.text("/justification/summary", j["summary"], 1, maxProse),
		EvidenceRefs: p.texts("/justification/evidenceRefs", j["evidenceRefs"], maxItems, maxID),
	}
	r.ExpectedEffect = p.expectedEffect("/expectedEffect", root["expectedEffect"])
	if p.err != nil {
		return nil, p.err
	}
	return r, nil
}

// ParseOperation reads the body of POST /operation, {"action": {...}}. The
// error is an *authority.Denial with INVALID_REQUEST.
func ParseOperation(raw []byte) (*Action, error) {
	p := parser{}
	root := p.object("", raw, []string{"action"}, nil)
	a := p.action("/action", root["action"])
	if p.err != nil {
		p.err.Reason = authority.InvalidRequest
		return nil, p.err
	}
	return &a, nil
}

// parser reads nested members and keeps the first thing that is wrong.
type parser struct{ err *authority.Denial }

func (p *parser) fail(at, want string) {
	if p.err == nil {
		if at == "" {
			at = "the body"
		}
		p.err = &authority.Denial{Reason: authority.MalformedProposal, Detail: at + ": " + want}
	}
}

func (p *parser) decode(at string, raw []byte, v any, want string) bool {
	if raw == nil || string(raw) == "null" {
		p.fail(at, want)
		return false
	}
	if err := canon.Unmarshal(raw, v); err != nil {
		if at == "" {
			want += " (" + strings.TrimPrefix(err.Error(), "canon: ") + ")"
		}
		p.fail(at, want)
		return false
	}
	return true
}

// object reads an object that has exactly the required members and no others
// but the optional ones.
func (p *parser) object(at string, raw []byte, required, optional []string) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if !p.decode(at, raw, &m, "want an object") {
		return nil
	}
	for _, name := range required {
		if _, ok := m[name]; !ok {
			p.fail(at, fmt.Sprintf("member %q is missing", name))
		}
	}
	for name := range m {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			p.fail(at, "there is an unknown member; want "+strings.Join(append(required, optional...), ", "))
		}
	}
	return m
}

func (p *parser) array(at string, raw []byte, least, most int) []json.RawMessage {
	var a []json.RawMessage
	want := fmt.Sprintf("want an array of %d to %d elements", least, most)
	if p.decode(at, raw, &a, want) && (len(a) < least || len(a) > most) {
		p.fail(at, want)
	}
	return a
}

func (p *parser) text(at string, raw []byte, least, most int) string {
	var s string
	want := fmt.Sprintf("want a string of %d to %d characters", least, most)
	if p.decode(at, raw, &s, want) {
		if n := utf8.RuneCountInString(s); n < least || n > most {
			p.fail(at, want)
		}
	}
	return s
}

func (p *parser) texts(at string, raw []byte, most, longest int) []string {
	texts := []string{}
	for i, element := range p.array(at, raw, 0, most) {
		texts = append(texts, p.text(fmt.Sprintf("%s/%d", at, i), element, 0, longest))
	}
	return texts
}

func (p *parser) nullableText(at string, raw []byte, most int) *string {
	if string(raw) == "null" {
		return nil
	}
	s := p.text(at, raw, 1, most)
	return &s
}

func (p *parser) optionalText(at string, raw []byte, most int) *string {
	if raw == nil {
		return nil
	}
	s := p.text(at, raw, 0, most)
	return &s
}

func (p *parser) oneOf(at string, raw []byte, values ...string) string {
	s := p.text(at, raw, 1, maxID)
	if !slices.Contains(values, s) {
		p.fail(at, "want one of "+strings.Join(values, ", "))
	}
	return s
}

func (p *parser) candidate(at string, raw []byte) Candidate {
	m := p.object(at, raw, []string{"id", "action", "purpose", "disposition", "rejectionReason"}, nil)
	c := Candidate{
		ID:              p.text(at+"/id", m["id"], 1, maxID),
		Action:          p.action(at+"/action", m["action"]),
		Purpose:         p.text(at+"/purpose", m["purpose"], 1, maxProse),
		Disposition:     p.oneOf(at+"/disposition", m["disposition"], dispositionProposed, dispositionRejected),
		RejectionReason: p.nullableText(at+"/rejectionReason", m["rejectionReason"], maxProse),
	}
	if c.Disposition == dispositionProposed && c.RejectionReason != nil {
		p.fail(at+"/rejectionReason", "want null for a proposed candidate")
	}
	if c.Disposition == dispositionRejected && c.RejectionReason == nil {
		p.fail(at+"/rejectionReason", "want an explanation for a rejected candidate")
	}
	return c
}

func (p *parser) action(at string, raw []byte) Action {
	m := p.object(at, raw, []string{"kind", "operationId", "targetRef", "args"}, []string{"url", "value"})
	return Action{
		Kind:        p.oneOf(at+"/kind", m["kind"], actionKinds...),
		OperationID: p.text(at+"/operationId", m["operationId"], 1, maxItem),
		TargetRef:   p.text(at+"/targetRef", m["targetRef"], 1, maxItem),
		URL:         p.optionalText(at+"/url", m["url"], maxProse),
		Value:       p.optionalText(at+"/value", m["value"], maxProse),
		Args:        p.args(at+"/args", m["args"]),
	}
}

func (p *parser) args(at string, raw []byte) json.RawMessage {
	var m map[string]json.RawMessage
	if !p.decode(at, raw, &m, "want an object") {
		return nil
	}
	canonical, err := canon.Canonical(raw)
	if err != nil || len(canonical) > maxArgs {
		p.fail(at, fmt.Sprintf("want at most %d bytes", maxArgs))
		return nil
	}
	if !centsAreStrings(raw) {
		p.fail(at, "want every member named ...Cents as a decimal string of cents")
	}
	return canonical
}

// centsAreStrings reports whether every member whose name ends in Cents, at any
// depth, is an amount (G-08).
func centsAreStrings(raw []byte) bool {
	var object map[string]json.RawMessage
	if canon.Unmarshal(raw, &object) == nil {
		for name, value := range object {
			if strings.HasSuffix(name, "Cents") {
				var amount money.Cents
				if canon.Unmarshal(value, &amount) != nil || len(value) == 0 || value[0] != '"' {
					return false
				}
			} else if !centsAreStrings(value) {
				return false
			}
		}
		return true
	}
	var array []json.RawMessage
	if canon.Unmarshal(raw, &array) == nil {
		return !slices.ContainsFunc(array, func(e json.RawMessage) bool { return !centsAreStrings(e) })
	}
	return true
}

func (p *parser) expectedEffect(at string, raw []byte) ExpectedEffect {
	m := p.object(at, raw, []string{"operationId", "transactionProposalId", "disclosedFields", "postconditions"}, nil)
	return ExpectedEffect{
		OperationID:           p.text(at+"/operationId", m["operationId"], 1, maxItem),
		TransactionProposalID: p.nullableText(at+"/transactionProposalId", m["transactionProposalId"], maxID),
		DisclosedFields:       p.texts(at+"/disclosedFields", m["disclosedFields"], maxItems, maxItem),
		Postconditions:        p.texts(at+"/postconditions", m["postconditions"], maxItems, maxItem),
	}
}
