package replay

import (
	"slices"
	"strings"
	"testing"

	"countersign/internal/authority"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/policy"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
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
		{"bank", "read", "bank.accounts"}, {"merchant", "read", "merchant.checkout.submit"}, {"merchant", "nowhere", "merchant.catalog"},
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

// The file speaks of the merchant's operations and workflow only, with verdicts
// that a guardian may give, and lets a purchase through in its order and in no
// other.
func TestTable(t *testing.T) {
	g := guardian(t)
	var m merchant.Adapter
	var positions []string
	for _, step := range m.Workflow() {
		positions = append(positions, step.Name)
	}
	if len(g.verdicts) == 0 {
		t.Fatal("the file is empty")
	}
	for place := range g.verdicts {
		if place.service != m.Name() || !slices.Contains(positions, place.position) || !slices.Contains(m.Operations(), place.operation) {
			t.Errorf("%+v names nothing of the merchant", place)
		}
		v := g.Judge(place.matter())
		if v.Provenance != run.ByReplay || v.Explanation == "" || len(v.Explanation) > 1000 || v.ClarificationRequest != nil && len(*v.ClarificationRequest) > 500 {
			t.Errorf("%+v: %+v", place, v)
		}
		if (v.Decision == run.Allow) != (v.ReasonCode == authority.Relevant) {
			t.Errorf("%+v: %s with %s", place, v.Decision, v.ReasonCode)
		}
	}
	for _, position := range positions {
		for _, operation := range m.Operations() {
			got := g.Judge(place{"merchant", position, operation}.matter()).Decision == run.Allow
			reads := !strings.Contains(operation, ".cart.") && !strings.Contains(operation, ".checkout.")
			var want bool
			switch position {
			case "read": // nothing is prepared before the catalog was read
				want = reads && operation != "merchant.order"
			case "prepare":
				want = operation != "merchant.checkout.submit" && operation != "merchant.order"
			case "commit":
				want = operation != "merchant.order"
			case "verify":
				want = reads
			}
			if got != want {
				t.Errorf("%s at %s: allowed %t", operation, position, got)
			}
		}
	}
}
