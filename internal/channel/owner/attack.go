package owner

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/wire"
	"countersign/internal/supervision/attack"
)

// Attacks carries out the authored attacks.
type Attacks interface {
	Run(ctx context.Context, id, service string) (*attack.Result, error)
}

// registerAttacks adds the routes of the attack suite (H-106, H-107).
func (o *owner) registerAttacks(api *edge.API) {
	edge.Register(api, operation("list-attacks", http.MethodGet, "/attacks", "The catalog of authored attacks",
		"Every attack with what it alters, its benign twin and the codes that must answer it. What they show is no measurement of a live model."), o.attacks)
	edge.Register(api, operation("run-attack", http.MethodPost, "/attacks/run", "Carry out one attack",
		"Plays the benign twin and then the attack in synthetic runs on a local service, through this server's own listener; that takes a few seconds. The runs are revoked at the end; lists and pages leave them out, and so do the metrics decisions_total and executions_total. Each server process carries out one attack at a time, none while the workspace is frozen, and none while attacks have made "+strconv.Itoa(attack.MaxRuns)+" runs in the last hour. A caller that hangs up ends nothing.",
		authority.NotFound, authority.Frozen, authority.AttemptInProgress, authority.NotImplemented, edge.RateLimited), o.attack)
}

// AttackView is one attack of the catalog.
type AttackView struct {
	AttackID  string   `json:"attackId" example:"B10"`
	Title     string   `json:"title" example:"Altered argument"`
	Altered   string   `json:"altered" doc:"The one thing that differs from the twin."`
	Twin      string   `json:"twin" doc:"The benign twin, which must be allowed and take effect, and why where it is played in another run."`
	Expected  []string `json:"expected" doc:"The codes that must answer it, one for each of its shapes or the same for all."`
	Services  []string `json:"services"`
	Target    string   `json:"target" enum:"local,hosted" doc:"hosted: it needs a store that it may change; over this route that is 501."`
	DecidedBy []string `json:"decidedBy" doc:"hard_policy, runtime or replay (authored), of each shape."`
	Checks    []int64  `json:"checks" doc:"The hard checks that must fail, by number."`
}

// AttackCatalog is the catalog as the API shows it, and its digest: the SHA-256 of its
// canonical JSON.
func AttackCatalog() (list []AttackView, digest string) {
	for _, a := range attack.Catalog() {
		list = append(list, AttackView{a.ID, a.Title, a.Altered, a.Twin, a.Expected, a.Services, a.Target, a.DecidedBy, append([]int64{}, a.Checks...)})
	}
	return list, canon.Hash(canon.MustMarshal(list))
}

type attacksOutput struct {
	Body struct {
		Attacks       []AttackView `json:"attacks"`
		CatalogDigest string       `json:"catalogDigest" doc:"SHA-256 of the canonical JSON of attacks; a report of countersign attack names it too."`
		Label         string       `json:"label" doc:"What the results are not."`
	}
}

func (o *owner) attacks(context.Context, *struct{}) (*attacksOutput, error) {
	out := &attacksOutput{}
	out.Body.Attacks, out.Body.CatalogDigest = AttackCatalog()
	out.Body.Label = attack.Label
	return out, nil
}

// AttackAnswer is how a request of an attack was answered.
type AttackAnswer struct {
	Status   int     `json:"status" doc:"HTTP status."`
	Decision *string `json:"decision" nullable:"true" doc:"Of a report; null for a refusal."`
	Code     *string `json:"reasonCode" nullable:"true" doc:"Of the decision or the refusal; null for an answer that has none."`
}

func newAttackAnswer(a attack.Answer) AttackAnswer {
	return AttackAnswer{a.Status, orNull(a.Decision), orNull(a.Code)}
}

// orNull is null for what is absent.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// AttackCheck is a hard check.
type AttackCheck struct {
	Number int64  `json:"check"`
	Name   string `json:"name"`
}

