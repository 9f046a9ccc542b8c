package traces

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"countersign/evidence"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
)

// InteractionView is a call of a context tool, or what a bridge saw, as it is shown.
type InteractionView struct {
	ID          string        `json:"id"`
	At          evidence.Time `json:"recordedAt"`
	Tool        string        `json:"tool" enum:"compass,resolve,find,why,report-gap,test,doctor,bridge"`
	Turn        *string       `json:"turnId" nullable:"true" doc:"null outside a turn."`
	Project     string        `json:"project"`
	Client      string        `json:"client"`
	ClientName  string        `json:"clientName"`
	Profile     string        `json:"profile"`
	Environment string        `json:"environment"`
	Class       string        `json:"evidenceClass" enum:"observed,bridge-observed"`
	Delivered   bool          `json:"delivered" doc:"At least one item was handed to the HTTP response."`
	Build       *turn.Build   `json:"build" nullable:"true"`
	Verdict     *string       `json:"verdict" nullable:"true" doc:"Of compass: how well the items cover the task."`
	Items       []turn.Item   `json:"items"`
	Gap         *string       `json:"gapId" nullable:"true"`
	Seen        *turn.Seen    `json:"seen" nullable:"true" doc:"Of a bridge receipt."`
}

// Sentence tells the interaction in one line.
func (v *InteractionView) Sentence() string {
	of := ""
	switch b := v.Build; {
	case b == nil:
	case b.Draft:
		of = " of the draft " + b.Digest[:12]
	default:
		of = fmt.Sprintf(" of Build %d", b.Number)
	}
	items := fmt.Sprintf("%d items%s were", len(v.Items), of)
	if len(v.Items) == 1 {
		items = "1 item" + of + " was"
	}
	verdict := ""
	if v.Verdict != nil {
		verdict = " (verdict " + *v.Verdict + ")"
	}
	switch {
	case v.Seen != nil:
		return "A bridge reported " + v.Seen.Kind + "."
	case v.Delivered:
		return v.Tool + ": " + items + " handed to the HTTP response" + verdict + "."
	case v.Gap != nil:
		return v.Tool + ": a gap was reported."
	}
	return v.Tool + ": answered without an item" + verdict + "."
}

func viewCall(c turn.Call, at evidence.Time, turnID *string, of turn.Binding, client string) InteractionView {
	return InteractionView{
		ID: c.InteractionID, At: at, Tool: c.Tool, Turn: turnID, Project: of.Project, Client: of.Client, ClientName: client, Profile: of.Profile, Environment: of.Environment,
		Class: turn.ClassObserved, Delivered: c.Delivers(), Build: c.Build, Verdict: c.Verdict, Items: c.Items, Gap: c.Gap,
	}
}

// toolBridge stands for the tool of what a bridge reports.
const toolBridge = "bridge"

// InteractionQuery selects interactions of a project, newest first, bridge receipts among
// them unless Turn is given. Turn and Client are optional.
type InteractionQuery struct {
	Project, Turn, Client string
	Before                string // id: only older ones
	Limit                 int    // 1 to 100; otherwise 50
}

// Interactions returns interactions and the cursor of the next page, "" at the end.
func (r *Reader) Interactions(ctx context.Context, q InteractionQuery) (list []InteractionView, next string, err error) {
	if err := r.Exists(ctx, q.Project); err != nil {
		return nil, "", err
	}
	limit := Limited(q.Limit)
	names := r.names()
	list = []InteractionView{}
	where := []ledger.Attribute{{Name: AttributeProject, Value: q.Project}}
	kinds := []string{turn.KindInteraction, turn.KindBridge}
	if q.Client != "" {
		where = []ledger.Attribute{{Name: AttributeClient, Value: q.Client}}
	}
	if q.Turn != "" {
		where, kinds = append(where, ledger.Attribute{Name: AttributeTurn, Value: q.Turn}), kinds[:1]
	}
	for _, kind := range kinds {
		before := q.Before
		if len(before) > 4 {
			before = prefixOf[kind] + before[4:]
		}
		page, err := r.ledger.Find(ctx, ledger.Query{Workspace: r.workspace, Kind: kind, Where: where, Before: before, Limit: limit})
		if err != nil {
			return nil, "", Unavailable(err)
		}
		for _, subject := range page {
			v, err := r.viewInteraction(ctx, subject, names)
			if err != nil {
				return nil, "", err
			}
			if v.Project == q.Project {
				list = append(list, v)
			}
		}
	}
	slices.SortFunc(list, func(a, b InteractionView) int { return cmp.Compare(b.ID[4:], a.ID[4:]) })
	if len(list) > limit {
		list = list[:limit]
	}
	if len(list) == limit {
		next = list[limit-1].ID
	}
	return list, next, nil
}

// prefixOf says how the ids of a kind begin, before a part that sorts by time.
var prefixOf = map[string]string{turn.KindInteraction: "int_", turn.KindBridge: "brg_"}

