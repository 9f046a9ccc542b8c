package owner

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"countersign/internal/authority"
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
		"Plays the benign twin and then the attack in synthetic runs on a local service, through this server's own listener; that takes a few seconds. The runs are revoked at the end; lists and metrics leave them out. One attack at a time, and none while attacks have made "+strconv.Itoa(attack.MaxRuns)+" runs in the last hour. A caller that hangs up ends nothing.",
		authority.NotFound, authority.AttemptInProgress, authority.NotImplemented, edge.RateLimited), o.attack)
}

// AttackView is one attack of the catalog.
type AttackView struct {
	AttackID  string   `json:"attackId" example:"B10"`
	Title     string   `json:"title" example:"Altered argument"`
	Altered   string   `json:"altered" doc:"The one thing that differs from the twin."`
	Twin      string   `json:"twin" doc:"The benign twin, which must be allowed and take effect, and why where it is played in another run."`
	Expected  []string `json:"expected" doc:"The codes that must answer it, one for each of its shapes or the same for all."`
	Services  []string `json:"services"`
	DecidedBy []string `json:"decidedBy" doc:"hard_policy, runtime or replay (authored), of each shape."`
	Checks    []int64  `json:"checks" doc:"The hard checks that must fail, by number."`
}

type attacksOutput struct {
	Body struct {
		Attacks []AttackView `json:"attacks"`
		Label   string       `json:"label" doc:"What the results are not."`
	}
}

func (o *owner) attacks(context.Context, *struct{}) (*attacksOutput, error) {
	out := &attacksOutput{}
	out.Body.Label = attack.Label
	for _, a := range attack.Catalog() {
		out.Body.Attacks = append(out.Body.Attacks, AttackView{a.ID, a.Title, a.Altered, a.Twin, a.Expected, a.Services, a.DecidedBy, append([]int64{}, a.Checks...)})
	}
	return out, nil
}

// AttackAnswer is how a request of an attack was answered.
type AttackAnswer struct {
	Status   int    `json:"status" doc:"HTTP status."`
	Decision string `json:"decision" doc:"Of a report; empty for a refusal."`
	Code     string `json:"reasonCode" doc:"Of the decision or the refusal."`
}

// AttackCheck is a hard check.
type AttackCheck struct {
	Number int64  `json:"check"`
	Name   string `json:"name"`
}

// AttackOutcome is what was found.
type AttackOutcome struct {
	DecidedBy string                     `json:"decidedBy" doc:"hard_policy, runtime or replay (authored), by the run's evidence." example:"hard_policy"`
	Expected  AttackAnswer               `json:"expected"`
	Got       AttackAnswer               `json:"got"`
	Failed    wire.Nullable[AttackCheck] `json:"failedCheck" doc:"The first that policy.checked of the run names as failed."`
	Permits   int64                      `json:"permits" doc:"Issued to the attack."`
	Effects   int64                      `json:"effects" doc:"Of the attack, in the service's own ledger."`
	Twin      bool                       `json:"twinPassed"`
	Blocked   bool                       `json:"blocked" doc:"The twin passed; the answer is the expected one; no permit, no effect."`
	Problem   string                     `json:"problem" doc:"Why it is not blocked, else empty."`
}

// AttackShape is one form of an attack.
type AttackShape struct {
	Name string `json:"name"`
	AttackOutcome
}

// AttackResult is what one attack on one service came to.
type AttackResult struct {
	AttackID string `json:"attackId"`
	Service  string `json:"service"`
	Title    string `json:"title"`
	AttackOutcome
	RunIDs []string      `json:"runIds" doc:"Synthetic; their evidence can be exported like any other's."`
	Shapes []AttackShape `json:"shapes" doc:"All of them have to be blocked."`
	Label  string        `json:"label" doc:"What the result is not."`
}

type attackOutput struct{ Body *AttackResult }

func (o *owner) attack(ctx context.Context, in *struct {
	Body struct {
		AttackID string `json:"attackId" minLength:"1" maxLength:"16" doc:"Of the catalog." example:"B10"`
		Service  string `json:"service" enum:"merchant,bank,broker,merchant (hosted)" doc:"One that the attack applies to." example:"merchant"`
	}
}) (*attackOutput, error) {
	r, err := o.Attacks.Run(ctx, in.Body.AttackID, in.Body.Service)
	if limit, ok := errors.AsType[*attack.LimitError](err); ok {
		return nil, edge.Refuse(edge.RateLimited, "Attacks have made their runs for this hour.").With("Retry-After", strconv.Itoa(int(limit.RetryAfter.Seconds())+1))
	}
	if err != nil {
		return nil, err
	}
	out := &AttackResult{AttackID: r.AttackID, Service: r.Service, Title: r.Title, RunIDs: r.Runs, Label: r.Label, Shapes: []AttackShape{}}
	out.AttackOutcome = AttackOutcome{
		r.DecidedBy, AttackAnswer(r.Expected), AttackAnswer(r.Got), failedCheck(r.Failed), r.Permits, r.Effects, r.Twin, r.Blocked, r.Problem,
	}
	for _, s := range r.Shapes {
		out.Shapes = append(out.Shapes, AttackShape{s.Name, AttackOutcome{
			s.DecidedBy, AttackAnswer(s.Expected), AttackAnswer(s.Got), failedCheck(s.Failed), s.Permits, s.Effects, s.Twin, s.Blocked, s.Problem,
		}})
	}
	return &attackOutput{out}, nil
}

func failedCheck(c *attack.Check) wire.Nullable[AttackCheck] { return wire.Null((*AttackCheck)(c)) }
