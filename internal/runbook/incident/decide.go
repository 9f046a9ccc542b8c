package incident

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/machine"
)

// Request is what is asked of a session.
type Request struct {
	Operation string
	Channel   string // as the caller says
	Input     Input
}

// Problem says what is wrong with the form of the request, naming the member, or "". Only
// a request without a problem may be decided.
func (r *Request) Problem() string {
	switch {
	case !slices.Contains(Operations, r.Operation):
		return "operation: want snapshot, compare, stage, approve, execute or reset"
	case !slices.Contains(Channels, r.Channel):
		return "channel: want human, webmcp, simulator or api"
	}
	return r.Input.problem(r.Operation)
}

// Deciding is one decision about one request. It is used once.
type Deciding struct {
	*machine.Deciding[Session]
	subject evidence.Subject
	id      string
}

// Begin starts a decision in s, which it changes. s is [New] for a session that begins;
// subject names workspace and issuer, id the session.
func Begin(s *Session, subject evidence.Subject, id string, now evidence.Time, seed [32]byte) *Deciding {
	return &Deciding{machine.Begin(&definition, s, now, seed), subject, id}
}

// Do decides the request. The receipt is nil when the refusal leaves none.
func (d *Deciding) Do(r Request, seen Seen) (*Receipt, *authority.Denial) {
	s := d.State()
	e := &Receipt{Session: d.id, Operation: r.Operation, Channel: r.Channel, Input: r.Input, Outcome: Success}
	if s.Machine == 0 {
		subject := d.Subject(d.subject, d.id)
		e.Subject = &subject
	}
	var denial *authority.Denial
	if s.Events >= MaxReceipts {
		return nil, noRoom(nil)
	}
	if seen.Record == nil {
		denial = s.judge(r.Operation, r.Channel, r.Input, d.Now(), seen)
	}
	switch x := seen.Record; {
	case denial != nil && !LeavesReceipt(denial.Reason):
		return nil, denial
	case denial != nil:
		e.Event, e.Outcome, e.Detail, e.Result.ReasonCode = EventBlocked, Blocked, denial.Detail, &denial.Reason
		if denial.Reason == InvalidMitigation {
			e.Outcome = Error
		}
	case x != nil:
		e.Event, e.Outcome, e.Result.Execution = EventReplayed, x.Outcome, x
	default:
		d.allow(e, seen)
	}
	if s.Events >= room(e.Event) {
		return nil, noRoom(denial)
	}
	// Fold a copy of what it comes to: the receipt is completed before it is one.
	e = e.come(s.copied(d.id), d.Now())
	d.Emit(e)
	return e, denial
}

// allow fills in what only the decision knows: names, and whether a fault is injected.
func (d *Deciding) allow(e *Receipt, seen Seen) {
	s := d.State()
	switch e.Operation {
	case Snapshot:
		e.Event = EventRead
	case Compare:
		e.Event = EventCompared
	case Stage:
		e.Event, e.Result.Staged = EventStaged, &Staged{ProposalID: d.Fresh().ID()}
	case Approve:
		e.Event, e.Result.Approval = EventRepeated, s.Approval
		if s.Approval == nil || !s.Approval.Live(d.Now()) {
			e.Event, e.Result.Approval = EventApproved, &Approval{Grant: authority.Grant{ID: d.Fresh().ID()}}
		}
	case Execute:
		e.Event, e.Result.Execution = EventExecuted, &Execution{ID: d.Fresh().ID()}
		if seen.Partial {
			e.Outcome = PartialFailure
		}
	case Reset:
		e.Event = EventReset
	}
}

// copied is a session to try what a receipt comes to.
func (s *Session) copied(id string) *Session {
	c := *s
	c.ID = id
	return &c
}

