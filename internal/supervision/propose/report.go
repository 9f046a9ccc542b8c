package propose

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	DispositionProposed = "proposed"
	DispositionRejected = "rejected"
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
		if c.ID == r.SelectedCandidateID && c.Disposition == DispositionProposed {
			selected = c
		}
	}
	return selected
}

// MalformedError says what is wrong with a consumer's body. The denial holds
// nothing that was submitted; pointers hold names of members, but no values.
type MalformedError struct {
	*authority.Denial
	Problems []Problem // 1 to maxProblems, one for each place
}

// Unwrap returns the denial.
func (e *MalformedError) Unwrap() error { return e.Denial }

// Problem is what is wrong at one place of a body.
type Problem struct {
	Pointer string // RFC 6901, empty for the body itself
	Message string
}

// maxProblems bounds what is said about one body.
const maxProblems = 20

// ParseReport is check 1: it reads a report strictly. The error is a
// *[MalformedError] with MALFORMED_PROPOSAL. Doors switches checks off by number and is
// nil outside tests: with 1 in it, what breaks the schema is taken for what can be read
// of it.
func ParseReport(raw []byte, doors ...int64) (*Report, error) {
	p := parser{unchecked: slices.Contains(doors, 1)}
	r := p.report("", raw)
	if err := p.err(authority.MalformedProposal); err != nil && !p.unchecked {
		return nil, err
	}
	return r, nil
}

func (p *parser) report(at string, raw []byte) *Report {
	r := &Report{}
	required := []string{"goalRestatement", "candidates", "selectedCandidateId", "justification", "expectedEffect", "uncertainties"}
	if root := p.object(at, raw, required, nil); root != nil {
		r.GoalRestatement = p.text(at+"/goalRestatement", root["goalRestatement"], 1, maxProse)
		for i, c := range p.array(at+"/candidates", root["candidates"], 1, MaxCandidates) {
			r.Candidates = append(r.Candidates, p.candidate(fmt.Sprintf("%s/candidates/%d", at, i), c))
		}
		r.SelectedCandidateID = p.text(at+"/selectedCandidateId", root["selectedCandidateId"], 1, maxID)
		r.Justification = p.justification(at+"/justification", root["justification"])
		r.ExpectedEffect = p.expectedEffect(at+"/expectedEffect", root["expectedEffect"])
		r.Uncertainties = p.texts(at+"/uncertainties", root["uncertainties"], maxUncertainties, maxProse)
	}
	return r
}

// ParseOperation reads the body of POST /operation, {"action": {...}}. The
// error is a *[MalformedError] with INVALID_REQUEST.
func ParseOperation(raw []byte) (*Action, error) {
	p := parser{}
	a := Action{}
	if root := p.object("", raw, []string{"action"}, nil); root != nil {
		a = p.action("/action", root["action"])
	}
	if err := p.err(authority.InvalidRequest); err != nil {
		return nil, err
	}
	return &a, nil
}

// parser reads nested members and collects what is wrong. A missing member is
// wrong where it is read, so that no reader can take it for empty.
type parser struct {
	problems  []Problem
	unchecked bool // behind a door: what is read of a malformed report counts
}

// fail notes one problem of a place; a second one at the same place follows from
// the first.
func (p *parser) fail(at, message string) {
	if len(p.problems) < maxProblems && !slices.ContainsFunc(p.problems, func(q Problem) bool { return q.Pointer == at }) {
		p.problems = append(p.problems, Problem{at, message})
	}
}

// err is nil when nothing is wrong.
func (p *parser) err(reason string) error {
	if len(p.problems) == 0 {
		return nil
	}
	return &MalformedError{&authority.Denial{Reason: reason, Detail: "The body breaks its schema."}, p.problems}
}

// decode reads one value. A body outside the grammar fails where it leaves it.
func (p *parser) decode(at string, raw []byte, v any, want string) bool {
	if raw == nil {
		p.fail(at, "is missing; "+want)
		return false
	}
	if err := canon.Unmarshal(raw, v); err != nil || string(raw) == "null" {
		if outside, ok := errors.AsType[*canon.SyntaxError](err); ok && outside.Pointer != "" {
			at, want = at+outside.Pointer, outside.Reason
		}
		p.fail(at, want)
		return false
	}
	return true
}

