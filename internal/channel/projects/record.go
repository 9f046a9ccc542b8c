package projects

import (
	"context"
	"encoding/json"
	"net/http"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/wire"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/traces"
	"countersign/internal/contextturn/turn"
)

// registerRecords adds the routes of what was recorded: context turns, what was handed
// out, and the gaps that were reported.
func (s *service) registerRecords(api *edge.API) {
	edge.Register(api, operation("list-turns", http.MethodGet, "/{id}/turns", "List context turns",
		"Newest first; nextCursor names the next page. "+turn.HonestyAbsent, authority.NotFound), s.turns)
	edge.Register(api, operation("get-turn", http.MethodGet, "/{id}/turns/{tid}", "One context turn",
		"Extension. The turn with a line for each thing that was recorded of it and the evidence class of each.", authority.NotFound), s.turn)
	edge.Register(api, exported("get-turn-evidence", "/{id}/turns/{tid}/evidence", "Export a context turn's signed evidence"), s.turnEvidence)
	edge.Register(api, operation("list-interactions", http.MethodGet, "/{id}/interactions", "List interactions",
		"Calls of the context tools and bridge receipts, newest first, of a turn, of a client or of all; nextCursor names the next page. "+turn.HonestyDelivery, authority.NotFound), s.interactions)
	edge.Register(api, operation("get-interaction", http.MethodGet, "/{id}/interactions/{iid}", "One interaction",
		"Extension. The call with what was asked and answered, while these texts are not erased.", authority.NotFound), s.interaction)
	edge.Register(api, exported("get-interaction-evidence", "/{id}/interactions/{iid}/evidence", "Export the signed evidence of an interaction outside a turn"), s.interactionEvidence)
	edge.Register(api, operation("list-gaps", http.MethodGet, "/{id}/gaps", "List reported gaps",
		"Extension. What clients reported as missing, each once, newest first; nextCursor names the next page.", authority.NotFound), s.gaps)
	edge.Register(api, exported("get-gap-evidence", "/{id}/gaps/{gid}/evidence", "Export a reported gap's signed evidence"), s.gapEvidence)
}

// ByTurn names a context turn of a project in a path.
type ByTurn struct {
	ByProject
	Turn string `path:"tid" pattern:"^trn_[0-9a-f]{32}$" doc:"The turn's id." example:"trn_01940e2e7c0070008000000000000001"`
}

// ByInteraction names an interaction of a project in a path.
type ByInteraction struct {
	ByProject
	Interaction string `path:"iid" pattern:"^(int|brg)_[0-9a-f]{32}$" doc:"The interaction's id." example:"int_01940e2e7c0070008000000000000001"`
}

// ByGap names a reported gap of a project in a path.
type ByGap struct {
	ByProject
	Gap string `path:"gid" pattern:"^gap_[0-9a-f]{32}$" doc:"The gap's id." example:"gap_01940e2e7c0070008000000000000001"`
}

type turnsOutput struct {
	Body struct {
		Turns      []traces.TurnView `json:"turns"`
		NextCursor *string           `json:"nextCursor" nullable:"true"`
		Notice     string            `json:"notice" doc:"What the list says, and what it does not."`
	}
}

