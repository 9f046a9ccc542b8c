package decide

import (
	"encoding/json"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/money"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// Offer is a transaction that the service could commit now.
type Offer struct {
	OperationID string
	Destination string
	AmountCents money.Cents
	Currency    string
	ExpiresAt   *evidence.Time // the service's own end of the offer, if any
}

// Sighting is what was seen of the service.
type Sighting struct {
	State      json.RawMessage // canonical trusted state
	Offer      *Offer
	View       *string // body of the last read: untrusted content
	CapturedAt evidence.Time
}

// Plan names what the observation will be called, so that its catalog can be
// made before it is recorded.
type Plan struct {
	ObservationID string
	DocumentEpoch int64
	StateRevision int64
	ProposalID    *string
	state         string
	proposal      *run.Proposal // to prepare
}

// NeedsObservation reports whether GET /observation must take a new one: the
// newest one stands while epoch and stateRevision hold and it is under 30 s
// old, and always while a permit is live or a model is asked about it.
func (d *Deciding) NeedsObservation() bool {
	o := d.s.Observation
	switch {
	case o == nil:
		return true
	case d.s.Permit != nil, d.s.Asked != nil:
		return false
	}
	return o.DocumentEpoch != d.s.DocumentEpoch || o.StateRevision != d.s.StateRevision || d.now.Sub(o.CapturedAt) >= observationReuse
}

const observationReuse = 30e9 // nanoseconds

// CanObserve reports whether a new observation may be recorded now.
func (d *Deciding) CanObserve() *authority.Denial {
	switch {
	case d.s.Unresolved():
		return unresolved()
	case d.s.Asked != nil:
		return inProgress()
	case d.s.Status != run.StatusCreated && d.s.Status != run.StatusReady && d.s.Status != run.StatusRunning:
		return notReady(d.s)
	case d.full() && !d.awaitsVerification():
		return atLimit()
	}
	return nil
}

// awaitsVerification reports whether an applied execution still has to be seen: that
// is the end of what was begun, so it may use the reserve of events.
func (d *Deciding) awaitsVerification() bool {
	x := d.s.Execution
	return x != nil && x.State == run.ExecutionReceipted && !x.Owed
}

// Plan prepares the recording of a sighting. Any change of the trusted state
// voids the prepared proposal (G-07); an offer that has none gets a new one.
func (d *Deciding) Plan(s Sighting) Plan {
	p := Plan{ObservationID: d.fresh.ID(), DocumentEpoch: d.s.DocumentEpoch, StateRevision: d.s.StateRevision, state: authority.Digest(authority.DomainState, s.State)}
	moved := p.state != d.s.StateDigest
	if moved {
		p.StateRevision++
	}
	if s.Offer == nil {
		return p
	}
	if old := d.s.Proposal; old != nil && !moved && old.DocumentEpoch == d.s.DocumentEpoch && old.StateRevision == d.s.StateRevision && old.Live(d.now) {
		p.ProposalID = &old.ID
		return p
	}
	expires := d.now.Add(run.ProposalLife)
	if s.Offer.ExpiresAt != nil {
		expires = min(expires, *s.Offer.ExpiresAt)
	}
	if expires <= d.now {
		return p
	}
	p.proposal = &run.Proposal{
		ID: d.fresh.ID(), OperationID: s.Offer.OperationID, Destination: s.Offer.Destination, AmountCents: s.Offer.AmountCents,
		Currency: s.Offer.Currency, TermsDigest: d.s.TermsDigest, StateRevision: p.StateRevision, DocumentEpoch: p.DocumentEpoch, ExpiresAt: expires,
	}
	p.ProposalID = &p.proposal.ID
	return p
}

// Observe records a sighting with its catalog and completes the run when that
// was the last thing to see. seen holds the promised postconditions of a
// receipted execution and is nil when none waits for verification. A permit that
// was live until now rests on the former observation and is revoked.
func (d *Deciding) Observe(p Plan, s Sighting, catalog []propose.Entry, seen []run.Postcondition) {
	d.revokePermit(run.CauseState)
	mismatch := false
	if x := d.s.Execution; d.awaitsVerification() {
		if allHold(seen) {
			d.emit(&run.Verified{ExecutionID: x.ID, ObservationID: p.ObservationID, Postconditions: seen})
		} else {
			mismatch = true
			d.emit(&run.Mismatched{ExecutionID: x.ID, Postconditions: seen})
		}
	}
	if old := d.s.Proposal; old != nil && (p.ProposalID == nil || *p.ProposalID != old.ID) {
		d.emit(&run.ProposalVoided{ProposalID: old.ID, Cause: "state"})
	}
	if p.proposal != nil {
		d.emit(&run.ProposalPrepared{Proposal: *p.proposal})
	}
	observed := run.Observed{
		ObservationID: p.ObservationID, DocumentEpoch: p.DocumentEpoch, StateRevision: p.StateRevision, CapturedAt: min(s.CapturedAt, d.now),
		State: s.State, StateDigest: p.state, Catalog: catalog, CatalogDigest: propose.CatalogDigest(catalog),
	}
	if s.View != nil {
		view := d.text(*s.View)
		observed.View = &view
	}
	d.emit(&observed)
	switch x := d.s.Execution; {
	case mismatch:
		d.pause(authority.VerificationDiffers, stopcontext.SourceRuntime)
	case d.s.Status == run.StatusReady && d.s.Position() == "done" && d.s.Committed:
		d.emit(&run.Completed{ExecutionID: x.ID})
	case p.proposal != nil && d.s.Status == run.StatusReady:
		d.askApproval(catalog)
	}
	d.outOfGrants()
}

func allHold(seen []run.Postcondition) bool {
	for _, p := range seen {
		if !p.Holds {
			return false
		}
	}
	return true
}

func unresolved() *authority.Denial {
	return &authority.Denial{Reason: authority.UnresolvedEffect, Detail: "An effect of the run is unresolved; nothing else happens until it is reconciled."}
}
