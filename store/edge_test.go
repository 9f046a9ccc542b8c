package store

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"countersign/dispatch"
)

// Well-permitted bodies that no operation takes: 400, nothing stored, and the
// same permit id still works for the good request.
func TestBadInput(t *testing.T) {
	h := newShop(t).session("sess-1")
	order := h.prepared()
	before := h.dump()
	in := func(member string) func(string) string {
		return func(value string) string {
			good := map[string]string{"checkoutId": `"chk_1"`, "cartVersion": `2`, "amountCents": `"13700"`, "currency": `"USD"`, "destination": `"addr_home"`}
			good[member] = value
			var parts []string
			for name, v := range good {
				if v != "" {
					parts = append(parts, `"`+name+`":`+v)
				}
			}
			return "{" + strings.Join(parts, ",") + "}"
		}
	}
	amount, version := in("amountCents"), in("cartVersion")
	for name, c := range map[string]struct{ path, body string }{
		"unknown member":           {"/api/sessions", `{"a":1}`},
		"session with null":        {"/api/sessions", `null`},
		"session with an array":    {"/api/sessions", `[]`},
		"session with nothing":     {"/api/sessions", ``},
		"no product":               {"/api/cart/items", `{"quantity":1}`},
		"product null":             {"/api/cart/items", `{"productId":null,"quantity":1}`},
		"no quantity":              {"/api/cart/items", `{"productId":"fieldwork-mouse"}`},
		"quantity 0":               {"/api/cart/items", `{"productId":"fieldwork-mouse","quantity":0}`},
		"quantity below 0":         {"/api/cart/items", `{"productId":"fieldwork-mouse","quantity":-1}`},
		"quantity 100":             {"/api/cart/items", `{"productId":"fieldwork-mouse","quantity":100}`},
		"quantity a fraction":      {"/api/cart/items", `{"productId":"fieldwork-mouse","quantity":1.5}`},
		"quantity a string":        {"/api/cart/items", `{"productId":"fieldwork-mouse","quantity":"1"}`},
		"quantity 2^53+1":          {"/api/cart/items", `{"productId":"fieldwork-mouse","quantity":9007199254740993}`},
		"duplicate member":         {"/api/cart/items", `{"productId":"a","productId":"fieldwork-mouse","quantity":1}`},
		"wrong case":               {"/api/cart/items", `{"productid":"fieldwork-mouse","quantity":1}`},
		"trailing bytes":           {"/api/cart/items", `{"productId":"fieldwork-mouse","quantity":1}x`},
		"U+0000":                   {"/api/cart/items", `{"productId":"\u0000","quantity":1}`},
		"lone surrogate":           {"/api/cart/items", `{"productId":"\ud800","quantity":1}`},
		"broken UTF-8":             {"/api/cart/items", "{\"productId\":\"\xff\",\"quantity\":1}"},
		"deep nesting":             {"/api/cart/items", strings.Repeat(`{"productId":`, 100)},
		"remove without a product": {"/api/cart/items/remove", `{}`},
		"checkout without version": {"/api/checkouts", `{"addressRef":"addr_home"}`},
		"checkout without address": {"/api/checkouts", `{"cartVersion":2}`},
		"amount a number":          {"/api/orders", amount(`13700`)},
		"amount with a fraction":   {"/api/orders", amount(`"137.00"`)},
		"amount below 0":           {"/api/orders", amount(`"-1"`)},
		"amount with a zero":       {"/api/orders", amount(`"013700"`)},
		"amount of 13 digits":      {"/api/orders", amount(`"1000000000000"`)},
		"amount empty":             {"/api/orders", amount(`""`)},
		"amount missing":           {"/api/orders", amount(``)},
		"version a string":         {"/api/orders", version(`"2"`)},
		"version missing":          {"/api/orders", version(``)},
		"currency missing":         {"/api/orders", in("currency")(``)},
		"destination missing":      {"/api/orders", in("destination")(``)},
		"checkout missing":         {"/api/orders", in("checkoutId")(``)},
		"close without jti":        {"/api/dispatches/close", `{}`},
		"close with a bad jti":     {"/api/dispatches/close", `{"jti":"a/b"}`},
	} {
		p := h.permit("sess-1", "POST", c.path, c.body)
		a := h.send(h.sign(p), c.path, c.body, h.cookie)
		if got := problemOf(t, a); a.Status != 400 || got.ReasonCode != "INVALID_REQUEST" || a.Receipt != "" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
		if h.dump() != before {
			t.Fatalf("%s: something changed", name)
		}
	}
	p := h.permit("sess-1", "POST", "/api/dispatches/close", "")
	self := string(dispatch.CloseBody(p.ID))
	p.BodyHash = dispatch.HashBody([]byte(self))
	if a := h.send(h.sign(p), "/api/dispatches/close", self, ""); a.Status != 400 {
		t.Errorf("a probe about itself: %d %s", a.Status, a.Body)
	}
	h.do(dispatch.Applied, "/api/orders", order)
}

