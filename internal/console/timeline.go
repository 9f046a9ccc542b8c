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
// execution, receipt, verification (H-152, H-153). An attempt of a managed run that
// ended without a proposal is one too.
type turn struct {
	ID        string
	Number    int
	Operation string
	Action    json.RawMessage // the selected action, in full
	Amount    string          // "" when it costs nothing, or when the checks did not get that far
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
	attempts   map[string]*turn // by attempt id
	verified   map[string]*turn // by the id of the observation that verified
	currency   string
	last       int // number of the newest turn
}

// begins are the types of event that a turn can begin with.
var begins = map[string]bool{"turn.proposed": true, "model.called": true, "turn.outcome": true, "turn.rejected": true}

// newChart pairs the events of a run's chain, in the order of their beginnings.
func newChart(lines []records.Line, currency string) (*chart, error) {
	c := &chart{
		turns: map[string]*turn{}, permits: map[string]*turn{}, executions: map[string]*turn{}, attempts: map[string]*turn{}, verified: map[string]*turn{}, currency: currency,
	}
	for _, l := range lines {
		if err := c.add(l); err != nil {
			return nil, fmt.Errorf("console: event %s: %w", l.EventID, err)
		}
	}
	for _, i := range c.items {
		if i.Turn != nil {
			i.Turn.conclude()
		}
	}
	return c, nil
}

// names are the members by which an event finds its turn.
type names struct {
	TurnID        string `json:"turnId"`
	AttemptID     string `json:"attemptId"`
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
	if t == nil && begins[l.Type] {
		c.last++
		t = &turn{ID: n.TurnID, Number: c.last}
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
	for _, found := range []*turn{c.turns[n.TurnID], c.turns[n.Permit.Bindings.TurnID], c.permits[n.PermitID], c.executions[n.ExecutionID], c.attempts[n.AttemptID]} {
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
	if n.TurnID != "" {
		c.turns[n.TurnID] = t
	}
	if n.AttemptID != "" {
		c.attempts[n.AttemptID] = t
	}
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

// end is what became of a turn, and how that looks.
type end struct{ word, tone string }

// ends are by the newest event of a turn that says something about it.
var ends = map[string]end{
	"model.called":           {"a model is asked", "going"},
	"turn.outcome":           {"no proposal", "wait"},
	"turn.rejected":          {"malformed answer", "wait"},
	"turn.proposed":          {"under way", "going"},
	"permit.issued":          {"permitted, not dispatched", "going"},
	"permit.expired":         {"permit expired", "over"},
	"permit.revoked":         {"permit revoked", "over"},
	"execution.dispatched":   {"dispatched, no receipt yet", "wait"},
	"execution.receipt":      {"receipted, not verified", "wait"},
	"execution.verified":     {"verified", "good"},
	"execution.mismatch":     {"does not match its promise", "danger"},
	"execution.not_applied":  {"not applied", "over"},
	"execution.voided":       {"voided, nothing sent", "over"},
	"execution.unconfirmed":  {"effect unconfirmed", "danger"},
	"execution.reconciled":   {"settled by a statement, no receipt", "wait"},
	"execution.contradicted": {"a receipt contradicts the statement", "danger"},
}

// conclude tells how far the turn came and what became of it. Each word is used for
// exactly one thing: what was proposed, what the guardian allowed, what was permitted,
// what was dispatched, and what was seen to hold.
func (t *turn) conclude() {
	allowed := false
	for _, s := range t.Steps {
		allowed = allowed || s.Type == "guardian.decided" && s.Tone == "good"
		switch e, known := ends[s.Type]; {
		case s.Type == "guardian.decided" && s.Tone != "good":
			t.End, t.Tone = "not allowed", "wait"
		case s.Type == "policy.checked" && s.Tone != "good":
			t.End, t.Tone = "stopped by a hard check", "wait"
		case known && t.End != ends["execution.contradicted"].word:
			t.End, t.Tone = e.word, e.tone
		}
	}
	t.Reached = []reached{
		{"proposed", t.has("turn.proposed")}, {"allowed", allowed}, {"permitted", t.has("permit.issued")},
		{"dispatched", t.has("execution.dispatched")}, {"verified", t.has("execution.verified")},
	}
}
