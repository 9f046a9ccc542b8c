package perimeter

import (
	"context"
	"encoding/json"
	"fmt"

	"countersign/evidence"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
	"countersign/internal/machine"
)

// Observed is the answer to an observation.
type Observed struct {
	ID         string        `json:"id"` // of the event
	TurnID     string        `json:"turnId"`
	Event      string        `json:"event"`
	Tool       string        `json:"tool"`
	ToolUseID  string        `json:"toolUseId"`
	RecordedAt evidence.Time `json:"recordedAt"`
	Class      string        `json:"evidenceClass"`
	Replayed   bool          `json:"-"`
}

// Observe records what a hook reports before a tool runs (S-048). Its form was checked.
func (p *Perimeter) Observe(ctx context.Context, by *Caller, turnID, key string, o turn.Observation) (*Observed, error) {
	e, replayed, err := p.report(ctx, by, asked{"observe", turnID, key, fingerprint("observe", turnID, o)}, func(d *turn.Deciding) error {
		return orNil(d.Observe(o))
	})
	if err != nil {
		return nil, err
	}
	at, err := evidence.ParseTime(e.Timestamp)
	if err != nil {
		return nil, err
	}
	return &Observed{e.ID, turnID, o.Event, o.Tool, o.ToolUseID, evidence.TimeOf(at), turn.ClassObserved, replayed}, nil
}

// Completed is the receipt of a completion. Event is the signed event that it stands on.
type Completed struct {
	TurnID       string        `json:"turnId"`
	Reported     string        `json:"reported"`
	Status       string        `json:"status"`
	Deliveries   int64         `json:"deliveries"`
	Observations int64         `json:"observations"`
	ReportedAt   evidence.Time `json:"reportedAt"`
	Class        string        `json:"evidenceClass"`
	Event        EventRef      `json:"event"`
	Replayed     bool          `json:"-"`
}

// EventRef is what a client can hold an export against later.
type EventRef struct {
	ID        string `json:"id"`
	Sequence  int64  `json:"sequence"`
	Hash      string `json:"hash"`
	Signature string `json:"signature"`
	KeyID     string `json:"keyId"`
}

// Complete records what the client reports, completed, cancelled or failed, which was
// checked (S-057). The first accepted report ends the turn. The note is redacted and cut
// before it is stored or compared. A report that comes after expiry is denied and counted.
func (p *Perimeter) Complete(ctx context.Context, by *Caller, turnID, key, status string, note *string) (*Completed, error) {
	label := turn.Note(note)
	request := asked{"complete", turnID, key, fingerprint("complete", turnID, struct {
		Status string  `json:"status"`
		Note   *string `json:"note"`
	}{status, label.Text()})}
	e, replayed, err := p.report(ctx, by, request, func(d *turn.Deciding) error { return orNil(d.Complete(status, label)) })
	if err != nil {
		return nil, err
	}
	at, err := evidence.ParseTime(e.Timestamp)
	if err != nil {
		return nil, err
	}
	var c turn.Complete
	if err := json.Unmarshal(e.Data, &c); err != nil {
		return nil, fmt.Errorf("perimeter: event %s is unreadable: %w", e.ID, err)
	}
	return &Completed{
		TurnID: turnID, Reported: c.Reported, Status: c.State, Deliveries: c.Deliveries, Observations: c.Observations, ReportedAt: evidence.TimeOf(at), Class: c.Class,
		Event: EventRef{e.ID, e.Sequence, e.Hash, e.Signature, e.KeyID}, Replayed: replayed,
	}, nil
}

// report stores what do decides about a turn of the caller's, once for a key, and returns
// the newest event of it.
func (p *Perimeter) report(ctx context.Context, by *Caller, request asked, do func(*turn.Deciding) error) (e evidence.Event, replayed bool, err error) {
	var refused error // what is answered although something is stored with it
	err = p.decideFor(ctx, by, func() (*ledger.Change, error) {
		refused, replayed = nil, false
		// The turn is read before the key: what has changed the turn so that it takes no more
		// may have been the same request, and its record came with that.
		subject, s, now, missing := p.own(ctx, by, request.resource)
		record, err := p.earlier(ctx, by, request)
		if err != nil {
			return nil, err
		}
		if record != nil {
			replayed = true
			if e, err = p.event(ctx, record.Subject, record.Sequence); err == nil && e.Type == (turn.Late{}).EventType() {
				err = orNil(turn.Begin(s, now, ledger.Seed()).Takes())
			}
			return nil, err
		}
		if missing != nil {
			return nil, missing
		}
		late := s.LateReports
		d := turn.Begin(s, now, ledger.Seed())
		refused = do(d)
		t, err := d.Done()
		if err != nil {
			return nil, err
		}
		if refused != nil && s.LateReports == late {
			return nil, refused // the expiry is for the settler to record
		}
		w, err := p.writeTurn(subject, d, t)
		if err != nil {
			return nil, err
		}
		e = w.Events[len(w.Events)-1]
		c := &ledger.Change{Writes: []ledger.Write{w}, Record: p.record(by, request, w, e.ID)}
		if refused == nil {
			c.NotAfter = s.ExpiresAt.Time()
		}
		return c, nil
	})
	if err == nil {
		err = refused
	}
	return e, replayed, err
}

// writeTurn is the next state of a turn.
func (p *Perimeter) writeTurn(subject ledger.Subject, d *turn.Deciding, t *machine.Transition) (ledger.Write, error) {
	s := d.State()
	w, err := p.write(subject, s, d.Now(), t.Drafts, t.Texts, turnAttributes(s))
	if s.Status == turn.Open {
		w.Due = s.ExpiresAt.Time()
	}
	return w, err
}

// event reads one event of a chain.
func (p *Perimeter) event(ctx context.Context, key ledger.Key, sequence int64) (evidence.Event, error) {
	events, err := p.Ledger.Events(ctx, key, sequence-1, 1)
	if err != nil {
		return evidence.Event{}, unavailable(err)
	}
	if len(events) != 1 || events[0].Sequence != sequence {
		return evidence.Event{}, fmt.Errorf("perimeter: %s has no event %d", key, sequence)
	}
	return events[0], nil
}

// Settle records the expiry of a turn whose end has come. One that has none, or has it
// already, stays as it is.
func (p *Perimeter) Settle(ctx context.Context, key ledger.Key) error {
	return p.decide(ctx, func() (*ledger.Change, error) {
		subject, s, now, err := p.TurnState(ctx, key.ID)
		if err != nil {
			return nil, err
		}
		d := turn.Begin(s, now, ledger.Seed())
		t, err := d.Done()
		if err != nil || len(t.Drafts) == 0 {
			return nil, err
		}
		w, err := p.writeTurn(subject, d, t)
		return &ledger.Change{Writes: []ledger.Write{w}}, err
	})
}
