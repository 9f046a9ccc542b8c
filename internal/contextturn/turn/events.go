package turn

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/machine"
)

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

// Apply folds the event.
func (e Opened) Apply(f *machine.Fold[State]) {
	identified(f, e.Subject, "trn_")
	bound(f, e.Project, e.Environment, IsID("cli_", e.Client))
	f.Must(e.Profile != "", "profile", "a client is bound to a profile")
	f.Must(e.ExpiresAt == f.Now().Add(Life), "expiry", "a turn ends fifteen minutes after its start")
	f.Must(e.Via == ViaHTTP && e.Run == nil || e.Via == ViaSupervision && e.Run != nil && authority.IsID(*e.Run), "via", "a client opened the turn over HTTP, or supervision did for a run")
	brief(f, e.ClientRef, MaxClientRef)
	*f.State() = State{
		Progress: machine.Progress{Machine: Machine, ID: e.Subject.ID}, Project: e.Project, Client: e.Client, Profile: e.Profile, Environment: e.Environment, Via: e.Via, Run: e.Run,
		ClientRef: e.ClientRef, Status: Open, OpenedAt: f.Now(), ExpiresAt: e.ExpiresAt,
	}
}

// Delivered is context.delivered: at least one item was handed to an HTTP response
// (S-006, G-33).
type Delivered struct{ Call }

// EventType names the event.
func (Delivered) EventType() string { return "context.delivered" }

// Apply folds the event.
func (e Delivered) Apply(f *machine.Fold[State]) {
	call(f, &e.Call)
	f.Must(e.Call.Delivers(), "delivery", "a delivery hands out at least one item, by compass, resolve, find or why")
	f.State().Deliveries++
}

// Answered is context.answered: a call that handed out no item, or by a tool that never
// does.
type Answered struct{ Call }

// EventType names the event.
func (Answered) EventType() string { return "context.answered" }

