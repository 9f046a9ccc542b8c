package merchant

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/service"
)

var adapter Adapter

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// G-06: the operations of a merchant, and what is absent on purpose.
func TestOperations(t *testing.T) {
	want := []string{
		"merchant.cart", "merchant.cart.add", "merchant.cart.remove", "merchant.catalog",
		"merchant.checkout.prepare", "merchant.checkout.submit", "merchant.order", "merchant.product",
	}
	if got := slices.Sorted(slices.Values(adapter.Operations())); !slices.Equal(got, want) {
		t.Errorf("operations %v, want %v", got, want)
	}
	if got := adapter.MaxUses(); !maps.Equal(got, map[string]int64{"merchant.checkout.submit": 1}) {
		t.Errorf("max uses %v", got)
	}
	for _, operation := range append(want, "merchant.refund") {
		_, err := adapter.Request(service.Promise{Operation: operation, Args: []byte(`{"productId":"p","orderId":"o"}`)})
		if (err != nil) != (operation == "merchant.refund") && !strings.HasSuffix(operation, "product") && !strings.HasSuffix(operation, "order") {
			t.Errorf("%s: %v", operation, err)
		}
		if _, err := adapter.Execute(adapter.NewLocal(), service.Promise{Operation: operation, Args: []byte("{}")}, func() string { return "id" }); operation == "merchant.refund" && err == nil {
			t.Error("an unknown operation was executed")
		}
	}
}

