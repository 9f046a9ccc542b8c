package traces

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
)

// TurnQuery selects turns of a project, newest first. Client and Status are optional.
type TurnQuery struct {
	Project, Client, Status string
	Before                  string // id: only older ones
	Limit                   int    // 1 to 100; otherwise 50
}

// Turns returns turns and the cursor of the next page, "" at the end. A status is the one
// that the turn has now: what has expired is not open, whatever is stored (L-16).
func (r *Reader) Turns(ctx context.Context, q TurnQuery) (list []TurnView, next string, err error) {
	if err := r.Exists(ctx, q.Project); err != nil {
		return nil, "", err
	}
	where := []ledger.Attribute{{Name: AttributeProject, Value: q.Project}}
	if q.Client != "" {
		where = []ledger.Attribute{{Name: AttributeClient, Value: q.Client}}
	}
	stored := []string{q.Status}
	if q.Status == turn.Expired {
		stored = append(stored, turn.Open)
	}
	limit := Limited(q.Limit)
	list = []TurnView{}
	names := r.names()
	for _, status := range stored {
		where := slices.Clone(where)
		if status != "" {
			where = append(where, ledger.Attribute{Name: AttributeStatus, Value: q.Project + " " + status})
		}
		found := 0
		for before := q.Before; ; {
			page, err := r.ledger.Find(ctx, ledger.Query{Workspace: r.workspace, Kind: turn.Kind, Where: where, Before: before, Limit: PageSize})
			if err != nil {
				return nil, "", Unavailable(err)
			}
			now, err := r.Now(ctx)
			if err != nil {
				return nil, "", err
			}
			for _, subject := range page {
				s, err := turn.DecodeState(subject.State)
				if err != nil {
					return nil, "", err
				}
				if s.Project != q.Project || q.Status != "" && s.At(now) != q.Status {
					continue
				}
				name, err := names(ctx, s.Client)
				if err != nil {
					return nil, "", err
				}
				list = append(list, NewTurnView(subject, s, name, now))
				found++
			}
			if len(page) < PageSize || found >= limit {
				break
			}
			before = page[len(page)-1].ID
		}
	}
	slices.SortFunc(list, func(a, b TurnView) int { return cmp.Compare(b.ID, a.ID) })
	if len(list) > limit {
		list = list[:limit]
	}
	if len(list) == limit {
		next = list[limit-1].ID
	}
	return list, next, nil
}

// names returns the names of clients, each read once.
func (r *Reader) names() func(ctx context.Context, client string) (string, error) {
	known := map[string]string{}
	return func(ctx context.Context, client string) (string, error) {
		name, found := known[client]
		if found {
			return name, nil
		}
		_, c, _, err := r.ClientState(ctx, client)
		if err != nil {
			return "", err
		}
		known[client] = c.Name
		return c.Name, nil
	}
}

// TurnDetail is a turn with what was recorded of it, a line for each event.
type TurnDetail struct {
	TurnView
	Sentence  string  `json:"sentence" doc:"What the state means, and what it does not."`
	ClientRef *string `json:"clientRef" nullable:"true" doc:"The client's label, redacted; null when there is none or it was erased."`
	Note      *string `json:"note" nullable:"true" doc:"The client's note, redacted; null when there is none or it was erased."`
	Lines     []Line  `json:"lines"`
}

// Line is one recorded fact and the class of its evidence.
type Line struct {
	Sequence    int64            `json:"sequence"`
	At          evidence.Time    `json:"at"`
	Type        string           `json:"type"`
	Class       string           `json:"evidenceClass" enum:"observed,reported,not observed"`
	Text        string           `json:"text"`
	Interaction *InteractionView `json:"interaction,omitempty" doc:"Of a context call."`
}

// Turn returns a turn of a project with its lines.
func (r *Reader) Turn(ctx context.Context, projectID, turnID string) (*TurnDetail, error) {
	subject, s, now, err := r.TurnState(ctx, turnID)
	if err == nil {
		err = In(projectID, s.Project, "turn")
	}
	if err != nil {
		return nil, asNotFound(err)
	}
	name, err := r.names()(ctx, s.Client)
	if err != nil {
		return nil, err
	}
	out := &TurnDetail{TurnView: NewTurnView(subject, s, name, now), Sentence: turn.Sentence(s.At(now)), Lines: []Line{}}
	if out.ClientRef, err = r.Text(ctx, subject.Key, s.ClientRef); err != nil {
		return nil, err
	}
	if out.Note, err = r.Text(ctx, subject.Key, s.Note); err != nil {
		return nil, err
	}
	err = r.eachEvent(ctx, subject, func(e evidence.Event) error {
		line, err := newLine(e, s, name)
		out.Lines = append(out.Lines, line)
		return err
	})
	return out, err
}

