package decide

import (
	"countersign/internal/authority"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// freezable reports whether a transition with the event is refused while the workspace
// is frozen (L-8): it issues a permit, claims one or lets something be dispatched. It is
// read off the events, so that no decision can leave it out.
func freezable(e run.Event) bool {
	switch e := e.(type) {
	case *run.Issued, *run.Claimed, *run.Dispatched:
		return true
	case *run.HostedSessionEvent:
		return e.Phase == run.SessionDispatched
	}
	return false
}

// Freeze stops a run that asked for a permit or brought one while the workspace was
// frozen (L-8). Its unused permit is revoked: what it rested on may look different when
// the freeze is lifted. A run that does not wait for its next report stays as it is.
func (d *Deciding) Freeze() {
	if d.s.Status != run.StatusReady || d.s.Unresolved() {
		return
	}
	d.revokePermit(run.CauseFreeze)
	d.pause(authority.Frozen, stopcontext.SourceRuntime)
}
