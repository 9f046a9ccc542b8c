package replay

import (
	"slices"
	"testing"

	"countersign/internal/authority"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/policy"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service/bank"
	"countersign/internal/supervision/service/broker"
	"countersign/internal/supervision/service/merchant"
)

func guardian(t *testing.T) *Guardian {
	t.Helper()
	g, err := NewGuardian()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// matter is a report on the operation at the position.
func (p place) matter() decide.Matter {
	return decide.Matter{Service: p.service, Position: p.position, Review: policy.Review{Entry: &propose.Entry{OperationID: p.operation}}}
}

// L-7: what is not in the file is a PAUSE, and every verdict says that it was
// authored.
func TestUnknownIsPause(t *testing.T) {
	g := guardian(t)
	for _, place := range []place{
		{"bank", "read", "bank.withdraw"}, {"broker", "read", "broker.order.submit"}, {"bank", "read", "broker.quote"}, {"merchant", "read", "merchant.checkout.submit"}, {"merchant", "nowhere", "merchant.catalog"},
		{"merchant", "read", "merchant.refund"}, {"merchant", "done", "merchant.catalog"}, {"", "", ""}, {"merchant", "read", "merchant.catalog "},
	} {
		v := g.Judge(place.matter())
		if v.Decision != run.Pause || v.ReasonCode != authority.AmbiguousGoal {
			t.Errorf("%+v: %+v", place, v)
		}
		if v.Provider != "replay" || v.Provenance != "replay (authored)" {
			t.Errorf("%+v: provider %q, provenance %q", place, v.Provider, v.Provenance)
		}
	}
}

// domain is what the authored verdicts have to know of a service, from G-06.
type domain struct {
	adapter interface {
		Name() string
		Operations() []string
		Workflow() []run.Step
	}
	prepares     []string
	submit       string
	result       string // the read of what came of it
	resultSooner bool   // it shows what is prepared, too
}

var domains = []domain{
	{merchant.Adapter{}, []string{"merchant.cart.add", "merchant.cart.remove", "merchant.checkout.prepare"}, "merchant.checkout.submit", "merchant.order", false},
	{bank.Adapter{}, []string{"bank.transfer.prepare"}, "bank.transfer.submit", "bank.transfer.status", true},
	{broker.Adapter{}, []string{"broker.order.prepare"}, "broker.order.submit", "broker.order.status", true},
}

// allowed says what the workflow lets through in its order.
func (d domain) allowed(position, operation string) bool {
	reads := operation != d.submit && !slices.Contains(d.prepares, operation)
	switch position {
	case "read": // nothing is prepared before something was read
		return reads && operation != d.result
	case "prepare":
		return operation != d.submit && operation != d.result
	case "commit":
		return operation != d.result || d.resultSooner
	case "verify":
		return reads
	}
	return false
}

// The file speaks of the services' operations and workflows only, with verdicts that a
// guardian may give, and lets each workflow through in its order and in no other.
func TestTable(t *testing.T) {
	g := guardian(t)
	known := map[place]bool{}
	for _, d := range domains {
		for _, step := range d.adapter.Workflow() {
			for _, operation := range d.adapter.Operations() {
				at := place{d.adapter.Name(), step.Name, operation}
				known[at] = true
				want := d.allowed(step.Name, operation)
				if got := g.Judge(at.matter()).Decision == run.Allow; got != want {
					t.Errorf("%+v: allowed %t", at, got)
				}
			}
		}
	}
	for place := range g.verdicts {
		if !known[place] {
			t.Errorf("%+v names nothing of a service", place)
		}
		v := g.Judge(place.matter())
		if v.Provenance != run.ByReplay || v.Explanation == "" || len(v.Explanation) > 1000 || v.ClarificationRequest != nil && len(*v.ClarificationRequest) > 500 {
			t.Errorf("%+v: %+v", place, v)
		}
		if (v.Decision == run.Allow) != (v.ReasonCode == authority.Relevant) {
			t.Errorf("%+v: %s with %s", place, v.Decision, v.ReasonCode)
		}
	}
}
