package freeze

import (
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/machine"
	"countersign/internal/supervision/state"
)

// Opened is workspace.opened, the beginning of the chain. It comes with the first
// freeze.
type Opened struct {
	Subject evidence.Subject `json:"subject"`
}

// EventType names the event.
func (Opened) EventType() string { return "workspace.opened" }

// Apply folds the event.
func (e Opened) Apply(f *machine.Fold[State]) {
	f.Must(e.Subject.ID == e.Subject.Workspace, "subject", "the subject is not a workspace of this machine")
	f.Start(e.Subject, true)
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

// Apply folds the event.
func (e Frozen) Apply(f *machine.Fold[State]) {
	s := f.State()
	f.Must(s.Frozen == nil, "frozen-twice", "the workspace is frozen already")
	f.Must(e.Epoch == s.Epoch+1, "epoch", "a freeze has the next number")
	reasoned(f, e.Reason)
	owned(f, e.By, e.Session)
	s.Epoch, s.Turned, s.Lifted = e.Epoch, f.ID(), nil
	s.Frozen = &Freeze{Since: f.Now(), Reason: e.Reason, Session: e.Session}
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

// Apply folds the event.
func (e InFlight) Apply(f *machine.Fold[State]) {
	s := f.State()
	if !f.Must(s.Frozen != nil && e.Epoch == s.Epoch, "inflight-freeze", "the list is of the freeze that stands") {
		return
	}
	f.Must(s.Frozen.Open == nil, "inflight-twice", "a freeze has one list")
	n := int64(len(e.Executions))
	f.Must(n == min(e.Count, MaxOpen), "inflight-count", "the list names the first hundred and counts all")
	seen := map[string]bool{}
	for _, x := range e.Executions {
		known := x.State == state.ExecutionDispatched || x.State == state.ExecutionUnconfirmed
		f.Must(authority.IsID(x.ExecutionID) && authority.IsID(x.RunID) && known && !seen[x.ExecutionID], "inflight-intent", "an intent without an outcome is named once, with its run")
		seen[x.ExecutionID] = true
	}
	s.Frozen.Open = &Open{e.Executions, e.Count}
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

// Apply folds the event.
func (e Unfrozen) Apply(f *machine.Fold[State]) {
	s := f.State()
	f.Must(s.Frozen != nil, "unfrozen-open", "the workspace is not frozen")
	f.Must(e.Epoch == s.Epoch, "epoch", "the freeze that is lifted is the one that stands")
	reasoned(f, e.Reason)
	owned(f, e.By, e.Session)
	if s.Frozen != nil {
		ended := *s.Frozen
		ended.Open = nil
		s.Lifted = &Lifted{Freeze: ended, Until: f.Now(), Reason: e.Reason, By: e.Session}
	}
	s.Turned, s.Frozen = f.ID(), nil
}

// reasoned requires a reason. Its characters cannot be counted when the text is erased;
// one has at most four bytes.
func reasoned(f *machine.Fold[State], c evidence.Commitment) {
	f.Must(c.Length >= 1 && c.Length <= 4*MaxReason, "reason", "a freeze and its end have a reason of 1 to 500 characters")
}

// owned requires an owner, in a session that is named.
func owned(f *machine.Fold[State], by, session string) {
	f.Must(by == "owner" && canon.IsHash(session), "by", "only an owner freezes and unfreezes, in a session that is named")
}
