package owner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/wire"
	"countersign/internal/money"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

type createInput struct {
	Body struct {
		Service           string `json:"service" enum:"merchant,bank,broker" doc:"The domain that the run acts on." example:"merchant"`
		Target            string `json:"target,omitempty" enum:"local,hosted" default:"local" doc:"local: the synthetic form of the service inside the control plane. hosted: the store of --store-origin, for merchant alone." example:"hosted"`
		Channel           string `json:"channel,omitempty" enum:"browser,http,mcp,webmcp" default:"browser" doc:"Only http is built. The default is not, so send it." example:"http"`
		TrafficActor      string `json:"trafficActor,omitempty" enum:"agent,human" default:"agent" doc:"Caller-reported attribution; proves nothing and changes nothing." example:"agent"`
		Mode              string `json:"mode,omitempty" enum:"exact,bounded" doc:"Default: that of guardianId, else exact. exact: every prepared transaction waits for its approval. bounded: the limits are approved up front." example:"bounded"`
		ExecutionMode     string `json:"executionMode,omitempty" enum:"live,replay" default:"replay" doc:"Only replay is built." example:"replay"`
		Executor          string `json:"executor,omitempty" enum:"openai,replay" default:"replay" doc:"Only replay is built." example:"replay"`
		Interrogator      string `json:"interrogator,omitempty" enum:"openai,replay" doc:"Default: that of guardianId, else replay. The guardian's provider. Only replay is built: verdicts that were written down beforehand." example:"replay"`
		ReasoningEvidence bool   `json:"reasoningEvidence,omitempty" default:"false" example:"false"`
		BudgetCents       string `json:"budgetCents,omitempty" pattern:"^(0|[1-9][0-9]{0,11})$" doc:"Integer cents as a decimal string. Only with guardianId it may be left out." example:"13700"`
		GuardianID        string `json:"guardianId,omitempty" format:"uuid" doc:"A published guardian policy. It pins mode, budget and interrogator, and limits catalog and grant to its operations; what else is sent of these has to be equal."`
		Instruction       string `json:"instruction" minLength:"1" maxLength:"2000" doc:"What the agent is asked for, in words. It grants nothing: terms and budget do." example:"Buy one Fieldwork keyboard for $137 total using the approved terms."`
		ContextClient     string `json:"contextClient,omitempty" pattern:"^cli_[0-9a-f]{32}$" doc:"A named context client with turnProtocol required, of any project. Each managed attempt then opens a context turn of it, asks compass for the instruction once, hands the text to the executor and completes the turn; a turn that cannot be opened stops nothing."`
		Terms             *Terms `json:"terms,omitempty" doc:"What the run may do: exactly the members of its service. When absent those of the service's fixture."`
	}
}

type runOutput struct{ Body *RunView }

func (o *owner) create(ctx context.Context, in *createInput) (*runOutput, error) {
	b := in.Body
	budget, err := money.Parse(cmp.Or(b.BudgetCents, "0"))
	if err != nil {
		return nil, &authority.Denial{Reason: authority.InvalidRequest, Detail: "body.budgetCents: want cents as a decimal string"}
	}
	var terms json.RawMessage
	if b.Terms != nil {
		terms = b.Terms.RawMessage
	}
	var contextClient *string
	if b.ContextClient != "" {
		contextClient = &b.ContextClient
	}
	id, err := o.Gateway.Create(ctx, gateway.CreateRequest{
		Config: run.Config{
			Service: b.Service, Target: b.Target, Channel: b.Channel, TrafficActor: b.TrafficActor, Mode: b.Mode, ExecutionMode: b.ExecutionMode,
			Executor: b.Executor, Interrogator: b.Interrogator, ReasoningEvidence: b.ReasoningEvidence,
			ContextClient: contextClient,
		},
		Budget: budget, Instruction: b.Instruction, Terms: terms, GuardianID: b.GuardianID, BudgetUnset: b.BudgetCents == "",
	})
	if err != nil {
		return nil, placed(err)
	}
	return o.view(ctx, id)
}

// placed names the place of terms that the service does not take.
func placed(err error) error {
	d, ok := errors.AsType[*authority.Denial](err)
	if !ok || d.Reason != authority.InvalidRequest || !strings.HasPrefix(d.Detail, "terms") {
		return err
	}
	place, message, _ := strings.Cut(d.Detail, " ")
	return edge.Refuse(d.Reason, "").At("/"+strings.ReplaceAll(place, ".", "/"), message)
}

func (o *owner) get(ctx context.Context, in *ByID) (*runOutput, error) { return o.view(ctx, in.ID) }

