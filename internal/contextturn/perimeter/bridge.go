package perimeter

import (
	"context"

	"countersign/evidence"
	"countersign/internal/contextturn/traces"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
)

// BridgeReceipt is the answer to what a local bridge reports.
type BridgeReceipt struct {
	ID         string        `json:"id"`
	Kind       string        `json:"kind"`
	Digest     string        `json:"digest"`
	RecordedAt evidence.Time `json:"recordedAt"`
	Class      string        `json:"evidenceClass"`
	Replayed   bool          `json:"-"`
}

// RecordBridge records a transition that a local bridge saw (G-38), whose form was
// checked. It is labelled as the bridge's word.
func (p *Perimeter) RecordBridge(ctx context.Context, by *Caller, key, kind, digest string) (*BridgeReceipt, error) {
	seen := turn.Seen{Kind: kind, Digest: digest}
	request := asked{"bridge", "", key, fingerprint("bridge", "", seen)}
	var out *BridgeReceipt
	err := p.decideFor(ctx, by, func() (*ledger.Change, error) {
		record, err := p.earlier(ctx, by, request)
		if err != nil {
			return nil, err
		}
		if record != nil {
			_, r, _, err := traces.Load(ctx, p.Reader, record.Subject, turn.DecodeReceipt, turn.ItemNotFound, "There is no such receipt.")
			if err != nil {
				return nil, err
			}
			out = viewReceipt(r, true)
			return nil, nil
		}
		now, err := p.Now(ctx)
		if err != nil {
			return nil, err
		}
		r, t, err := turn.Record(by.binding(), seen, p.subject(), now, ledger.Seed())
		if err != nil {
			return nil, err
		}
		w, err := p.write(ledger.NewSubject(p.Key(turn.KindBridge, r.ID)), r, now, t.Drafts, t.Texts, []ledger.Attribute{{Name: traces.AttributeProject, Value: r.Project}, {Name: traces.AttributeClient, Value: r.Client}})
		if err != nil {
			return nil, err
		}
		out = viewReceipt(r, false)
		return &ledger.Change{Writes: []ledger.Write{w}, Record: p.record(by, request, w, r.ID)}, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func viewReceipt(r *turn.Receipt, replayed bool) *BridgeReceipt {
	return &BridgeReceipt{r.ID, r.Seen.Kind, r.Seen.Digest, r.At, turn.ClassBridge, replayed}
}