// G-06 L-2: terms have exactly their five members; the defaults are the fixture's.
func TestTerms(t *testing.T) {
	def, denial := adapter.Terms(nil, "http://shop.example")
	if denial != nil {
		t.Fatal(denial)
	}
	if got, want := string(def.JSON), `{"addressRef":"addr_home","maxTotalCents":"13700","origin":"http://shop.example","productId":"fieldwork-keyboard","quantity":1}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	good := map[string]string{"origin": `"local"`, "productId": `"p"`, "quantity": "1", "addressRef": `"addr_home"`, "maxTotalCents": `"1"`}
	for name, edit := range map[string]struct {
		member, value string
		fine          bool
	}{
		"as it is": {"quantity", "1", true}, "most": {"quantity", "3", true}, "too many": {"quantity", "4", false}, "none": {"quantity", "0", false},
		"negative": {"quantity", "-1", false}, "text quantity": {"quantity", `"1"`, false}, "fraction": {"quantity", "1.5", false},
		"other origin": {"origin", `"http://shop.example"`, false}, "no product": {"productId", `""`, false}, "null": {"productId", "null", false},
		"64 bytes": {"productId", `"` + strings.Repeat("p", 64) + `"`, true}, "65 bytes": {"productId", `"` + strings.Repeat("p", 65) + `"`, false},
		"number as money": {"maxTotalCents", "13700", false}, "leading zero": {"maxTotalCents", `"01"`, false}, "negative money": {"maxTotalCents", `"-1"`, false},
		"twelve digits": {"maxTotalCents", `"999999999999"`, true}, "thirteen digits": {"maxTotalCents", `"1000000000000"`, false},
		"unknown member": {"memo", `"x"`, false}, "missing member": {"addressRef", "", false}, "wrong case": {"Quantity", "1", false},
	} {
		m := maps.Clone(good)
		m[edit.member] = edit.value
		if edit.value == "" {
			delete(m, edit.member)
		}
		var parts []string
		for k, v := range m {
			parts = append(parts, fmt.Sprintf("%q:%s", k, v))
		}
		_, denial := adapter.Terms(json.RawMessage("{"+strings.Join(parts, ",")+"}"), "local")
		if (denial == nil) != edit.fine {
			t.Errorf("%s: %v", name, denial)
		}
		if denial != nil && denial.Reason != authority.InvalidRequest {
			t.Errorf("%s: %s", name, denial.Reason)
		}
	}
}

// catalogOf is the catalog that a state offers.
func catalogOf(t *testing.T, s *State) ([]propose.Entry, error) {
	t.Helper()
	id := "0192f0c1-2b3c-7d4e-8f50-616263646566"
	return adapter.Catalog(s.sighting(nil), service.Plan{Origin: "local", ProposalID: &id})
}

// G-05: at most 64 entries, each with an id of its own and canonical arguments, and
// every quantity an entry of its own.
func TestCatalogBounds(t *testing.T) {
	s := fixture()
	s.Products = nil
	for n := 0; ; n++ {
		c, err := catalogOf(t, s)
		if want := 2 + 4*n; want > propose.MaxEntries {
			if err == nil {
				t.Errorf("%d products make %d entries without an error", n, len(c))
			}
			break
		} else if err != nil || len(c) != want {
			t.Fatalf("%d products: %d entries, %v, want %d", n, len(c), err, want)
		}
		s.Products = append(s.Products, Product{fmt.Sprintf("p%d", n), "P", "M", 1})
	}
	// The fullest state of the fixture.
	s = fixture()
	s.Cart = Cart{Version: 5, Lines: []Line{{"fieldwork-keyboard", 1}, {"fieldworks-keyboard", 1}}}
	total, _ := s.total()
	s.Checkout = &Checkout{ID: "c", CartVersion: 5, AddressRef: "addr_home", TotalCents: total}
	c, err := catalogOf(t, s)
	must(t, err)
	ids := map[string]bool{}
	for _, e := range c {
		if ids[e.EntryID] {
			t.Errorf("%s twice", e.EntryID)
		}
		ids[e.EntryID] = true
		if again, err := canon.Canonical(e.Args); err != nil || string(again) != string(e.Args) {
			t.Errorf("%s: arguments %s", e.EntryID, e.Args)
		}
		if e.Kind != "service" || e.Transport != "service" {
			t.Errorf("%s: kind %s, transport %s", e.EntryID, e.Kind, e.Transport) // L-19
		}
	}
	for _, id := range []string{"add:fieldwork-keyboard:1", "add:fieldwork-keyboard:2", "remove:fieldwork-keyboard", "checkout:addr_office", "submit:c"} {
		if !ids[id] {
			t.Errorf("no entry %s", id)
		}
	}
	if ids["add:fieldwork-keyboard:3"] {
		t.Error("an entry would take more than three")
	}
}

// Facts are what the grant's terms are held against: everything that is in the
// cart speaks, so that nothing rides along.
func TestFactsOfTheWholeCart(t *testing.T) {
	terms, denial := adapter.Terms(nil, "local")
	if denial != nil {
		t.Fatal(denial)
	}
	grant := authority.Grant{Constraints: terms.Constraints}
	admitted := func(s *State, id string) bool {
		t.Helper()
		c, err := catalogOf(t, s)
		must(t, err)
		e := propose.EntryByID(c, id)
		if e == nil {
			t.Fatalf("no entry %s", id)
		}
		return grant.Admits(e.Facts)
	}
	good := fixture()
	good.Cart.Lines = []Line{{"fieldwork-keyboard", 1}}
	rider := fixture()
	rider.Cart.Lines = []Line{{"fieldwork-keyboard", 1}, {"fieldwork-mouse", 1}}
	for _, c := range []struct {
		name string
		s    *State
		id   string
		want bool
	}{
		{"the keyboard", fixture(), "add:fieldwork-keyboard:1", true},
		{"two of it", fixture(), "add:fieldwork-keyboard:2", false},
		{"a second one", good, "add:fieldwork-keyboard:1", false},
		{"the look-alike", fixture(), "add:fieldworks-keyboard:1", false},
		{"its checkout", good, "checkout:addr_home", true},
		{"to another address", good, "checkout:addr_office", false},
		{"with something riding along", rider, "checkout:addr_home", false},
		{"taking it out again", rider, "remove:fieldwork-mouse", true},
	} {
		if got := admitted(c.s, c.id); got != c.want {
			t.Errorf("%s: admitted %t", c.name, got)
		}
	}
	// One cent over the owner's maximum.
	dear := fixture()
	dear.Products[1].PriceCents++
	dear.Cart.Lines = good.Cart.Lines
	if admitted(dear, "checkout:addr_home") {
		t.Error("13701 cents were admitted")
	}
}

// answers are what a hosted shop in that state would send.
func answers(s *State) [][]byte {
	type product struct {
		ID         string      `json:"productId"`
		Name       string      `json:"name"`
		Maker      string      `json:"maker"`
		PriceCents money.Cents `json:"priceCents"`
		Currency   string      `json:"currency"`
		Synthetic  bool        `json:"synthetic"` // more than is needed
	}
	catalog := struct {
		Products      []product   `json:"products"`
		ShippingCents money.Cents `json:"shippingCents"`
	}{ShippingCents: s.ShippingCents}
	for _, p := range s.Products {
		catalog.Products = append(catalog.Products, product{p.ID, p.Name, p.Maker, p.PriceCents, currency, true})
	}
	cart := map[string]any{"cartVersion": s.Cart.Version, "lines": s.Cart.Lines, "checkout": nil}
	if c := s.Checkout; c != nil {
		cart["checkout"] = map[string]any{
			"checkoutId": c.ID, "cartVersion": c.CartVersion, "addressRef": c.AddressRef, "totalCents": c.TotalCents,
			"currency": currency, "expiresAt": c.ExpiresAt,
		}
	}
	out := [][]byte{canon.MustMarshal(catalog), canon.MustMarshal(cart)}
	if s.Order != nil {
		out = append(out, canon.MustMarshal(s.Order))
	}
	return out
}

// A hosted shop and the local one in the same state offer the same catalog.
func TestHostedIsAsLocal(t *testing.T) {
	filled := fixture()
	filled.Cart = Cart{3, []Line{{"fieldwork-keyboard", 1}}}
	total, _ := filled.total()
	if total != 13700 {
		t.Errorf("total %s, want 13700", total)
	}
	ordered := fixture()
	ordered.Order = &Order{"o", "c", "addr_home", 13700, []Line{{"fieldwork-keyboard", 1}}}
	for name, s := range map[string]*State{"empty": fixture(), "filled": filled, "ordered": ordered} {
		seen, err := adapter.SeeHosted(answers(s), nil)
		must(t, err)
		if string(seen.State) != string(canon.MustMarshal(s)) {
			t.Errorf("%s: hosted state %s\nlocal state %s", name, seen.State, canon.MustMarshal(s))
		}
		plan := service.Plan{Origin: "local"}
		hosted, err := adapter.Catalog(seen, plan)
		must(t, err)
		local, err := adapter.Catalog(s.sighting(nil), plan)
		must(t, err)
		if propose.CatalogDigest(hosted) != propose.CatalogDigest(local) {
			t.Errorf("%s: the catalogs differ", name)
		}
	}
}

// What a shop must not be believed.
func TestHostileAnswers(t *testing.T) {
	for name, edit := range map[string]func(*State){
		"one id for two products": func(s *State) { s.Products[0].ID = s.Products[1].ID },
		"product without id":      func(s *State) { s.Products[0].ID = "" },
		"endless id":              func(s *State) { s.Products[0].ID = strings.Repeat("p", 65) },
		"endless name":            func(s *State) { s.Products[0].Name = strings.Repeat("n", 201) },
		"line twice": func(s *State) {
			s.Cart.Lines = []Line{{"fieldwork-keyboard", 1}, {"fieldwork-keyboard", 1}}
		},
		"line of nothing":        func(s *State) { s.Cart.Lines = []Line{{"fieldwork-keyboard", 0}} },
		"negative line":          func(s *State) { s.Cart.Lines = []Line{{"fieldwork-keyboard", -1}} },
		"line of no product":     func(s *State) { s.Cart.Lines = []Line{{"elsewhere", 1}} },
		"line under two spelled": func(s *State) { s.Cart.Lines = []Line{{"Fieldwork-Keyboard", 1}} },
	} {
		s := fixture()
		edit(s)
		if _, err := adapter.SeeHosted(answers(s), nil); err == nil {
			t.Errorf("%s was believed", name)
		}
	}
	for name, bodies := range map[string][][]byte{
		"nothing": nil, "half": answers(fixture())[:1], "no JSON": {[]byte("<html>"), []byte("{}")},
		"number as money": {[]byte(`{"products":[],"shippingCents":800}`), []byte(`{"cartVersion":1,"lines":[],"checkout":null}`)},
		"other currency": {
			[]byte(`{"products":[{"productId":"p","name":"P","maker":"M","priceCents":"1","currency":"EUR"}],"shippingCents":"0"}`),
			[]byte(`{"cartVersion":1,"lines":[],"checkout":null}`),
		},
		"unreadable end": {
			[]byte(`{"products":[],"shippingCents":"0"}`),
			[]byte(`{"cartVersion":1,"lines":[],"checkout":{"checkoutId":"c","cartVersion":1,"addressRef":"a","totalCents":"1","currency":"USD","expiresAt":"soon"}}`),
		},
	} {
		if _, err := adapter.SeeHosted(bodies, nil); err == nil {
			t.Errorf("%s was believed", name)
		}
	}
}

// The local shop refuses what the state does not allow, and then changes nothing.
func TestLocalRefusals(t *testing.T) {
	s := fixture()
	s.Cart = Cart{2, []Line{{"fieldwork-keyboard", 1}}}
	s.Checkout = &Checkout{ID: "c", CartVersion: 2, AddressRef: "addr_home", TotalCents: 13700}
	state := canon.MustMarshal(s)
	submit := func(edit func(*submitArgs)) service.Promise {
		a := submitArgs{"c", 2, 13700, "USD", "addr_home"}
		edit(&a)
		return service.Promise{Operation: opSubmit, Args: canon.MustMarshal(a)}
	}
	for name, p := range map[string]service.Promise{
		"other checkout":    submit(func(a *submitArgs) { a.CheckoutID = "d" }),
		"other version":     submit(func(a *submitArgs) { a.CartVersion = 1 }),
		"other amount":      submit(func(a *submitArgs) { a.AmountCents = 13699 }),
		"other currency":    submit(func(a *submitArgs) { a.Currency = "EUR" }),
		"other destination": submit(func(a *submitArgs) { a.Destination = "addr_office" }),
		"no product":        {Operation: opProduct, Args: []byte(`{"productId":"none"}`)},
		"no order":          {Operation: opOrder, Args: []byte(`{"orderId":"none"}`)},
		"too many":          {Operation: opAdd, Args: []byte(`{"productId":"fieldwork-keyboard","quantity":3}`)},
		"unknown product":   {Operation: opAdd, Args: []byte(`{"productId":"none","quantity":1}`)},
		"none of it":        {Operation: opAdd, Args: []byte(`{"productId":"fieldwork-mouse","quantity":0}`)},
		"old cart":          {Operation: opCheckout, Args: []byte(`{"addressRef":"addr_home","cartVersion":1}`)},
		"unknown address":   {Operation: opCheckout, Args: []byte(`{"addressRef":"addr_none","cartVersion":2}`)},
	} {
		effect, err := adapter.Execute(state, p, func() string { return "id" })
		if err != nil || effect.Refused == "" || string(effect.State) != string(state) || effect.OrderID != nil {
			t.Errorf("%s: %+v, %v", name, effect, err)
		}
	}
	effect, err := adapter.Execute(state, submit(func(*submitArgs) {}), func() string { return "id" })
	if err != nil || effect.Refused != "" || effect.OrderID == nil {
		t.Fatalf("what was approved: %+v, %v", effect, err)
	}
	// The same submit again meets nothing: one checkout is one order.
	again, err := adapter.Execute(effect.State, submit(func(*submitArgs) {}), func() string { return "id" })
	if err != nil || again.Refused == "" {
		t.Errorf("a second order: %+v, %v", again, err)
	}
}

// G-07: after a price change nothing that was prepared before can be submitted, and
// what is prepared again costs the new price.
func TestPriceChange(t *testing.T) {
	s := fixture()
	s.Cart = Cart{2, []Line{{"fieldwork-keyboard", 1}}}
	s.Checkout = &Checkout{ID: "c", CartVersion: 2, AddressRef: "addr_home", TotalCents: 13700}
	before := canon.MustMarshal(s)
	after, err := adapter.PriceChange(before)
	must(t, err)
	old, err := adapter.SeeLocal(before, nil)
	must(t, err)
	seen, err := adapter.SeeLocal(after, nil)
	must(t, err)
	if old.Offer == nil || seen.Offer != nil {
		t.Errorf("the offer before is %v and after %v, want one and none", old.Offer, seen.Offer)
	}
	submit := service.Promise{Operation: opSubmit, Args: canon.MustMarshal(submitArgs{"c", 2, 13700, "USD", "addr_home"})}
	if effect, err := adapter.Execute(after, submit, func() string { return "id" }); err != nil || effect.Refused == "" {
		t.Errorf("the old price: %+v, %v", effect, err)
	}
	again, err := adapter.Execute(after, service.Promise{Operation: opCheckout, Args: canon.MustMarshal(checkoutArgs{2, "addr_home"})}, func() string { return "id" })
	must(t, err)
	seen, err = adapter.SeeLocal(again.State, nil)
	must(t, err)
	if seen.Offer == nil || seen.Offer.AmountCents != 13800 {
		t.Errorf("the new offer is %+v, want 13800 cents", seen.Offer)
	}
	s.Products[0].PriceCents = money.Max
	if state, err := adapter.PriceChange(canon.MustMarshal(s)); err == nil {
		t.Errorf("a price over the largest amount: %s", state)
	}
	if state, err := adapter.PriceChange([]byte("{}}")); err == nil {
		t.Errorf("a state that is none: %s", state)
	}
}

// Postconditions hold against what was seen, not against what was promised.
func TestHolds(t *testing.T) {
	s := fixture()
	s.Order = &Order{"o", "c", "addr_home", 13700, nil}
	holds := func(edit func(*submitArgs), names ...string) []bool {
		a := submitArgs{"c", 1, 13700, "USD", "addr_home"}
		edit(&a)
		got, err := adapter.Holds(s.sighting(nil), service.Promise{Operation: opSubmit, Args: canon.MustMarshal(a), Postconditions: names})
		must(t, err)
		var out []bool
		for _, p := range got {
			out = append(out, p.Holds)
		}
		return out
	}
	for name, c := range map[string]struct {
		edit func(*submitArgs)
		want []bool
	}{
		"as promised":       {func(*submitArgs) {}, []bool{true, true, false, false}},
		"another checkout":  {func(a *submitArgs) { a.CheckoutID = "d" }, []bool{false, true, false, false}},
		"another address":   {func(a *submitArgs) { a.Destination = "addr_office" }, []bool{false, true, false, false}},
		"a cent difference": {func(a *submitArgs) { a.AmountCents = 13699 }, []bool{true, false, false, false}},
	} {
		if got := holds(c.edit, "order.confirmed", "order.total_matches", "cart.line:fieldwork-keyboard=1", "of another machine"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// H-020: what people write about a product is on its page and nowhere in the trusted
// state; every product of the fixture has a page.
func TestLocalPageIsNotState(t *testing.T) {
	state := adapter.NewLocal()
	for _, p := range fixture().Products {
		effect, err := adapter.Execute(state, service.Promise{Operation: opProduct, Args: canon.MustMarshal(productArgs{p.ID})}, func() string { return "id" })
		if err != nil || effect.View == nil {
			t.Fatalf("%s: %+v, %v", p.ID, effect, err)
		}
		var page struct {
			Product
			Description string   `json:"description"`
			Reviews     []string `json:"reviews"`
		}
		must(t, canon.Unmarshal([]byte(*effect.View), &page))
		if page.Product != p || page.Description == "" || page.Reviews == nil || string(effect.State) != string(state) {
			t.Errorf("%s: %+v", p.ID, page)
		}
		seen, err := adapter.SeeLocal(effect.State, effect.View)
		must(t, err)
		for _, review := range append(page.Reviews, page.Description) {
			if strings.Contains(string(seen.State), review) {
				t.Errorf("the state says %q", review)
			}
		}
	}
}
