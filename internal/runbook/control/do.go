package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/runbook/incident"
)

// Answer is what a request came to. With a denial it tells the receipt of the refusal, if
// it left one. With [ErrUnknown] it has the cookie alone, when a session may have begun.
type Answer struct {
	Cookie   string          // to be set; "" when the request came with it
	Replayed bool            // an earlier request with the same key is answered again
	Receipt  *evidence.Event // nil: it left none
	Result   incident.Result // of the receipt; zero without one
	Snapshot *Snapshot       // as it is after the request; nil with [ErrUnknown]
}

// attempt is one request while it is decided, over all tries.
type attempt struct {
	request  incident.Request
	nonce    string
	session  string // its id
	opening  *opening
	tried    bool
	version  int64 // when it was first read
	receipt  *evidence.Event
	result   incident.Result
	denial   *authority.Denial
	replayed bool
}

// Do decides a request, whose form was checked, and commits what it comes to. remote is the
// address that a new session is counted for; nonce is the form's, of an approval.
func (p *Plane) Do(ctx context.Context, cookie, remote string, r incident.Request, nonce string) (*Answer, error) {
	a := &attempt{request: r, nonce: nonce}
	h, err := p.session(ctx, cookie)
	if err != nil {
		return nil, err
	}
	if h != nil {
		a.session = h.subject.ID
	} else {
		if a.opening, err = p.open(ctx, remote); err != nil {
			return nil, err
		}
		a.session = a.opening.id
	}
	if p.Without != "line" {
		leave, err := p.lines.Enter(ctx, a.session)
		if err != nil {
			return nil, unavailable(err)
		}
		defer leave()
	}
	switch err := p.decide(ctx, a); {
	case errors.Is(err, errEnded): // while it waited: it is another session's, as if it came now
		return p.Do(ctx, "", remote, r, nonce)
	case err != nil:
		return a.untold(err), err
	}
	out := &Answer{Receipt: a.receipt, Result: a.result, Replayed: a.replayed}
	if a.opening != nil && a.receipt != nil {
		out.Cookie = a.opening.cookie
	}
	if err = p.fault(FaultStored); err == nil {
		out.Snapshot, err = p.after(ctx, a)
	}
	switch {
	case err != nil && a.receipt != nil: // stored, and not told: whatever it is, it is not that nothing was stored
		err = fmt.Errorf("%w: %s", ErrUnknown, err.Error())
		return a.untold(err), err
	case err != nil:
		return nil, err
	}
	if a.denial != nil {
		return out, a.denial
	}
	return out, nil
}

// untold is the answer to a request that may be stored and is not told: the cookie of the
// session that began with it, if one did. A cookie whose session was not stored is none.
func (a *attempt) untold(err error) *Answer {
	if a.opening == nil || !errors.Is(err, ErrUnknown) {
		return nil
	}
	return &Answer{Cookie: a.opening.cookie}
}

// decide decides the request until its race is not lost any more.
func (p *Plane) decide(ctx context.Context, a *attempt) error {
	tries := MaxTries + 1
	if a.request.Operation == incident.Snapshot || a.request.Operation == incident.Compare {
		tries = MaxReads + 1
	}
	result, err := ledger.Decide(ctx, p.Ledger, tries, func() (*ledger.Change, error) { return p.try(ctx, a) })
	switch {
	case err != nil:
		return err
	case result.Outcome == ledger.Stored:
		return nil
	case result.Outcome == ledger.Unknown:
		return fmt.Errorf("%w: %w", ErrUnknown, result.Cause)
	}
	a.receipt, a.result, a.replayed = nil, incident.Result{}, false
	if result.Outcome != ledger.Conflict {
		return unavailable(result.Cause)
	}
	reason := incident.ReceiptConflict
	if a.request.Operation == incident.Execute {
		reason = incident.ExecutionConflict
	}
	a.denial = &authority.Denial{Reason: reason, Detail: "Too many requests of this session at once; nothing was done."}
	return nil
}

// try reads the session and decides once.
func (p *Plane) try(ctx context.Context, a *attempt) (*ledger.Change, error) {
	a.receipt, a.result, a.denial, a.replayed = nil, incident.Result{}, nil, false
	h, err := p.read(ctx, a)
	if err != nil {
		return nil, err
	}
	seen, epoch, err := p.see(ctx, a, h)
	if err != nil {
		return nil, err
	}
	if a.denial = lost(a, h, seen); a.denial != nil {
		return nil, nil
	}
	d := incident.Begin(h.s, evidence.Subject{Workspace: p.Workspace, Issuer: p.Issuer}, a.session, h.now, ledger.Seed())
	end := ends(h)
	receipt, denial := d.Do(a.request, seen)
	a.denial = denial
	if receipt == nil {
		return nil, nil
	}
	t, err := d.Done()
	if err != nil {
		return nil, err
	}
	c, err := p.change(a, h, d, t.Drafts)
	if err != nil {
		return nil, err
	}
	if receipt.Event != incident.EventExecuted {
		end = d.State().CreatedAt.Add(incident.SessionLife)
	}
	if p.Without != "expiry" {
		c.NotAfter = end.Time()
	}
	switch receipt.Event {
	case incident.EventExecuted:
		x := receipt.Result.Execution
		c.Record = p.record(a, c.Writes[0], x)
		c.Fates = []ledger.Fate{{Workspace: p.Workspace, PermitID: x.ApprovalID, Subject: h.subject.Key, Fate: "claimed", Execution: x.ID}}
		c.Freezable, c.FreezeEpoch, c.Workspace = true, epoch, p.Workspace
	case incident.EventApproved:
		c.Freezable, c.FreezeEpoch, c.Workspace = true, epoch, p.Workspace
	}
	a.receipt, a.result, a.replayed = &c.Writes[0].Events[0], receipt.Result, receipt.Event == incident.EventReplayed
	return c, p.fault(FaultDecided)
}