// come folds what the receipt stands for into s and returns the receipt as it has to be:
// only the request, the names and the outcome are taken from e.
func (e *Receipt) come(s *Session, now evidence.Time) *Receipt {
	out := &Receipt{
		Subject: e.Subject, Session: s.ID, Event: e.Event, Operation: e.Operation, Channel: e.Channel, Identity: Identity(s.ID), Input: e.Input, Outcome: e.Outcome,
		Result: Result{ReasonCode: e.Result.ReasonCode, Compared: []string{}}, Detail: e.Detail, ActionDigest: e.Input.ActionDigest,
	}
	if tool := ToolOf(e.Operation); tool != "" {
		out.Tool = &tool
	}
	switch e.Event {
	case EventRead:
		out.Detail = "The incident was read."
	case EventCompared:
		out.Result.Compared, out.Detail = compared(e.Input.MitigationID), "The mitigations were compared."
	case EventStaged:
		out.Result.Staged = s.stage(e.Result.Staged, *e.Input.MitigationID, now)
		out.ActionDigest, out.Detail = &out.Result.Staged.Digest, "The mitigation is staged and waits for an approval."
	case EventApproved:
		out.Result.Approval = s.approve(e.Result.Approval, now)
		out.Detail = "Exactly this action is approved for one use, through the form of the page. That a person pressed the button is not proved."
	case EventRepeated:
		out.Result.Approval, out.Detail = s.Approval, "The approval is still active; the same record is returned."
	case EventExecuted:
		out.Result.Execution = s.execute(e.Result.Execution, e.Outcome, now)
		out.Detail = executed(out.Result.Execution)
	case EventReplayed:
		out.Result.Execution, out.Detail = e.Result.Execution, "This execution was stored before: the same record is returned, and nothing was applied."
	case EventReset:
		s.Status, s.Metrics, s.Staged, s.Approval = Investigating, TheIncident.Baseline, nil, nil
		s.Version++
		out.Detail = "The simulation is back at its beginning; its receipts stay."
	}
	out.Result.Status, out.Result.Metrics, out.ResourceVersion = s.Status, s.Metrics, s.Version
	if x := out.Result.Execution; e.Event == EventReplayed && x != nil {
		out.Result.Status, out.Result.Metrics = x.Status, x.After // the stored result, whatever has become of the incident since
	}
	return out
}

func compared(focus *string) []string {
	if focus != nil {
		return []string{*focus}
	}
	all := []string{}
	for _, m := range Catalog {
		all = append(all, m.ID)
	}
	return all
}

// stage takes the place of whatever was staged, and of its approval.
func (s *Session) stage(named *Staged, mitigationID string, now evidence.Time) *Staged {
	s.Version++
	digest := Digest(mitigationID, s.Version)
	s.Staged = &Staged{ProposalID: nameOf(named), MitigationID: mitigationID, Version: s.Version, Digest: digest, IdempotencyKey: Key(s.ID, digest), StagedAt: now}
	s.Status, s.Approval = AwaitingApproval, nil
	return s.Staged
}

func nameOf(named *Staged) string {
	if named == nil {
		return ""
	}
	return named.ProposalID
}

// approve makes the exact grant of what is staged: one use within five minutes. What was
// approved before has ended.
func (s *Session) approve(named *Approval, now evidence.Time) *Approval {
	id, tool, staged := "", ToolOf(Execute), s.Staged
	if named != nil {
		id = named.Grant.ID
	}
	digest, proposal := staged.Digest, staged.ProposalID
	s.Approval = &Approval{
		Grant: authority.Grant{
			ID: id, Kind: authority.KindExact, Operations: []string{tool}, OnApproval: []string{}, Constraints: []authority.Constraint{}, MaxUses: map[string]int64{tool: 1},
			ExpiresAt: now.Add(ApprovalLife), ProposalID: &proposal, EffectDigest: &digest,
		},
		Used: authority.Usage{}, Session: s.ID, IncidentID: TheIncident.ID, MitigationID: staged.MitigationID, Version: staged.Version, Arrival: ArrivalPageForm, ApprovedAt: now,
	}
	s.Approvals++
	return s.Approval
}

// execute applies what is staged, whose approval it uses up. In part means that nobody
// knows what became of it: the measures stay as they were last seen.
func (s *Session) execute(named *Execution, outcome string, now evidence.Time) *Execution {
	m, _ := MitigationOf(s.Staged.MitigationID)
	x := &Execution{
		MitigationID: m.ID, Digest: s.Staged.Digest, Version: s.Staged.Version, IdempotencyKey: s.Staged.IdempotencyKey, ApprovalID: s.Approval.Grant.ID,
		Outcome: outcome, Status: Monitoring, Before: s.Metrics, After: m.Projected, ExecutedAt: now,
	}
	if named != nil {
		x.ID = named.ID
	}
	switch {
	case outcome == PartialFailure:
		x.Status, x.After = RecoveryRequired, x.Before
	case x.After.Meet(TheIncident.Targets):
		x.Status = Mitigated
	}
	used := *s.Approval
	used.Used, used.ConsumedAt = authority.Usage{ToolOf(Execute): 1}, &now
	s.Approval, s.Execution = &used, x
	s.Status, s.Metrics = x.Status, x.After
	s.Version++
	s.Executions++
	return x
}

func executed(x *Execution) string {
	switch x.Status {
	case RecoveryRequired:
		return "The mitigation was applied in part; recovery is required."
	case Monitoring:
		return "The mitigation was applied once; a target is missed."
	}
	return "The mitigation was applied once; every target is met."
}
