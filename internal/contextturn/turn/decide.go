package turn

import (
	"fmt"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/contextturn/redact"
	"countersign/internal/machine"
)

// Label is a short text of a client's after redaction (G-34). Only [ClientRef] and [Note]
// make one, so that nothing else is ever stored or compared.
type Label struct{ text *string }

// ClientRef redacts and cuts a clientRef; nil stays absent.
func ClientRef(raw *string) Label { return label(raw, MaxClientRef) }

// Note redacts and cuts a note; nil stays absent.
func Note(raw *string) Label { return label(raw, MaxNote) }

func label(raw *string, most int) Label {
	if raw == nil {
		return Label{}
	}
	s := redact.Text(*raw, most)
	return Label{&s}
}

// Text returns what is left of the label, nil when there is none.
func (l Label) Text() *string { return l.text }

// Binding is whom a turn, a call or a receipt belongs to.
type Binding struct{ Project, Client, Profile, Environment string }

// Binding returns whom the turn belongs to.
func (s *State) Binding() Binding { return Binding{s.Project, s.Client, s.Profile, s.Environment} }

// Binding returns whom the call belongs to.
func (i *Interaction) Binding() Binding {
	return Binding{i.Project, i.Client, i.Profile, i.Environment}
}

// Deciding is one decision about a turn under way. It is used once.
type Deciding struct{ *machine.Deciding[State] }

// Start opens a turn. subject names workspace and issuer; run is the run that supervision
// opens it for, nil for a client's own start.
func Start(by Binding, clientRef Label, run *string, subject evidence.Subject, now evidence.Time, seed [32]byte) (*State, *machine.Transition, error) {
	d := machine.Begin(&turns, new(State), now, seed)
	via := ViaHTTP
	if run != nil {
		via = ViaSupervision
	}
	d.Emit(&Opened{
		Subject: d.Subject(subject, NewID("trn_", d.Fresh())), Project: by.Project, Client: by.Client, Profile: by.Profile, Environment: by.Environment,
		Via: via, Run: run, ClientRef: d.OptionalText(clientRef.text), ExpiresAt: now.Add(Life),
	})
	t, err := d.Done()
	return d.State(), t, err
}

// Begin starts a decision about a turn, which it changes. A turn whose end has come is
// expired first, and that is part of the decision.
func Begin(s *State, now evidence.Time, seed [32]byte) *Deciding {
	d := &Deciding{machine.Begin(&turns, s, now, seed)}
	if s.Status == Open && d.Now() >= s.ExpiresAt {
		d.Emit(&Expiry{})
	}
	return d
}

// Takes denies a turn that has ended (S-078).
func (d *Deciding) Takes() *authority.Denial {
	switch d.State().Status {
	case Open:
		return nil
	case Expired:
		return &authority.Denial{Reason: TurnExpired, Detail: fmt.Sprintf("The turn expired at %s.", d.State().ExpiresAt)}
	}
	return &authority.Denial{Reason: TurnClosed, Detail: "The turn has ended: " + d.State().Status + "."}
}

// TakesCall denies what a call of a context tool would be denied for, before any context
// is resolved (S-043).
func (d *Deciding) TakesCall() *authority.Denial {
	if denial := d.Takes(); denial != nil {
		return denial
	}
	if d.State().Calls >= MaxCalls {
		return &authority.Denial{Reason: LimitReached, Detail: fmt.Sprintf("The turn has had its %d context calls.", MaxCalls)}
	}
	return nil
}

// Answer is what a tool came to.
type Answer struct {
	Tool    string
	Build   *Build
	Verdict *string
	Items   []Item
	Gap     *string
	Request string // JSON
	Answer  string // JSON
}

// Call records a call of a context tool in the turn.
func (d *Deciding) Call(a Answer) (*Interaction, *authority.Denial) {
	if denial := d.TakesCall(); denial != nil {
		return nil, denial
	}
	c := called(d.Deciding, NewID("int_", d.Fresh()), a)
	if c.Delivers() {
		d.Emit(&Delivered{c})
	} else {
		d.Emit(&Answered{c})
	}
	s := d.State()
	return &Interaction{
		Machine: Machine, ID: c.InteractionID, Project: s.Project, Client: s.Client, Profile: s.Profile, Environment: s.Environment, At: d.Now(), Turn: &s.ID, Call: c,
	}, nil
}

func called[S any](d *machine.Deciding[S], id string, a Answer) Call {
	items := append([]Item{}, a.Items...)
	return Call{InteractionID: id, Tool: a.Tool, Build: a.Build, Verdict: a.Verdict, Items: items, Gap: a.Gap, Request: d.Text(a.Request), Answer: d.Text(a.Answer)}
}

// Observation is what a hook reports before a tool runs (S-053).
type Observation struct {
	Event     string `json:"event"`
	Tool      string `json:"tool"`
	ToolUseID string `json:"toolUseId"`
}

// Observe records a hook's report, whose form was checked.
func (d *Deciding) Observe(o Observation) *authority.Denial {
	if denial := d.Takes(); denial != nil {
		return denial
	}
	if IsSecret(o.Tool) || IsSecret(o.ToolUseID) {
		return &authority.Denial{Reason: BodyInvalid, Detail: "A value looks like a secret; none is stored."}
	}
	if d.State().Observations >= MaxObservations {
		return &authority.Denial{Reason: LimitReached, Detail: fmt.Sprintf("The turn has its %d observations.", MaxObservations)}
	}
	d.Emit(&Observed{Event: o.Event, Tool: o.Tool, ToolUseID: o.ToolUseID, Class: ClassObserved})
	return nil
}

// Complete records what the client reports, completed, cancelled or failed. A turn that
// has expired stays so: the report is denied, and counted in the same decision.
func (d *Deciding) Complete(reported string, note Label) *authority.Denial {
	if denial := d.Takes(); denial != nil {
		if d.State().Status == Expired && d.State().LateReports < MaxLateReports {
			d.Emit(&Late{Reported: reported})
		}
		return denial
	}
	s := d.State()
	d.Emit(&Complete{
		Reported: reported, State: ended(reported, s.Deliveries), Note: d.OptionalText(note.text), Deliveries: s.Deliveries, Observations: s.Observations, Class: ClassReported,
	})
	return nil
}

// Outside records a call outside a turn.
func Outside(by Binding, a Answer, subject evidence.Subject, now evidence.Time, seed [32]byte) (*Interaction, *machine.Transition, error) {
	d := machine.Begin(&interactions, new(Single[Interaction]), now, seed)
	subject = d.Subject(subject, NewID("int_", d.Fresh()))
	d.Emit(&Recorded{Subject: subject, Project: by.Project, Client: by.Client, Profile: by.Profile, Environment: by.Environment, Call: called(d, subject.ID, a)})
	t, err := d.Done()
	return &d.State().Of, t, err
}

// Record records what a bridge saw.
func Record(by Binding, seen Seen, subject evidence.Subject, now evidence.Time, seed [32]byte) (*Receipt, *machine.Transition, error) {
	d := machine.Begin(&receipts, new(Single[Receipt]), now, seed)
	subject = d.Subject(subject, NewID("brg_", d.Fresh()))
	d.Emit(&Bridged{Subject: subject, Project: by.Project, Client: by.Client, Environment: by.Environment, Seen: seen, Class: ClassBridge})
	t, err := d.Done()
	return &d.State().Of, t, err
}
