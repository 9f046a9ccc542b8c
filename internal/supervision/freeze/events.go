package freeze

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

// Opened is workspace.opened, the beginning of the chain. It comes with the first
// freeze.
type Opened struct {
	Subject evidence.Subject `json:"subject"`
}

// EventType names the event.
func (Opened) EventType() string { return "workspace.opened" }

func (e Opened) apply(f *fold) {
	s := e.Subject
	f.must(s.Format == evidence.Format && s.Kind == Kind && s.Machine == Machine && s.ID == s.Workspace, "subject", "the subject is not a workspace of this machine")
	*f.s = State{Machine: Machine, ID: s.ID, CreatedAt: f.now}
}

// Frozen is workspace.frozen: from its commit on nothing is issued, claimed or
// dispatched.
type Frozen struct {
	Epoch   int64               `json:"epoch"` // counts freezes, from 1
	Reason  evidence.Commitment `json:"reason"`
	By      string              `json:"by"`
	Session string              `json:"session"` // the hash that names the owner's session
}

// EventType names the event.
func (Frozen) EventType() string { return "workspace.frozen" }

func (e Frozen) apply(f *fold) {
	f.must(f.s.Frozen == nil, "frozen-twice", "the workspace is frozen already")
	f.must(e.Epoch == f.s.Epoch+1, "epoch", "a freeze has the next number")
	f.reasoned(e.Reason)
	f.owned(e.By, e.Session)
	f.s.Epoch, f.s.Turned, f.s.Lifted = e.Epoch, f.id, nil
	f.s.Frozen = &Freeze{Since: f.now, Reason: e.Reason, Session: e.Session}
}

// InFlight is workspace.inflight: what was without an outcome when the freeze was stored,
// and still was when it was listed right after.
type InFlight struct {
	Epoch      int64    `json:"epoch"`
	Executions []Intent `json:"executions"` // the first of Count
	Count      int64    `json:"count"`
}

// EventType names the event.
func (InFlight) EventType() string { return "workspace.inflight" }

func (e InFlight) apply(f *fold) {
	if !f.must(f.s.Frozen != nil && e.Epoch == f.s.Epoch, "inflight-freeze", "the list is of the freeze that stands") {
		return
	}
	f.must(f.s.Frozen.Open == nil, "inflight-twice", "a freeze has one list")
	n := int64(len(e.Executions))
	f.must(n == min(e.Count, MaxOpen), "inflight-count", "the list names the first hundred and counts all")
	seen := map[string]bool{}
	for _, x := range e.Executions {
		known := x.State == run.ExecutionDispatched || x.State == run.ExecutionUnconfirmed
		f.must(authority.IsID(x.ExecutionID) && authority.IsID(x.RunID) && known && !seen[x.ExecutionID], "inflight-intent", "an intent without an outcome is named once, with its run")
		seen[x.ExecutionID] = true
	}
	f.s.Frozen.Open = &Open{e.Executions, e.Count}
}

// Unfrozen is workspace.unfrozen: the freeze of that number is lifted.
type Unfrozen struct {
	Epoch   int64               `json:"epoch"`
	Reason  evidence.Commitment `json:"reason"`
	By      string              `json:"by"`
	Session string              `json:"session"` // the hash that names the owner's session
}

// EventType names the event.
func (Unfrozen) EventType() string { return "workspace.unfrozen" }

func (e Unfrozen) apply(f *fold) {
	f.must(f.s.Frozen != nil, "unfrozen-open", "the workspace is not frozen")
	f.must(e.Epoch == f.s.Epoch, "epoch", "the freeze that is lifted is the one that stands")
	f.reasoned(e.Reason)
	f.owned(e.By, e.Session)
	if f.s.Frozen != nil {
		ended := *f.s.Frozen
		ended.Open = nil
		f.s.Lifted = &Lifted{Freeze: ended, Until: f.now, Reason: e.Reason, By: e.Session}
	}
	f.s.Turned, f.s.Frozen = f.id, nil
}

// events are empty events of every type.
func events() []Event { return []Event{&Opened{}, &Frozen{}, &InFlight{}, &Unfrozen{}} }

// EventTypes lists the types of events, sorted.
func EventTypes() (list []string) {
	for _, e := range events() {
		list = append(list, e.EventType())
	}
	slices.Sort(list)
	return list
}

// fold is the application of events to a state.
type fold struct {
	s        *State
	now      evidence.Time
	id       string
	sequence int64
	unlawful []run.Unlawful
}

// take folds e as the event after the newest.
func (f *fold) take(e Event) {
	_, opened := e.(*Opened)
	if !f.must(opened == (f.sequence == 1) && opened == (f.s.Machine == 0), "first-event", "workspace.opened stands exactly at the beginning") && opened {
		return // it would wipe out what the chain has come to
	}
	f.must(f.now >= f.s.UpdatedAt, "time-order", "the event is older than the one before it")
	e.apply(f)
	f.s.Events, f.s.UpdatedAt = f.sequence, f.now
}

// reasoned requires a reason. Its characters cannot be counted when the text is erased;
// one has at most four bytes.
func (f *fold) reasoned(c evidence.Commitment) {
	f.must(c.Length >= 1 && c.Length <= 4*MaxReason, "reason", "a freeze and its end have a reason of 1 to 500 characters")
}

// owned requires an owner, in a session that is named.
func (f *fold) owned(by, session string) {
	f.must(by == "owner" && canon.IsHash(session), "by", "only an owner freezes and unfreezes, in a session that is named")
}

// must records a broken rule and returns lawful. Folding goes on, so that one unlawful
// event does not hide the next.
func (f *fold) must(lawful bool, rule, detail string) bool {
	if !lawful {
		f.unlawful = append(f.unlawful, run.Unlawful{Rule: rule, Detail: detail, Sequence: f.sequence, EventID: f.id})
	}
	return lawful
}
