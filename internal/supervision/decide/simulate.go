package decide

import (
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
	switch {
	case event == run.SimulateExpirePermit && s.Permit == nil:
		return notEligible("There is no live permit.")
	case event == run.SimulateProviderTimeout && s.Status != run.StatusReady:
		return notEligible("Nobody is asked while the run is paused.")
	case d.full():
		return atLimit()
	}
	d.emit(&run.Simulated{Event: event, By: "owner"})
	switch event {
	case run.SimulateExpireGrant:
		d.revokePermit(run.CauseGrant)
		d.revokeGrants(run.CauseSimulated)
		if s.Status == run.StatusReady {
			d.pause(authority.GrantExpired, stopcontext.SourceRuntime)
		}
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