// Apply folds the event.
func (e Answered) Apply(f *machine.Fold[State]) {
	call(f, &e.Call)
	f.Must(!e.Call.Delivers(), "no-delivery", "a call that hands out an item is a delivery")
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

// Apply folds the event.
func (e Observed) Apply(f *machine.Fold[State]) {
	open(f)
	f.Must(e.Event == PreToolUse && IsTool(e.Tool) && IsToolUseID(e.ToolUseID) && e.Class == ClassObserved, "observation", "an observation is a bounded pre_tool_use of an mcp__seif__ tool")
	f.Must(f.State().Observations < MaxObservations, "observations", "a turn has at most 200 observations")
	f.State().Observations++
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

// Apply folds the event.
func (e Complete) Apply(f *machine.Fold[State]) {
	s := f.State()
	open(f)
	f.Must(e.State != "" && e.State == ended(e.Reported, s.Deliveries), "state", "the state follows from what was reported and what was delivered")
	f.Must(e.Deliveries == s.Deliveries && e.Observations == s.Observations, "counts", "the counts are those of the turn")
	f.Must(e.Class == ClassReported, "class", "a completion is reported, not observed")
	brief(f, e.Note, MaxNote)
	at := f.Now()
	s.Status, s.Reported, s.CompletedAt, s.Note = e.State, e.Reported, &at, e.Note
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

// Apply folds the event.
func (Expiry) Apply(f *machine.Fold[State]) {
	s := f.State()
	f.Must(s.Status == Open && f.Now() >= s.ExpiresAt, "expired", "an open turn expires at its end, not before")
	s.Status = Expired
}

// Late is contextturn.late: a first completion that came after expiry. It changes the
// count and nothing else (G-31).
type Late struct {
	Reported string `json:"reported"`
}

// EventType names the event.
func (Late) EventType() string { return "contextturn.late" }

// Apply folds the event.
func (e Late) Apply(f *machine.Fold[State]) {
	s := f.State()
	f.Must(s.Status == Expired, "late", "a late report is of a turn that has expired")
	f.Must(ended(e.Reported, 0) != "", "late-status", "it reports completed, cancelled or failed")
	f.Must(s.LateReports < MaxLateReports, "late-reports", "at most a hundred late reports are counted")
	s.LateReports++
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

// Apply folds the event.
func (e Recorded) Apply(f *machine.Fold[Single[Interaction]]) {
	identified(f, e.Subject, "int_")
	bound(f, e.Project, e.Environment, IsID("cli_", e.Client) || IsID("shr_", e.Client))
	f.Must(e.Profile != "", "profile", "a client is bound to a profile")
	f.Must(e.Call.InteractionID == e.Subject.ID, "interaction", "the chain is of its one call")
	form(f, &e.Call, e.Environment)
	f.Start(e.Subject, true)
	f.State().Of = Interaction{Machine: Machine, ID: e.Subject.ID, Project: e.Project, Client: e.Client, Profile: e.Profile, Environment: e.Environment, At: f.Now(), Call: e.Call}
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

// Apply folds the event.
func (e Bridged) Apply(f *machine.Fold[Single[Receipt]]) {
	identified(f, e.Subject, "brg_")
	bound(f, e.Project, e.Environment, IsID("cli_", e.Client))
	f.Must(slices.Contains(BridgeKinds, e.Seen.Kind) && canon.IsHash(e.Seen.Digest), "seen", "a bridge reports a file, process or HTTP transition with its digest")
	f.Must(e.Class == ClassBridge, "class", "what a bridge reports is bridge-observed")
	f.Start(e.Subject, true)
	f.State().Of = Receipt{Machine: Machine, ID: e.Subject.ID, Project: e.Project, Client: e.Client, Environment: e.Environment, At: f.Now(), Seen: e.Seen}
}

// identified requires an id of the kind.
func identified[S any](f *machine.Fold[S], s evidence.Subject, prefix string) {
	f.Must(IsID(prefix, s.ID), "subject", "the id of the subject is not one of its kind")
}

// bound requires a client that is bound to an environment of a project. named says
// whether it is one that the chain may be about: a shared token names no single invoker.
func bound[S any](f *machine.Fold[S], project, environment string, named bool) {
	f.Must(IsID("prj_", project) && named && (environment == "production" || environment == "staging"), "client", "a client is bound to an environment of a project")
}

// open requires a turn that takes something.
func open(f *machine.Fold[State]) {
	f.Must(f.State().Status == Open && f.Now() < f.State().ExpiresAt, "closed", "a turn that has ended receives nothing")
}

// call is one more call in an open turn.
func call(f *machine.Fold[State], c *Call) {
	s := f.State()
	open(f)
	f.Must(IsID("int_", c.InteractionID), "interaction", "an interaction has an id")
	f.Must(s.Calls < MaxCalls, "calls", "a turn has at most 100 context calls")
	form(f, c, s.Environment)
	s.Calls++
}

// form requires a call that a tool can come to.
func form[S any](f *machine.Fold[S], c *Call, environment string) {
	f.Must(slices.Contains(Tools, c.Tool), "tool", "there are seven tools")
	most := MaxItems // find, and why of an interaction; whether why was asked of one, evidence does not say plainly
	switch c.Tool {
	case Compass:
		most = MaxCompass
	case Resolve:
		most = 1
	}
	f.Must(len(c.Items) <= most, "items", "a call hands out at most 20 items, compass 5 and resolve one")
	f.Must(len(c.Items) == 0 || c.Delivers(), "items-tool", "compass, resolve, find and why hand out items, and no other tool")
	refs := map[string]bool{}
	for _, i := range c.Items {
		f.Must(!refs[i.Ref], "item-twice", "a call hands out an item once")
		refs[i.Ref] = true
		f.Must(i.Ref != "" && canon.IsHash(i.SHA256), "item", "an item has a reference and a digest")
	}
	f.Must(c.Build != nil || len(c.Items) == 0 && slices.Contains([]string{Why, ReportGap, Doctor}, c.Tool), "build", "what is handed out, and what was looked into, is a Build or draft")
	if b := c.Build; b != nil {
		f.Must(b.Environment == environment && canon.IsHash(b.Digest) && b.Draft == (b.Number == 0) && b.Number >= 0 && !(b.Draft && environment != "staging"), "build", "a Build has a number, a draft exists in staging")
	}
	known := c.Verdict != nil && slices.Contains([]string{Covered, Partial, Gap, Conflict}, *c.Verdict)
	f.Must((c.Tool == Compass) == known && (c.Verdict == nil) == !known, "verdict", "compass has a verdict, and no other tool")
	f.Must(!known || (*c.Verdict == Gap) == (len(c.Items) == 0), "verdict-gap", "the verdict is gap exactly when there is no item")
	f.Must(!known || *c.Verdict != Conflict || len(c.Items) >= 2, "verdict-conflict", "no item is in conflict alone")
	f.Must((c.Tool == ReportGap) == (c.Gap != nil) && (c.Gap == nil || IsID("gap_", *c.Gap)), "gap", "report-gap names a gap, and no other tool")
}

// brief requires a label within its bound. Its characters cannot be counted when the text
// is erased; one has at most four bytes.
func brief(f *machine.Fold[State], c *evidence.Commitment, most int) {
	f.Must(c == nil || c.Length <= 4*most, "length", "a label is bounded")
}
