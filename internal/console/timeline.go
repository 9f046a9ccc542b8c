package console

import (
	"encoding/json"
	"fmt"
	"slices"

	"countersign/evidence"
	"countersign/internal/supervision/records"
)

// item is one entry of the timeline: a proposal turn with all that followed from it,
// or an event of the run that belongs to no turn.
type item struct {
	Turn  *turn
	Event *step
	first int64 // sequence of its first event
}

// Key names the item on the page.
func (i item) Key() string { return fmt.Sprint("e", i.first) }

// turn pairs what belongs to one proposal: report, checks, decision, permit,
// execution, receipt, verification (H-152, H-153).
type turn struct {
	ID        string
	Number    int
	Operation string
	Action    json.RawMessage // the selected action, in full
	Amount    string          // "" when the checks did not get that far
	Steps     []step
	Reached   []reached
	End       string // what became of it, in a word
	Tone      string
	report    *report
	metrics   []metrics
}

// reached is one of the five states that must never be confused (H-172).
type reached struct {
	Word string
	Yes  bool
}

// step is one event as it is shown.
type step struct {
	Sequence  int64
	Type      string
	Title     string
	Label     string // provenance, exactly as recorded; "" when the event names none
	Tone      string
	Timestamp string // when it was recorded
	Fields    []field
	Rows      []row
	Raw       string // the event's data, when this page knows no better form
}

// field is a name and a value. Note says what the value is not.
type field struct {
	Name, Value string
	Mono        bool // an id or a digest
	Block       bool // prose of its own paragraph
	Note        string
	text        *evidence.Commitment // prose that is still to be read
}

// row is one line of a table in a step, such as a finding of the checks.
type row struct {
	Name, Value string
	OK          bool
}

// chart groups the events of a run.
type chart struct {
	items      []item
	turns      map[string]*turn // by turn id
	permits    map[string]*turn // by permit id
	executions map[string]*turn // by execution id
	verified   map[string]*turn // by the id of the observation that verified
	currency   string
}

// newChart pairs the events of a run's chain, in the order of their beginnings.
func newChart(lines []records.Line, currency string) (*chart, error) {
	c := &chart{
		turns: map[string]*turn{}, permits: map[string]*turn{}, executions: map[string]*turn{}, verified: map[string]*turn{}, currency: currency,
	}
	for _, l := range lines {
		if err := c.add(l); err != nil {
			return nil, fmt.Errorf("console: event %s: %w", l.EventID, err)
		}
	}
	for _, t := range c.turns {
		t.conclude()
	}
	return c, nil
}

// names are the members by which an event finds its turn.
type names struct {
	TurnID        string `json:"turnId"`
	PermitID      string `json:"permitId"`
	ExecutionID   string `json:"executionId"`
	ObservationID string `json:"observationId"`
	Permit        struct {
		PermitID string `json:"permitId"`
		Bindings struct {
			TurnID string `json:"turnId"`
		} `json:"bindings"`
	} `json:"permit"`
}

func (c *chart) add(l records.Line) error {
	var n names
	// Members that are null or of another kind name nothing.
	if err := json.Unmarshal(l.Data, &n); err != nil {
		n = names{}
	}
	t := c.turnOf(l.Type, &n)
	if l.Type == "turn.proposed" && t == nil {
		t = &turn{ID: n.TurnID, Number: len(c.turns) + 1}
		c.turns[n.TurnID] = t
		c.items = append(c.items, item{Turn: t, first: l.Sequence})
	}
	s, err := c.describe(l, t)
	if err != nil {
		return err
	}
	switch {
	case s == nil: // told elsewhere in the turn
	case t == nil:
		c.items = append(c.items, item{Event: s, first: l.Sequence})
	default:
		c.link(t, l.Type, &n)
		t.Steps = append(t.Steps, *s)
	}
	return nil
}

// turnOf finds the turn that an event belongs to, or nil.
func (c *chart) turnOf(kind string, n *names) *turn {
	for _, found := range []*turn{c.turns[n.TurnID], c.turns[n.Permit.Bindings.TurnID], c.permits[n.PermitID], c.executions[n.ExecutionID]} {
		if found != nil {
			return found
		}
	}
	if kind == "observation.recorded" {
		return c.verified[n.ObservationID]
	}
	return nil
}

// link remembers what later events will name.
func (c *chart) link(t *turn, kind string, n *names) {
	if n.Permit.PermitID != "" {
		c.permits[n.Permit.PermitID] = t
	}
	if n.ExecutionID != "" {
		c.executions[n.ExecutionID] = t
	}
	if kind == "execution.verified" {
		c.verified[n.ObservationID] = t
	}
}

// has reports whether the turn has an event of one of the types.
func (t *turn) has(types ...string) bool {
	return slices.ContainsFunc(t.Steps, func(s step) bool { return slices.Contains(types, s.Type) })
}

// conclude tells how far the turn came and what became of it. Each word is used for
// exactly one thing: what was proposed, what the guardian allowed, what was permitted,
// what was dispatched, and what was seen to hold.
func (t *turn) conclude() {
	allowed := slices.ContainsFunc(t.Steps, func(s step) bool { return s.Type == "guardian.decided" && s.Tone == "good" })
	t.Reached = []reached{
		{"proposed", true}, {"allowed", allowed}, {"permitted", t.has("permit.issued")},
		{"dispatched", t.has("execution.dispatched")}, {"verified", t.has("execution.verified")},
	}
	switch {
	case t.has("execution.verified"):
		t.End, t.Tone = "verified", "good"
	case t.has("execution.reconciled"):
		t.End, t.Tone = "reconciled by statement", "wait"
	case t.has("execution.mismatch"):
		t.End, t.Tone = "does not match its promise", "danger"
	case t.has("execution.not_applied"):
		t.End, t.Tone = "not applied", "over"
	case t.has("execution.voided"):
		t.End, t.Tone = "voided, nothing sent", "over"
	case t.has("execution.receipt"):
		t.End, t.Tone = "receipted, not verified", "wait"
	case t.has("execution.unconfirmed"):
		t.End, t.Tone = "effect unconfirmed", "danger"
	case t.has("execution.dispatched"):
		t.End, t.Tone = "dispatched, no receipt yet", "wait"
	case t.has("permit.expired"):
		t.End, t.Tone = "permit expired", "over"
	case t.has("permit.revoked"):
		t.End, t.Tone = "permit revoked", "over"
	case t.has("permit.issued"):
		t.End, t.Tone = "permitted, not dispatched", "live"
	case t.has("guardian.decided") && !allowed:
		t.End, t.Tone = "not allowed", "wait"
	case t.has("policy.checked") && !t.has("guardian.decided"):
		t.End, t.Tone = "stopped by a hard check", "wait"
	default:
		t.End, t.Tone = "under way", "live"
	}
}
