package turn

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/run"
)

// Event is the data of one type of event together with its meaning for the state.
type Event interface {
	// EventType is the type of the event as evidence names it.
	EventType() string
	apply(*fold)
}

// Opened is contextturn.opened, the beginning of a turn (S-005).
type Opened struct {
	Subject     evidence.Subject     `json:"subject"`
	Project     string               `json:"project"`
	Client      string               `json:"client"`
	Profile     string               `json:"profile"`
	Environment string               `json:"environment"`
	Via         string               `json:"via"`
	Run         *string              `json:"run"` // exactly of a turn that supervision opened
	ClientRef   *evidence.Commitment `json:"clientRef"`
	ExpiresAt   evidence.Time        `json:"expiresAt"`
}

// EventType names the event.
func (Opened) EventType() string { return "contextturn.opened" }

func (e Opened) apply(f *fold) {
	f.subject(e.Subject, "trn_")
	f.bound(e.Project, e.Environment, IsID("cli_", e.Client))
	f.must(e.Profile != "", "profile", "a client is bound to a profile")
	f.must(e.ExpiresAt == f.now.Add(Life), "expiry", "a turn ends fifteen minutes after its start")
	f.must(e.Via == ViaHTTP && e.Run == nil || e.Via == ViaSupervision && e.Run != nil && authority.IsID(*e.Run), "via", "a client opened the turn over HTTP, or supervision did for a run")
	f.brief(e.ClientRef, MaxClientRef)
	*f.s = State{
		Machine: Machine, ID: e.Subject.ID, Project: e.Project, Client: e.Client, Profile: e.Profile, Environment: e.Environment, Via: e.Via, Run: e.Run,
		ClientRef: e.ClientRef, Status: Open, OpenedAt: f.now, ExpiresAt: e.ExpiresAt,
	}
}

// Delivered is context.delivered: at least one item was handed to an HTTP response
// (S-006, G-33).
type Delivered struct{ Call }

// EventType names the event.
func (Delivered) EventType() string { return "context.delivered" }

func (e Delivered) apply(f *fold) {
	f.call(&e.Call)
	f.must(e.Call.Delivers(), "delivery", "a delivery hands out at least one item, by compass, resolve, find or why")
	f.s.Deliveries++
}

// Answered is context.answered: a call that handed out no item, or by a tool that never
// does.
type Answered struct{ Call }

// EventType names the event.
func (Answered) EventType() string { return "context.answered" }

func (e Answered) apply(f *fold) {
	f.call(&e.Call)
	f.must(!e.Call.Delivers(), "no-delivery", "a call that hands out an item is a delivery")
}

// Observed is contextturn.observed: a hook reported an intention (S-008, S-009).
type Observed struct {
	Event     string `json:"event"`
	Tool      string `json:"tool"`
	ToolUseID string `json:"toolUseId"`
	Class     string `json:"class"`
}

// EventType names the event.
func (Observed) EventType() string { return "contextturn.observed" }

func (e Observed) apply(f *fold) {
	f.open()
	f.must(e.Event == PreToolUse && IsTool(e.Tool) && IsToolUseID(e.ToolUseID) && e.Class == ClassObserved, "observation", "an observation is a bounded pre_tool_use of an mcp__seif__ tool")
	f.must(f.s.Observations < MaxObservations, "observations", "a turn has at most 200 observations")
	f.s.Observations++
}

// Complete is contextturn.completed: what the client reported (S-007, S-061), and the
// state that it made (G-33).
type Complete struct {
	Reported     string               `json:"reported"`
	State        string               `json:"state"`
	Note         *evidence.Commitment `json:"note"`
	Deliveries   int64                `json:"deliveries"`
	Observations int64                `json:"observations"`
	Class        string               `json:"class"`
}

// EventType names the event.
func (Complete) EventType() string { return "contextturn.completed" }

func (e Complete) apply(f *fold) {
	f.open()
	f.must(e.State != "" && e.State == ended(e.Reported, f.s.Deliveries), "state", "the state follows from what was reported and what was delivered")
	f.must(e.Deliveries == f.s.Deliveries && e.Observations == f.s.Observations, "counts", "the counts are those of the turn")
	f.must(e.Class == ClassReported, "class", "a completion is reported, not observed")
	f.brief(e.Note, MaxNote)
	at := f.now
	f.s.Status, f.s.Reported, f.s.CompletedAt, f.s.Note = e.State, e.Reported, &at, e.Note
}

