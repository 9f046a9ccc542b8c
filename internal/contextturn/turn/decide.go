package turn

import (
	"fmt"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/contextturn/redact"
)

// Transition is what a decision came to. Without drafts nothing is to be stored.
type Transition struct {
	Drafts []evidence.Draft
	Texts  []evidence.Text
}

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

// Deciding is one decision under way: each event is folded into the state at once. It is
// used once.
type Deciding struct {
	fold  fold
	fresh *authority.Fresh
	out   Transition
}

func deciding(kind string, now evidence.Time, seed [32]byte) *Deciding {
	d := &Deciding{fold: newFold(kind), fresh: authority.NewFresh(seed, now)}
	d.fold.now = now
	return d
}

// Start opens a turn. subject names workspace and issuer; run is the run that supervision
// opens it for, nil for a client's own start.
func Start(by Binding, clientRef Label, run *string, subject evidence.Subject, now evidence.Time, seed [32]byte) (*State, *Transition, error) {
	d := deciding(Kind, now, seed)
	via := ViaHTTP
	if run != nil {
		via = ViaSupervision
	}
	subject.Format, subject.Kind, subject.ID, subject.Machine = evidence.Format, Kind, NewID("trn_", d.fresh), Machine
	d.emit(&Opened{
		Subject: subject, Project: by.Project, Client: by.Client, Profile: by.Profile, Environment: by.Environment,
		Via: via, Run: run, ClientRef: d.label(clientRef), ExpiresAt: now.Add(Life),
	})
	t, err := d.Done()
	return d.fold.s, t, err
}

// Begin starts a decision about a turn, which it changes. A turn whose end has come is
// expired first, and that is part of the decision.
func Begin(s *State, now evidence.Time, seed [32]byte) *Deciding {
	now = max(now, s.UpdatedAt)
	d := deciding(Kind, now, seed)
	d.fold.s, d.fold.sequence, d.fold.updated = s, s.Events, s.UpdatedAt
	if s.Status == Open && now >= s.ExpiresAt {
		d.emit(&Expiry{})
	}
	return d
}

// Now returns the time of the decision.
func (d *Deciding) Now() evidence.Time { return d.fold.now }

// State returns the turn as the decision has it.
func (d *Deciding) State() *State { return d.fold.s }

// Done returns what was decided. An error means that the decision broke a rule of the
// machine; nothing may be stored then.
func (d *Deciding) Done() (*Transition, error) {
	if len(d.fold.unlawful) > 0 {
		return nil, &d.fold.unlawful[0]
	}
	return &d.out, nil
}

// Takes denies a turn that has ended (S-078).
func (d *Deciding) Takes() *authority.Denial {
	switch d.fold.s.Status {
	case Open:
		return nil
	case Expired:
		return &authority.Denial{Reason: TurnExpired, Detail: fmt.Sprintf("The turn expired at %s.", d.fold.s.ExpiresAt)}
	}
	return &authority.Denial{Reason: TurnClosed, Detail: "The turn has ended: " + d.fold.s.Status + "."}
}

// TakesCall denies what a call of a context tool would be denied for, before any context
// is resolved (S-043).
func (d *Deciding) TakesCall() *authority.Denial {
	if denial := d.Takes(); denial != nil {
		return denial
	}
	if d.fold.s.Calls >= MaxCalls {
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
	c := d.called(NewID("int_", d.fresh), a)
	if c.Delivers() {
		d.emit(&Delivered{c})
	} else {
		d.emit(&Answered{c})
	}
	s := d.fold.s
	return &Interaction{
		Machine: Machine, ID: c.InteractionID, Project: s.Project, Client: s.Client, Profile: s.Profile, Environment: s.Environment, At: d.fold.now, Turn: &s.ID, Call: c,
	}, nil
}

func (d *Deciding) called(id string, a Answer) Call {
	items := append([]Item{}, a.Items...)
	return Call{InteractionID: id, Tool: a.Tool, Build: a.Build, Verdict: a.Verdict, Items: items, Gap: a.Gap, Request: d.text(a.Request), Answer: d.text(a.Answer)}
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
	if d.fold.s.Observations >= MaxObservations {
		return &authority.Denial{Reason: LimitReached, Detail: fmt.Sprintf("The turn has its %d observations.", MaxObservations)}
	}
	d.emit(&Observed{Event: o.Event, Tool: o.Tool, ToolUseID: o.ToolUseID, Class: ClassObserved})
	return nil
}

// Complete records what the client reports, completed, cancelled or failed. A turn that
// has expired stays so: the report is denied, and counted in the same decision.
func (d *Deciding) Complete(reported string, note Label) *authority.Denial {
	if denial := d.Takes(); denial != nil {
		if d.fold.s.Status == Expired && d.fold.s.LateReports < MaxLateReports {
			d.emit(&Late{Reported: reported})
		}
		return denial
	}
	s := d.fold.s
	d.emit(&Complete{
		Reported: reported, State: ended(reported, s.Deliveries), Note: d.label(note), Deliveries: s.Deliveries, Observations: s.Observations, Class: ClassReported,
	})
	return nil
}

// Outside records a call outside a turn.
func Outside(by Binding, a Answer, subject evidence.Subject, now evidence.Time, seed [32]byte) (*Interaction, *Transition, error) {
	d := deciding(KindInteraction, now, seed)
	subject.Format, subject.Kind, subject.ID, subject.Machine = evidence.Format, KindInteraction, NewID("int_", d.fresh), Machine
	d.emit(&Recorded{Subject: subject, Project: by.Project, Client: by.Client, Profile: by.Profile, Environment: by.Environment, Call: d.called(subject.ID, a)})
	t, err := d.Done()
	return d.fold.interaction, t, err
}

// Record records what a bridge saw.
func Record(by Binding, seen Seen, subject evidence.Subject, now evidence.Time, seed [32]byte) (*Receipt, *Transition, error) {
	d := deciding(KindBridge, now, seed)
	subject.Format, subject.Kind, subject.ID, subject.Machine = evidence.Format, KindBridge, NewID("brg_", d.fresh), Machine
	d.emit(&Bridged{Subject: subject, Project: by.Project, Client: by.Client, Environment: by.Environment, Seen: seen, Class: ClassBridge})
	t, err := d.Done()
	return d.fold.receipt, t, err
}

func (d *Deciding) emit(e Event) {
	d.fold.id = d.fresh.ID()
	d.fold.sequence++
	d.fold.take(e)
	d.out.Drafts = append(d.out.Drafts, evidence.Draft{ID: d.fold.id, Type: e.EventType(), Data: e})
}

// text keeps a free text beside the chain and returns what stands for it in event data.
func (d *Deciding) text(s string) evidence.Commitment {
	t := evidence.NewText(d.fresh.Salt(), s)
	d.out.Texts = append(d.out.Texts, t)
	return t.Commit()
}

func (d *Deciding) label(l Label) *evidence.Commitment {
	if l.text == nil {
		return nil
	}
	c := d.text(*l.text)
	return &c
}
