package freeze

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"countersign/evidence"
	"countersign/internal/authority"
)

// Transition is what a decision came to. Without drafts nothing is to be stored.
type Transition struct {
	Drafts []evidence.Draft
	Texts  []evidence.Text
}

// Deciding is one decision under way: each event is folded into the state at once. It is
// used once.
type Deciding struct {
	fold    fold
	subject evidence.Subject
	fresh   *authority.Fresh
	out     Transition
}

// Begin starts a decision about s, which it changes; the zero State is a workspace that
// was never frozen. subject names workspace and issuer.
func Begin(s *State, subject evidence.Subject, now evidence.Time, seed [32]byte) *Deciding {
	now = max(now, s.UpdatedAt)
	return &Deciding{fold: fold{s: s, now: now, sequence: s.Events}, subject: subject, fresh: authority.NewFresh(seed, now)}
}

// Now returns the time of the decision.
func (d *Deciding) Now() evidence.Time { return d.fold.now }

// Epoch returns how many freezes the workspace has seen so far.
func (d *Deciding) Epoch() int64 { return d.fold.s.Epoch }

// Lifted returns the reason of the newest freeze when that one was lifted.
func (d *Deciding) Lifted() (evidence.Commitment, bool) {
	if d.fold.s.Lifted == nil {
		return evidence.Commitment{}, false
	}
	return d.fold.s.Lifted.Freeze.Reason, true
}

// Given returns the reason that this decision gives, when it changes anything for one.
func (d *Deciding) Given() (evidence.Commitment, bool) {
	if len(d.out.Texts) == 0 {
		return evidence.Commitment{}, false
	}
	return d.out.Texts[0].Commit(), true
}

// Done returns what was decided. An error means that the decision broke a rule of the
// machine; nothing may be stored then.
func (d *Deciding) Done() (*Transition, error) {
	if len(d.fold.unlawful) > 0 {
		return nil, &d.fold.unlawful[0]
	}
	return &d.out, nil
}

// Freeze freezes the workspace. While a freeze stands another one changes nothing and
// its reason is not recorded: what was asked for is there, and the standing freeze says
// since when and why. session is the hash that names the owner's session.
func (d *Deciding) Freeze(reason, session string) *authority.Denial {
	if denial := reasonable(reason); denial != nil || d.fold.s.Frozen != nil {
		return denial
	}
	if d.fold.s.Machine == 0 {
		s := d.subject
		s.Format, s.Kind, s.ID, s.Machine = evidence.Format, Kind, s.Workspace, Machine
		d.emit(&Opened{s})
	}
	d.emit(&Frozen{Epoch: d.fold.s.Epoch + 1, Reason: d.text(reason), By: "owner", Session: session})
	return nil
}

// Unfreeze lifts the standing freeze; in a workspace that is not frozen it changes
// nothing. An epoch other than 0 says which freeze the owner has seen: when the
// workspace has seen another one since, that stays.
func (d *Deciding) Unfreeze(reason string, epoch int64, session string) *authority.Denial {
	s := d.fold.s
	if denial := reasonable(reason); denial != nil {
		return denial
	}
	if epoch != 0 && s.Epoch == 0 {
		return &authority.Denial{Reason: authority.RevisionConflict, Detail: fmt.Sprintf("The workspace was never frozen; there is no freeze %d.", epoch)}
	}
	if epoch != 0 && epoch != s.Epoch {
		return &authority.Denial{Reason: authority.RevisionConflict, Detail: fmt.Sprintf("The newest freeze of the workspace is number %d, not %d; look at why it was frozen.", s.Epoch, epoch)}
	}
	if s.Frozen != nil {
		d.emit(&Unfrozen{Epoch: s.Epoch, Reason: d.text(reason), By: "owner", Session: session})
	}
	return nil
}

// List records the intents that had no outcome when the freeze of that epoch was stored;
// the first [MaxOpen] are named. It changes nothing when that freeze has its list, or does
// not stand any more.
func (d *Deciding) List(epoch int64, open []Intent) {
	s := d.fold.s
	if s.Frozen == nil || s.Epoch != epoch || s.Frozen.Open != nil {
		return
	}
	named := append([]Intent{}, open[:min(len(open), MaxOpen)]...)
	d.emit(&InFlight{Epoch: epoch, Executions: named, Count: int64(len(open))})
}

// reasonable denies what does not say why.
func reasonable(reason string) *authority.Denial {
	n := utf8.RuneCountInString(reason)
	visible := strings.ContainsFunc(reason, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
	if n <= MaxReason && visible && utf8.ValidString(reason) {
		return nil
	}
	return &authority.Denial{Reason: authority.InvalidRequest, Detail: fmt.Sprintf("body.reason: want 1 to %d characters that say why", MaxReason)}
}

func (d *Deciding) emit(e Event) {
	d.fold.id = d.fresh.ID()
	d.fold.sequence++
	d.fold.take(e)
	d.out.Drafts = append(d.out.Drafts, evidence.Draft{ID: d.fold.id, Type: e.EventType(), Data: e})
}

// text keeps a free text beside the chain and returns what stands for it in event data.
func (d *Deciding) text(s string) evidence.Commitment {
	t := evidence.NewText(d.fresh.Salt(), s)
	d.out.Texts = append(d.out.Texts, t)
	return t.Commit()
}
