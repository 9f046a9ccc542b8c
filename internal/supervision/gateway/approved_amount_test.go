package gateway_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/authority"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
	"countersign/internal/supervision/service/merchant"
)

// inflated is a merchant that, once it is on, asks a thousand times as much for what was
// prepared, and calls it the same proposal in the same state.
type inflated struct {
	merchant.Adapter
	on *atomic.Bool
}

func (m inflated) Catalog(s decide.Sighting, p service.Plan) ([]propose.Entry, error) {
	list, err := m.Adapter.Catalog(s, p)
	list = slices.Clone(list)
	for i := range list {
		if a := list[i].Effect.AmountCents; a != nil && m.on.Load() && *a > 0 {
			more := *a * 1000
			list[i].Effect.AmountCents = &more
		}
	}
	return list, err
}

// An approval for an amount never covers another: not what the service asks by the time
// that it is to be committed, though operation, proposal, state and everything else about
// it are the same and the budget would hold it. On both engines, locally and at a store.
func TestApprovalCoversItsAmount(t *testing.T) {
	for _, target := range []string{run.TargetLocal, run.TargetHosted} {
		t.Run(target, func(t *testing.T) {
			onEach(t, func(t *testing.T, e engine) {
				permits := func(doors decide.Doors, want string) (given bool, h *house, id string) {
					var on atomic.Bool
					doors.Window = true
					h = newHouse(t, e, func(c *gateway.Config) { c.Services, c.Doors = []gateway.Service{inflated{on: &on}}, doors })
					r := createRequest(target)
					r.Config.Mode, r.Budget = run.ModeExact, money.Cents(99_999_999)
					id, err := h.Create(t.Context(), r)
					must(t, err)
					for _, entry := range []string{"merchant.catalog", "add:fieldwork-keyboard:1", "checkout:addr_home"} {
						h.do(id, entry)
					}
					p := h.state(id).Proposal
					must(t, h.Approve(t.Context(), id, p.ID, "", session))
					if s := h.state(id); len(s.Grants) != 2 || s.Grants[1].MaxTotalCents != p.AmountCents {
						t.Fatalf("the approval gave %+v", s.Grants)
					}
					on.Store(true)
					h.clock.Move(31 * time.Second) // what was seen is too old now
					o, entry := h.entry(id, "merchant.checkout.submit")
					if entry.Amount() != 1000*p.AmountCents || *entry.Effect.TransactionProposalID != p.ID {
						t.Fatalf("the service asks %s for %s", entry.Amount(), *entry.Effect.TransactionProposalID)
					}
					turn, err := h.Propose(t.Context(), id, "", report(o, entry))
					must(t, err)
					if turn.Permit == nil && turn.Decision.ReasonCode != want {
						t.Errorf("refused with %s, want %s", turn.Decision.ReasonCode, want)
					}
					return turn.Permit != nil, h, id
				}
				given, h, id := permits(decide.Doors{}, authority.EffectMismatch)
				if given {
					t.Error("the approval of one amount gave a permit for another")
				}
				if s := h.state(id); h.count(id, "execution.dispatched") != 3 || s.Budget.Spent != 0 || s.Budget.Reserved != 0 {
					t.Errorf("%d dispatches, budget %+v", h.count(id, "execution.dispatched"), s.Budget)
				}
				h.verify(id)
				// Control: check 10 holds the amount, behind it the total of the exact grant, and
				// behind both the machine. Without them there is a permit.
				if given, _, _ := permits(decide.Doors{Checks: []int64{10}, Machine: true}, authority.BudgetExceeded); given {
					t.Error("control: a permit over the total of its grant")
				}
				if given, _, _ := permits(decide.Doors{Checks: []int64{10, 11}, Machine: true}, ""); !given {
					t.Error("control: no permit without the checks and the machine")
				}
			})
		})
	}
}