func (o *owner) view(ctx context.Context, id string) (*runOutput, error) {
	v, err := o.Gateway.View(ctx, id)
	if err != nil {
		return nil, err
	}
	return &runOutput{newRunView(v)}, nil
}

type listInput struct {
	Cursor string `query:"cursor" maxLength:"36" doc:"nextCursor of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"100"`
}

type listOutput struct {
	Body struct {
		Runs       []*RunView `json:"runs"`
		NextCursor *string    `json:"nextCursor" nullable:"true"`
	}
}

// MaxList bounds the runs of one answer, in bytes. A single view is always shown.
const MaxList = 8 << 20

func (o *owner) list(ctx context.Context, in *listInput) (*listOutput, error) {
	if in.Cursor != "" && !authority.IsID(in.Cursor) {
		return nil, &authority.Denial{Reason: authority.InvalidRequest, Detail: "query.cursor: not a cursor of this list"}
	}
	out := &listOutput{}
	out.Body.Runs = []*RunView{}
	size, before := 0, in.Cursor
	for {
		// One more than fits tells whether there is a next page.
		views, err := o.Gateway.List(ctx, before, min(10, in.Limit+1-len(out.Body.Runs)))
		if err != nil {
			return nil, err
		}
		if len(views) == 0 {
			return out, nil
		}
		for _, v := range views {
			view := newRunView(v)
			if size += view.size(); len(out.Body.Runs) == in.Limit || len(out.Body.Runs) > 0 && size > cmp.Or(o.MaxList, MaxList) {
				out.Body.NextCursor = &before
				return out, nil
			}
			out.Body.Runs = append(out.Body.Runs, view)
			before = v.State.ID
		}
	}
}

// size is the view's length as JSON.
func (v *RunView) size() int {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // what is read from the ledger is JSON already
	}
	return len(b)
}

// RunView is everything an owner may see of a run (H-126). It holds no token, no
// cookie and no key.
type RunView struct {
	RunID             string                          `json:"runId"`
	Workspace         string                          `json:"workspace"`
	CreatedAt         evidence.Time                   `json:"createdAt"`
	UpdatedAt         evidence.Time                   `json:"updatedAt"`
	Service           string                          `json:"service"`
	Target            string                          `json:"target"`
	Channel           string                          `json:"channel"`
	TrafficActor      string                          `json:"trafficActor"`
	Mode              string                          `json:"mode"`
	ExecutionMode     string                          `json:"executionMode"`
	Executor          string                          `json:"executor"`
	Interrogator      string                          `json:"interrogator"`
	ReasoningEvidence bool                            `json:"reasoningEvidence"`
	ContextClient     *string                         `json:"contextClient" nullable:"true" doc:"Whose context turns the managed attempts are made in."`
	ContextTurn       wire.Nullable[ContextTurn]      `json:"contextTurn" doc:"That the newest report was made in; null: none was named. It permits nothing and blocks nothing."`
	Instruction       string                          `json:"instruction"`
	Synthetic         *string                         `json:"synthetic" nullable:"true" doc:"Says that what the run acts on is made up, or that the run is one of a verification or an attack; to be shown with it. null for any other run at a hosted store, which says it of itself."`
	Terms             json.RawMessage                 `json:"terms" doc:"A member that is free text stands here as {text, length}."`
	TermTexts         map[string]string               `json:"termTexts" doc:"The free texts among the terms, by member; (erased) once erased."`
	TermsDigest       string                          `json:"termsDigest"`
	GoalDigest        string                          `json:"goalDigest"`
	Status            string                          `json:"status" enum:"created,ready,running,paused,completed,revoked,terminated,failed"`
	Stage             string                          `json:"stage"`
	Outcome           string                          `json:"outcome" doc:"What to show: an unresolved effect overrides everything else."`
	StopContext       wire.Nullable[stopcontext.Stop] `json:"stopContext"`
	Currency          string                          `json:"currency"`
	BudgetCents       string                          `json:"budgetCents"`
	GuardianBinding   wire.Nullable[Binding]          `json:"guardianBinding" doc:"The policy as it was when the run was created; null: a legacy session."`
	SpentCents        string                          `json:"spentCents"`
	ReservedCents     string                          `json:"reservedCents"`
	OverspentCents    string                          `json:"overspentCents" doc:"By how much spent and reserved exceed the budget. More than 0 only after a receipt contradicted an owner's statement."`
	Grants            []authority.Grant               `json:"grants"`
	Workflow          []run.Step                      `json:"workflow"`
	Position          string                          `json:"position"`
	Verified          []string                        `json:"verified" doc:"Postconditions that were seen to hold."`
	DocumentEpoch     int64                           `json:"documentEpoch"`
	StateRevision     int64                           `json:"stateRevision"`
	Observation       wire.Nullable[wire.Observation] `json:"observation"`
	ModelCalls        int64                           `json:"modelCalls"`
	Turns             int64                           `json:"turns"`
	Proposal          wire.Nullable[Proposal]         `json:"proposal"`
	Frozen            bool                            `json:"frozen" doc:"The workspace is frozen: no run gets a permit or sends anything."`
	Eligible          []string                        `json:"eligible" doc:"Names of the owner's routes that would be accepted now, as far as the run itself and the freeze of the workspace tell."`
	Executions        []Execution                     `json:"executions"`
	LastDecision      wire.Nullable[wire.Decision]    `json:"lastDecision"`
	ExecutorAnswer    wire.Nullable[ExecutorAnswer]   `json:"executorAnswer" doc:"What the managed executor said instead of a proposal, in the attempt that stopped the run."`
	PendingPermit     wire.Nullable[PendingPermit]    `json:"pendingPermit" doc:"The live permit, without its token."`
	Clarifications    []string                        `json:"clarifications"`
	Session           wire.Nullable[run.Session]      `json:"session" doc:"The restricted session, without its token."`
	Now               evidence.Time                   `json:"now" doc:"When this was read, by the server's clock; count expiries down from it."`
	Head              string                          `json:"head" doc:"SEQ:HASH of the newest event; keep it to check an export with --head."`
	Timeline          []Event                         `json:"timeline"`
}

