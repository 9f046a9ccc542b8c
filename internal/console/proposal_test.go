package console

import (
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/money"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
)

// What cannot be shown whole cannot be approved: when anything that the digest covers
// is shown otherwise than it stands, no approval is offered.
func TestOnlyWholeProposalsAreOffered(t *testing.T) {
	view := func() *records.View {
		id, amount, destination, currency, url := "p", money.Cents(13700), "addr_home", "USD", "https://store.example/orders"
		v := &records.View{
			State:    &run.State{ID: "r", Config: run.Config{Service: "merchant"}, StateRevision: 3, Currency: currency, Status: run.StatusPaused},
			Eligible: []string{"approve", "revoke"}, Now: 1,
			Prepared: &records.Prepared{
				Proposal: run.Proposal{ID: id, OperationID: "merchant.checkout.submit", Destination: destination, AmountCents: amount, Currency: currency, StateRevision: 3, ExpiresAt: evidence.Time(1000)},
				Entry: propose.Entry{
					OperationID: "merchant.checkout.submit", Args: []byte(`{"amountCents":"13700","memo":{"length":4,"text":"` + strings.Repeat("a", 64) + `"}}`), URL: &url, Value: &url, Destination: &destination, Currency: &currency,
					Effect: propose.Effect{Class: propose.ClassCommit, DisclosedFields: []string{"addressRef"}, Postconditions: []string{"order.confirmed"}, AmountCents: &amount, TransactionProposalID: &id},
				},
			},
		}
		v.Prepared.EffectDigest = v.Prepared.Entry.EffectDigest("merchant", 3)
		return v
	}
	memo := evidence.Commitment{Text: strings.Repeat("a", 64), Length: 4}
	words := "rent"
	text := func(c evidence.Commitment) (string, error) {
		if c != memo {
			t.Errorf("%v is read", c)
		}
		return words, nil
	}
	offered := func(v *records.View) bool {
		p, err := newProposal(v, text)
		if err != nil {
			t.Fatal(err)
		}
		d := &runData{View: v, Proposal: p}
		list := actionsOf(d)
		return len(list) > 0 && list[0].Name == "approve"
	}
	if !offered(view()) {
		t.Fatal("control: a proposal that is shown whole is not offered")
	}
	other, cents := "other", money.Cents(1)
	for name, change := range map[string]func(v *records.View){
		"service":   func(v *records.View) { v.State.Config.Service = "bank" },
		"operation": func(v *records.View) { v.Prepared.Entry.OperationID = other },
		"args": func(v *records.View) {
			v.Prepared.Entry.Args = []byte(`{"amountCents":"13701","memo":{"length":4,"text":"` + strings.Repeat("a", 64) + `"}}`)
		},
		"url":             func(v *records.View) { v.Prepared.Entry.URL = &other },
		"no url":          func(v *records.View) { v.Prepared.Entry.URL = nil },
		"value":           func(v *records.View) { v.Prepared.Entry.Value = &other },
		"destination":     func(v *records.View) { v.Prepared.Entry.Destination = &other },
		"no destination":  func(v *records.View) { v.Prepared.Entry.Destination = nil },
		"shown to":        func(v *records.View) { v.Prepared.Proposal.Destination = other },
		"amount":          func(v *records.View) { v.Prepared.Entry.Effect.AmountCents = &cents },
		"shown amount":    func(v *records.View) { v.Prepared.Proposal.AmountCents = 1 },
		"currency":        func(v *records.View) { v.Prepared.Entry.Currency = &other },
		"shown currency":  func(v *records.View) { v.Prepared.Proposal.Currency = other },
		"revision":        func(v *records.View) { v.Prepared.Proposal.StateRevision = 4 },
		"class":           func(v *records.View) { v.Prepared.Entry.Effect.Class = propose.ClassPrepare },
		"disclosed":       func(v *records.View) { v.Prepared.Entry.Effect.DisclosedFields = nil },
		"postconditions":  func(v *records.View) { v.Prepared.Entry.Effect.Postconditions = []string{} },
		"proposal":        func(v *records.View) { v.Prepared.Entry.Effect.TransactionProposalID = &other },
		"shown operation": func(v *records.View) { v.Prepared.Proposal.OperationID = other },
		"digest":          func(v *records.View) { v.Prepared.EffectDigest = "" },
		"nothing":         func(v *records.View) { v.Prepared = nil },
		"not eligible":    func(v *records.View) { v.Eligible = []string{"revoke"} },
	} {
		v := view()
		change(v)
		if offered(v) {
			t.Errorf("%s: an approval is offered", name)
		}
	}
	// Free text that was erased cannot be shown, and so cannot be approved.
	for _, words = range []string{records.Erased, "ren"} {
		if offered(view()) {
			t.Errorf("%q: an approval is offered", words)
		}
	}
}
