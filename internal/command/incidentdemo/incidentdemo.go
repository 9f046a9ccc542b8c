package incidentdemo

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"countersign/internal/client"
	"countersign/internal/command"
	"countersign/internal/runbook/incident"
	"countersign/internal/scripted"
)

// Person is who approves in every entry: the demo in the place of one.
const Person = "played person"

// Show is one showing. It is used once.
type Show struct {
	Origin string
	HTTP   *http.Client                     // of client.New
	Say    func(format string, args ...any) // for people only
	Add    func(scripted.Entry)             // each thing as it happens; runId is the session, permitId the approval

	cookie *http.Cookie
	seen   snapshot
	staged []staged // in their order
	effect string   // id of the one execution
}

// step is one thing that somebody does, and what must come of it.
type step struct {
	who, what string
	ask       func(*Show) request
	verdict   string // when it comes as it must
	status    int
	reason    string
	silent    bool // leaves no receipt
}

const first, second = 0, 1 // of what was staged

// before are the steps up to the approval, after those behind it.
var (
	before = []step{
		{who: scripted.Actor, what: "look at the incident", ask: plain(incident.Snapshot), verdict: scripted.OK, status: http.StatusOK},
		{who: scripted.Actor, what: "compare the mitigations", ask: plain(incident.Compare), verdict: scripted.OK, status: http.StatusOK},
		{who: scripted.Actor, what: "stage restore-pool", ask: stage("restore-pool"), verdict: scripted.OK, status: http.StatusOK},
		{who: scripted.Actor, what: "execute it without an approval", ask: execute(first), verdict: scripted.Refused, status: http.StatusForbidden, reason: incident.ApprovalRequired},
		{who: scripted.Actor, what: "approve it through the API", ask: approve(incident.API, ""), verdict: scripted.Refused, status: http.StatusForbidden, reason: incident.ApprovalRequired},
		{who: scripted.Actor, what: "approve it with a made-up nonce", ask: approve(incident.Human, strings.Repeat("0", 64)), verdict: scripted.Refused, status: http.StatusForbidden, reason: incident.ApprovalRequired},
	}
	after = []step{
		{who: scripted.Actor, what: "execute what is approved", ask: execute(first), verdict: incident.Mitigated, status: http.StatusOK},
		{who: scripted.Actor, what: "execute it again, the same key", ask: execute(first), verdict: replayed, status: http.StatusOK},
		{who: scripted.Actor, what: "stage shift-traffic", ask: stage("shift-traffic"), verdict: scripted.OK, status: http.StatusOK},
		{who: scripted.Actor, what: "use the old key for it", ask: borrow, verdict: scripted.Refused, status: http.StatusConflict, reason: incident.IdempotencyConflict},
		{who: scripted.Actor, what: "stage scale-workers instead", ask: stage("scale-workers"), verdict: scripted.OK, status: http.StatusOK},
		{who: scripted.Actor, what: "execute the action staged before", ask: execute(second), verdict: scripted.Refused, status: http.StatusPreconditionFailed, reason: incident.StaleExecution},
		{who: scripted.Actor, what: "reset an old version", ask: reset(1), verdict: scripted.Refused, status: http.StatusPreconditionFailed, reason: incident.StaleReset, silent: true},
		{who: scripted.Actor, what: "reset the simulation", ask: reset(0), verdict: scripted.OK, status: http.StatusOK},
	}
)

// replayed is the verdict of what was told again.
const replayed = "told again"

// Play shows the workflow and returns the session's signed evidence.
func (s *Show) Play(ctx context.Context) ([]byte, error) {
	if err := s.all(ctx, before); err != nil {
		return nil, err
	}
	s.Say("\nNo person is here: the demo plays one. It fetches the page %s and sends what its form sends.\n%s\n%s\n", s.Page(), incident.HonestyApproval, incident.HonestyArrival)
	if err := s.person(ctx); err != nil {
		return nil, err
	}
	if err := s.all(ctx, after); err != nil {
		return nil, err
	}
	r := s.seen.Receipts
	if !r.Verification.Verified {
		return nil, command.Differs("demo: the receipts of the session do not verify")
	}
	export, err := s.export(ctx)
	if err == nil {
		s.Say("\n%d receipts, the newest is %s. %s", r.Total, r.Head, incident.HonestyChannel)
	}
	return export, err
}

