package contexthttp

import (
	"context"
	"fmt"
	"net/http"

	"countersign/internal/channel/wire"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/turn"
)

func start(ctx context.Context, p Perimeter, q *request) (*answer, error) {
	s, err := p.Start(ctx, q.by, q.key, q.ClientRef)
	if err != nil {
		return nil, err
	}
	t := s.Turn
	return once(s.Replayed, startAnswer{OpenedTurn{
		ID: t.ID, Status: t.Status, Environment: t.Environment, Profile: t.Profile, OpenedAt: t.OpenedAt, ExpiresAt: t.ExpiresAt,
		Deliveries: t.Deliveries, Observations: t.Observations, ContextCalls: t.ContextCalls, LateReports: t.LateReports, CompletedAt: t.CompletedAt, Head: t.Head,
	}}), nil
}

func observe(ctx context.Context, p Perimeter, q *request) (*answer, error) {
	o, err := p.Observe(ctx, q.by, q.turn, q.key, turn.Observation{Event: q.Event, Tool: q.Tool, ToolUseID: q.ToolUseID})
	if err != nil {
		return nil, err
	}
	return once(o.Replayed, observationAnswer{*o}), nil
}

func complete(ctx context.Context, p Perimeter, q *request) (*answer, error) {
	c, err := p.Complete(ctx, q.by, q.turn, q.key, q.Status, q.Note)
	if err != nil {
		return nil, err
	}
	return &answer{http.StatusOK, c.Replayed, completeAnswer{*c}}, nil
}

func bridge(ctx context.Context, p Perimeter, q *request) (*answer, error) {
	b, err := p.RecordBridge(ctx, q.by, q.key, q.Kind, q.Digest)
	if err != nil {
		return nil, err
	}
	return once(b.Replayed, bridgeAnswer{*b}), nil
}

// once is 201 for what is new and 200 for what was there.
func once(replayed bool, body any) *answer {
	if replayed {
		return &answer{http.StatusOK, true, body}
	}
	return &answer{http.StatusCreated, false, body}
}

// call asks a context tool. It takes no key: asked again, it is another interaction.
func call(name string) func(context.Context, Perimeter, *request) (*answer, error) {
	return func(ctx context.Context, p Perimeter, q *request) (*answer, error) {
		a, err := p.Call(ctx, q.by, q.turn, tools.Request{
			Tool: name, Task: q.Task, Query: q.Query, Ref: q.Ref, InteractionID: q.InteractionID, Detail: q.Detail, CaseID: q.CaseID, Limit: q.Limit, ExpectRefs: q.ExpectRefs,
		})
		if err != nil {
			return nil, err
		}
		i := a.Interaction
		c := Called{InteractionRef{i.ID, i.Tool, i.RecordedAt, wire.Null(i.Build)}, a.TurnID}
		switch r := a.Result.(type) {
		case *tools.CompassAnswer:
			return found(compassAnswer{c, r.Verdict, r.Text, r.Items}), nil
		case *tools.ResolveAnswer:
			return found(resolveAnswer{c, ResolvedItem(r.Item)}), nil
		case *tools.FindAnswer:
			return found(findAnswer{c, r.Items}), nil
		case *tools.WhyAnswer:
			of := r.Provenance
			return found(whyAnswer{c, &ItemProvenance{of.Ref, of.Title, of.Source, of.Author, of.SHA256, of.Supersedes, of.SupersededBy, of.Conflicts, c.Interaction.Build}, nil}), nil
		case *perimeter.SelectionResult:
			s := r.Selection
			return found(whyAnswer{c, nil, &EarlierSelection{s.InteractionID, s.Tool, wire.Null(s.Build), s.Items}}), nil
		case *perimeter.GapResult:
			return &answer{http.StatusCreated, false, gapAnswer{c, r.GapID}}, nil
		case *tools.TestAnswer:
			return found(testAnswer{c, r.Passed, r.Expected, r.Missing, r.Found}), nil
		case *perimeter.DoctorResult:
			return found(doctorAnswer{c, r.Client, r.Profile, r.Environment, r.Protocol, wire.Null(r.Build), r.Clock}), nil
		}
		return nil, fmt.Errorf("contexthttp: the tool %s answered with a %T", name, a.Result)
	}
}

func found(body any) *answer { return &answer{http.StatusOK, false, body} }
