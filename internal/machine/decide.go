package machine

import (
	"fmt"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
)

// Transition is what a decision came to. Without drafts nothing is to be stored.
type Transition struct {
	Drafts []evidence.Draft
	Texts  []evidence.Text
	// NotAfter is until when it may be stored; 0: no limit.
	NotAfter evidence.Time
}

// Deciding is one decision under way: each event is folded into the state at once. It is
// used once.
type Deciding[S any] struct {
	fold  Fold[S]
	fresh *authority.Fresh
	out   Transition
}

// Begin starts a decision about s, which it changes. A time before that of the chain's
// newest event counts as that. The seed must come from a secure source and be used once.
func Begin[S any](of *Definition[S], s *S, now evidence.Time, seed [32]byte) *Deciding[S] {
	f := newFold(of, s)
	f.now = max(now, f.progress.UpdatedAt)
	return &Deciding[S]{fold: f, fresh: authority.NewFresh(seed, f.now)}
}

// Now returns the time of the decision.
func (d *Deciding[S]) Now() evidence.Time { return d.fold.now }

// State returns the state as the decision has it.
func (d *Deciding[S]) State() *S { return d.fold.s }

// Fresh makes the names of the decision.
func (d *Deciding[S]) Fresh() *authority.Fresh { return d.fresh }

// Next is the sequence of the event that is emitted next.
func (d *Deciding[S]) Next() int64 { return d.fold.sequence + 1 }

// Emit adds an event and folds it.
func (d *Deciding[S]) Emit(e Event[S]) {
	d.fold.id = d.fresh.ID()
	d.fold.sequence++
	d.fold.take(e)
	d.out.Drafts = append(d.out.Drafts, evidence.Draft{ID: d.fold.id, Type: e.EventType(), Data: e})
}

// Text keeps a free text beside the chain and returns what stands for it in event data.
func (d *Deciding[S]) Text(s string) evidence.Commitment {
	t := evidence.NewText(d.fresh.Salt(), s)
	d.out.Texts = append(d.out.Texts, t)
	return t.Commit()
}

// OptionalText is [Deciding.Text] of a text that may be missing.
func (d *Deciding[S]) OptionalText(s *string) *evidence.Commitment {
	if s == nil {
		return nil
	}
	c := d.Text(*s)
	return &c
}

// NotAfter makes what is decided one that counts only when it is stored by then.
func (d *Deciding[S]) NotAfter(at evidence.Time) { d.out.NotAfter = at }

// Subject completes s, which names workspace and issuer, for the first event of a chain.
func (d *Deciding[S]) Subject(s evidence.Subject, id string) evidence.Subject {
	s.Format, s.Kind, s.ID, s.Machine = evidence.Format, d.fold.of.Kind, id, d.fold.of.Version
	return s
}

// Done returns what was decided. An error means that the decision broke a rule of the
// machine; nothing may be stored then.
func (d *Deciding[S]) Done() (*Transition, error) {
	if len(d.fold.unlawful) > 0 {
		return nil, &d.fold.unlawful[0]
	}
	return &d.out, nil
}

// Decode reads a stored state and refuses another machine's.
func (d *Definition[S]) Decode(raw []byte) (*S, error) {
	s := new(S)
	if err := canon.Unmarshal(raw, s); err != nil {
		return nil, err
	}
	if d.Progress(s).Machine != d.Version {
		return nil, fmt.Errorf("%s: this state belongs to another version of the state machine", d.Kind)
	}
	return s, nil
}