func (s *service) turns(ctx context.Context, in *struct {
	ByProject
	Page
	Client string `query:"client" pattern:"^(cli|shr)_[0-9a-f]{32}$" doc:"Only turns of this client."`
	Status string `query:"status" enum:"OPEN,COMPLETED_WITH_CONTEXT_DELIVERY,COMPLETED_WITHOUT_CONTEXT_DELIVERY,EXPIRED_OR_INCOMPLETE,REPORTED_CANCELLED,REPORTED_FAILED" doc:"Only turns that have this status now."`
}) (*turnsOutput, error) {
	list, next, err := s.Turns(ctx, traces.TurnQuery{Project: in.ID, Client: in.Client, Status: in.Status, Before: in.Before, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	out := &turnsOutput{}
	out.Body.Turns, out.Body.NextCursor, out.Body.Notice = list, cursor(next), turn.HonestyAbsent
	return out, nil
}

// TurnDetail is a context turn with what was recorded of it.
type TurnDetail struct {
	traces.TurnView
	Sentence    string     `json:"sentence" doc:"What the status means, and what it does not."`
	NotObserved string     `json:"notObserved" doc:"What is of no turn."`
	ClientRef   *string    `json:"clientRef" nullable:"true" doc:"The client's label, redacted; null when there is none or it was erased."`
	Note        *string    `json:"note" nullable:"true" doc:"The client's note, redacted; null when there is none or it was erased."`
	Lines       []TurnLine `json:"lines"`
}

// TurnLine is one recorded fact and the class of its evidence.
type TurnLine struct {
	Sequence      int64                          `json:"sequence"`
	RecordedAt    evidence.Time                  `json:"recordedAt"`
	Type          string                         `json:"type" doc:"Of the event."`
	EvidenceClass string                         `json:"evidenceClass" enum:"observed,reported,not observed"`
	Text          string                         `json:"text"`
	Interaction   wire.Nullable[InteractionView] `json:"interaction" doc:"Of a context call, else null."`
}

type turnOutput struct{ Body TurnDetail }

func (s *service) turn(ctx context.Context, in *ByTurn) (*turnOutput, error) {
	t, err := s.Turn(ctx, in.ID, in.Turn)
	if err != nil {
		return nil, err
	}
	out := TurnDetail{t.TurnView, t.Sentence, turn.HonestyNotObserved, t.ClientRef, t.Note, []TurnLine{}}
	for _, l := range t.Lines {
		line := TurnLine{l.Sequence, l.At, l.Type, l.Class, l.Text, wire.Null[InteractionView](nil)}
		if l.Interaction != nil {
			shown := newInteractionView(l.Interaction)
			line.Interaction = wire.Null(&shown)
		}
		out.Lines = append(out.Lines, line)
	}
	return &turnOutput{out}, nil
}

func (s *service) turnEvidence(ctx context.Context, in *ByTurn) (*raw, error) {
	return s.export(ctx, in.ID, turn.Kind, in.Turn)
}

// InteractionView is a call of a context tool, or what a bridge saw.
type InteractionView struct {
	ID            string                          `json:"id"`
	RecordedAt    evidence.Time                   `json:"recordedAt"`
	Tool          string                          `json:"tool" enum:"compass,resolve,find,why,report-gap,test,doctor,bridge"`
	TurnID        *string                         `json:"turnId" nullable:"true" doc:"null outside a turn."`
	Project       string                          `json:"project"`
	Client        string                          `json:"client"`
	ClientName    string                          `json:"clientName"`
	Profile       string                          `json:"profile" doc:"Empty of what a bridge saw."`
	Environment   string                          `json:"environment" enum:"production,staging"`
	EvidenceClass string                          `json:"evidenceClass" enum:"observed,bridge-observed"`
	Delivered     bool                            `json:"delivered" doc:"At least one item was handed to the HTTP response."`
	Build         wire.Nullable[InteractionBuild] `json:"build" doc:"What it was answered from; null when that was nothing."`
	Verdict       *string                         `json:"verdict" nullable:"true" doc:"Of compass, how well the items cover the task: covered, partial, gap or conflict."`
	Items         []InteractionItem               `json:"items"`
	GapID         *string                         `json:"gapId" nullable:"true" doc:"Of report-gap."`
	Seen          wire.Nullable[SeenByBridge]     `json:"seen" doc:"Of what a bridge saw, else null."`
	Text          string                          `json:"text" doc:"The interaction in one sentence."`
}

// InteractionBuild names the Build or draft that a call was answered from.
type InteractionBuild struct {
	Environment string `json:"environment" enum:"production,staging"`
	Number      int64  `json:"number" doc:"0 of a draft."`
	Digest      string `json:"digest"`
	Draft       bool   `json:"draft"`
}

// InteractionItem is one document that was handed out.
type InteractionItem struct {
	Ref    string `json:"ref"`
	SHA256 string `json:"sha256" doc:"Of the document."`
}

// SeenByBridge is one transition that a local bridge reported.
type SeenByBridge struct {
	Kind   string `json:"kind" enum:"file.read,file.write,process.start,process.exit,http.request,http.response"`
	Digest string `json:"digest"`
}

func newInteractionView(v *traces.InteractionView) InteractionView {
	out := InteractionView{
		ID: v.ID, RecordedAt: v.At, Tool: v.Tool, TurnID: v.Turn, Project: v.Project, Client: v.Client, ClientName: v.ClientName, Profile: v.Profile, Environment: v.Environment,
		EvidenceClass: v.Class, Delivered: v.Delivered, Verdict: v.Verdict, Items: []InteractionItem{}, GapID: v.Gap, Text: v.Sentence(),
	}
	for _, i := range v.Items {
		out.Items = append(out.Items, InteractionItem(i))
	}
	if b := v.Build; b != nil {
		out.Build = wire.Null(&InteractionBuild{b.Environment, b.Number, b.Digest, b.Draft})
	}
	if seen := v.Seen; seen != nil {
		out.Seen = wire.Null(&SeenByBridge{seen.Kind, seen.Digest})
	}
	return out
}

type interactionsOutput struct {
	Body struct {
		Interactions []InteractionView `json:"interactions"`
		NextCursor   *string           `json:"nextCursor" nullable:"true"`
		Notice       string            `json:"notice" doc:"What the list says, and what it does not."`
	}
}

func (s *service) interactions(ctx context.Context, in *struct {
	ByProject
	Page
	Turn   string `query:"turn" pattern:"^trn_[0-9a-f]{32}$" doc:"Only calls during this turn."`
	Client string `query:"client" pattern:"^(cli|shr)_[0-9a-f]{32}$" doc:"Only interactions of this client."`
}) (*interactionsOutput, error) {
	list, next, err := s.Interactions(ctx, traces.InteractionQuery{Project: in.ID, Turn: in.Turn, Client: in.Client, Before: in.Before, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	out := &interactionsOutput{}
	out.Body.Interactions, out.Body.NextCursor, out.Body.Notice = []InteractionView{}, cursor(next), turn.HonestyDelivery
	for _, v := range list {
		out.Body.Interactions = append(out.Body.Interactions, newInteractionView(&v))
	}
	return out, nil
}

// InteractionDetail is an interaction with what was asked and answered.
type InteractionDetail struct {
	InteractionView
	Request json.RawMessage `json:"request" doc:"What was asked; null when it was erased or there is none."`
	Answer  json.RawMessage `json:"answer" doc:"What was handed to the HTTP response; null when it was erased or there is none."`
	Head    *string         `json:"head" nullable:"true" doc:"SEQ:HASH of the newest event of its chain; null in a turn, whose chain it is in."`
	Notice  string          `json:"notice" doc:"What this shows, and what it does not."`
}

type interactionOutput struct{ Body InteractionDetail }

func (s *service) interaction(ctx context.Context, in *ByInteraction) (*interactionOutput, error) {
	i, err := s.Interaction(ctx, in.ID, in.Interaction)
	if err != nil {
		return nil, err
	}
	notice := turn.HonestyDelivery
	if i.Seen != nil {
		notice = turn.HonestyBridge
	}
	return &interactionOutput{InteractionDetail{newInteractionView(&i.InteractionView), i.Request, i.Answer, i.Head, notice}}, nil
}

func (s *service) interactionEvidence(ctx context.Context, in *ByInteraction) (*raw, error) {
	i, err := s.Interaction(ctx, in.ID, in.Interaction)
	if err != nil {
		return nil, err
	}
	if i.Turn != nil {
		return nil, edge.Refuse(authority.NotFound, "A call during a turn has no evidence of its own: it is in that of its turn, "+*i.Turn+".")
	}
	return s.export(ctx, in.ID, kindOf(in.Interaction), in.Interaction)
}

// GapView is what somebody reported as missing.
type GapView struct {
	ID          string                          `json:"id"`
	Project     string                          `json:"project"`
	Client      string                          `json:"client" doc:"Who reported it first."`
	ClientName  string                          `json:"clientName"`
	Environment string                          `json:"environment" enum:"production,staging"`
	Build       wire.Nullable[InteractionBuild] `json:"build" doc:"What the environment handed out then; null for nothing."`
	Task        *string                         `json:"task" nullable:"true" doc:"null when the gap is about a ref, or the text was erased."`
	Ref         *string                         `json:"ref" nullable:"true" doc:"null when the gap is about a task, or the text was erased."`
	Detail      *string                         `json:"detail" nullable:"true" doc:"null when there is none, or it was erased."`
	ReportedAt  evidence.Time                   `json:"reportedAt"`
	Head        string                          `json:"head" doc:"SEQ:HASH of the newest event of the gap's chain."`
}

type gapsOutput struct {
	Body struct {
		Gaps       []GapView `json:"gaps"`
		NextCursor *string   `json:"nextCursor" nullable:"true"`
	}
}

func (s *service) gaps(ctx context.Context, in *struct {
	ByProject
	Page
}) (*gapsOutput, error) {
	list, next, err := s.Gaps(ctx, in.ID, in.Before, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &gapsOutput{}
	out.Body.Gaps, out.Body.NextCursor = []GapView{}, cursor(next)
	for _, g := range list {
		v := GapView{g.ID, g.Project, g.Client, g.ClientName, g.Environment, wire.Null[InteractionBuild](nil), g.Task, g.Ref, g.Detail, g.ReportedAt, g.Head}
		if b := g.Build; b != nil {
			v.Build = wire.Null(&InteractionBuild{b.Environment, b.Number, b.Digest, b.Draft})
		}
		out.Body.Gaps = append(out.Body.Gaps, v)
	}
	return out, nil
}

func (s *service) gapEvidence(ctx context.Context, in *ByGap) (*raw, error) {
	return s.export(ctx, in.ID, project.KindGap, in.Gap)
}
