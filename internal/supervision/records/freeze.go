package records

import (
	"context"
	"errors"
	"fmt"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/freeze"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// Freeze says whether the workspace is frozen (L-8), and what its newest freeze was.
type Freeze struct {
	Epoch    int64 // freezes that the workspace has seen; the newest has this number
	Frozen   bool
	Since    evidence.Time // of the newest freeze, like the rest; 0: there was none
	Until    evidence.Time // 0: it stands
	Reason   string        // why it was frozen; "": it was erased
	Session  string        // that froze it, by the hash that names it
	Lifted   string        // why it was lifted, "" while it stands; or it was erased
	LiftedBy string        // the session that did
	Listed   bool          // what was without an outcome then is in the evidence
	Turned   string        // id of the event that froze or unfroze it last
	Head     string        // SEQ:HASH of the newest event of the workspace's chain, "" before its first
}

// Freeze reads whether the workspace is frozen.
func (r *Reader) Freeze(ctx context.Context) (Freeze, error) {
	subject, s, err := r.Standing(ctx)
	if err != nil || s == nil {
		return Freeze{}, err
	}
	out := Freeze{Epoch: s.Epoch, Frozen: s.Frozen != nil, Turned: s.Turned, Head: subject.Link().String()}
	newest := s.Frozen
	if l := s.Lifted; l != nil {
		newest = &l.Freeze
		out.Until, out.LiftedBy = l.Until, l.By
		if out.Lifted, err = r.why(ctx, subject.Key, l.Reason); err != nil {
			return Freeze{}, err
		}
	}
	if newest == nil {
		return out, nil
	}
	out.Since, out.Session, out.Listed = newest.Since, newest.Session, newest.Open != nil
	out.Reason, err = r.why(ctx, subject.Key, newest.Reason)
	return out, err
}

// why reads a reason, "" when it was erased.
func (r *Reader) why(ctx context.Context, key ledger.Key, c evidence.Commitment) (string, error) {
	text, err := r.ledger.Text(ctx, key, c.Text)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return text.Text, nil
}

// Standing reads the subject of the workspace; a nil state says that it was never frozen.
func (r *Reader) Standing(ctx context.Context) (ledger.Subject, *freeze.State, error) {
	subject, _, err := r.ledger.Load(ctx, ledger.Key{Workspace: r.workspace, Kind: ledger.KindWorkspace, ID: r.workspace})
	if errors.Is(err, ledger.ErrNotFound) {
		return subject, nil, nil
	}
	if err != nil {
		return subject, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	s, err := freeze.DecodeState(subject.State)
	return subject, s, err
}

// IsFrozen reports whether the workspace is frozen. It is one short read.
func (r *Reader) IsFrozen(ctx context.Context) (bool, error) {
	_, s, err := r.Standing(ctx)
	return s != nil && s.Frozen != nil, err
}

// Dated adds to a refusal of a run that met a freeze whether one stands now: what the run
// has stored about its stop is of then.
func (r *Reader) Dated(ctx context.Context, s *run.State, refusal error) error {
	denial, ok := errors.AsType[*authority.Denial](refusal)
	if !ok || !decide.MetFreeze(s) {
		return refusal
	}
	switch denial.Reason {
	case authority.RunNotReady, authority.PermitRevoked, authority.RecoveryNotEligible:
	default:
		return refusal
	}
	frozen, err := r.IsFrozen(ctx)
	if err != nil {
		return err
	}
	said := *denial
	said.Detail += " " + stopcontext.AfterFreeze(frozen)
	return &said
}

// Intents lists what [Reader.Open] does. While the workspace is frozen, the intents that
// the freeze has listed come first and stay, whatever has become of them: nothing new can
// be dispatched in their runs, so that each is its run's newest.
func (r *Reader) Intents(ctx context.Context) ([]Open, error) {
	open, err := r.Open(ctx)
	if err != nil {
		return nil, err
	}
	_, s, err := r.Standing(ctx)
	if err != nil || s == nil || s.Frozen == nil || s.Frozen.Open == nil {
		return open, err
	}
	list := []Open{}
	listed := map[string]bool{}
	for _, x := range s.Frozen.Open.Intents {
		c, err := r.Settled(ctx, x.RunID)
		if err != nil {
			return nil, err
		}
		if now := intent(c.State); now != nil && now.ExecutionID == x.ExecutionID { // else that freeze was lifted this moment
			listed[x.ExecutionID] = true
			list = append(list, *now)
		}
	}
	for _, x := range open {
		if !listed[x.ExecutionID] {
			list = append(list, x)
		}
	}
	return list, nil
}
