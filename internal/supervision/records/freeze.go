package records

import (
	"context"
	"errors"
	"fmt"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/supervision/freeze"
)

// Freeze says whether the workspace is frozen (L-8).
type Freeze struct {
	Epoch  int64 // freezes that the workspace has seen
	Frozen bool
	Since  evidence.Time // of the freeze that stands, like the rest; 0: none does
	Reason string        // "": it was erased
	Head   string        // SEQ:HASH of the newest event of the workspace's chain, "" before its first
}

// Freeze reads whether the workspace is frozen.
func (r *Reader) Freeze(ctx context.Context) (Freeze, error) {
	key := ledger.Key{Workspace: r.workspace, Kind: ledger.KindWorkspace, ID: r.workspace}
	subject, _, err := r.ledger.Load(ctx, key)
	if errors.Is(err, ledger.ErrNotFound) {
		return Freeze{}, nil
	}
	if err != nil {
		return Freeze{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	s, err := freeze.DecodeState(subject.State)
	if err != nil {
		return Freeze{}, err
	}
	out := Freeze{Epoch: s.Epoch, Head: subject.Link().String()}
	if s.Frozen == nil {
		return out, nil
	}
	out.Frozen, out.Since = true, s.Frozen.Since
	text, err := r.ledger.Text(ctx, key, s.Frozen.Reason.Text)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return Freeze{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	out.Reason = text.Text
	return out, nil
}