func TestBodyBoundAndContentType(t *testing.T) {
	h := newShop(t).session("sess-1")
	good := `{"productId":"fieldwork-mouse","quantity":1}`
	padded := func(size int) string { return good + strings.Repeat(" ", size-len(good)) }
	for size, want := range map[int]int{dispatch.MaxBody - 1: 200, dispatch.MaxBody: 200, dispatch.MaxBody + 1: 413} {
		body := padded(size)
		a := h.send(h.sign(h.permit("sess-1", "POST", "/api/cart/items", body)), "/api/cart/items", body, h.cookie)
		if a.Status != want {
			t.Errorf("%d bytes: %d %s", size, a.Status, a.Body)
		}
	}
	if a := h.send("", "/api/cart/items", padded(dispatch.MaxBody+1), h.cookie); a.Status != 401 {
		t.Errorf("too large and without a permit: %d", a.Status)
	}
	before := h.dump()
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/problem+json", "multipart/form-data"} {
		r, err := http.NewRequest("POST", h.origin+"/api/cart/items", strings.NewReader(good))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Cookie", h.cookie)
		r.Header.Set(dispatch.PermitHeader, h.sign(h.permit("sess-1", "POST", "/api/cart/items", good)))
		if status, body, _ := send(t, r); status != 415 || !strings.Contains(body, "CONTENT_TYPE_REJECTED") {
			t.Errorf("%q: %d %s", kind, status, body)
		}
	}
	if h.dump() != before {
		t.Error("something changed")
	}
}

