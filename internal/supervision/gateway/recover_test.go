package gateway_test

import (
	"errors"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"countersign/internal/authority"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
)

// exact makes a run of exact mode and brings it to where it waits for the approval of
// a keyboard.
func (h *house) exact(target string) (id string, p *run.Proposal) {
	h.t.Helper()
	r := createRequest(target)
	r.Config.Mode = run.ModeExact
	id, err := h.Create(h.t.Context(), r)
	must(h.t, err)
	for _, entry := range []string{"merchant.catalog", "add:fieldwork-keyboard:1", "checkout:addr_home"} {
		h.do(id, entry)
	}
	h.stopped(id, authority.ApprovalRequired, "approve")
	return id, h.state(id).Proposal
}

// stopped requires that the run is paused for the reason.
func (h *house) stopped(id, reason, recovery string) {
	h.t.Helper()
	s := h.state(id)
	if s.Status != run.StatusPaused || s.Stop == nil || s.Stop.ReasonCode != reason || s.Stop.Recovery != recovery {
		h.t.Fatalf("the run is %s for %+v, want paused for %s, recovery %s", s.Status, s.Stop, reason, recovery)
	}
}

// reasonOf is the reason of a refusal, "" when err is nil.
func reasonOf(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	d, ok := errors.AsType[*authority.Denial](err)
	if !ok {
		t.Fatal(err)
	}
	return d.Reason
}

func (h *house) refuses(want string, err error) {
	h.t.Helper()
	if got := reasonOf(h.t, err); got != want {
		h.t.Fatalf("refused with %q, want %q", got, want)
	}
}

// H-047: exact mode on both targets, from the stop after preparation to the receipt.
func TestExactPurchase(t *testing.T) {
	for _, target := range []string{run.TargetLocal, run.TargetHosted} {
		t.Run(target, func(t *testing.T) {
			onEach(t, func(t *testing.T, e engine) {
				h := newHouse(t, e)
				id, p := h.exact(target)
				h.refuses(authority.ApprovalStale, h.Approve(t.Context(), id, id, "", session))
				must(t, h.Approve(t.Context(), id, p.ID, "", session))
				h.refuses(authority.RecoveryNotEligible, h.Approve(t.Context(), id, p.ID, "", session))
				h.do(id, "merchant.checkout.submit")
				if s := h.state(id); s.Status != run.StatusCompleted || s.Budget.Spent != 13700 || s.Budget.Reserved != 0 {
					t.Errorf("status %s, spent %s, reserved %s", s.Status, s.Budget.Spent, s.Budget.Reserved)
				}
				h.verify(id)
			})
		})
	}
}

// H-224 L-18: a price that changed at the store since the checkout was prepared cannot
// be approved. With that guard open it is approved, and the store itself refuses: there
// is a signed receipt and nothing is charged.
func TestApprovalLooksAgain(t *testing.T) {
	for name, open := range map[string]bool{"guarded": false, "control": true} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e engine) {
				h := newHouse(t, e, func(c *gateway.Config) { c.Doors.Approval = open })
				id, p := h.exact(run.TargetHosted)
				must(t, h.store.SetPrice(t.Context(), "fieldwork-keyboard", 12901))
				err := h.Approve(t.Context(), id, p.ID, "", session)
				if !open {
					h.refuses(authority.ApprovalStale, err)
					h.stopped(id, authority.StaleState, "retry")
					if s := h.state(id); len(s.Grants) != 1 || s.Proposal != nil {
						t.Errorf("%d grants, proposal %v", len(s.Grants), s.Proposal)
					}
					h.verify(id)
					return
				}
				must(t, err)
				o, entry := h.entry(id, "merchant.checkout.submit")
				turn, err := h.Propose(t.Context(), id, "", report(o, entry))
				must(t, err)
				if turn.Permit == nil {
					t.Fatalf("%+v", turn.Decision)
				}
				out, err := h.operate(id, turn.Permit, "key-of-"+turn.Permit.PermitID)
				must(t, err)
				if out.State != run.ExecutionNotApplied || out.Receipt == nil || out.Receipt.Result != run.ResultRefused {
					t.Errorf("%+v", out)
				}
				if s := h.state(id); s.Budget.Spent != 0 || s.Budget.Reserved != 0 {
					t.Errorf("spent %s, reserved %s", s.Budget.Spent, s.Budget.Reserved)
				}
				h.verify(id)
			})
		})
	}
}

// away closes the store's door; the returned function opens it again at the same
// address.
func (h *house) away() (back func()) {
	h.t.Helper()
	address := h.server.Listener.Addr().String()
	h.server.Close()
	return func() {
		h.t.Helper()
		l, err := net.Listen("tcp", address)
		must(h.t, err)
		h.server = httptest.NewUnstartedServer(h.store.Handler())
		h.server.Listener.Close()
		h.server.Listener = l
		h.server.Start()
		h.t.Cleanup(h.server.Close)
	}
}

