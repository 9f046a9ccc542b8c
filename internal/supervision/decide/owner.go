package decide

import (
	"slices"

	"countersign/internal/authority"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// IssueSession emits the next restricted session. It ends with the grant.
func (d *Deciding) IssueSession(origin string) *authority.Denial {
	if d.s.Terminal() || d.s.Status == run.StatusCreated {
		return notReady(d.s)
	}
	if d.now >= d.s.GrantsEnd() {
		return &authority.Denial{Reason: authority.GrantExpired, Detail: "The grant has expired; a new run is needed."}
	}
	if d.full() {
		return atLimit()
	}
	d.emit(&run.SessionIssued{Generation: d.s.Session.Generation + 1, ExpiresAt: d.s.GrantsEnd(), Origin: origin})
	return nil
}

// Revoke ends a run that has not ended. Revoking a revoked run changes nothing;
// what was dispatched already stays as it is (H-148).
func (d *Deciding) Revoke() *authority.Denial {
	if d.s.Status == run.StatusRevoked {
		return nil
	}
	if d.s.Terminal() {
		return notReady(d.s)
	}
	stop := d.s.NewStop(authority.OwnerRevoked, stopcontext.SourceOwner, d.fresh.ID())
	d.revokePermit(run.CauseOwner)
	d.revokeGrants(run.CauseOwner)
	d.emit(&run.Revoked{By: "owner", Stop: *stop})
	return nil
}

// Misuse ends a run whose credential turned up where it does not belong (L-6).
func (d *Deciding) Misuse() {
	if d.s.Terminal() {
		return
	}
	stop := d.s.NewStop(authority.CredentialMisuse, stopcontext.SourceRuntime, d.fresh.ID())
	d.revokePermit(run.CauseTerminate)
	d.revokeGrants(run.CauseTerminate)
	d.emit(&run.Terminated{Stop: *stop})
}

func (d *Deciding) revokeGrants(cause string) {
	for _, g := range slices.Clone(d.s.Grants) {
		if g.Live(d.now) {
			d.emit(&run.GrantRevoked{GrantID: g.ID, Cause: cause})
		}
	}
}