// ends is when an execution comes too late: its approval has ended, or the session.
func ends(h *held) evidence.Time {
	end := h.s.CreatedAt.Add(incident.SessionLife)
	if a := h.s.Approval; a != nil {
		end = min(end, a.Grant.ExpiresAt)
	}
	return end
}

// read reads the session as it is now, or makes the one that begins.
func (p *Plane) read(ctx context.Context, a *attempt) (h *held, err error) {
	if o := a.opening; o != nil {
		h = &held{ledger.NewSubject(p.key(o.id)), incident.New(), o.at}
	} else if h, err = p.load(ctx, a.session); err != nil {
		return nil, err
	} else if p.Without != "expiry" && h.now >= h.s.CreatedAt.Add(incident.SessionLife) {
		return nil, errEnded
	}
	if a.tried {
		return h, nil
	}
	a.tried, a.version = true, h.s.Version
	return h, nil
}

// lost denies a request that lost its race to another version. An exact retry has lost
// nothing, nor has a key that was used before: the version does not matter to them (G-25).
func lost(a *attempt, h *held, seen incident.Seen) *authority.Denial {
	reason := map[string]string{incident.Stage: incident.StaleState, incident.Approve: incident.StaleApproval, incident.Execute: incident.StaleExecution, incident.Reset: incident.StaleReset}[a.request.Operation]
	if reason == "" || seen.Record != nil || seen.Conflict || h.s.Version == a.version {
		return nil
	}
	return &authority.Denial{Reason: reason, Detail: "Another request changed the incident first."}
}

// see looks up what is decided by beside the session.
func (p *Plane) see(ctx context.Context, a *attempt, h *held) (seen incident.Seen, epoch int64, err error) {
	in := a.request.Input
	switch a.request.Operation {
	case incident.Approve:
		seen.Form = p.Without == "form" || p.isForm(a.session, h.s, a.nonce, h.now)
	case incident.Execute:
		if err := p.earlier(ctx, a, &seen); err != nil || seen.Record != nil || seen.Conflict {
			return seen, 0, err
		}
		if *in.IdempotencyKey != incident.Key(a.session, *in.ActionDigest) {
			if seen.Foreign, err = p.foreign(ctx, a.session, *in.IdempotencyKey); err != nil {
				return seen, 0, err
			}
		}
		seen.Partial = p.Partial != nil && p.Partial()
	default:
		return seen, 0, nil
	}
	if seen.Frozen, epoch, err = p.Freeze(ctx); err != nil {
		return seen, 0, unavailable(err)
	}
	return seen, epoch, nil
}

// earlier looks up what the key came to before (G-25).
func (p *Plane) earlier(ctx context.Context, a *attempt, seen *incident.Seen) error {
	record, err := p.Ledger.Record(ctx, p.Workspace, a.session, *a.request.Input.IdempotencyKey)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil
	case err != nil:
		return unavailable(err)
	case record.Fingerprint != fingerprint(a.request.Input):
		seen.Conflict = true
		return nil
	}
	events, err := p.Ledger.Events(ctx, record.Subject, record.Sequence-1, 1)
	if err != nil {
		return unavailable(err)
	}
	if len(events) != 1 {
		return fmt.Errorf("incident: the receipt %d of %s is not stored", record.Sequence, record.Subject)
	}
	var receipt incident.Receipt
	if err := json.Unmarshal(events[0].Data, &receipt); err != nil || receipt.Result.Execution == nil {
		return fmt.Errorf("incident: the receipt %d of %s tells no execution: %w", record.Sequence, record.Subject, err)
	}
	seen.Record = receipt.Result.Execution
	return nil
}

// fingerprint names what an execution asks for.
func fingerprint(in incident.Input) string {
	return canon.Hash(canon.MustMarshal([]any{incident.Execute, *in.ActionDigest, *in.ResourceVersion}))
}

func (p *Plane) record(a *attempt, w ledger.Write, x *incident.Execution) *ledger.Record {
	return &ledger.Record{
		Workspace: p.Workspace, Principal: a.session, Key: x.IdempotencyKey, Fingerprint: fingerprint(a.request.Input), Subject: w.Key, Object: x.ID, Sequence: w.Events[0].Sequence,
	}
}

// change is the transition with its receipt.
func (p *Plane) change(a *attempt, h *held, d *incident.Deciding, drafts []evidence.Draft) (*ledger.Change, error) {
	s := d.State()
	state, err := canon.Marshal(s)
	if err != nil {
		return nil, err
	}
	events, err := evidence.Seal(p.Signing, a.session, h.subject.Link(), d.Now().Time(), drafts)
	if err != nil {
		return nil, err
	}
	w := ledger.Write{
		Key: h.subject.Key, Revision: h.subject.Revision, Head: h.subject.Head, State: state, Events: events,
	}
	if s.Staged != nil {
		w.Attributes = []ledger.Attribute{{Name: attributeKey, Value: s.Staged.IdempotencyKey}}
	}
	c := &ledger.Change{Writes: []ledger.Write{w}}
	if o := a.opening; o != nil {
		v, err := p.visit(o)
		if err != nil {
			return nil, err
		}
		c.Writes, c.Credentials = append(c.Writes, v), []ledger.Credential{o.credential}
	}
	return c, nil
}