// ContextTurn is the context turn that a report was made in (L-10).
type ContextTurn struct {
	ID    string `json:"id"`
	Class string `json:"class" enum:"reported,observed" doc:"reported: whoever reported says so. observed: it was in this ledger and open when the report was decided on."`
}

// ExecutorAnswer is an outcome of the managed executor that is no proposal.
type ExecutorAnswer struct {
	Kind   string `json:"kind" enum:"clarification,authorization_required,refusal"`
	Source string `json:"source" enum:"executor,provider"`
	Text   string `json:"text" doc:"The question, or the explanation, in its words; (erased) once erased."`
}

// Binding is the guardian policy that a run is bound to. All but Policy is the snapshot
// of the run's creation.
type Binding struct {
	GuardianID    string   `json:"guardianId"`
	Service       string   `json:"service"`
	Environment   string   `json:"environment"`
	PolicyVersion int64    `json:"policyVersion" doc:"0: a synthetic run of the policy's verification."`
	Mode          string   `json:"mode"`
	BudgetCents   string   `json:"budgetCents"`
	Provider      string   `json:"provider"`
	Operations    []string `json:"operations"`
	Channels      []string `json:"channels"`
	Policy        string   `json:"policy" enum:"current,degraded,superseded,under_verification" doc:"How the policy stands now. It changes nothing for this run."`
}

// Execution is one execution of a run.
type Execution struct {
	ExecutionID   string                      `json:"executionId"`
	PermitID      string                      `json:"permitId"`
	TurnID        string                      `json:"turnId"`
	OperationID   string                      `json:"operationId"`
	State         string                      `json:"state"`
	EffectDigest  string                      `json:"effectDigest"`
	AmountCents   string                      `json:"amountCents"`
	DispatchedAt  string                      `json:"dispatchedAt"`
	Receipt       wire.Nullable[wire.Receipt] `json:"receipt"`
	ObservationID *string                     `json:"observationId" nullable:"true"`
	Finding       *string                     `json:"finding" nullable:"true" doc:"What the owner stated last: applied, not_applied or unknown; null for nothing. A receipt stands over it."`
}

// Proposal is the prepared transaction with the whole effect that an approval names
// (H-223).
type Proposal struct {
	ProposalID      string                 `json:"proposalId"`
	OperationID     string                 `json:"operationId"`
	Label           string                 `json:"label"`
	Destination     string                 `json:"destination"`
	AmountCents     string                 `json:"amountCents"`
	Currency        string                 `json:"currency"`
	Args            json.RawMessage        `json:"args"`
	DisclosedFields []string               `json:"disclosedFields"`
	Postconditions  []string               `json:"postconditions"`
	Scope           []authority.Constraint `json:"scope" doc:"The owner's terms that it stays within."`
	TermsDigest     string                 `json:"termsDigest"`
	EffectDigest    string                 `json:"effectDigest" doc:"What an approval names, the service is asked for and the receipt repeats."`
	StateRevision   int64                  `json:"stateRevision"`
	DocumentEpoch   int64                  `json:"documentEpoch"`
	ExpiresAt       evidence.Time          `json:"expiresAt"`
	Approved        bool                   `json:"approved"`
}

