package perimeter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/contextturn/builds"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/traces"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
)

// Answer is what a context tool came to. Its record is stored when a caller has it.
type Answer struct {
	Interaction InteractionRef
	TurnID      *string // nil outside a turn
	Result      any     // of the tool, with the members of its answer
}

// InteractionRef names a stored interaction.
type InteractionRef struct {
	ID         string        `json:"id"`
	Tool       string        `json:"tool"`
	RecordedAt evidence.Time `json:"recordedAt"`
	Build      *turn.Build   `json:"build"`
}

// Call answers a context tool in a turn of the caller's, or outside of turns when turnID
// is "". The bounds and the form of r were checked.
func (p *Perimeter) Call(ctx context.Context, by *Caller, turnID string, r tools.Request) (*Answer, error) {
	var held *heldTurn
	if turnID != "" {
		var err error
		if held, err = p.takesCall(ctx, by, turnID); err != nil {
			return nil, err
		}
	}
	a, err := p.answer(ctx, by, r)
	if err != nil {
		return nil, err
	}
	var i *turn.Interaction
	err = p.decideFor(ctx, by, func() (c *ledger.Change, err error) {
		var gap *newGap
		if a.gap != nil {
			if gap, err = p.reportGap(ctx, by, a); err != nil {
				return nil, err
			}
		}
		if turnID == "" {
			i, c, err = p.callOutside(ctx, by, a)
		} else {
			i, c, err = p.callIn(ctx, by, turnID, held, a)
			held = nil // who lost a race reads again
		}
		if err == nil && gap != nil {
			c.Writes, c.Record = append(c.Writes, gap.write), gap.record
		}
		return c, err
	})
	if err != nil && !(p.Unrecorded && i != nil) {
		return nil, err
	}
	if err := p.fault(FaultStored); err != nil {
		return nil, err
	}
	return &Answer{InteractionRef{i.ID, i.Call.Tool, i.At, i.Call.Build}, i.Turn, a.result}, nil
}

// heldTurn is a turn as it was read, with a decision about it begun.
type heldTurn struct {
	subject ledger.Subject
	d       *turn.Deciding
}

// takesCall denies a call before any content is looked at (S-043).
func (p *Perimeter) takesCall(ctx context.Context, by *Caller, turnID string) (*heldTurn, error) {
	subject, s, now, err := p.own(ctx, by, turnID)
	if err != nil {
		return nil, err
	}
	d := turn.Begin(s, now, ledger.Seed())
	return &heldTurn{subject, d}, orNil(d.TakesCall())
}

// callIn records the call in the turn as it is held, or read anew without. What has become
// of the turn since it was read is for the ledger to notice.
func (p *Perimeter) callIn(ctx context.Context, by *Caller, turnID string, held *heldTurn, a *answered) (*turn.Interaction, *ledger.Change, error) {
	if held == nil {
		var err error
		if held, err = p.takesCall(ctx, by, turnID); err != nil {
			return nil, nil, err
		}
	}
	subject, d := held.subject, held.d
	s := d.State()
	i, denial := d.Call(a.Answer)
	if denial != nil {
		return nil, nil, denial
	}
	t, err := d.Done()
	if err != nil {
		return nil, nil, err
	}
	w, err := p.writeTurn(subject, d, t)
	if err != nil {
		return nil, nil, err
	}
	raw, err := canon.Marshal(i)
	if err != nil {
		return nil, nil, err
	}
	found := ledger.Write{Key: p.Key(turn.KindInteraction, i.ID), Head: evidence.Genesis, State: raw, Attributes: append(interactionAttributes(i), ledger.Attribute{Name: traces.AttributeTurn, Value: s.ID})}
	return i, &ledger.Change{Writes: []ledger.Write{w, found}, NotAfter: s.ExpiresAt.Time()}, nil
}

