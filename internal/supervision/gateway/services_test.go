package gateway_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/money"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service/bank"
	"countersign/internal/supervision/service/broker"
	"countersign/internal/supervision/service/merchant"
)

// everyService is what a product is built with.
func everyService(c *gateway.Config) {
	c.Services = []gateway.Service{merchant.Adapter{}, bank.Adapter{}, broker.Adapter{}}
}

// domain is a service with a bounded run from its beginning to its end.
type domain struct {
	service     string
	steps       []string // entries or operations
	destination string
	amount      money.Cents
	terms       []string // members that are not free text, from G-06
	wrong       []string // entries that the fixture's terms do not admit
}

var domains = []domain{
	{
		service: "bank", steps: []string{"bank.accounts", "bank.payees", "transactions:acct_checking", "transfer:acct_checking:payee_utility", "bank.transfer.status", "bank.transfer.submit"},
		destination: "payee_utility", amount: 5000, terms: []string{"sourceAccountRef", "payeeRef", "amountCents", "currency"},
		wrong: []string{"transfer:acct_checking:payee_utilities", "transfer:acct_checking:payee_landlord", "transfer:acct_savings:payee_utility"},
	},
	{
		service: "broker", steps: []string{"broker.account", "quote:SYNA", "broker.positions", "order:SYNA:buy:2:5000", "broker.order.status", "broker.order.submit"},
		destination: "acct_brokerage", amount: 10000, terms: []string{"symbol", "side", "quantity", "limitPriceCents", "orderType", "timeInForce"},
		wrong: []string{"order:SYNAA:buy:2:5000", "order:SYNA:sell:2:5000", "order:SYNA:buy:3:5000", "order:SYNA:buy:1:5000", "order:SYNA:buy:2:5001", "order:SYNA:buy:2:4999"},
	},
}

// onEachService runs a test on both engines with every new service.
func onEachService(t *testing.T, test func(*testing.T, *house, domain)) {
	for _, d := range domains {
		t.Run(d.service, func(t *testing.T) {
			onEach(t, func(t *testing.T, e engine) { test(t, newHouse(t, e, everyService), d) })
		})
	}
}

func (d domain) request(budget money.Cents, terms string) gateway.CreateRequest {
	r := createRequest(run.TargetLocal)
	r.Config.Service, r.Budget, r.Instruction = d.service, budget, "Do what the terms of the "+d.service+" say."
	if terms != "" {
		r.Terms = []byte(terms)
	}
	return r
}

func (h *house) createFor(d domain, budget money.Cents, terms string) string {
	h.t.Helper()
	id, err := h.Create(h.t.Context(), d.request(budget, terms))
	must(h.t, err)
	return id
}

// before does the steps up to the one that is named, and not that.
func (h *house) before(id string, d domain, step string) {
	h.t.Helper()
	for _, s := range d.steps {
		if s == step {
			return
		}
		h.do(id, s)
	}
	h.t.Fatalf("there is no step %s", step)
}

// H-048 G-06 H-029 H-221: a bounded run of each service reads, prepares, commits and is seen
// to be verified, within a budget that is exactly enough. Its evidence verifies.
func TestServices(t *testing.T) {
	onEachService(t, func(t *testing.T, h *house, d domain) {
		id := h.createFor(d, d.amount, "")
		var terms map[string]any
		must(t, json.Unmarshal(h.state(id).Terms, &terms))
		for _, member := range d.terms {
			if _, ok := terms[member]; !ok {
				t.Errorf("terms %v without %s", terms, member)
			}
		}
		h.before(id, d, d.steps[len(d.steps)-1])
		o, submit := h.entry(id, d.steps[len(d.steps)-1])
		if len(o.Catalog) > propose.MaxEntries || submit.Amount() != d.amount || *submit.Destination != d.destination || submit.Effect.TransactionProposalID == nil {
			t.Errorf("%d entries, %+v", len(o.Catalog), submit)
		}
		if s := h.state(id); s.Position() != "commit" || s.Budget.Spent != 0 || s.Budget.Reserved != 0 {
			t.Errorf("position %s, budget %+v", s.Position(), s.Budget)
		}
		out := h.do(id, d.steps[len(d.steps)-1])
		if out.Receipt == nil || out.Receipt.OrderID == nil {
			t.Errorf("the receipt is %+v", out.Receipt)
		}
		s := h.state(id)
		if s.Status != run.StatusCompleted || s.Budget.Spent != d.amount || s.Budget.Reserved != 0 {
			t.Errorf("status %s, spent %s, reserved %s; want completed, %s, 0", s.Status, s.Budget.Spent, s.Budget.Reserved, d.amount)
		}
		if n := h.count(id, "execution.verified"); n != len(d.steps) {
			t.Errorf("%d executions were verified, want %d", n, len(d.steps))
		}
		h.verify(id)
	})
}