// ended is the state that a report makes; empty for what cannot be reported.
func ended(reported string, deliveries int64) string {
	switch {
	case reported == Cancelled:
		return ReportedCanceled
	case reported == Failed:
		return ReportedFailed
	case reported == Completed && deliveries > 0:
		return WithDelivery
	case reported == Completed:
		return WithoutDelivery
	}
	return ""
}

// Expiry is contextturn.expired: fifteen minutes passed before a completion was reported
// (S-071).
type Expiry struct{}

// EventType names the event.
func (Expiry) EventType() string { return "contextturn.expired" }

func (Expiry) apply(f *fold) {
	f.must(f.s.Status == Open && f.now >= f.s.ExpiresAt, "expired", "an open turn expires at its end, not before")
	f.s.Status = Expired
}

// Late is contextturn.late: a first completion that came after expiry. It changes the
// count and nothing else (G-31).
type Late struct {
	Reported string `json:"reported"`
}

// EventType names the event.
func (Late) EventType() string { return "contextturn.late" }

func (e Late) apply(f *fold) {
	f.must(f.s.Status == Expired, "late", "a late report is of a turn that has expired")
	f.must(ended(e.Reported, 0) != "", "late-status", "it reports completed, cancelled or failed")
	f.must(f.s.LateReports < MaxLateReports, "late-reports", "at most a hundred late reports are counted")
	f.s.LateReports++
}

// Recorded is interaction.recorded, the one event of a call outside a turn.
type Recorded struct {
	Subject     evidence.Subject `json:"subject"`
	Project     string           `json:"project"`
	Client      string           `json:"client"`
	Profile     string           `json:"profile"`
	Environment string           `json:"environment"`
	Call        Call             `json:"call"`
}

// EventType names the event.
func (Recorded) EventType() string { return "interaction.recorded" }

func (e Recorded) apply(f *fold) {
	f.subject(e.Subject, "int_")
	f.bound(e.Project, e.Environment, IsID("cli_", e.Client) || IsID("shr_", e.Client))
	f.must(e.Profile != "", "profile", "a client is bound to a profile")
	f.must(e.Call.InteractionID == e.Subject.ID, "interaction", "the chain is of its one call")
	f.form(&e.Call, e.Environment)
	*f.interaction = Interaction{Machine: Machine, ID: e.Subject.ID, Project: e.Project, Client: e.Client, Profile: e.Profile, Environment: e.Environment, At: f.now, Call: e.Call}
}

// Bridged is bridge.recorded, the one event of a bridge receipt.
type Bridged struct {
	Subject     evidence.Subject `json:"subject"`
	Project     string           `json:"project"`
	Client      string           `json:"client"`
	Environment string           `json:"environment"`
	Seen        Seen             `json:"seen"`
	Class       string           `json:"class"`
}

// EventType names the event.
func (Bridged) EventType() string { return "bridge.recorded" }

func (e Bridged) apply(f *fold) {
	f.subject(e.Subject, "brg_")
	f.bound(e.Project, e.Environment, IsID("cli_", e.Client))
	f.must(slices.Contains(BridgeKinds, e.Seen.Kind) && canon.IsHash(e.Seen.Digest), "seen", "a bridge reports a file, process or HTTP transition with its digest")
	f.must(e.Class == ClassBridge, "class", "what a bridge reports is bridge-observed")
	*f.receipt = Receipt{Machine: Machine, ID: e.Subject.ID, Project: e.Project, Client: e.Client, Environment: e.Environment, At: f.now, Seen: e.Seen}
}

// events are empty events of every type of a kind, the first of a chain in front.
func events(kind string) []Event {
	switch kind {
	case KindInteraction:
		return []Event{&Recorded{}}
	case KindBridge:
		return []Event{&Bridged{}}
	}
	return []Event{&Opened{}, &Delivered{}, &Answered{}, &Observed{}, &Complete{}, &Expiry{}, &Late{}}
}

// EventTypes lists the types of events of all three kinds, sorted.
func EventTypes() (list []string) {
	for _, kind := range []string{Kind, KindInteraction, KindBridge} {
		for _, e := range events(kind) {
			list = append(list, e.EventType())
		}
	}
	slices.Sort(list)
	return list
}

// fold is the application of events to the state of one chain.
type fold struct {
	kind        string
	s           *State
	interaction *Interaction
	receipt     *Receipt
	now         evidence.Time
	id          string
	sequence    int64
	updated     evidence.Time
	unlawful    []run.Unlawful
}

func newFold(kind string) fold {
	return fold{kind: kind, s: &State{}, interaction: &Interaction{}, receipt: &Receipt{}}
}

