package project

import (
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/machine"
)

// owned requires an owner's session that is named.
func owned[S any](f *machine.Fold[S], session string) {
	f.Must(canon.IsHash(session), "session", "only an owner does this, in a session that is named")
}

// full denies what the chain has no room for. One event more, which ends it, still fits.
func full(p *machine.Progress) *authority.Denial {
	if p.Events < MaxEvents-1 {
		return nil
	}
	return &authority.Denial{Reason: authority.WorkspaceLimit, Detail: "Its chain is full; create a new one."}
}

// there denies what is about something that was never made.
func there(p *machine.Progress, kind string) *authority.Denial {
	if p.Machine != 0 {
		return nil
	}
	return &authority.Denial{Reason: authority.NotFound, Detail: "There is no such " + kind + "."}
}

// invalid denies a request for one member of its body.
func invalid(member, message string) *authority.Denial {
	return &authority.Denial{Reason: authority.InvalidRequest, Detail: "body." + member + ": " + message}
}
