package replica_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"time"

	"countersign/internal/client"
	"countersign/internal/replica"
)

// told is what one client was told, and has to be true ever after.
type told struct {
	RunID string
	// Exactly one of these is set.
	Created  bool
	Token    bool            // a token was issued
	Head     string          // of a view
	Turn     string          // id of a turn that was decided
	Decision string          // of that turn
	Receipt  json.RawMessage // of an execution
	Approved string          // digest of the effect
	Revoked  bool
	Probed   string // id of the execution
	Retried  bool
	// ExecutionID is that of a Receipt.
	ExecutionID string
}

// journal keeps what clients were told. It is safe for concurrent use.
type journal struct {
	mu   sync.Mutex
	list []told
}

func (j *journal) note(t told) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, t)
}

// meter counts answers. It is safe for concurrent use.
type meter struct {
	mu      sync.Mutex
	n       int
	waiting map[chan struct{}]int
}

func (m *meter) count() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	for c, n := range m.waiting {
		if m.n >= n {
			close(c)
			delete(m.waiting, c)
		}
	}
}

// after is closed when so many further requests were answered.
func (m *meter) after(n int) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := make(chan struct{})
	if m.waiting == nil {
		m.waiting = map[chan struct{}]int{}
	}
	m.waiting[c] = m.n + n
	return c
}

// shopper is an owner with his agent, who has one run after the other do what its terms
// say, and comes back as api/protocol.md says whatever happens to the server.
type shopper struct {
	name string
	kind
	owner          *client.Owner
	secret         string
	http           *http.Client
	journal        *journal
	meter          *meter
	rng            *mathrand.Rand
	requests, runs int
}

// errStuck means that a run does not come to an end.
var errStuck = errors.New("the run comes to no end")

// answered counts a request unless nobody was there to answer it.
func (s *shopper) answered(err error) {
	if _, refused := errors.AsType[*client.RefusedError](err); err == nil || refused {
		s.meter.count()
		s.requests++
	}
}

