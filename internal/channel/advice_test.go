package channel_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// The three required members alone fall on defaults that are not built. The answer
// names all of them at once, says that they are the defaults, and what it tells to
// send creates the run.
func TestCreateTellsWhatToSend(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	body := map[string]any{"service": "merchant", "budgetCents": "13700", "instruction": "Buy a keyboard."}
	a := h.owner("POST", "/runs", body)
	a.is(t, "the required members", 501, "NOT_IMPLEMENTED")
	for _, want := range []string{`channel "browser" (the default)`} {
		if !strings.Contains(a.text("detail"), want) {
			t.Errorf("want %s in %s", want, a.text("detail"))
		}
	}
	_, send, found := strings.Cut(a.text("detail"), "Send ")
	if !found {
		t.Fatalf("no advice in %s", a.text("detail"))
	}
	must(t, json.Unmarshal([]byte("{"+strings.TrimSuffix(send, ".")+"}"), &body))
	h.owner("POST", "/runs", body).is(t, "what was told", 201, "")

	body["channel"], body["executor"] = "mcp", "openai"
	a = h.owner("POST", "/runs", body)
	a.is(t, "two values", 501, "NOT_IMPLEMENTED")
	if d := a.text("detail"); d != `Not built: channel "mcp", executor "openai". Send "channel": "http", "executor": "replay".` {
		t.Errorf("detail %s", d)
	}
}

// What is wrong in terms or in the key of an operation is named by its place.
func TestPlaces(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	terms := func(member string, value any) map[string]any {
		m := map[string]any{"origin": "local", "productId": "fieldwork-keyboard", "quantity": 1, "addressRef": "addr_home", "maxTotalCents": "13700"}
		if m[member] = value; value == nil {
			delete(m, member)
		}
		body := createBody("local")
		body["terms"] = m
		return body
	}
	for _, c := range []struct {
		member string
		value  any
		place  string
	}{
		{"origin", "http://elsewhere.example", "body.terms.origin"}, {"origin", "", "body.terms.origin"}, {"origin", nil, "body.terms"},
		{"productId", "", "body.terms.productId"}, {"productId", strings.Repeat("x", 65), "body.terms.productId"}, {"productId", 1, "body.terms.productId"},
		{"quantity", 0, "body.terms.quantity"}, {"quantity", 4, "body.terms.quantity"}, {"quantity", "1", "body.terms.quantity"},
		{"addressRef", strings.Repeat("ä", 64), "body.terms.productId"}, // too many bytes; the service names both references
		{"maxTotalCents", "137.00", "body.terms.maxTotalCents"}, {"maxTotalCents", 13700, "body.terms.maxTotalCents"},
		{"currency", "USD", "body.terms.currency"},
	} {
		a := h.owner("POST", "/runs", terms(c.member, c.value))
		a.is(t, c.member, 400, "INVALID_REQUEST")
		if got := a.named(); len(got) != 1 || got[0] != c.place {
			t.Errorf("%s %v: errors name %v, want %s\n%s", c.member, c.value, got, c.place, a.body)
		}
		if strings.Contains(string(a.body), "elsewhere") {
			t.Errorf("a submitted value is repeated: %s", a.body)
		}
	}

	c := h.agent("local")
	p := c.allow("merchant.catalog")
	for _, key := range []string{"", "short", strings.Repeat("x", 16) + " y"} {
		a := c.ask("POST", "/operation", p.body(), set("X-Step-Permit", p.token), set("X-Idempotency-Key", key))
		a.is(t, "the key "+key, 400, "INVALID_REQUEST")
		if got := a.named(); len(got) != 1 || !strings.EqualFold(got[0], "header.x-idempotency-key") {
			t.Errorf("the key %q: errors name %v\n%s", key, got, a.body)
		}
	}
}