// object reads an object that has no members but the required and the optional
// ones, and returns nil when there is none. Whether the required ones are there
// shows when they are read.
func (p *parser) object(at string, raw []byte, required, optional []string) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if !p.decode(at, raw, &m, "want an object") {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			p.fail(member(at, name), "unknown member; want "+strings.Join(slices.Concat(required, optional), ", "))
		}
	}
	return m
}

// member is the pointer to a member of the object at a place.
func member(at, name string) string {
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func (p *parser) array(at string, raw []byte, least, most int) []json.RawMessage {
	var a []json.RawMessage
	want := fmt.Sprintf("want an array of %d to %d elements", least, most)
	if p.decode(at, raw, &a, want) && (len(a) < least || len(a) > most) {
		if p.fail(at, want); !p.unchecked {
			return nil
		}
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
	if m == nil {
		return Candidate{}
	}
	c := Candidate{
		ID:              p.text(at+"/id", m["id"], 1, maxID),
		Action:          p.action(at+"/action", m["action"]),
		Purpose:         p.text(at+"/purpose", m["purpose"], 1, maxProse),
		Disposition:     p.oneOf(at+"/disposition", m["disposition"], DispositionProposed, DispositionRejected),
		RejectionReason: p.nullableText(at+"/rejectionReason", m["rejectionReason"], maxProse),
	}
	if c.Disposition == DispositionProposed && c.RejectionReason != nil {
		p.fail(at+"/rejectionReason", "want null for a proposed candidate")
	}
	if c.Disposition == DispositionRejected && c.RejectionReason == nil {
		p.fail(at+"/rejectionReason", "want an explanation for a rejected candidate")
	}
	return c
}

func (p *parser) action(at string, raw []byte) Action {
	m := p.object(at, raw, []string{"kind", "operationId", "targetRef", "args"}, []string{"url", "value"})
	if m == nil {
		return Action{}
	}
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
	var m map[string]any
	if !p.decode(at, raw, &m, "want an object") {
		return nil
	}
	canonical, err := canon.Canonical(raw)
	if err != nil || len(canonical) > maxArgs {
		p.fail(at, fmt.Sprintf("want at most %d bytes", maxArgs))
		return nil
	}
	p.cents(at, m)
	return canonical
}

// cents checks that every member whose name ends in Cents, at any depth, is an
// amount (G-08).
func (p *parser) cents(at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !strings.HasSuffix(name, "Cents") {
				p.cents(member(at, name), v[name])
				continue
			}
			amount, _ := v[name].(string) // "" is none
			if _, err := money.Parse(amount); err != nil {
				p.fail(member(at, name), "want a decimal string of cents")
			}
		}
	case []any:
		for i, element := range v {
			p.cents(fmt.Sprintf("%s/%d", at, i), element)
		}
	}
}

func (p *parser) justification(at string, raw []byte) Justification {
	m := p.object(at, raw, []string{"summary", "evidenceRefs"}, nil)
	if m == nil {
		return Justification{}
	}
	return Justification{
		Summary:      p.text(at+"/summary", m["summary"], 1, maxProse),
		EvidenceRefs: p.texts(at+"/evidenceRefs", m["evidenceRefs"], maxItems, maxID),
	}
}

func (p *parser) expectedEffect(at string, raw []byte) ExpectedEffect {
	m := p.object(at, raw, []string{"operationId", "transactionProposalId", "disclosedFields", "postconditions"}, nil)
	if m == nil {
		return ExpectedEffect{}
	}
	return ExpectedEffect{
		OperationID:           p.text(at+"/operationId", m["operationId"], 1, maxItem),
		TransactionProposalID: p.nullableText(at+"/transactionProposalId", m["transactionProposalId"], maxID),
		DisclosedFields:       p.texts(at+"/disclosedFields", m["disclosedFields"], maxItems, maxItem),
		Postconditions:        p.texts(at+"/postconditions", m["postconditions"], maxItems, maxItem),
	}
}