// asNotFound gives what is not found in the perimeter's words the owner's code.
func asNotFound(err error) error {
	if d, ok := errors.AsType[*authority.Denial](err); ok && (d.Reason == turn.TurnNotFound || d.Reason == turn.ItemNotFound) {
		return Denied(authority.NotFound, d.Detail)
	}
	return err
}

// eachEvent hands on the events of a chain up to the head that was read.
func (r *Reader) eachEvent(ctx context.Context, subject ledger.Subject, do func(evidence.Event) error) error {
	for after := int64(0); after < subject.Sequence; {
		page, err := r.ledger.Events(ctx, subject.Key, after, 1000)
		if err != nil {
			return Unavailable(err)
		}
		if len(page) == 0 {
			return fmt.Errorf("perimeter: %s has no event %d", subject.Key, after+1)
		}
		for _, e := range page {
			if e.Sequence > subject.Sequence {
				return nil
			}
			if err := do(e); err != nil {
				return err
			}
		}
		after = page[len(page)-1].Sequence
	}
	return nil
}

func newLine(e evidence.Event, s *turn.State, client string) (Line, error) {
	at, err := evidence.ParseTime(e.Timestamp)
	if err != nil {
		return Line{}, err
	}
	l := Line{Sequence: e.Sequence, At: evidence.TimeOf(at), Type: e.Type, Class: turn.ClassOf(e.Type)}
	switch e.Type {
	case turn.Opened{}.EventType():
		l.Text = "A start from the client " + client + "."
		if s.Via == turn.ViaSupervision {
			l.Text = "Opened by supervision for run " + *s.Run + ", on behalf of the client " + client + "."
		}
	case turn.Delivered{}.EventType(), turn.Answered{}.EventType():
		var c turn.Call
		if err := json.Unmarshal(e.Data, &c); err != nil {
			return l, err
		}
		v := viewCall(c, l.At, &s.ID, s.Binding(), client)
		l.Interaction, l.Text = &v, v.Sentence()
	case turn.Observed{}.EventType():
		var o turn.Observed
		if err := json.Unmarshal(e.Data, &o); err != nil {
			return l, err
		}
		l.Text = fmt.Sprintf("A hook reported the intention to use %s (%s).", o.Tool, o.ToolUseID)
	case turn.Complete{}.EventType():
		var c turn.Complete
		if err := json.Unmarshal(e.Data, &c); err != nil {
			return l, err
		}
		l.Text = "The client reported " + c.Reported + "."
	case turn.Expiry{}.EventType():
		l.Text = "No completion was reported within fifteen minutes."
	case turn.Late{}.EventType():
		var late turn.Late
		if err := json.Unmarshal(e.Data, &late); err != nil {
			return l, err
		}
		l.Text = "After the expiry the client reported " + late.Reported + ". It changes nothing."
	}
	return l, nil
}

// Export writes the signed evidence of a subject of the project: kind is that of a
// project, contextclient, contextturn, interaction, bridge or gap.
func (r *Reader) Export(ctx context.Context, projectID, kind, id string, w io.Writer) error {
	if err := r.belongs(ctx, projectID, kind, id); err != nil {
		return asNotFound(err)
	}
	return r.chains.ExportChain(ctx, r.Key(kind, id), w)
}

func (r *Reader) belongs(ctx context.Context, projectID, kind, id string) error {
	const missing = "There is no such evidence."
	var of string
	var err error
	switch kind {
	case project.Kind:
		of, err = id, r.Exists(ctx, id)
	case project.KindClient:
		of, err = projectOf(ctx, r, kind, id, project.DecodeClient, func(s *project.Client) string { return s.Project })
	case project.KindGap:
		of, err = projectOf(ctx, r, kind, id, project.DecodeGap, func(s *project.Gap) string { return s.Project })
	case turn.Kind:
		of, err = projectOf(ctx, r, kind, id, turn.DecodeState, func(s *turn.State) string { return s.Project })
	case turn.KindInteraction:
		of, err = projectOf(ctx, r, kind, id, turn.DecodeInteraction, func(s *turn.Interaction) string { return s.Project })
	case turn.KindBridge:
		of, err = projectOf(ctx, r, kind, id, turn.DecodeReceipt, func(s *turn.Receipt) string { return s.Project })
	default:
		err = Denied(authority.NotFound, missing)
	}
	if err != nil {
		return err
	}
	return In(projectID, of, "evidence")
}

func projectOf[S any](ctx context.Context, r *Reader, kind, id string, decode func([]byte) (*S, error), of func(*S) string) (string, error) {
	_, s, _, err := Load(ctx, r, r.Key(kind, id), decode, authority.NotFound, "There is no such evidence.")
	if err != nil {
		return "", err
	}
	return of(s), nil
}