func (p *Perimeter) callOutside(ctx context.Context, by *Caller, a *answered) (*turn.Interaction, *ledger.Change, error) {
	now, err := p.Now(ctx)
	if err != nil {
		return nil, nil, err
	}
	i, t, err := turn.Outside(by.binding(), a.Answer, p.subject(), now, ledger.Seed())
	if err != nil {
		return nil, nil, err
	}
	w, err := p.write(ledger.NewSubject(p.Key(turn.KindInteraction, i.ID)), i, now, t.Drafts, t.Texts, interactionAttributes(i))
	return i, &ledger.Change{Writes: []ledger.Write{w}}, err
}

func interactionAttributes(i *turn.Interaction) []ledger.Attribute {
	return []ledger.Attribute{{Name: traces.AttributeProject, Value: i.Project}, {Name: traces.AttributeClient, Value: i.Client}}
}

// answered is what a tool came to, before it is recorded.
type answered struct {
	turn.Answer
	result any
	gap    *project.GapReport
}

// answer asks the tool. Nothing of it is handed out before it is recorded.
func (p *Perimeter) answer(ctx context.Context, by *Caller, r tools.Request) (*answered, error) {
	_, s, now, err := p.ProjectState(ctx, by.Client.Project)
	if err != nil {
		return nil, err
	}
	selection := s.Selection(by.Client.Environment)
	a := &answered{Answer: turn.Answer{Tool: r.Tool, Items: []turn.Item{}}}
	if selection != nil {
		b := turn.Build(*selection)
		a.Build = &b
	}
	switch {
	case r.Tool == turn.Doctor:
		a.result = p.doctor(by, a.Build, now)
	case r.Tool == turn.ReportGap:
		a.gap = &project.GapReport{Client: by.Client.ID, Environment: by.Client.Environment, Build: selection, Task: r.Task, Ref: r.Ref, Detail: r.Detail}
		a.result = &GapResult{} // named when it is recorded
	case selection == nil:
		return nil, denied(turn.BuildMissing, "Nothing is published in this environment; the owner publishes with `countersign context publish`.")
	default:
		err = p.ask(ctx, by, selection.Digest, r, a)
	}
	if err != nil {
		return nil, err
	}
	request, err := canon.Marshal(members(r))
	if err != nil {
		return nil, err
	}
	result, err := canon.Marshal(a.result)
	if err != nil {
		return nil, err
	}
	a.Request, a.Answer.Answer = string(request), string(result)
	return a, nil
}

// DoctorResult says what the caller is bound to; it has no content of the project.
type DoctorResult struct {
	Client      DoctorClient  `json:"client"`
	Profile     string        `json:"profile"`
	Environment string        `json:"environment"`
	Protocol    string        `json:"protocol"`
	Build       *turn.Build   `json:"build"`
	Clock       evidence.Time `json:"clock"`
}

// DoctorClient is whom the token names.
type DoctorClient struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

func (p *Perimeter) doctor(by *Caller, b *turn.Build, now evidence.Time) *DoctorResult {
	protocol := "none"
	if by.Required() {
		protocol = turn.Protocol
	}
	c := by.Client
	return &DoctorResult{DoctorClient{c.ID, c.Name, c.Kind}, c.Profile, c.Environment, protocol, b, now}
}

// ask asks one of the tools that look into the Build.
func (p *Perimeter) ask(ctx context.Context, by *Caller, digest string, r tools.Request, a *answered) error {
	if r.Tool == turn.Why && r.InteractionID != nil {
		return p.whyInteraction(ctx, by, *r.InteractionID, a)
	}
	b, err := p.shelf.Use(ctx, digest)
	if errors.Is(err, builds.ErrOpening) {
		return denied(turn.BuildOpening, "The Build is being opened.")
	}
	if err != nil {
		return err
	}
	defer b.Done()
	result, err := b.Answer(ctx, by.Client.Profile, r)
	switch {
	case errors.Is(err, tools.ErrNotFound):
		return denied(turn.ItemNotFound, "The Build has no such item or case for this profile.")
	case errors.Is(err, tools.ErrRequest):
		return denied(turn.BodyInvalid, "The tool takes no such request.")
	case errors.Is(err, tools.ErrTooLong):
		return denied(turn.LimitReached, "The call works longer than it may; ask with fewer or rarer words.")
	case err != nil:
		return err
	}
	switch of := result.(type) {
	case *tools.CompassAnswer:
		a.Verdict = &of.Verdict
	case *tools.WhyAnswer:
		of.Provenance.Build = a.Build
	}
	for _, h := range result.Handed() {
		a.Items = append(a.Items, turn.Item{Ref: h.Ref, SHA256: h.SHA256})
	}
	a.result = result
	return nil
}

