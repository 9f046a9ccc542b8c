package channel_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// termsOf are good terms of every service at the target local (G-06).
var termsOf = map[string]map[string]any{
	"merchant": {"origin": "local", "productId": "fieldwork-keyboard", "quantity": 1, "addressRef": "addr_home", "maxTotalCents": "13700"},
	"bank":     {"sourceAccountRef": "acct_checking", "payeeRef": "payee_utility", "amountCents": "4000", "currency": "USD", "memo": "for the flat"},
	"broker":   {"symbol": "SYNB", "side": "sell", "quantity": 3, "limitPriceCents": "2400", "orderType": "limit", "timeInForce": "day"},
}

// createBodyOf is a create body for a service with one member of its terms changed.
func createBodyOf(service, member string, value any) map[string]any {
	body, terms := createBody("local"), maps.Clone(termsOf[service])
	if terms[member] = value; value == nil {
		delete(terms, member)
	}
	body["service"], body["terms"] = service, terms
	return body
}

// H-092 G-06 L-2 H-011 H-113: every service takes exactly its own terms. Its run says that it
// acts on made-up data and shows the owner the free text that evidence does not hold.
func TestTermsOfEveryService(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for service, terms := range termsOf {
		a := h.owner("POST", "/runs", createBodyOf(service, "", nil))
		a.is(t, service, 201, "")
		v := a.members()
		if label, _ := v["synthetic"].(string); !strings.HasPrefix(label, "Synthetic "+service) {
			t.Errorf("%s: synthetic %v", service, v["synthetic"])
		}
		shown, _ := v["terms"].(map[string]any)
		texts, _ := v["termTexts"].(map[string]any)
		if len(shown) != len(terms) {
			t.Errorf("%s: terms %v", service, shown)
		}
		for name, want := range terms {
			if text, free := texts[name]; free {
				if held, _ := shown[name].(map[string]any); text != want || held["length"] != float64(len(want.(string))) || len(held) != 2 {
					t.Errorf("%s: %s is held as %v and reads %v", service, name, shown[name], text)
				}
			} else if string(mustJSON(shown[name])) != string(mustJSON(want)) {
				t.Errorf("%s: %s is %v, want %v", service, name, shown[name], want)
			}
		}
		if (len(texts) == 1) != (service == "bank") {
			t.Errorf("%s: free texts %v", service, texts)
		}
		if got := strings.Count(string(mustJSON(v["timeline"])), "for the flat"); got != 0 {
			t.Errorf("%s: the events hold the memo", service)
		}
		for other, theirs := range termsOf {
			body := createBodyOf(service, "", nil)
			if body["terms"] = theirs; other != service {
				h.owner("POST", "/runs", body).is(t, service+" with the terms of "+other, 400, "INVALID_REQUEST")
			}
		}
		without := createBody("local")
		without["service"] = service
		h.owner("POST", "/runs", without).is(t, service+" without terms", 201, "")
	}
	for _, service := range []string{"bank", "broker"} { // H-013
		body := createBody("hosted")
		body["service"] = service
		a := h.owner("POST", "/runs", body)
		a.is(t, service+" hosted", 501, "NOT_IMPLEMENTED")
		if !strings.Contains(a.text("detail"), `target "hosted"`) {
			t.Errorf("%s", a.body)
		}
	}
}

// What is wrong in the terms of a bank or a broker is named by its place, and not
// quoted.
func TestPlacesOfEveryService(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	runs := h.runs()
	for _, c := range []struct {
		service, member string
		value           any
		place           string
	}{
		{"bank", "sourceAccountRef", "elsewhere", "body.terms.sourceAccountRef"}, {"bank", "payeeRef", "elsewhere", "body.terms.payeeRef"},
		{"bank", "payeeRef", nil, "body.terms"}, {"bank", "amountCents", "0", "body.terms.amountCents"}, {"bank", "amountCents", 4000, "body.terms.amountCents"},
		{"bank", "currency", "EUR", "body.terms.currency"}, {"bank", "memo", strings.Repeat("ä", 141), "body.terms.memo"}, {"bank", "memo", json.RawMessage("null"), "body.terms.memo"},
		{"bank", "origin", "local", "body.terms.origin"},
		{"broker", "symbol", "elsewhere", "body.terms.symbol"}, {"broker", "side", "short", "body.terms.side"}, {"broker", "quantity", 0, "body.terms.quantity"},
		{"broker", "quantity", "3", "body.terms.quantity"}, {"broker", "quantity", 10001, "body.terms.quantity"}, {"broker", "limitPriceCents", "0", "body.terms.limitPriceCents"},
		{"broker", "limitPriceCents", "999999999999", "body.terms.limitPriceCents"}, {"broker", "orderType", "market", "body.terms.orderType"},
		{"broker", "timeInForce", "gtc", "body.terms.timeInForce"}, {"broker", "timeInForce", nil, "body.terms"}, {"broker", "memo", "x", "body.terms.memo"},
	} {
		a := h.owner("POST", "/runs", createBodyOf(c.service, c.member, c.value))
		a.is(t, c.service+" "+c.member, 400, "INVALID_REQUEST")
		if got := a.named(); len(got) != 1 || got[0] != c.place {
			t.Errorf("%s %s %v: errors name %v, want %s\n%s", c.service, c.member, c.value, got, c.place, a.body)
		}
		if strings.Contains(string(a.body), "elsewhere") {
			t.Errorf("a submitted value is repeated: %s", a.body)
		}
	}
	if n := h.runs(); n != runs {
		t.Errorf("%d runs, before %d", n, runs)
	}
}