// What the terms do not name is listed and refused, whatever the guardian would say.
func TestOtherChoices(t *testing.T) {
	onEachService(t, func(t *testing.T, h *house, d domain) {
		for _, wrong := range d.wrong {
			id := h.createFor(d, 10*d.amount, "")
			h.do(id, d.steps[0])
			o, e := h.entry(id, wrong)
			turn, err := h.Propose(t.Context(), id, "", report(o, e))
			must(t, err)
			if turn.Decision.ReasonCode != authority.ForbiddenOperation || turn.Permit != nil {
				t.Errorf("%s: %+v", wrong, turn.Decision)
			}
			if s := h.state(id); s.Status != run.StatusPaused || h.count(id, "execution.dispatched") != 1 {
				t.Errorf("%s: status %s", wrong, s.Status)
			}
		}
	})
}

// G-08: nothing is prepared whose commit could not fit.
func TestOneCentShort(t *testing.T) {
	onEachService(t, func(t *testing.T, h *house, d domain) {
		id := h.createFor(d, d.amount-1, "")
		h.before(id, d, d.steps[3])
		o, e := h.entry(id, d.steps[3])
		turn, err := h.Propose(t.Context(), id, "", report(o, e))
		must(t, err)
		if turn.Decision.ReasonCode != authority.BudgetExceeded || turn.Permit != nil {
			t.Errorf("%+v", turn.Decision)
		}
		h.verify(id)
	})
}

// Insufficient funds are a refusal by the service: nothing is spent or changed, and
// nothing is left to submit.
func TestInsufficientFunds(t *testing.T) {
	onEachService(t, func(t *testing.T, h *house, d domain) {
		terms, prepare := `{"sourceAccountRef":"acct_savings","payeeRef":"payee_utility","amountCents":"4201","currency":"USD","memo":""}`, "transfer:acct_savings:payee_utility"
		if d.service == "broker" {
			terms, prepare = `{"symbol":"SYNA","side":"buy","quantity":21,"limitPriceCents":"5000","orderType":"limit","timeInForce":"day"}`, "order:SYNA:buy:21:5000"
		}
		id := h.createFor(d, 200000, terms)
		h.before(id, d, d.steps[3])
		before, _ := h.entry(id, prepare)
		p := h.allow(id, prepare)
		out, err := h.operate(id, p, "key-of-"+p.PermitID)
		must(t, err)
		if out.State == run.ExecutionVerified || out.Receipt == nil || out.Receipt.Result != run.ResultRefused {
			t.Errorf("%+v, receipt %+v", out, out.Receipt)
		}
		after, _, err := h.ledger.Load(t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindService, ID: id})
		must(t, err)
		s := h.state(id)
		if !bytes.Equal(after.State, before.State) || s.Proposal != nil || s.Budget.Spent != 0 || s.Budget.Reserved != 0 {
			t.Errorf("proposal %v, budget %+v, service state\n%s, before\n%s", s.Proposal, s.Budget, after.State, before.State)
		}
		if s.Status != run.StatusPaused || s.Stop.ReasonCode != authority.ExecutionNotApplied {
			t.Errorf("status %s, stop %+v", s.Status, s.Stop)
		}
		h.verify(id)
	})
}

// H-013: bank and broker have no hosted form.
func TestNoHostedForm(t *testing.T) {
	onEachService(t, func(t *testing.T, h *house, d domain) {
		r := d.request(d.amount, "")
		r.Config.Target = run.TargetHosted
		_, err := h.Create(t.Context(), r)
		if reason(err) != authority.NotImplemented || !strings.Contains(err.Error(), `target "hosted"`) || !strings.Contains(err.Error(), `"target": "local"`) {
			t.Errorf("%v", err)
		}
		if list, err := h.List(t.Context(), "", 100); err != nil || len(list) != 0 {
			t.Errorf("%d runs, %v", len(list), err)
		}
	})
}

