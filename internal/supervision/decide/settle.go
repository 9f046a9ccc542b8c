package decide

import (
	"countersign/internal/authority"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// settle writes what time alone has brought about: dead leases and expiries.
// Authority never depends on it, since every rule compares with now.
func (d *Deciding) settle(leaseAlive bool) {
	s := d.s
	if s.Lease != nil && (d.now >= s.Lease.Until || !leaseAlive) {
		d.endLease()
	}
	if p := s.Permit; p != nil && !p.Live(d.now) {
		d.expirePermit()
	}
	if p := s.Proposal; p != nil && !p.Live(d.now) && !s.Terminal() && s.Lease == nil {
		d.voidProposal("expired")
	}
	d.outOfGrants()
}

// outOfGrants stops a run that is ready and has no live grant.
func (d *Deciding) outOfGrants() {
	if d.s.Status == run.StatusReady && d.now >= d.s.StopsAt() {
		d.pause(authority.GrantExpired, stopcontext.SourceRuntime)
	}
}

// endLease turns an attempt whose holder is gone into its honest end.
func (d *Deciding) endLease() {
	s := d.s
	if s.Status == run.StatusCreated {
		reason := authority.HostedUnreachable
		if s.Hosted.Phase == run.SessionDispatched {
			reason = authority.DispatchUnconfirmed
			d.emit(&run.HostedSessionEvent{Phase: run.SessionFailed, ExecutionID: s.Hosted.ExecutionID, SessionID: s.Hosted.ID, EffectDigest: s.Hosted.EffectHash, ReasonCode: &reason})
		}
		d.emit(&run.Failed{Stop: *s.NewStop(reason, stopcontext.SourceRuntime, d.fresh.ID())})
		return
	}
	if s.Opening() { // of a run that has ended meanwhile
		reason := authority.DispatchUnconfirmed
		d.emit(&run.HostedSessionEvent{Phase: run.SessionFailed, ExecutionID: s.Hosted.ExecutionID, SessionID: s.Hosted.ID, EffectDigest: s.Hosted.EffectHash, ReasonCode: &reason})
		return
	}
	switch x := s.Execution; {
	case s.Asked != nil: // nothing was dispatched
		d.attempt = s.Asked.AttemptID
		d.pause(authority.ProviderTimeout, stopcontext.SourceRuntime)
	case x.State == run.ExecutionDispatched && x.Dispatch != nil:
		d.unconfirmed("lease_expired")
	case x.State == run.ExecutionDispatched:
		d.notApplied(x, "lease_expired")
	case s.Status == run.StatusRunning:
		d.emit(&run.Resumed{Cause: "lease_expired"})
	}
}

// expirePermit ends the live permit, whose time is over. A managed run stops when that
// was before it was used; a direct one stays ready (L-11).
func (d *Deciding) expirePermit() {
	p := d.s.Permit
	d.emit(&run.PermitExpired{PermitID: p.ID})
	d.fate(Fate{PermitID: p.ID, Fate: FateExpired})
	if d.s.Status != run.StatusReady || !d.s.Managed(p.Bindings.TurnID) {
		return
	}
	d.attempt = *d.s.Turn.AttemptID
	if d.now >= d.s.GrantsEnd() {
		d.pause(authority.GrantExpired, stopcontext.SourceRuntime)
		return
	}
	d.pause(authority.PermitExpired, stopcontext.SourceRuntime)
}
