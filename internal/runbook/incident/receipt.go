package incident

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/machine"
)

// Receipt is incident.receipt, the one type of event of a session's chain: what was asked,
// through which channel, and what it came to. The hash of the event covers
// all of it, with the hash of the receipt before and the time.
type Receipt struct {
	Subject         *evidence.Subject `json:"subject"` // of the first receipt, which begins the chain; else nil
	Session         string            `json:"session"`
	Event           string            `json:"event"`
	Operation       string            `json:"operation"`
	Tool            *string           `json:"tool"`    // nil of approve, which is no tool
	Channel         string            `json:"channel"` // as the caller says
	Identity        string            `json:"identity"`
	Input           Input             `json:"input"`
	Result          Result            `json:"result"`
	Outcome         string            `json:"outcome"`
	Detail          string            `json:"detail"`
	ActionDigest    *string           `json:"actionDigest"`    // of the action that it is about; nil of none
	ResourceVersion int64             `json:"resourceVersion"` // after it
}

// Input is what was asked, without the nonce of an approval. Members that the operation
// does not take are nil.
type Input struct {
	MitigationID    *string `json:"mitigationId"`
	ExpectedVersion *int64  `json:"expectedVersion"`
	ActionDigest    *string `json:"actionDigest"`
	ResourceVersion *int64  `json:"resourceVersion"`
	IdempotencyKey  *string `json:"idempotencyKey"`
}

// Result is what a request came to. Members that do not apply are nil.
type Result struct {
	ReasonCode *string    `json:"reasonCode"` // why it was blocked
	Status     string     `json:"status"`     // of the incident after it; of a replay as the record says
	Metrics    Metrics    `json:"metrics"`    // as Status
	Compared   []string   `json:"compared"`   // mitigations that were compared
	Staged     *Staged    `json:"staged"`     // of stage
	Approval   *Approval  `json:"approval"`   // of approve
	Execution  *Execution `json:"execution"`  // of execute; of a replay the record of the first
}

// EventType names the event.
func (Receipt) EventType() string { return "incident.receipt" }

// outcomes are the outcomes that a receipt may have, by what it tells.
var outcomes = map[string][]string{
	EventRead: {Success}, EventCompared: {Success}, EventStaged: {Success}, EventApproved: {Success}, EventRepeated: {Success},
	EventExecuted: {Success, PartialFailure}, EventReplayed: {Success, PartialFailure}, EventReset: {Success}, EventBlocked: {Blocked, Error},
}

// of are the operations that receipts tell of, by what they tell.
var of = map[string]string{
	EventRead: Snapshot, EventCompared: Compare, EventStaged: Stage, EventApproved: Approve, EventRepeated: Approve, EventExecuted: Execute, EventReplayed: Execute, EventReset: Reset,
}

// Apply folds the receipt into the session. What was decided is decided again: by the same
// rules, from the session as it stood and what the receipt says was asked.
func (e *Receipt) Apply(f *machine.Fold[Session]) {
	s := f.State()
	if e.Subject != nil {
		*s = *New()
		f.Start(*e.Subject, IsSessionID(e.Subject.ID, f.Now()))
	}
	if !e.form(f) {
		return
	}
	f.Must(s.Events < room(e.Event), "receipt-room", "the last places of a chain are spared for approvals, executions, exact retries and resets")
	denial := s.judge(e.Operation, e.Channel, e.Input, f.Now(), e.seen())
	switch {
	case e.Event == EventBlocked:
		f.Must(denial != nil && denial.Reason == *e.Result.ReasonCode, "blocked", "a receipt says blocked for a reason that there was not")
		f.Must(denial == nil || denial.Detail == e.Detail, "blocked-detail", "a blocked receipt tells its reason in one sentence")
		f.Must(LeavesReceipt(*e.Result.ReasonCode), "blocked-silent", "what lost to another version leaves no receipt")
		f.Must((e.Outcome == Error) == (*e.Result.ReasonCode == InvalidMitigation), "blocked-outcome", "what names no mitigation is an error, and everything else is blocked")
	case e.Event == EventReplayed:
		x := e.Result.Execution
		f.Must(x != nil && x.IdempotencyKey == *e.Input.IdempotencyKey && x.Digest == *e.Input.ActionDigest && x.Version == *e.Input.ResourceVersion, "replayed", "an exact retry gets the record of its own key, digest and version")
		f.Must(x != nil && x.Outcome == e.Outcome, "replayed-outcome", "a replay has the outcome of the first")
	case !f.Must(denial == nil, "allowed", "a request was let through that the session refuses"):
		return
	}
	f.Must(e.Event != EventApproved && e.Event != EventRepeated || (e.Event == EventRepeated) == (s.Approval != nil && s.Approval.Live(f.Now())), "approval-again", "an approval that lives is told again, and a new one takes the place of one that does not")
	name, makes := e.made()
	f.Must(!makes || authority.IsID(name), "name", "what a decision makes has a name")
	want := e.come(s, f.Now())
	f.Must(same(want, e), "receipt", "the receipt does not tell what the request came to")
}

// seen is what must have been looked up for the receipt to be lawful: evidence does not
// hold it. Another session's key is none that this session would be given.
func (e *Receipt) seen() Seen {
	reason := ""
	if e.Result.ReasonCode != nil {
		reason = *e.Result.ReasonCode
	}
	return Seen{
		Form: e.Operation == Approve && reason != ApprovalRequired, Conflict: reason == IdempotencyConflict, Frozen: reason == authority.Frozen,
		Foreign: e.Operation == Execute && reason == IdentityMismatch && *e.Input.IdempotencyKey != Key(e.Session, *e.Input.ActionDigest),
	}
}

// form requires the members that every receipt has, so that the rest can be read.
func (e *Receipt) form(f *machine.Fold[Session]) bool {
	s := f.State()
	ok := f.Must(e.Session == s.ID && s.Machine != 0, "session", "a receipt is of the session whose chain it is in")
	ok = f.Must(slices.Contains(Operations, e.Operation) && slices.Contains(Channels, e.Channel), "request", "a receipt names one of six operations and one of four channels") && ok
	ok = f.Must(e.Input.problem(e.Operation) == "", "input", "the members of the request are not those of its operation") && ok
	ok = f.Must(slices.Contains(outcomes[e.Event], e.Outcome) && (e.Event == EventBlocked || of[e.Event] == e.Operation), "event", "what a receipt tells, what was asked and the outcome do not go together") && ok
	return f.Must((e.Event == EventBlocked) == (e.Result.ReasonCode != nil), "reason", "what was blocked has a reason, and nothing else has") && ok
}

// made returns the name that the receipt gives to what it made, and whether it made
// anything that has one.
func (e *Receipt) made() (name string, makes bool) {
	switch {
	case e.Event == EventStaged && e.Result.Staged != nil:
		name = e.Result.Staged.ProposalID
	case e.Event == EventApproved && e.Result.Approval != nil:
		name = e.Result.Approval.Grant.ID
	case e.Event == EventExecuted && e.Result.Execution != nil:
		name = e.Result.Execution.ID
	}
	return name, e.Event == EventStaged || e.Event == EventApproved || e.Event == EventExecuted
}

// same reports whether two receipts say the same, but for the members that only the
// decision knows.
func same(a, b *Receipt) bool {
	return string(canon.MustMarshal(a)) == string(canon.MustMarshal(b))
}
