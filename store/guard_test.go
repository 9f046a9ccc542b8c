package store

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"countersign/dispatch"
)

// member returns order with one member changed to a JSON value.
func member(order, name, value string) string {
	var o map[string]json.RawMessage
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		panic(err)
	}
	o[name] = json.RawMessage(value)
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// as sends a well-permitted request of a type with a cookie.
func (h *hosted) as(kind, cookie, path, body string) dispatch.Answer {
	h.t.Helper()
	r, err := http.NewRequest("POST", h.origin+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Cookie", cookie)
	r.Header.Set(dispatch.PermitHeader, h.sign(h.permit(h.sid, "POST", path, body)))
	status, text, _ := send(h.t, r)
	return dispatch.Answer{Status: status, Body: []byte(text)}
}

// H-019: each guard, switched off, lets through what its test refuses, and nothing that
// another guard refuses.
func TestEachGuardProtects(t *testing.T) {
	const plain = "application/json"
	type attempt struct {
		arrange func(h *hosted, order string) // nil: nothing
		send    func(h *hosted, order string) dispatch.Answer
	}
	order := func(change func(order string) string) attempt {
		return attempt{nil, func(h *hosted, order string) dispatch.Answer {
			return h.as(plain, h.cookie, "/api/orders", change(order))
		}}
	}
	with := func(name, value string) attempt {
		return order(func(order string) string { return member(order, name, value) })
	}
	after := func(arrange func(*hosted, string)) attempt {
		a := order(func(order string) string { return order })
		a.arrange = arrange
		return a
	}
	guards := map[string][]attempt{
		"FOREIGN_COOKIE": {{nil, func(h *hosted, order string) dispatch.Answer {
			return h.as(plain, h.cookie+"; countersign_owner=x", "/api/orders", order)
		}}},
		"CONTENT_TYPE_REJECTED": {
			{nil, func(h *hosted, order string) dispatch.Answer {
				return h.as("text/plain", h.cookie, "/api/orders", order)
			}},
			{nil, func(h *hosted, order string) dispatch.Answer {
				return h.as(plain+"; charset=utf-16", h.cookie, "/api/orders", order)
			}},
		},
		string(dispatch.SessionMismatch): {{nil, func(h *hosted, _ string) dispatch.Answer {
			return h.as(plain, h.shop.session("sess-"+newID("")).cookie, "/api/cart/items", `{"productId":"fieldwork-mouse","quantity":1}`)
		}}},
		"CHECKOUT_UNKNOWN": {with("checkoutId", `"chk_1"`)},
		"CHECKOUT_EXPIRED": {after(func(h *hosted, _ string) { h.offset.Store(int64(10 * time.Minute)) })},
		"CART_CHANGED": {
			with("cartVersion", `3`),
			after(func(h *hosted, _ string) { // the same lines again, in a cart of a later version
				h.do(dispatch.Applied, "/api/cart/items", `{"productId":"fieldwork-mouse","quantity":1}`)
				h.do(dispatch.Applied, "/api/cart/items/remove", `{"productId":"fieldwork-mouse"}`)
			}),
			{nil, func(h *hosted, _ string) dispatch.Answer {
				return h.as(plain, h.cookie, "/api/checkouts", `{"cartVersion":1,"addressRef":"addr_home"}`)
			}},
		},
		"PRICE_CHANGED":        {after(setPrice(12901)), after(setPrice(12899))},
		"AMOUNT_MISMATCH":      {with("amountCents", `"13699"`), with("amountCents", `"13701"`)},
		"CURRENCY_MISMATCH":    {with("currency", `"EUR"`)},
		"DESTINATION_MISMATCH": {with("destination", `"addr_office"`)},
	}
	refused := func(a dispatch.Answer, by string) bool {
		p := problemOf(t, a)
		return a.Status >= 400 && (p.ReasonCode == by || p.Check == by)
	}
	for off, attempts := range guards {
		t.Run(off, func(t *testing.T) {
			for _, try := range attempts {
				h := newShop(t).session("sess-1")
				order := h.prepared()
				for name, others := range guards { // the other guards hold; arrangements would disturb each other
					for _, other := range others {
						if h.store.without = off; name != off && other.arrange == nil {
							if a := other.send(h, order); !refused(a, name) {
								t.Errorf("another guard is off too: %s: %d %s", name, a.Status, a.Body)
							}
						}
					}
				}
				h.store.without = ""
				if try.arrange != nil {
					try.arrange(h, order)
				}
				if a := try.send(h, order); !refused(a, off) {
					t.Errorf("not refused: %d %s", a.Status, a.Body)
				}
				h.store.without = off
				if a := try.send(h, order); a.Status != http.StatusOK && a.Status != http.StatusCreated {
					t.Errorf("without the guard: %d %s; so another guard refused it", a.Status, a.Body)
				}
			}
		})
	}
}