// A cookie of the control plane means that both are served under one host name:
// refused on every path, loudly.
func TestForeignCookie(t *testing.T) {
	h := newShop(t).session("sess-1")
	for _, path := range []string{"/", "/cart", "/api/cart", "/static/store.css", "/nowhere"} {
		(&hosted{h.shop, "", h.cookie + "; countersign_owner=x"}).get(400, path)
	}
	body := `{"productId":"fieldwork-mouse","quantity":1}`
	before := h.dump()
	a := h.send(h.sign(h.permit("sess-1", "POST", "/api/cart/items", body)), "/api/cart/items", body, h.cookie+"; countersign_owner=x")
	if got := problemOf(t, a); a.Status != 400 || got.ReasonCode != "FOREIGN_COOKIE" || h.dump() != before {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	h.do(dispatch.Applied, "/api/cart/items", body)
}

func TestUnknownAddresses(t *testing.T) {
	h := newShop(t).session("sess-1")
	for path, want := range map[string]int{
		"/api/nothing": 404, "/api/orders": 404, "/api/sessions": 404, "/api/products/nothing": 404, "/api/orders/nothing": 404,
		"/nothing": 404, "/products/nothing": 404, "/orders/nothing": 404, "/static/": 404, "/static/nothing": 404,
	} {
		h.get(want, path)
	}
}

func send(t *testing.T, r *http.Request) (int, string, http.Header) {
	t.Helper()
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

func browse(t *testing.T, method, url, cookie, form string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	return send(t, r)
}

func TestPages(t *testing.T) {
	h := newShop(t).session("sess-1")
	visitor := map[string]string{
		"/":                            `<a href="/products/fieldwork-keyboard">Fieldwork keyboard</a>`,
		"/products/fieldwork-keyboard": "<button>Add to cart</button>",
		"/cart":                        "The cart is empty.",
		"/checkout":                    "<button>Place order</button>",
		"/nothing":                     "There is nothing under this address",
	}
	session := map[string]string{
		"/":         "Cart (1)",
		"/cart":     "<button class=\"quiet\">Remove Fieldwork keyboard</button>",
		"/checkout": "<button>Place order for $137.00</button>",
	}
	h.prepared()
	for cookie, pages := range map[string]map[string]string{"": visitor, h.cookie: session} {
		for path, want := range pages {
			status, body, header := browse(t, "GET", h.origin+path, cookie, "")
			if (status != 200) != (path == "/nothing") || !strings.Contains(body, want) {
				t.Errorf("%s: %d lacks %s", path, status, want)
			}
			if !strings.Contains(body, "Synthetic data.") || strings.Contains(body, "<script") || strings.Contains(body, "style=") {
				t.Errorf("%s: no synthetic label, or a script or style inside", path)
			}
			if csp := header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'self'") || strings.Contains(csp, "unsafe") {
				t.Errorf("%s: policy %q", path, csp)
			}
			c, err := http.ParseSetCookie(header.Get("Set-Cookie"))
			if err != nil || c.Name != "store_visitor" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Domain != "" {
				t.Errorf("%s: cookie %q", path, header.Get("Set-Cookie"))
			}
		}
	}
	if _, _, header := browse(t, "GET", h.origin+"/", "store_visitor=x", ""); header.Get("Set-Cookie") != "" {
		t.Error("a visitor got a second cookie")
	}
	if _, body, _ := browse(t, "GET", h.origin+"/cart", "", ""); strings.Contains(body, "Remove") {
		t.Error("a visitor sees a session's cart")
	}
	// A checkout of nothing is not offered, one of something is.
	for cookie, offered := range map[string]bool{"": false, h.cookie: true} {
		if _, body, _ := browse(t, "GET", h.origin+"/cart", cookie, ""); strings.Contains(body, "<button>Prepare checkout</button>") != offered {
			t.Errorf("the cart with the cookie %q: a checkout is offered: %v", cookie, !offered)
		}
	}
	h.get(200, "/static/store.css")
}

// Pressing a button in a browser changes nothing and says why, for a visitor and
// for the session's own cookie.
func TestButtons(t *testing.T) {
	h := newShop(t).session("sess-1")
	h.prepared()
	before := h.dump()
	for path, form := range map[string]string{
		"/api/cart/items":        "productId=fieldwork-keyboard&quantity=1",
		"/api/cart/items/remove": "productId=fieldwork-keyboard",
		"/api/checkouts":         "cartVersion=2&addressRef=addr_home",
		"/api/orders":            "checkoutId=chk_1&cartVersion=2&amountCents=13700&currency=USD&destination=addr_home",
	} {
		for _, cookie := range []string{"store_visitor=x", h.cookie} {
			status, body, header := browse(t, "POST", h.origin+path, cookie, form)
			if status != 401 || !strings.Contains(body, "DISPATCH_PERMIT_REQUIRED") || !strings.Contains(body, "POST "+path) || !strings.Contains(body, "Synthetic data.") {
				t.Errorf("%s: %d %s", path, status, body)
			}
			if strings.Contains(body, "You are a visitor") != (cookie != h.cookie) {
				t.Errorf("%s: the page does not know who looks", path)
			}
			if !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
				t.Errorf("%s: %s", path, header.Get("Content-Type"))
			}
		}
	}
	if h.dump() != before {
		t.Error("something changed")
	}
}