// H-011: whoever sees a run on a local service is told that its data is made up.
func TestSyntheticIsSaid(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e, everyService)
		for _, service := range []string{"merchant", "bank", "broker"} {
			id := h.createFor(domain{service: service}, 13700, "")
			v, err := h.View(t.Context(), id)
			must(t, err)
			if v.Synthetic == nil || !strings.HasPrefix(*v.Synthetic, "Synthetic "+service) {
				t.Errorf("%s: %v", service, v.Synthetic)
			}
		}
		v, err := h.View(t.Context(), h.create(run.TargetHosted))
		must(t, err)
		if v.Synthetic != nil {
			t.Errorf("a hosted store, which may be a real one: %q", *v.Synthetic)
		}
	})
}

// The memo of a transfer is free text: no event holds it, every place that means it
// holds the same commitment, owner and guardian can read it, and the text can be
// erased from an export without harm to the chain.
func TestMemoCanBeErased(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		const memo = "for the flat in the third floor"
		var heard *listening
		h := newHouse(t, e, everyService, func(c *gateway.Config) { heard = &listening{Guardian: c.Guardian}; c.Guardian = heard })
		d := domains[0]
		id := h.createFor(d, d.amount, `{"sourceAccountRef":"acct_checking","payeeRef":"payee_utility","amountCents":"5000","currency":"USD","memo":"`+memo+`"}`)
		for _, step := range d.steps {
			h.do(id, step)
		}
		v, err := h.View(t.Context(), id)
		must(t, err)
		if v.TermTexts["memo"] != memo || len(v.TermTexts) != 1 {
			t.Errorf("the owner reads %v", v.TermTexts)
		}
		var terms struct {
			Memo evidence.Commitment `json:"memo"`
		}
		must(t, json.Unmarshal(v.State.Terms, &terms))
		if terms.Memo.Length != len(memo) || v.State.TermsDigest != authority.Digest(authority.DomainTerms, v.State.Terms) {
			t.Errorf("terms %s", v.State.Terms)
		}
		if text, err := heard.asked[0].Text(terms.Memo); err != nil || text != memo {
			t.Errorf("the guardian reads %q, %v", text, err)
		}
		held := map[string]int{}
		for _, event := range h.events(id) {
			if bytes.Contains(event.Data, []byte(memo)) {
				t.Errorf("%s holds the memo: %s", event.Type, event.Data)
			}
			for c := range evidence.Commitments(event.Data) {
				if c == terms.Memo {
					held[event.Type]++
				}
			}
		}
		for _, kind := range []string{"run.created", "observation.recorded", "turn.proposed", "execution.dispatched"} {
			if held[kind] == 0 {
				t.Errorf("%s names no memo: %v", kind, held)
			}
		}
		h.verify(id)

		var file bytes.Buffer
		must(t, h.Export(t.Context(), id, &file))
		x, err := evidence.ReadExport(&file)
		must(t, err)
		before := len(x.Texts)
		x.Texts = slices.DeleteFunc(x.Texts, func(kept evidence.Text) bool { return kept.Commitment == terms.Memo.Text && kept.Text == memo })
		var erased bytes.Buffer
		must(t, x.Write(&erased))
		checked, err := evidence.Verify(&erased, evidence.Keys{{Public: h.keys.Evidence().Public()}}, evidence.Options{})
		must(t, err)
		if len(x.Texts) != before-1 || !checked.OK() || checked.Texts.Erased != 1 {
			t.Errorf("%d of %d texts left: %+v", len(x.Texts), before, checked)
		}
	})
}

// A run has the operations of its own service and no others in catalog and grant, and
// takes the terms of no other.
func TestServicesAreApart(t *testing.T) {
	onEachService(t, func(t *testing.T, h *house, d domain) {
		id := h.createFor(d, d.amount, "")
		o, _ := h.entry(id, d.steps[0])
		for _, e := range o.Catalog {
			if !strings.HasPrefix(e.OperationID, d.service+".") {
				t.Errorf("%s is listed", e.OperationID)
			}
		}
		for _, g := range h.state(id).Grants {
			for _, operation := range g.Operations {
				if !strings.HasPrefix(operation, d.service+".") {
					t.Errorf("%s is granted", operation)
				}
			}
		}
		other := domains[0]
		if d.service == "bank" {
			other = domains[1]
		}
		r := d.request(d.amount, string(h.state(h.createFor(other, other.amount, "")).Terms))
		if _, err := h.Create(t.Context(), r); reason(err) != authority.InvalidRequest {
			t.Errorf("terms of the %s: %v", other.service, err)
		}
	})
}

