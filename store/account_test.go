package store

import (
	"testing"

	"countersign/dispatch"
)

// What a store says that it has done and charged is what its ledger holds as applied,
// session by session: no refusal and no order of anybody else.
func TestAccount(t *testing.T) {
	s := newShop(t)
	account := func(opener string) (effects, cents int64) {
		t.Helper()
		effects, err := s.store.Effects(t.Context(), opener)
		if err != nil {
			t.Fatal(err)
		}
		if cents, err = s.store.Charged(t.Context(), opener); err != nil {
			t.Fatal(err)
		}
		return effects, cents
	}
	is := func(when, opener string, effects, cents int64) {
		t.Helper()
		if e, c := account(opener); e != effects || c != cents {
			t.Errorf("%s: %d effects and %d cents, want %d and %d", when, e, c, effects, cents)
		}
	}
	p := s.permit("other", "POST", "/api/sessions", "{}")
	p.StepPermit = "run-2"
	s.receipt(s.send(s.sign(p), "/api/sessions", "{}", ""), p, dispatch.Applied)
	is("nobody", "run-0", 0, 0)
	is("opened", "run-2", 1, 0)

	h := s.session("sess-1")
	is("opened", "step-1", 1, 0)
	order := h.prepared()
	is("prepared", "step-1", 3, 0)
	setPrice(13000)(h, "")
	h.do(dispatch.Refused, "/api/orders", order)
	is("refused", "step-1", 3, 0)
	setPrice(12900)(h, "")
	h.do(dispatch.Applied, "/api/orders", order)
	is("ordered", "step-1", 4, 13700)
	is("the other session", "run-2", 1, 0)
}