// again sends until an answer arrives that is not just "later". lost says that an earlier
// one may have arrived and been carried out.
func (s *shopper) again(ctx context.Context, try func() (client.Reply, error)) (r client.Reply, lost bool, err error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		r, err := try()
		s.answered(err)
		switch {
		case err == nil && r.Status == http.StatusInternalServerError:
			return r, lost, fmt.Errorf("%s: %s", s.name, r.Got())
		case err == nil && r.Reason != "IN_PROGRESS" && r.Reason != "LEDGER_UNAVAILABLE":
			return r, lost, nil
		case err != nil, r.Reason == "LEDGER_UNAVAILABLE":
			lost = true
		}
		select { // before the next try, as any client waits; nothing here depends on how long
		case <-ctx.Done():
			return r, lost, errors.Join(ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

// view is what an owner sees of a run, as far as a shopper looks.
type view struct {
	RunID       string
	Instruction string
	Status      string
	Head        string
	SpentCents  string
	BudgetCents string
	Reserved    string `json:"reservedCents"`
	StopContext *struct{ ReasonCode, Recovery string }
	Proposal    *struct{ ProposalID, EffectDigest string }
	Executions  []struct{ ExecutionID, State, OperationID string }
}

func (v *view) ended() bool {
	switch v.Status {
	case "completed", "revoked", "terminated", "failed":
		return true
	}
	return false
}

// unconfirmed is an execution of which nobody knows what it did, "" when there is none.
func (v *view) unconfirmed() string {
	for _, x := range v.Executions {
		if x.State == "unconfirmed" {
			return x.ExecutionID
		}
	}
	return ""
}

const runs = "/api/v1/owner/runs"

// act sends a request of the owner's, of which at most the first one is carried out.
func (s *shopper) act(ctx context.Context, id, what string, body any, ok told) error {
	r, _, err := s.again(ctx, func() (client.Reply, error) { return s.owner.Once(ctx, "POST", runs+"/"+id+"/"+what, body) })
	if err == nil && r.Status == http.StatusOK {
		ok.RunID = id
		s.journal.note(ok)
	}
	return err
}

func (s *shopper) view(ctx context.Context, id string) (v view, err error) {
	r, _, err := s.again(ctx, func() (client.Reply, error) { return s.owner.Once(ctx, "GET", runs+"/"+id, nil) })
	if err == nil && r.Status != http.StatusOK {
		err = fmt.Errorf("view of %s: %s", id, r.Got())
	}
	if err != nil {
		return v, err
	}
	err = json.Unmarshal(r.Body, &v)
	s.journal.note(told{RunID: id, Head: v.Head})
	return v, err
}

// create makes a run. It has no key: after a lost answer the list of runs tells.
func (s *shopper) create(ctx context.Context) (id string, err error) {
	body := replica.Run(s.service, s.target, s.mode)
	body["instruction"] = s.name + " " + rand.Text()
	for {
		id, r, err := s.owner.CreateRun(ctx, body)
		s.answered(err)
		if err == nil {
			s.journal.note(told{RunID: id, Created: true})
			return id, nil
		}
		if refused, ok := errors.AsType[*client.RefusedError](err); ok && r.Reason != "LEDGER_UNAVAILABLE" && r.Reason != "DISPATCH_UNCONFIRMED" && r.Reason != "HOSTED_UNREACHABLE" {
			return "", refused
		}
		list, _, err := s.again(ctx, func() (client.Reply, error) { return s.owner.Once(ctx, "GET", runs+"?limit=12", nil) })
		if err != nil {
			return "", err
		}
		var page struct{ Runs []view }
		if err := json.Unmarshal(list.Body, &page); err != nil {
			return "", err
		}
		for _, v := range page.Runs {
			if v.Instruction == body["instruction"] {
				return v.RunID, nil
			}
		}
	}
}

// life has one run from its creation to its end.
func (s *shopper) life(ctx context.Context) error {
	id, err := s.create(ctx)
	if err != nil {
		return err
	}
	s.runs++
	if s.runs%3 == 0 {
		if err := s.visit(ctx); err != nil {
			return err
		}
	}
	b := &buying{shopper: s, agent: nil, id: id, steps: replica.Steps[s.service]}
	for range 200 {
		if b.smooth {
			if err := b.step(ctx, view{}); err != nil {
				return err
			}
			continue
		}
		v, err := s.view(ctx, id)
		switch {
		case err != nil:
			return err
		case v.unconfirmed() != "":
			err = s.findOut(ctx, v)
		case v.ended():
			return nil
		case v.Status == "paused":
			err = s.recover(ctx, v)
		case v.Status == "ready":
			err = b.step(ctx, v)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %s of %s", errStuck, id, s.name)
}

// visit opens a session of the owner's, looks, and ends it.
func (s *shopper) visit(ctx context.Context) error {
	visitor := &client.Owner{Origin: s.owner.Origin, HTTP: s.http}
	if _, _, err := s.again(ctx, func() (client.Reply, error) { return visitor.SignIn(ctx, s.secret) }); err != nil {
		return err
	}
	r, _, err := s.again(ctx, func() (client.Reply, error) { return visitor.Once(ctx, "GET", runs+"?limit=1", nil) })
	if err == nil && r.Status != http.StatusOK {
		return fmt.Errorf("an owner who has signed in: %s", r.Got())
	}
	if err != nil {
		return err
	}
	r, _, err = s.again(ctx, func() (client.Reply, error) { return visitor.Once(ctx, "DELETE", "/api/v1/owner/session", nil) })
	if err == nil && r.Status != http.StatusNoContent && r.Status != http.StatusUnauthorized { // 401: the answer to the first was lost
		return fmt.Errorf("signing out: %s", r.Got())
	}
	return err
}

// findOut asks the store, or states something, about an execution without a receipt.
func (s *shopper) findOut(ctx context.Context, v view) error {
	x := v.unconfirmed()
	switch s.rng.IntN(3) {
	case 0:
		return s.act(ctx, v.RunID, "reconcile", map[string]string{"executionId": x, "finding": "not_applied"}, told{Probed: x})
	case 1:
		if err := s.act(ctx, v.RunID, "reconcile", map[string]string{"executionId": x, "finding": "unknown", "note": "nobody knows"}, told{Retried: true}); err != nil {
			return err
		}
	}
	return s.act(ctx, v.RunID, "probe", map[string]string{"executionId": x}, told{Probed: x})
}

// recover lets a stopped run go on by the route that it names.
func (s *shopper) recover(ctx context.Context, v view) error {
	switch stop := v.StopContext; {
	case stop.Recovery == "approve" && v.Proposal != nil:
		p := v.Proposal
		return s.act(ctx, v.RunID, "approve", map[string]string{"proposalId": p.ProposalID, "digest": p.EffectDigest}, told{Approved: p.EffectDigest})
	case stop.Recovery == "retry":
		return s.act(ctx, v.RunID, "retry", struct{}{}, told{Retried: true})
	case stop.Recovery == "none":
		return s.act(ctx, v.RunID, "revoke", struct{}{}, told{Revoked: true})
	default:
		return fmt.Errorf("%s of %s is paused for %s, recovery %s", v.RunID, s.name, stop.ReasonCode, stop.Recovery)
	}
}

// buying is a run on its way.
type buying struct {
	*shopper
	agent *replica.Agent
	id    string
	steps []string
	at    int    // the next step
	asked string // the execution that the last operation was, when nothing is known of it
	turn  string // the newest one whose answer has arrived
	// smooth says that the last step was verified and is not the end, so that the view of
	// the run would tell nothing new.
	smooth bool
}

// step has the agent do the next thing.
func (b *buying) step(ctx context.Context, v view) error {
	b.smooth = false
	if b.asked != "" { // what became of it the owner has found out meanwhile
		for _, x := range v.Executions {
			if x.ExecutionID == b.asked && (x.State == "verified" || x.State == "receipted") {
				b.at++
			}
		}
		b.asked = ""
	}
	if b.agent == nil {
		if _, _, err := b.again(ctx, func() (r client.Reply, err error) {
			if b.agent, err = replica.NewAgent(ctx, b.owner, b.id, b.http); err != nil {
				if refused, ok := errors.AsType[*client.RefusedError](err); ok {
					return refused.Reply, nil
				}
			}
			return r, err
		}); err != nil || b.agent == nil {
			return err
		}
		b.journal.note(told{RunID: b.id, Token: true})
	}
	var seen replica.Observation
	if r, _, err := b.again(ctx, func() (r client.Reply, err error) {
		seen, err = b.agent.Observe(ctx)
		return seen.Reply, err
	}); err != nil || r.Status != http.StatusOK {
		return err // the view says more
	}
	entry, ok := seen.Entry(b.steps[min(b.at, len(b.steps)-1)])
	if !ok {
		if b.at == 0 {
			return fmt.Errorf("the catalog of %s has no %s", b.id, b.steps[0])
		}
		b.at-- // what was prepared is gone
		return nil
	}
	t, err := b.report(ctx, &seen, entry)
	if err != nil || t.Permit == nil {
		return err
	}
	return b.execute(ctx, t)
}

// report proposes an entry. After a lost answer the newest decision tells whether the
// report had arrived.
func (b *buying) report(ctx context.Context, seen *replica.Observation, e replica.Entry) (t replica.Turn, err error) {
	lost := false
	_, _, err = b.again(ctx, func() (r client.Reply, err error) {
		if lost {
			if t, err = b.agent.Decision(ctx); err != nil || t.Status == http.StatusOK && t.TurnID != b.turn {
				return t.Reply, err
			}
		}
		t, err = b.agent.Report(ctx, seen, e)
		lost = err != nil || t.Reason == "LEDGER_UNAVAILABLE"
		return t.Reply, err
	})
	if err == nil && t.Status == http.StatusOK {
		b.turn = t.TurnID
		b.journal.note(told{RunID: b.id, Turn: t.TurnID, Decision: t.Decision.Decision})
	}
	return t, err
}

// execute sends the operation, sometimes from two places at once, until its outcome is
// answered.
func (b *buying) execute(ctx context.Context, t replica.Turn) error {
	key := replica.NewKey()
	var beside sync.WaitGroup
	defer beside.Wait()
	switch b.rng.IntN(8) {
	case 0, 1:
		beside.Go(func() { // whatever comes of it is the same
			if d, err := b.agent.Execute(ctx, t.Permit.Token, t.Permit.Action, key); err == nil {
				b.receipted(d)
			}
		})
	case 2:
		if b.revokes {
			beside.Go(func() {
				if r, err := b.owner.Revoke(ctx, b.id); err == nil && r.Status == http.StatusOK {
					b.journal.note(told{RunID: b.id, Revoked: true})
				}
			})
		}
	}
	var d replica.Done
	_, _, err := b.again(ctx, func() (r client.Reply, err error) {
		d, err = b.agent.Execute(ctx, t.Permit.Token, t.Permit.Action, key)
		return d.Reply, err
	})
	if err != nil {
		return err
	}
	b.receipted(d)
	if d.Status == http.StatusOK {
		if d.State == "verified" || d.State == "receipted" {
			b.at++
			b.smooth = d.State == "verified" && b.at < len(b.steps)
		}
		return nil
	}
	switch d.Reason {
	case "DISPATCH_UNCONFIRMED":
		v, err := b.view(ctx, b.id)
		if err == nil {
			b.asked = v.Executions[len(v.Executions)-1].ExecutionID
		}
		return err
	case "IDEMPOTENCY_CONFLICT", "PERMIT_MISMATCH", "PERMIT_CONSUMED":
		return fmt.Errorf("%s of %s: %s", b.id, b.name, d.Got()) // the same request is never another's
	}
	return nil
}

func (b *buying) receipted(d replica.Done) {
	if d.Status == http.StatusOK && len(d.Receipt) > 0 && string(d.Receipt) != "null" {
		b.journal.note(told{RunID: b.id, ExecutionID: d.ExecutionID, Receipt: d.Receipt})
	}
}
