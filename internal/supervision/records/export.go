package records

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"countersign/evidence"
	"countersign/internal/ledger"
)

// Export writes the run's signed evidence as it stands now (H-101, G-16).
func (r *Reader) Export(ctx context.Context, id string, w io.Writer) error {
	return r.ExportChain(ctx, r.Key(id), w)
}

// ExportChain writes the signed evidence of any subject with a chain.
func (r *Reader) ExportChain(ctx context.Context, key ledger.Key, w io.Writer) error {
	subject, now, err := r.ledger.Load(ctx, key)
	if err != nil {
		return notFound(err)
	}
	begin, err := r.ledger.Events(ctx, key, 0, 1)
	if err != nil || len(begin) != 1 {
		return fmt.Errorf("%w: the first event: %w", ErrUnavailable, err)
	}
	named, err := begin[0].Subject()
	if err != nil {
		return err
	}
	texts, err := r.ledger.Texts(ctx, key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return evidence.WriteExport(w, r.key, now, evidence.Source{
		Subject: named, Head: subject.Link(), Events: r.upTo(ctx, key, subject.Sequence), Texts: r.referenced(ctx, key, subject.Sequence, texts),
	})
}

// upTo streams the chain from its beginning to the event with that sequence.
func (r *Reader) upTo(ctx context.Context, key ledger.Key, head int64) iter.Seq2[evidence.Event, error] {
	return func(yield func(evidence.Event, error) bool) {
		err := r.eachOf(ctx, key, 0, func(e evidence.Event) (bool, error) {
			return e.Sequence <= head && yield(e, nil) && e.Sequence < head, nil
		})
		if err != nil {
			yield(evidence.Event{}, err)
		}
	}
}

// referenced streams, by ascending commitment, the texts that the events up to
// head commit to: one that came with a later event stays out.
func (r *Reader) referenced(ctx context.Context, key ledger.Key, head int64, texts []evidence.Text) iter.Seq2[evidence.Text, error] {
	return func(yield func(evidence.Text, error) bool) {
		named := map[string]bool{}
		for e, err := range r.upTo(ctx, key, head) {
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
