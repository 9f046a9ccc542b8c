package gateway

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"countersign/evidence"
	"countersign/internal/authority"
)

// Export writes the run's signed evidence as it stands now (H-101, G-16).
func (g *Gateway) Export(ctx context.Context, id string, w io.Writer) error {
	key := g.runKey(id)
	subject, now, err := g.Ledger.Load(ctx, key)
	switch {
	case isNotFound(err):
		return &authority.Denial{Reason: authority.NotFound, Detail: "There is no such run."}
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	begin, err := g.Ledger.Events(ctx, key, 0, 1)
	if err != nil || len(begin) != 1 {
		return fmt.Errorf("%w: the first event: %w", ErrUnavailable, err)
	}
	named, err := begin[0].Subject()
	if err != nil {
		return err
	}
	texts, err := g.Ledger.Texts(ctx, key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return evidence.WriteExport(w, g.Keys.Evidence(), now, evidence.Source{
		Subject: named, Head: subject.Link(), Events: g.upTo(ctx, id, subject.Sequence), Texts: referenced(ctx, g, id, subject.Sequence, texts),
	})
}

// upTo streams the chain from its beginning to the event with that sequence.
func (g *Gateway) upTo(ctx context.Context, id string, head int64) iter.Seq2[evidence.Event, error] {
	return func(yield func(evidence.Event, error) bool) {
		err := g.each(ctx, id, 0, func(e evidence.Event) (bool, error) {
			return e.Sequence <= head && yield(e, nil) && e.Sequence < head, nil
		})
		if err != nil {
			yield(evidence.Event{}, err)
		}
	}
}

// referenced streams, by ascending commitment, the texts that the events up to
// head commit to: one that came with a later event stays out.
func referenced(ctx context.Context, g *Gateway, id string, head int64, texts []evidence.Text) iter.Seq2[evidence.Text, error] {
	return func(yield func(evidence.Text, error) bool) {
		named := map[string]bool{}
		for e, err := range g.upTo(ctx, id, head) {
			if err != nil {
				yield(evidence.Text{}, err)
				return
			}
			for c := range evidence.Commitments(e.Data) {
				named[c.Text] = true
			}
		}
		slices.SortFunc(texts, func(a, b evidence.Text) int { return strings.Compare(a.Commitment, b.Commitment) })
		for _, t := range texts {
			if named[t.Commitment] && !yield(t, nil) {
				return
			}
		}
	}
}