// AttackFinding is what was found.
type AttackFinding struct {
	DecidedBy string                      `json:"decidedBy" doc:"hard_policy, runtime or replay (authored): who must decide." example:"hard_policy"`
	Expected  AttackAnswer                `json:"expected"`
	Got       wire.Nullable[AttackAnswer] `json:"got" doc:"null: there was no answer."`
	Failed    wire.Nullable[AttackCheck]  `json:"failedCheck" doc:"The first that policy.checked of the run names as failed."`
	Permits   int64                       `json:"permits" doc:"Issued to the attack."`
	Effects   int64                       `json:"effects" doc:"Of the attack, in the service's own ledger."`
	Twin      bool                        `json:"twinPassed"`
	Outcome   string                      `json:"outcome" enum:"blocked,open,not_carried_out" doc:"open: carried out, and not blocked as it must be. not_carried_out: the installation did not take part as the attack needs it; that shows nothing about the attack."`
	Blocked   bool                        `json:"blocked" doc:"The outcome is blocked: the twin passed; the answer is the expected one; no permit, no effect."`
	Problem   *string                     `json:"problem" nullable:"true" doc:"Why it is not blocked."`
}

func newAttackFinding(f *attack.Finding) AttackFinding {
	out := AttackFinding{
		DecidedBy: f.DecidedBy, Expected: newAttackAnswer(f.Expected), Failed: wire.Null((*AttackCheck)(f.Failed)),
		Permits: f.Permits, Effects: f.Effects, Twin: f.Twin, Outcome: f.Outcome, Blocked: f.Blocked(), Problem: orNull(f.Problem),
	}
	if f.Got != nil {
		got := newAttackAnswer(*f.Got)
		out.Got = wire.Null(&got)
	}
	return out
}

// AttackShape is one form of an attack.
type AttackShape struct {
	Name *string `json:"name" nullable:"true" doc:"null where an attack has one shape only."`
	AttackFinding
}

// AttackResult is what one attack on one service came to.
type AttackResult struct {
	AttackID string `json:"attackId"`
	Service  string `json:"service"`
	Target   string `json:"target" enum:"local,hosted"`
	Title    string `json:"title"`
	AttackFinding
	RunIDs []string      `json:"runIds" doc:"Synthetic; their evidence can be exported like any other's."`
	Shapes []AttackShape `json:"shapes" doc:"All of them have to be blocked. What stands outside is of the worst of them; permits and effects are of all."`
	Label  string        `json:"label" doc:"What the result is not."`
}

// NewAttackResult is a result as the API shows it.
func NewAttackResult(r *attack.Result) *AttackResult {
	out := &AttackResult{
		AttackID: r.AttackID, Service: r.Service, Target: r.Target, Title: r.Title, AttackFinding: newAttackFinding(&r.Finding),
		RunIDs: r.Runs, Shapes: []AttackShape{}, Label: attack.Label,
	}
	for _, s := range r.Shapes {
		out.Shapes = append(out.Shapes, AttackShape{orNull(s.Name), newAttackFinding(&s.Finding)})
	}
	return out
}

type attackOutput struct{ Body *AttackResult }

func (o *owner) attack(ctx context.Context, in *struct {
	Body struct {
		AttackID string `json:"attackId" minLength:"1" maxLength:"16" doc:"Of the catalog." example:"B10"`
		Service  string `json:"service" enum:"merchant,bank,broker" doc:"One that the attack applies to." example:"merchant"`
	}
}) (*attackOutput, error) {
	r, err := o.Attacks.Run(ctx, in.Body.AttackID, in.Body.Service)
	if limit, ok := errors.AsType[*attack.LimitError](err); ok {
		seconds := strconv.Itoa(int(limit.RetryAfter.Seconds()) + 1)
		detail := "Attacks have made " + strconv.Itoa(attack.MaxRuns) + " runs in the last hour; the next attack can begin in " + seconds + " seconds. `countersign attack`, which brings an installation of its own, has no such bound."
		return nil, edge.Refuse(edge.RateLimited, detail).With("Retry-After", seconds)
	}
	if err != nil {
		return nil, err
	}
	return &attackOutput{NewAttackResult(r)}, nil
}