// take folds e as the event after the newest.
func (f *fold) take(e Event) {
	first := events(f.kind)[0].EventType() == e.EventType()
	if !f.must(first == (f.sequence == 1), "first-event", "what begins the chain stands exactly at its beginning") && first {
		return // it would wipe out what the chain has come to
	}
	f.must(f.now >= f.updated, "time-order", "the event is older than the one before it")
	e.apply(f)
	f.updated = f.now
	f.s.Events, f.s.UpdatedAt = f.sequence, f.now
}

// subject requires an id of the kind. Format, kind and machine are looked at before a chain
// is replayed, because one of another machine is not unlawful but foreign.
func (f *fold) subject(s evidence.Subject, prefix string) {
	f.must(IsID(prefix, s.ID), "subject", "the id of the subject is not one of its kind")
}

// bound requires a client that is bound to an environment of a project. named says
// whether it is one that the chain may be about: a shared token names no single invoker.
func (f *fold) bound(project, environment string, named bool) {
	f.must(IsID("prj_", project) && named && (environment == "production" || environment == "staging"), "client", "a client is bound to an environment of a project")
}

// open requires a turn that takes something.
func (f *fold) open() {
	f.must(f.s.Status == Open && f.now < f.s.ExpiresAt, "closed", "a turn that has ended receives nothing")
}

// call is one more call in an open turn.
func (f *fold) call(c *Call) {
	f.open()
	f.must(IsID("int_", c.InteractionID), "interaction", "an interaction has an id")
	f.must(f.s.Calls < MaxCalls, "calls", "a turn has at most 100 context calls")
	f.form(c, f.s.Environment)
	f.s.Calls++
}

// form requires a call that a tool can come to.
func (f *fold) form(c *Call, environment string) {
	f.must(slices.Contains(Tools, c.Tool), "tool", "there are seven tools")
	most := MaxItems // find, and why of an interaction; whether why was asked of one, evidence does not say plainly
	switch c.Tool {
	case Compass:
		most = MaxCompass
	case Resolve:
		most = 1
	}
	f.must(len(c.Items) <= most, "items", "a call hands out at most 20 items, compass 5 and resolve one")
	f.must(len(c.Items) == 0 || c.Delivers(), "items-tool", "compass, resolve, find and why hand out items, and no other tool")
	refs := map[string]bool{}
	for _, i := range c.Items {
		f.must(!refs[i.Ref], "item-twice", "a call hands out an item once")
		refs[i.Ref] = true
		f.must(i.Ref != "" && canon.IsHash(i.SHA256), "item", "an item has a reference and a digest")
	}
	f.must(c.Build != nil || len(c.Items) == 0 && slices.Contains([]string{Why, ReportGap, Doctor}, c.Tool), "build", "what is handed out, and what was looked into, is a Build or draft")
	if b := c.Build; b != nil {
		f.must(b.Environment == environment && canon.IsHash(b.Digest) && b.Draft == (b.Number == 0) && b.Number >= 0 && !(b.Draft && environment != "staging"), "build", "a Build has a number, a draft exists in staging")
	}
	known := c.Verdict != nil && slices.Contains([]string{Covered, Partial, Gap, Conflict}, *c.Verdict)
	f.must((c.Tool == Compass) == known && (c.Verdict == nil) == !known, "verdict", "compass has a verdict, and no other tool")
	f.must(!known || (*c.Verdict == Gap) == (len(c.Items) == 0), "verdict-gap", "the verdict is gap exactly when there is no item")
	f.must(!known || *c.Verdict != Conflict || len(c.Items) >= 2, "verdict-conflict", "no item is in conflict alone")
	f.must((c.Tool == ReportGap) == (c.Gap != nil) && (c.Gap == nil || IsID("gap_", *c.Gap)), "gap", "report-gap names a gap, and no other tool")
}

// brief requires a label within its bound. Its characters cannot be counted when the text
// is erased; one has at most four bytes.
func (f *fold) brief(c *evidence.Commitment, most int) {
	f.must(c == nil || c.Length <= 4*most, "length", "a label is bounded")
}

// must records a broken rule and returns lawful. Folding goes on, so that one unlawful
// event does not hide the next.
func (f *fold) must(lawful bool, rule, detail string) bool {
	if !lawful {
		f.unlawful = append(f.unlawful, run.Unlawful{Rule: rule, Detail: detail, Sequence: f.sequence, EventID: f.id})
	}
	return lawful
}