func (r *Reader) viewInteraction(ctx context.Context, subject ledger.Subject, names func(context.Context, string) (string, error)) (InteractionView, error) {
	if subject.Kind == turn.KindBridge {
		seen, err := turn.DecodeReceipt(subject.State)
		if err != nil {
			return InteractionView{}, err
		}
		name, err := names(ctx, seen.Client)
		return InteractionView{
			ID: seen.ID, At: seen.At, Tool: toolBridge, Project: seen.Project, Client: seen.Client, ClientName: name, Environment: seen.Environment,
			Class: turn.ClassBridge, Items: []turn.Item{}, Seen: &seen.Seen,
		}, err
	}
	i, err := turn.DecodeInteraction(subject.State)
	if err != nil {
		return InteractionView{}, err
	}
	name, err := names(ctx, i.Client)
	return viewCall(i.Call, i.At, i.Turn, i.Binding(), name), err
}

// InteractionDetail is an interaction with what was asked and answered, while that is not
// erased.
type InteractionDetail struct {
	InteractionView
	Request json.RawMessage `json:"request" doc:"What was asked; null when it was erased or there is none."`
	Answer  json.RawMessage `json:"answer" doc:"What was handed to the HTTP response; null when it was erased or there is none."`
	Head    *string         `json:"head" nullable:"true" doc:"SEQ:HASH of the newest event of its chain; null in a turn, whose chain it is in."`
}

// Interaction returns an interaction or bridge receipt of a project.
func (r *Reader) Interaction(ctx context.Context, projectID, id string) (*InteractionDetail, error) {
	kind := turn.KindInteraction
	if turn.IsID(prefixOf[turn.KindBridge], id) {
		kind = turn.KindBridge
	}
	if err := r.belongs(ctx, projectID, kind, id); err != nil {
		return nil, asNotFound(err)
	}
	subject, _, err := r.ledger.Load(ctx, r.Key(kind, id))
	if err != nil {
		return nil, Unavailable(err)
	}
	v, err := r.viewInteraction(ctx, subject, r.names())
	if err != nil {
		return nil, err
	}
	out := &InteractionDetail{InteractionView: v, Request: json.RawMessage("null"), Answer: json.RawMessage("null")}
	if v.Turn == nil {
		head := subject.Link().String()
		out.Head = &head
	}
	if kind == turn.KindBridge {
		return out, nil
	}
	i, err := turn.DecodeInteraction(subject.State)
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		of evidence.Commitment
		to *json.RawMessage
	}{{i.Call.Request, &out.Request}, {i.Call.Answer, &out.Answer}} {
		text, err := r.Text(ctx, r.ChainOf(i), &part.of)
		if err != nil {
			return nil, err
		}
		if text != nil {
			*part.to = json.RawMessage(*text)
		}
	}
	return out, nil
}

// chainOf is the chain that has an interaction's evidence.
func (r *Reader) ChainOf(i *turn.Interaction) ledger.Key {
	if i.Turn != nil {
		return r.Key(turn.Kind, *i.Turn)
	}
	return r.Key(turn.KindInteraction, i.ID)
}

// GapView is a reported gap as it is shown.
type GapView struct {
	ID          string             `json:"id"`
	Project     string             `json:"project"`
	Client      string             `json:"client" doc:"Who reported it first."`
	ClientName  string             `json:"clientName"`
	Environment string             `json:"environment"`
	Build       *project.Selection `json:"build" nullable:"true" doc:"What was selected then."`
	Task        *string            `json:"task" nullable:"true" doc:"null when the gap is about a ref, or the text was erased."`
	Ref         *string            `json:"ref" nullable:"true"`
	Detail      *string            `json:"detail" nullable:"true"`
	ReportedAt  evidence.Time      `json:"reportedAt"`
	Head        string             `json:"head" doc:"SEQ:HASH of the newest event of the gap's chain."`
}

// Gaps returns the gaps of a project, newest first; next is the cursor of the next page, ""
// at the end.
func (r *Reader) Gaps(ctx context.Context, projectID, before string, limit int) (list []GapView, next string, err error) {
	if err := r.Exists(ctx, projectID); err != nil {
		return nil, "", err
	}
	page, next, err := r.Page(ctx, project.KindGap, []ledger.Attribute{{Name: AttributeProject, Value: projectID}}, before, limit)
	if err != nil {
		return nil, "", err
	}
	names := r.names()
	list = []GapView{}
	for _, subject := range page {
		g, err := project.DecodeGap(subject.State)
		if err != nil {
			return nil, "", err
		}
		name, err := names(ctx, g.Client)
		if err != nil {
			return nil, "", err
		}
		v := GapView{ID: g.ID, Project: g.Project, Client: g.Client, ClientName: name, Environment: g.Environment, Build: g.Build, ReportedAt: g.CreatedAt, Head: subject.Link().String()}
		for _, part := range []struct {
			of *evidence.Commitment
			to **string
		}{{g.Task, &v.Task}, {g.Ref, &v.Ref}, {g.Detail, &v.Detail}} {
			if *part.to, err = r.Text(ctx, subject.Key, part.of); err != nil {
				return nil, "", err
			}
		}
		list = append(list, v)
	}
	return list, next, nil
}