// Without the store's word on its present state nothing is approved.
func TestNoApprovalUnseen(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id, p := h.exact(run.TargetHosted)
		back := h.away()
		h.refuses(authority.HostedUnreachable, h.Approve(t.Context(), id, p.ID, "", session))
		h.stopped(id, authority.ApprovalRequired, "approve")
		back()
		must(t, h.Approve(t.Context(), id, p.ID, "", session))
		h.do(id, "merchant.checkout.submit")
		h.verify(id)
	})
}

// H-097: a run that stopped because the store was away asks for it again before it goes
// on, and dispatches nothing by that.
func TestRetryAsksAgain(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetHosted)
		h.do(id, "merchant.catalog")
		p := h.allow(id, "add:fieldwork-keyboard:1")
		back := h.away()
		if _, err := h.operate(id, p, "key-of-"+p.PermitID); reasonOf(t, err) != authority.HostedUnreachable {
			t.Fatal(err)
		}
		h.stopped(id, authority.HostedUnreachable, "retry")
		h.refuses(authority.HostedUnreachable, h.Retry(t.Context(), id))
		h.stopped(id, authority.HostedUnreachable, "retry")
		back()
		before := h.state(id)
		must(t, h.Retry(t.Context(), id))
		if s := h.state(id); s.Status != run.StatusReady || s.Observation != nil || s.Execution.ID != before.Execution.ID {
			t.Errorf("after the retry the run is %s, observation %v, execution %s", s.Status, s.Observation, s.Execution.ID)
		}
		h.refuses(authority.RecoveryNotEligible, h.Retry(t.Context(), id))
		for _, entry := range []string{"add:fieldwork-keyboard:1", "checkout:addr_home", "merchant.checkout.submit"} {
			h.do(id, entry)
		}
		h.verify(id)
	})
}

// Of many approvals at once one creates the one grant; the others are refused.
func TestApproveOnce(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id, p := h.exact(run.TargetLocal)
		others := []*gateway.Gateway{h.Gateway, h.another()}
		reasons := make([]string, 12)
		var all sync.WaitGroup
		for i := range reasons {
			all.Go(func() {
				var denial *authority.Denial
				if err := others[i%2].Approve(t.Context(), id, p.ID, "", session); errors.As(err, &denial) {
					reasons[i] = denial.Reason
				} else if err != nil {
					reasons[i] = err.Error()
				}
			})
		}
		all.Wait()
		approved := 0
		for _, reason := range reasons {
			switch reason {
			case "":
				approved++
			case authority.RecoveryNotEligible:
			default:
				t.Errorf("refused with %s", reason)
			}
		}
		if s := h.state(id); approved != 1 || len(s.Grants) != 2 {
			t.Errorf("%d approvals, %d grants", approved, len(s.Grants))
		}
		h.verify(id)
	})
}

// An approval that is not used ends after five minutes; the effect can be approved
// again while its proposal stands.
func TestApprovalLapses(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id, p := h.exact(run.TargetLocal)
		must(t, h.Approve(t.Context(), id, p.ID, "", session))
		h.clock.Move(5 * time.Minute)
		o, entry := h.entry(id, "merchant.checkout.submit")
		turn, err := h.Propose(t.Context(), id, "", report(o, entry))
		must(t, err)
		if turn.Permit != nil || turn.Decision.ReasonCode != authority.ApprovalRequired {
			t.Fatalf("%+v", turn)
		}
		must(t, h.Approve(t.Context(), id, p.ID, "", session))
		h.do(id, "merchant.checkout.submit")
		h.verify(id)
	})
}

// G-19: a lost receipt at the local service is an honest unknown. Nothing goes on while
// it lasts, and the effect has happened.
func TestDroppedReceipt(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		for _, entry := range []string{"merchant.catalog", "add:fieldwork-keyboard:1", "checkout:addr_home"} {
			h.do(id, entry)
		}
		must(t, h.Simulate(t.Context(), id, run.SimulateDropReceipt))
		p := h.allow(id, "merchant.checkout.submit")
		if _, err := h.operate(id, p, "key-of-"+p.PermitID); reasonOf(t, err) != authority.DispatchUnconfirmed {
			t.Fatal(err)
		}
		h.stopped(id, authority.DispatchUnconfirmed, "reconcile")
		s := h.state(id)
		if s.Outcome() != "unconfirmed_effect" || s.Budget.Reserved != 13700 || s.Budget.Spent != 0 {
			t.Errorf("outcome %s, reserved %s, spent %s", s.Outcome(), s.Budget.Reserved, s.Budget.Spent)
		}
		for name, err := range map[string]error{
			"retry": h.Retry(t.Context(), id), "clarify": h.Clarify(t.Context(), id, "go on"), "approve": h.Approve(t.Context(), id, id, "", session),
			"simulate": h.Simulate(t.Context(), id, run.SimulateNavigate),
		} {
			if got := reasonOf(t, err); got != authority.UnresolvedEffect {
				t.Errorf("%s: %q", name, got)
			}
		}
		h.verify(id)
	})
}
