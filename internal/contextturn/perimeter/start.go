package perimeter

import (
	"context"
	"errors"
	"fmt"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/contextturn/traces"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
)

// Started is the answer to a start.
type Started struct {
	Turn     traces.TurnView
	Replayed bool // an earlier request with the same key opened it
}

// Start opens a turn (S-031). clientRef is redacted and cut before it is stored or
// compared.
func (p *Perimeter) Start(ctx context.Context, by *Caller, key string, clientRef *string) (*Started, error) {
	label := turn.ClientRef(clientRef)
	request := asked{"start", "", key, fingerprint("start", "", struct {
		ClientRef *string `json:"clientRef"`
	}{label.Text()})}
	return p.start(ctx, by, label, nil, &request)
}

// StartFor opens a turn of a client for an attempt of a supervised run (G-39). The client
// did not ask: the turn says that supervision opened it.
func (p *Perimeter) StartFor(ctx context.Context, by *Caller, runID string) (*Started, error) {
	return p.start(ctx, by, turn.Label{}, &runID, nil)
}

func (p *Perimeter) start(ctx context.Context, by *Caller, label turn.Label, runID *string, request *asked) (*Started, error) {
	var out *Started
	again := func() (found bool, err error) {
		if request == nil {
			return false, nil
		}
		record, err := p.earlier(ctx, by, *request)
		if err != nil || record == nil {
			return false, err
		}
		subject, s, now, err := p.TurnState(ctx, record.Subject.ID)
		if err == nil {
			out = &Started{traces.NewTurnView(subject, s, by.Client.Name, now), true}
		}
		return true, err
	}
	err := p.decideFor(ctx, by, func() (*ledger.Change, error) {
		out = nil
		if found, err := again(); found || err != nil {
			return nil, err
		}
		now, err := p.Now(ctx)
		if err != nil {
			return nil, err
		}
		if full := p.hasRoom(ctx, by, now); full != nil {
			if found, err := again(); found || err != nil {
				return nil, err // the same request has taken the last place
			}
			return nil, full
		}
		s, t, err := turn.Start(by.binding(), label, runID, p.subject(), now, ledger.Seed())
		if err != nil {
			return nil, err
		}
		subject := ledger.NewSubject(p.Key(turn.Kind, s.ID))
		w, err := p.write(subject, s, now, t.Drafts, t.Texts, turnAttributes(s))
		if err != nil {
			return nil, err
		}
		w.Due = s.ExpiresAt.Time()
		out = &Started{Turn: traces.NewTurnView(after(w), s, by.Client.Name, now)}
		c := &ledger.Change{Writes: []ledger.Write{w}}
		if request != nil {
			c.Record = p.record(by, *request, w, s.ID)
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// hasRoom denies a client that has as many open turns as it may. Two starts at once can
// both find room: the bound keeps storage in check, it protects nothing else (L-16).
func (p *Perimeter) hasRoom(ctx context.Context, by *Caller, now evidence.Time) error {
	open, err := p.Ledger.Find(ctx, ledger.Query{Workspace: p.Workspace, Kind: turn.Kind, Where: []ledger.Attribute{{Name: traces.AttributeClientStatus, Value: by.Client.ID + " " + turn.Open}}, Limit: turn.MaxOpen})
	if err != nil {
		return unavailable(err)
	}
	n := 0
	for _, subject := range open {
		s, err := turn.DecodeState(subject.State)
		if err != nil {
			return err
		}
		if s.At(now) == turn.Open {
			n++
		}
	}
	if n >= turn.MaxOpen {
		return denied(turn.LimitReached, fmt.Sprintf("The client has %d open turns.", turn.MaxOpen))
	}
	return nil
}

// asked is one request with an idempotency key.
type asked struct{ operation, resource, key, fingerprint string }

// fingerprint names what a request asks for, by its redacted body.
func fingerprint(operation, resource string, body any) string {
	return canon.Hash(canon.MustMarshal([]any{operation, resource, canon.Hash(canon.MustMarshal(body))}))
}

// earlier returns the record of an earlier request with the same key, nil when there is
// none, and a denial when that was for something else (G-31).
func (p *Perimeter) earlier(ctx context.Context, by *Caller, a asked) (*ledger.Record, error) {
	record, err := p.Ledger.Record(ctx, p.Workspace, by.Client.ID, a.key)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, unavailable(err)
	case record.Fingerprint != a.fingerprint:
		return nil, denied(turn.IdempotencyConflict, "The key was used for another request.")
	}
	return &record, nil
}

func (p *Perimeter) record(by *Caller, a asked, w ledger.Write, object string) *ledger.Record {
	return &ledger.Record{
		Workspace: p.Workspace, Principal: by.Client.ID, Key: a.key, Fingerprint: a.fingerprint,
		Subject: w.Key, Object: object, Sequence: w.Events[len(w.Events)-1].Sequence,
	}
}

// after is the subject that a Write makes.
func after(w ledger.Write) ledger.Subject {
	newest := w.Events[len(w.Events)-1]
	return ledger.Subject{Key: w.Key, Revision: w.Revision + 1, Sequence: newest.Sequence, Head: newest.Hash, State: w.State}
}

// own reads a turn of the caller's; another's is not found (G-30).
func (p *Perimeter) own(ctx context.Context, by *Caller, id string) (ledger.Subject, *turn.State, evidence.Time, error) {
	subject, s, now, err := p.TurnState(ctx, id)
	if err == nil && s.Binding() != by.binding() {
		err = denied(turn.TurnNotFound, "There is no such turn.")
	}
	return subject, s, now, err
}

// turnAttributes are what lists of turns filter by.
func turnAttributes(s *turn.State) []ledger.Attribute {
	return []ledger.Attribute{
		{Name: traces.AttributeProject, Value: s.Project}, {Name: traces.AttributeClient, Value: s.Client},
		{Name: traces.AttributeStatus, Value: s.Project + " " + s.Status}, {Name: traces.AttributeClientStatus, Value: s.Client + " " + s.Status},
	}
}