// SelectionResult says what an earlier interaction handed out and why that was chosen.
type SelectionResult struct {
	Selection Selection `json:"selection"`
}

// Selection is what an earlier interaction handed out.
type Selection struct {
	InteractionID string         `json:"interactionId"`
	Tool          string         `json:"tool"`
	Build         *turn.Build    `json:"build"`
	Items         []SelectedItem `json:"items"`
}

// SelectedItem is an item with the reason for which it was chosen.
type SelectedItem struct {
	Ref    string `json:"ref"`
	Reason string `json:"reason"`
}

// whyInteraction tells what an interaction of the same client handed out. Another
// client's is not found. The record is of the Build that it was answered from.
func (p *Perimeter) whyInteraction(ctx context.Context, by *Caller, id string, a *answered) error {
	const missing = "There is no such interaction."
	_, i, _, err := traces.Load(ctx, p.Reader, p.Key(turn.KindInteraction, id), turn.DecodeInteraction, turn.ItemNotFound, missing)
	if err != nil {
		return err
	}
	if i.Binding() != by.binding() {
		return denied(turn.ItemNotFound, missing)
	}
	reasons, err := p.reasons(ctx, i)
	if err != nil {
		return err
	}
	out := Selection{InteractionID: i.ID, Tool: i.Call.Tool, Build: i.Call.Build, Items: []SelectedItem{}}
	for _, item := range i.Call.Items {
		out.Items = append(out.Items, SelectedItem{item.Ref, reasons(item.Ref)})
	}
	a.Build, a.Items, a.result = i.Call.Build, i.Call.Items, &SelectionResult{out}
	return nil
}

// reasons says of each item of an interaction why it was chosen.
func (p *Perimeter) reasons(ctx context.Context, i *turn.Interaction) (func(ref string) string, error) {
	switch i.Call.Tool {
	case turn.Find:
		return func(string) string { return "The query found it." }, nil
	case turn.Compass:
	default:
		return func(string) string { return "It was asked for by its reference." }, nil
	}
	text, err := p.Text(ctx, p.ChainOf(i), &i.Call.Answer)
	if err != nil {
		return nil, err
	}
	if text == nil {
		return func(string) string { return "The answer was erased, and the reason with it." }, nil
	}
	var stored struct {
		Items []SelectedItem `json:"items"`
	}
	if err := json.Unmarshal([]byte(*text), &stored); err != nil {
		return nil, fmt.Errorf("perimeter: the answer of %s is unreadable: %w", i.ID, err)
	}
	return func(ref string) string {
		at := slices.IndexFunc(stored.Items, func(s SelectedItem) bool { return s.Ref == ref })
		if at < 0 {
			return ""
		}
		return stored.Items[at].Reason
	}, nil
}

// members is a request as it was made: what the caller left out is not there.
func members(r tools.Request) map[string]any {
	m := map[string]any{}
	for name, value := range map[string]*string{"task": r.Task, "query": r.Query, "ref": r.Ref, "interactionId": r.InteractionID, "detail": r.Detail, "caseId": r.CaseID} {
		if value != nil {
			m[name] = *value
		}
	}
	if r.Limit != nil {
		m["limit"] = *r.Limit
	}
	if r.ExpectRefs != nil {
		m["expectRefs"] = r.ExpectRefs
	}
	return m
}