// Page is where a person does the same.
func (s *Show) Page() string { return s.Origin + "/incident" }

func (s *Show) all(ctx context.Context, steps []step) error {
	for _, x := range steps {
		if err := s.do(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// do carries out a step and tells it.
func (s *Show) do(ctx context.Context, x step) error {
	request := x.ask(s)
	r, a, err := s.post(ctx, request)
	if err != nil {
		s.tell(x, scripted.Failed, r, a)
		return command.Differs("demo: %s: %w", x.what, err)
	}
	s.seen = a.Snapshot
	wrong := s.check(x, request, r, a)
	verdict := x.verdict
	switch {
	case wrong != nil && x.verdict == scripted.Refused:
		verdict = scripted.NotRefused
	case wrong != nil:
		verdict = scripted.Failed
	}
	s.tell(x, verdict, r, a)
	if wrong != nil {
		return command.Differs("demo: %s: %w", x.what, wrong)
	}
	return nil
}

// check says what of the answer is not as it must be.
func (s *Show) check(x step, request request, r client.Reply, a answer) error {
	switch {
	case r.Status != x.status || r.Reason != x.reason:
		return fmt.Errorf("want %d %s, %s", x.status, x.reason, r.Got())
	case x.silent != (a.Receipt == nil):
		return fmt.Errorf("a receipt: %t, want %t", a.Receipt != nil, !x.silent)
	case a.Replayed != (x.verdict == replayed):
		return fmt.Errorf("told again: %t", a.Replayed)
	}
	switch request.Operation {
	case incident.Stage:
		if a.Snapshot.Staged == nil {
			return fmt.Errorf("nothing is staged")
		}
		s.staged = append(s.staged, *a.Snapshot.Staged)
	case incident.Execute:
		if x.status != http.StatusOK {
			break
		}
		last := a.Result.Execution
		if last == nil || a.Result.Status != incident.Mitigated {
			return fmt.Errorf("the incident is %s", a.Result.Status)
		}
		if s.effect == "" {
			s.effect = last.ID
		}
		if last.ID != s.effect {
			return fmt.Errorf("there was a second execution")
		}
	}
	return nil
}

// person is what a person does who reads the page and presses its button.
func (s *Show) person(ctx context.Context) error {
	open := step{who: Person, what: "open the page", verdict: scripted.OK, status: http.StatusOK}
	r, nonce, err := s.form(ctx)
	if err == nil && nonce == "" {
		err = fmt.Errorf("the page has no approval form: %s", r.Got())
	}
	if err != nil {
		s.tell(open, scripted.Failed, r, answer{})
		return command.Differs("demo: open the page: %w", err)
	}
	s.tell(open, scripted.OK, r, answer{})
	return s.do(ctx, step{who: Person, what: "approve exactly this action", ask: approve(incident.Human, nonce), verdict: scripted.OK, status: http.StatusOK})
}

func (s *Show) export(ctx context.Context) ([]byte, error) {
	r, err := s.get(ctx, "/api/v1/incident/evidence")
	if err == nil && r.Status != http.StatusOK {
		err = fmt.Errorf("want 200, %s", r.Got())
	}
	x, verdict := step{who: scripted.Actor, what: "export the session's evidence"}, scripted.OK
	if err != nil {
		verdict, err = scripted.Failed, command.Differs("demo: export the session's evidence: %w", err)
	}
	s.tell(x, verdict, r, answer{})
	return r.Body, err
}

// tell makes an entry of what came of a step.
func (s *Show) tell(x step, verdict string, r client.Reply, a answer) {
	e := scripted.Entry{Time: scripted.Now(), Actor: x.who, Action: x.what, Verdict: verdict, ReasonCode: r.Reason, Status: r.Status, Ms: r.Ms}
	if s.seen.Session != nil {
		e.RunID = s.seen.Session.ID
	}
	if a.Receipt != nil {
		e.ReceiptID = a.Receipt.ID
	}
	switch {
	case a.Result.Approval != nil:
		e.PermitID = a.Result.Approval.ApprovalID
	case a.Result.Execution != nil:
		e.PermitID = a.Result.Execution.ApprovalID
	}
	s.Add(e)
}
