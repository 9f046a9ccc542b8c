package decide

import (
	"slices"

	"countersign/internal/authority"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// Simulate lets one synthetic event happen to a local run (G-19). What follows from it
// is decided by the rules that decide the real thing. The new price of a price_change
// is the caller's to store in the same commit.
func (d *Deciding) Simulate(event string) *authority.Denial {
	s := d.s
	if denial := simulable(s); denial != nil {
		return denial
	}
	approved := d.approval()
	switch {
	case d.full():
		return atLimit()
	case event == run.SimulateExpireApproval && approved == nil:
		return notEligible("No approval is live.")
	case event == run.SimulateExpirePermit && s.Permit == nil:
		return notEligible("There is no live permit.")
	case event == run.SimulateProviderTimeout && s.Status != run.StatusReady:
		return notEligible("Nobody is asked while the run is paused.")
	}
	d.emit(&run.Simulated{Event: event, By: "owner"})
	switch event {
	case run.SimulateExpireGrant:
		d.revokePermit(run.CauseGrant)
		d.revokeGrants(run.CauseSimulated)
		if s.Status == run.StatusReady {
			d.pause(authority.GrantExpired, stopcontext.SourceRuntime)
		}
	case run.SimulateExpireApproval:
		if s.Permit != nil && s.Permit.Bindings.GrantID == approved.ID {
			d.revokePermit(run.CauseGrant)
		}
		d.emit(&run.GrantRevoked{GrantID: approved.ID, Cause: run.CauseSimulated})
	case run.SimulateExpirePermit:
		d.expirePermit()
	case run.SimulateReviseState, run.SimulateNavigate, run.SimulatePriceChange:
		d.revokePermit(run.CauseState)
		d.voidProposal("state")
	case run.SimulateProviderTimeout:
		d.revokePermit(run.CauseStop)
		d.pause(authority.ProviderTimeout, stopcontext.SourceProvider)
	}
	return nil
}

// simulable denies what cannot be simulated on: a hosted run, one that is not at rest,
// and one with an effect that is not known.
func simulable(s *run.State) *authority.Denial {
	switch {
	case s.Config.Target != run.TargetLocal:
		return notEligible("A hosted run is real; nothing is simulated for it.")
	case s.Unresolved():
		return unresolved()
	case s.Status != run.StatusReady && s.Status != run.StatusPaused:
		return notEligible("The run is " + s.Status + ".")
	}
	return nil
}

// approval returns the live grant of an approval, or nil.
func (d *Deciding) approval() *authority.Grant {
	i := slices.IndexFunc(d.s.Grants, func(g authority.Grant) bool { return g.Kind == authority.KindExact && g.Live(d.now) })
	if i < 0 {
		return nil
	}
	return &d.s.Grants[i]
}