// H-047 G-07: in exact mode a run of each service stops once its transaction is
// prepared, shows the whole effect, and commits exactly that after the approval.
func TestExactModeOfEveryService(t *testing.T) {
	onEachService(t, func(t *testing.T, h *house, d domain) {
		r := d.request(d.amount, "")
		r.Config.Mode = run.ModeExact
		id, err := h.Create(t.Context(), r)
		must(t, err)
		h.before(id, d, d.steps[4])
		h.stopped(id, authority.ApprovalRequired, "approve")
		v, err := h.View(t.Context(), id)
		must(t, err)
		p := v.Prepared
		if p == nil || p.Destination != d.destination || p.AmountCents != d.amount || p.Currency != "USD" || p.Entry.OperationID != d.steps[len(d.steps)-1] {
			t.Fatalf("prepared is %+v", p)
		}
		must(t, h.Approve(t.Context(), id, p.ID, p.EffectDigest, session))
		h.do(id, d.steps[len(d.steps)-1])
		if s := h.state(id); s.Status != run.StatusCompleted || s.Budget.Spent != d.amount || s.Budget.Reserved != 0 {
			t.Errorf("status %s, budget %+v", s.Status, s.Budget)
		}
		h.verify(id)
	})
}

// G-07 H-100: a price change voids what was prepared, in both modes. What is prepared
// again has the new price, and the budget bounds that.
func TestPriceChangeOfEveryService(t *testing.T) {
	onEachService(t, func(t *testing.T, h *house, d domain) {
		prepare, submit, after := d.steps[3], d.steps[len(d.steps)-1], d.amount
		if d.service == "bank" {
			after += 25 // the fee
		}
		id := h.createFor(d, after, "")
		h.before(id, d, d.steps[4])
		old := h.state(id).Proposal
		must(t, h.Simulate(t.Context(), id, run.SimulatePriceChange))
		o, err := h.Observe(t.Context(), id)
		must(t, err)
		if propose.FindEntry(o.Catalog, func(e *propose.Entry) bool { return e.OperationID == submit }) != nil || h.state(id).Proposal != nil {
			t.Errorf("the old offer stands: %+v", h.state(id).Proposal)
		}
		h.do(id, prepare)
		if p := h.state(id).Proposal; p == nil || p.ID == old.ID || p.AmountCents != after {
			t.Errorf("prepared again: %+v, want %s cents", p, after)
		}
		h.do(id, submit)
		if s := h.state(id); s.Status != run.StatusCompleted || s.Budget.Spent != after {
			t.Errorf("status %s, budget %+v", s.Status, s.Budget)
		}
		h.verify(id)

		r := d.request(after, "")
		r.Config.Mode = run.ModeExact
		id, err = h.Create(t.Context(), r)
		must(t, err)
		h.before(id, d, d.steps[4])
		stale := h.state(id).Proposal.ID
		must(t, h.Simulate(t.Context(), id, run.SimulatePriceChange))
		h.stopped(id, authority.StaleState, "retry")
		h.refuses(authority.ApprovalStale, h.Approve(t.Context(), id, stale, "", session))
		must(t, h.Retry(t.Context(), id))
		h.do(id, prepare)
		h.stopped(id, authority.ApprovalRequired, "approve")
		h.refuses(authority.ApprovalStale, h.Approve(t.Context(), id, stale, "", session))
		must(t, h.Approve(t.Context(), id, h.state(id).Proposal.ID, "", session))
		h.do(id, submit)
		if s := h.state(id); s.Status != run.StatusCompleted || s.Budget.Spent != after {
			t.Errorf("status %s, budget %+v", s.Status, s.Budget)
		}
		h.verify(id)
	})
}

// A fee that the budget does not hold is refused before anything is prepared.
func TestFeeOverTheBudget(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, d := newHouse(t, e, everyService), domains[0]
		id := h.createFor(d, d.amount+24, "")
		h.before(id, d, d.steps[3])
		must(t, h.Simulate(t.Context(), id, run.SimulatePriceChange))
		o, entry := h.entry(id, d.steps[3])
		turn, err := h.Propose(t.Context(), id, "", report(o, entry))
		must(t, err)
		if turn.Decision.ReasonCode != authority.BudgetExceeded || turn.Permit != nil {
			t.Errorf("%+v", turn.Decision)
		}
	})
}