func newProposal(s *run.State, p *records.Prepared) *Proposal {
	if p == nil {
		return nil
	}
	scope := []authority.Constraint{}
	if g, _ := s.Authority(p.OperationID, s.UpdatedAt); g != nil {
		scope = g.Constraints
	}
	return &Proposal{
		ProposalID: p.ID, OperationID: p.OperationID, Label: p.Entry.Label, Destination: p.Destination, AmountCents: p.AmountCents.String(), Currency: p.Currency,
		Args: p.Entry.Args, DisclosedFields: p.Entry.Effect.DisclosedFields, Postconditions: p.Entry.Effect.Postconditions, Scope: scope,
		TermsDigest: p.TermsDigest, EffectDigest: p.EffectDigest, StateRevision: p.StateRevision, DocumentEpoch: p.DocumentEpoch, ExpiresAt: p.ExpiresAt, Approved: p.Approved,
	}
}

// PendingPermit is the live permit without its token.
type PendingPermit struct {
	PermitID    string        `json:"permitId"`
	OperationID string        `json:"operationId"`
	AmountCents string        `json:"amountCents"`
	ExpiresAt   evidence.Time `json:"expiresAt"`
}

// Event is one event of the timeline; the signed form is in the evidence.
type Event struct {
	Sequence  int64           `json:"sequence"`
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Timestamp string          `json:"timestamp" doc:"When it was recorded, not when it happened."`
	Data      json.RawMessage `json:"data"`
}

func newRunView(v *records.View) *RunView {
	s := v.State
	out := &RunView{
		RunID: s.ID, Workspace: v.Workspace, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
		Service: s.Config.Service, Target: s.Config.Target, Channel: s.Config.Channel, TrafficActor: s.Config.TrafficActor, Mode: s.Config.Mode,
		ExecutionMode: s.Config.ExecutionMode, Executor: s.Config.Executor, Interrogator: s.Config.Interrogator, ReasoningEvidence: s.Config.ReasoningEvidence, ContextClient: s.Config.ContextClient,
		Instruction: v.Instruction, Synthetic: v.Synthetic, Terms: s.Terms, TermTexts: v.TermTexts, TermsDigest: s.TermsDigest, GoalDigest: s.GoalDigest,
		Status: s.Status, Stage: s.Stage, Outcome: v.Outcome, StopContext: wire.Null(s.Stop),
		Currency: s.Currency, BudgetCents: s.Budget.Limit.String(), SpentCents: s.Budget.Spent.String(), ReservedCents: s.Budget.Reserved.String(), OverspentCents: s.Over().String(),
		Grants: s.Grants, Workflow: s.Workflow, Position: s.Position(), Verified: append([]string{}, s.Verified...),
		DocumentEpoch: s.DocumentEpoch, StateRevision: s.StateRevision, Observation: wire.Null(wire.NewObservation(v.Observation)),
		ModelCalls: s.ModelCalls, Turns: s.Turns, Proposal: wire.Null(newProposal(s, v.Prepared)), Frozen: v.Frozen, Eligible: v.Eligible, Now: v.Now, LastDecision: wire.Null(wire.NewDecision(v.Decision)),
		Clarifications: v.Clarifications, Executions: []Execution{}, Timeline: []Event{}, Head: v.Head,
	}
	if b := s.Binding; b != nil {
		out.GuardianBinding = wire.Null(&Binding{b.GuardianID, b.Service, b.Environment, b.PolicyVersion, b.Mode, b.BudgetCents.String(), b.Provider, b.Operations, b.Channels, v.Binding})
	}
	if t := s.Turn; t != nil && t.ContextTurn != nil {
		out.ContextTurn = wire.Null(&ContextTurn{t.ContextTurn.ID, t.ContextTurn.Class})
	}
	if a := v.Answer; a != nil {
		out.ExecutorAnswer = wire.Null(&ExecutorAnswer{a.Kind, a.Source, a.Text})
	}
	if p := s.Permit; p != nil {
		out.PendingPermit = wire.Null(&PendingPermit{p.ID, p.Bindings.OperationID, p.AmountCents.String(), p.ExpiresAt})
	}
	if s.Session.Generation > 0 {
		out.Session = wire.Null(&s.Session)
	}
	for _, x := range v.Executions {
		out.Executions = append(out.Executions, Execution{
			x.ExecutionID, x.PermitID, x.TurnID, x.OperationID, x.State, x.EffectDigest, x.AmountCents, x.DispatchedAt, wire.Null(wire.NewReceipt(x.Receipt)), x.ObservationID, x.Finding,
		})
	}
	for _, l := range v.Timeline {
		out.Timeline = append(out.Timeline, Event{l.Sequence, l.EventID, l.Type, l.Timestamp, l.Data})
	}
	return out
}
