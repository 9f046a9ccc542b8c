package workspace

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// probes are the requests of one verification. They act in two synthetic runs of the
// policy: the second is there for its permit, which the first must not take.
type probes struct {
	*observer
	policy  *guardian.Policy
	binding *run.Binding
	first   consumer
	second  consumer
	cookie  string
	signOut func(context.Context) error
}

// consumer is one synthetic run with its restricted token.
type consumer struct{ id, token string }

// channelHTTP is the channel that a verification goes through.
const channelHTTP = "http"

// runs lists the synthetic runs.
func (p *probes) runs() (ids []string) {
	for _, c := range []consumer{p.first, p.second} {
		if c.id != "" {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// prepare makes the runs, their tokens and an owner's session.
func (p *probes) prepare() error {
	for _, c := range []*consumer{&p.first, &p.second} {
		id, err := p.w.Runs.Create(p.ctx, gateway.CreateRequest{
			Config: run.Config{
				Service: p.policy.Service, Target: run.TargetLocal, Channel: channelHTTP, TrafficActor: "agent", Mode: p.policy.Mode,
				ExecutionMode: "replay", Executor: "replay", Interrogator: p.policy.Provider, Verification: true,
			},
			Budget: p.policy.BudgetCents, Instruction: "Synthetic reads that verify a guardian policy. Nothing is ordered, transferred or traded.",
			Verify: p.binding,
		})
		if c.id = id; err != nil {
			return err
		}
		session, err := p.w.Runs.IssueSession(p.ctx, id)
		if err != nil {
			return err
		}
		c.token = session.Token
	}
	var err error
	p.cookie, p.signOut, err = p.w.SignIn(p.ctx)
	return err
}

// end revokes the runs and ends the session, whatever happened before.
func (p *probes) end(ctx context.Context) error {
	var errs []error
	for _, id := range p.runs() {
		errs = append(errs, p.w.Runs.Revoke(ctx, id))
	}
	if p.signOut != nil {
		errs = append(errs, p.signOut(ctx))
	}
	return errors.Join(errs...)
}

// run sends every probe in the order of guardian.Probes.
func (p *probes) run() {
	err := p.prepare()
	p.outcome(guardian.TestRuns, err)
	if err != nil {
		for _, probe := range guardian.Probes {
			p.skip(probe.Name, "not sent: there is no run to act in")
		}
		return
	}
	p.callers()
	p.origins()
	p.operation()
}

func (p *probes) callers() {
	const path = "/api/v1/observation"
	p.send(guardian.ProbeNoToken, "GET", path, nil)
	p.send(guardian.ProbeWrongToken, "GET", path, nil, bearer("cs_run_"+random()))
	p.send(guardian.ProbeOwnerCookie, "GET", path, nil, header("Cookie", p.cookie))
	p.send(guardian.ProbeTokenAsOwner, "GET", "/api/v1/owner/status", nil, bearer(p.first.token))
}

// origins sends an owner's requests as another site would. What would change something
// is about a synthetic run.
func (p *probes) origins() {
	const foreign = "https://foreign.invalid"
	owner, path := header("Cookie", p.cookie), "/api/v1/owner/runs/"+p.second.id+"/revoke"
	marked := header("X-Halfspan-Owner", "1")
	p.send(guardian.ProbeForeignRead, "GET", "/api/v1/owner/status", nil, owner, header("Origin", foreign))
	p.send(guardian.ProbeForeignChange, "POST", path, []byte("{}"), owner, marked, header("Origin", foreign))
	p.send(guardian.ProbeNoOrigin, "POST", path, []byte("{}"), owner, marked)
}

// operation does one authorized read, with everything around it that must be refused.
func (p *probes) operation() {
	own, foreign := p.permit(p.first, true), p.permit(p.second, false)
	if own == nil {
		for _, name := range []string{guardian.ProbeNoPermit, guardian.ProbeForeignPermit, guardian.ProbeReceipt, guardian.ProbeRepeated, guardian.ProbeOtherBody} {
			p.skip(name, "not sent: the report got no permit")
		}
		return
	}
	const path = "/api/v1/operation"
	body := canon.MustMarshal(map[string]any{"action": own.Action})
	token, key := bearer(p.first.token), header("X-Idempotency-Key", "verify-"+random())
	other := func() edit { return header("X-Idempotency-Key", "verify-"+random()) }
	permit := header("X-Step-Permit", own.Token)
	p.send(guardian.ProbeNoPermit, "POST", path, body, token, other())
	if foreign == nil {
		p.skip(guardian.ProbeForeignPermit, "not sent: the second run got no permit")
	} else {
		p.send(guardian.ProbeForeignPermit, "POST", path, body, token, other(), header("X-Step-Permit", foreign.Token))
	}
	first := p.ask("POST", path, body, token, key, permit)
	note := ""
	if !first.verified() {
		note = "no verified receipt came with it"
	}
	p.answered(guardian.ProbeReceipt, first, first.reason, note)
	again := p.ask("POST", path, body, token, key, permit)
	note = ""
	if first.status == 0 || !bytes.Equal(again.body, first.body) || again.header.Get("Idempotency-Replayed") != "true" {
		note = "not the stored result of the first request"
	}
	p.answered(guardian.ProbeRepeated, again, again.reason, note)
	action := own.Action
	action.Args = json.RawMessage(`{"other":true}`)
	p.send(guardian.ProbeOtherBody, "POST", path, canon.MustMarshal(map[string]any{"action": action}), token, key, permit)
}

// permit observes, reports on the first operation that only reads and returns the permit
// for it, or nil. noted says that the two requests are probes.
func (p *probes) permit(c consumer, noted bool) *stepPermit {
	token := bearer(c.token)
	observed := p.ask("GET", "/api/v1/observation", nil, token)
	if noted {
		p.answered(guardian.ProbeObservation, observed, observed.reason, "")
	}
	var seen struct {
		ObservationID string          `json:"observationId"`
		Catalog       []propose.Entry `json:"catalog"`
	}
	_ = json.Unmarshal(observed.body, &seen) // what is no observation has no catalog
	i := slices.IndexFunc(seen.Catalog, func(e propose.Entry) bool { return e.Effect.Class == propose.ClassRead })
	if i < 0 {
		if noted {
			p.skip(guardian.ProbeReport, "not sent: there is no operation that only reads")
		}
		return nil
	}
	turned := p.ask("POST", "/api/v1/turns", report(seen.ObservationID, &seen.Catalog[i]), token)
	if noted {
		note := ""
		if turned.permit() == nil {
			note = "no permit came with it"
		}
		p.answered(guardian.ProbeReport, turned, turned.decision(), note)
	}
	return turned.permit()
}

// report proposes the entry.
func report(observationID string, e *propose.Entry) []byte {
	return canon.MustMarshal(propose.Report{
		GoalRestatement: "Read once to verify the guardian policy.", SelectedCandidateID: "read", Uncertainties: []string{},
		Candidates:    []propose.Candidate{{ID: "read", Action: e.Action(), Purpose: e.Label, Disposition: "proposed"}},
		Justification: propose.Justification{Summary: "A read shows that a permitted operation is executed and receipted.", EvidenceRefs: []string{observationID}},
		ExpectedEffect: propose.ExpectedEffect{
			OperationID: e.OperationID, TransactionProposalID: e.Effect.TransactionProposalID, DisclosedFields: e.Effect.DisclosedFields, Postconditions: e.Effect.Postconditions,
		},
	})
}

// send asks and notes the answer as that of a probe.
func (p *probes) send(name, method, path string, body []byte, edits ...edit) {
	r := p.ask(method, path, body, edits...)
	p.answered(name, r, r.reason, "")
}

// answered notes the answer of a probe. A note says what was wrong beside status and
// reason code.
func (p *probes) answered(name string, r *reply, reason, note string) {
	t := guardian.Test{Name: name, Expected: expected(name), Result: guardian.Failed, Note: note}
	switch {
	case r.status == 0:
		t.Note = "no answer"
	default:
		t.Observed = &guardian.Answer{Status: int64(r.status), ReasonCode: reason}
		if *t.Observed == *t.Expected && note == "" {
			t.Result = guardian.Passed
		}
	}
	p.add(t)
}

// skip notes a probe that could not be sent.
func (p *probes) skip(name, note string) {
	p.add(guardian.Test{Name: name, Expected: expected(name), Result: guardian.Failed, Note: note})
}

func expected(name string) *guardian.Answer {
	i := slices.IndexFunc(guardian.Probes, func(p guardian.Probe) bool { return p.Name == name })
	answer := guardian.Probes[i].Answer
	return &answer
}

// reply is an answer; status 0 stands for none.
type reply struct {
	status int
	header http.Header
	body   []byte
	reason string // reasonCode of a problem
}

// maxReply bounds what is read of an answer in bytes.
const maxReply = 4 << 20

// maxReason bounds a reason code in bytes.
const maxReason = 64

type edit func(*http.Request)

func header(name, value string) edit { return func(r *http.Request) { r.Header.Set(name, value) } }

func bearer(token string) edit { return header("Authorization", "Bearer "+token) }

func random() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// ask sends one request through the installation's own listener.
func (p *probes) ask(method, path string, body []byte, edits ...edit) *reply {
	ctx, cancel := context.WithTimeout(p.ctx, requestFor)
	defer cancel()
	none := &reply{header: http.Header{}}
	r, err := http.NewRequestWithContext(ctx, method, p.w.Base+path, bytes.NewReader(body))
	if err != nil {
		return none
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, f := range edits {
		f(r)
	}
	response, err := p.w.HTTP.Do(r)
	if err != nil {
		p.w.Log.Warn("a verification got no answer", "request", method+" "+path, "error", err)
		return none
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		return none
	}
	out := &reply{status: response.StatusCode, header: response.Header, body: content}
	if out.status >= http.StatusBadRequest {
		var problem struct {
			ReasonCode string `json:"reasonCode"`
		}
		_ = json.Unmarshal(content, &problem) // a problem without a code stays one
		out.reason = problem.ReasonCode[:min(len(problem.ReasonCode), maxReason)]
	}
	return out
}

// stepPermit is the permit of an answer to a report.
type stepPermit struct {
	Token  string         `json:"token"`
	Action propose.Action `json:"action"`
}

// turn is an answer to a report.
type turn struct {
	Decision struct {
		Decision   string `json:"decision"`
		ReasonCode string `json:"reasonCode"`
	} `json:"decision"`
	Permit *stepPermit `json:"permit"`
}

func (r *reply) turn() (t turn) {
	if r.status == http.StatusOK {
		_ = json.Unmarshal(r.body, &t) // what is no decision has none
	}
	return t
}

func (r *reply) permit() *stepPermit { return r.turn().Permit }

// decision is the reason code of the decision, or that of the refusal.
func (r *reply) decision() string {
	if r.status == http.StatusOK {
		return r.turn().Decision.ReasonCode
	}
	return r.reason
}

// verified reports whether the answer is an executed read with its receipt.
func (r *reply) verified() bool {
	var o struct {
		State   string `json:"state"`
		Receipt *struct {
			ReceiptID string `json:"receiptId"`
			Result    string `json:"result"`
		} `json:"receipt"`
	}
	return r.status == http.StatusOK && json.Unmarshal(r.body, &o) == nil && o.State == run.ExecutionVerified &&
		o.Receipt != nil && authority.IsID(o.Receipt.ReceiptID) && o.Receipt.Result == "applied"
}
