package freeze

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/machine"
)

// Deciding is one decision under way about the workspace. It is used once.
type Deciding struct {
	*machine.Deciding[State]
	subject evidence.Subject
}

// Begin starts a decision about s, which it changes; the zero State is a workspace that
// was never frozen. subject names workspace and issuer.
func Begin(s *State, subject evidence.Subject, now evidence.Time, seed [32]byte) *Deciding {
	return &Deciding{machine.Begin(&definition, s, now, seed), subject}
}

// Freeze freezes the workspace. While a freeze stands another one changes nothing and
// its reason is not recorded: what was asked for is there, and the standing freeze says
// since when and why. session is the hash that names the owner's session.
func (d *Deciding) Freeze(reason, session string) *authority.Denial {
	s := d.State()
	if denial := reasonable(reason); denial != nil || s.Frozen != nil {
		return denial
	}
	if s.Machine == 0 {
		d.Emit(&Opened{d.Subject(d.subject, d.subject.Workspace)})
	}
	d.Emit(&Frozen{Epoch: s.Epoch + 1, Reason: d.Text(reason), By: "owner", Session: session})
	return nil
}

// Unfreeze lifts the standing freeze; in a workspace that is not frozen it changes
// nothing. An epoch other than 0 says which freeze the owner has seen: when the
// workspace has seen another one since, that stays.
func (d *Deciding) Unfreeze(reason string, epoch int64, session string) *authority.Denial {
	s := d.State()
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
		d.Emit(&Unfrozen{Epoch: s.Epoch, Reason: d.Text(reason), By: "owner", Session: session})
	}
	return nil
}

// List records the intents that had no outcome when the freeze of that epoch was stored;
// the first [MaxOpen] are named. It changes nothing when that freeze has its list, or does
// not stand any more.
func (d *Deciding) List(epoch int64, open []Intent) {
	s := d.State()
	if s.Frozen == nil || s.Epoch != epoch || s.Frozen.Open != nil {
		return
	}
	named := append([]Intent{}, open[:min(len(open), MaxOpen)]...)
	d.Emit(&InFlight{Epoch: epoch, Executions: named, Count: int64(len(open))})
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
