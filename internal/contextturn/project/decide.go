package project

import (
	"countersign/evidence"
	"countersign/internal/authority"
)

// Transition is what a decision came to. Without drafts nothing is to be stored.
type Transition struct {
	Drafts []evidence.Draft
	Texts  []evidence.Text
}

// deciding is one decision under way: each event is folded into the state at once. It is
// used once.
type deciding[S any] struct {
	fold  fold[S]
	fresh *authority.Fresh
	out   Transition
}

func begin[S any](f fold[S], now evidence.Time, seed [32]byte) deciding[S] {
	f.now, f.sequence = max(now, f.progress.UpdatedAt), f.progress.Events
	return deciding[S]{fold: f, fresh: authority.NewFresh(seed, f.now)}
}

// Now returns the time of the decision.
func (d *deciding[S]) Now() evidence.Time { return d.fold.now }

// Done returns what was decided. An error means that the decision broke a rule of the
// machine; nothing may be stored then.
func (d *deciding[S]) Done() (*Transition, error) {
	if len(d.fold.unlawful) > 0 {
		return nil, &d.fold.unlawful[0]
	}
	return &d.out, nil
}

func (d *deciding[S]) emit(e Event[S]) {
	d.fold.id = d.fresh.ID()
	d.fold.sequence++
	d.fold.take(e)
	d.out.Drafts = append(d.out.Drafts, evidence.Draft{ID: d.fold.id, Type: e.EventType(), Data: e})
}

// text keeps a free text beside the chain and returns what stands for it in event data.
func (d *deciding[S]) text(s *string) *evidence.Commitment {
	if s == nil {
		return nil
	}
	t := evidence.NewText(d.fresh.Salt(), *s)
	d.out.Texts = append(d.out.Texts, t)
	c := t.Commit()
	return &c
}

// subject completes s, which names workspace and issuer.
func (d *deciding[S]) subject(s evidence.Subject, id string) evidence.Subject {
	s.Format, s.Kind, s.ID, s.Machine = evidence.Format, d.fold.kind, id, Machine
	return s
}

// full denies what the chain has no room for. One event more, which ends it, still fits.
func (d *deciding[S]) full() *authority.Denial {
	if d.fold.progress.Events < MaxEvents-1 {
		return nil
	}
	return &authority.Denial{Reason: authority.WorkspaceLimit, Detail: "Its chain is full; create a new one."}
}

// there denies what is about something that was never made.
func (d *deciding[S]) there() *authority.Denial {
	if d.fold.progress.Machine != 0 {
		return nil
	}
	return &authority.Denial{Reason: authority.NotFound, Detail: "There is no such " + d.fold.kind + "."}
}

// invalid denies a request for one member of its body.
func invalid(member, message string) *authority.Denial {
	return &authority.Denial{Reason: authority.InvalidRequest, Detail: "body." + member + ": " + message}
}
