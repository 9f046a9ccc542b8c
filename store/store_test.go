package store

import (
	"crypto/ed25519"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/dispatch"
)

const planeOrigin = "http://localhost:8420"

// shop is a store behind a real listener, with the key of its control plane and a
// clock that tests move.
type shop struct {
	t      *testing.T
	dir    string
	key    ed25519.PrivateKey
	trust  []dispatch.TrustedKey
	origin string
	store  *Store
	client *dispatch.Client
	offset atomic.Int64 // nanoseconds that the shop's clock is ahead
	count  atomic.Int64 // of jtis

	trustFile string  // empty: the shop gets trust itself
	log       *logged // nil: slog's default
}

func newShop(t *testing.T) *shop {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, dir: filepath.Join(t.TempDir(), "shop"), key: private, trust: []dispatch.TrustedKey{{Public: public}}, client: dispatch.NewClient(nil)}
	if err := Create(s.dir); err != nil {
		t.Fatal(err)
	}
	s.serve()
	return s
}

// serve opens the store and listens until the test ends.
func (s *shop) serve() {
	s.t.Helper()
	server := httptest.NewUnstartedServer(nil)
	s.origin = "http://" + server.Listener.Addr().String()
	var err error
	o := Options{Origin: s.origin, Trust: s.trust, TrustFile: s.trustFile, Clock: s.now}
	if s.log != nil {
		o.Log = s.log.logger()
	}
	s.store, err = Open(s.dir, o)
	if err != nil {
		s.t.Fatal(err)
	}
	server.Config.Handler = s.store.Handler()
	server.Start()
	opened := s.store
	s.t.Cleanup(func() { server.Close(); opened.Close() })
}

func (s *shop) now() time.Time { return time.Now().Add(time.Duration(s.offset.Load())) }

// permit is a good one for the request.
func (s *shop) permit(sid, method, path, body string) dispatch.Permit {
	effect := sha256.Sum256([]byte(body))
	now := s.now().Unix()
	return dispatch.Permit{
		Issuer: planeOrigin, Audience: s.origin, IssuedAt: now, ExpiresAt: now + 30,
		ID: fmt.Sprintf("exec-%d", s.count.Add(1)), Session: sid, StepPermit: "step-1",
		Method: method, Target: s.origin + path, BodyHash: dispatch.HashBody([]byte(body)), EffectDigest: hex.EncodeToString(effect[:]),
	}
}

func (s *shop) sign(p dispatch.Permit) string {
	token, err := p.Sign(s.key)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// send sends body with that permit and cookie, without looking at the answer.
func (s *shop) send(token, path, body, cookie string) dispatch.Answer {
	s.t.Helper()
	a, err := s.client.Send(s.t.Context(), dispatch.Request{Method: "POST", URL: s.origin + path, Body: []byte(body), Permit: token, Cookie: cookie})
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// receipt is the answer's receipt, which must be the shop's word about p.
func (s *shop) receipt(a dispatch.Answer, p dispatch.Permit, want dispatch.Result) dispatch.Receipt {
	s.t.Helper()
	r, err := dispatch.ParseReceipt(a.Receipt, []dispatch.TrustedKey{s.store.ReceiptKey()})
	if err == nil {
		err = r.Answers(p)
	}
	if err != nil {
		s.t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	if r.Result != want {
		s.t.Fatalf("result %s, want %s: %s", r.Result, want, a.Body)
	}
	return r
}

// hosted is an open session.
type hosted struct {
	*shop
	sid, cookie string
}

func (s *shop) session(sid string) *hosted {
	s.t.Helper()
	p := s.permit(sid, "POST", "/api/sessions", "{}")
	a := s.send(s.sign(p), "/api/sessions", "{}", "")
	s.receipt(a, p, dispatch.Applied)
	if a.Status != 201 || len(a.SetCookie) != 1 {
		s.t.Fatalf("session: %d %s %q", a.Status, a.Body, a.SetCookie)
	}
	value, _, _ := strings.Cut(a.SetCookie[0], ";")
	return &hosted{s, sid, value}
}

// do sends a well-permitted mutation and expects its result.
func (h *hosted) do(want dispatch.Result, path, body string) (dispatch.Answer, dispatch.Permit) {
	h.t.Helper()
	p := h.permit(h.sid, "POST", path, body)
	a := h.send(h.sign(p), path, body, h.cookie)
	if r := h.receipt(a, p, want); r.AnswerHash != dispatch.HashBody(a.Body) {
		h.t.Fatalf("rh is not of the body %s", a.Body)
	}
	return a, p
}

func (h *hosted) get(status int, path string) string {
	h.t.Helper()
	a, err := h.client.Send(h.t.Context(), dispatch.Request{Method: "GET", URL: h.origin + path, Cookie: h.cookie})
	if err != nil || a.Status != status {
		h.t.Fatalf("GET %s: %d %s %v", path, a.Status, a.Body, err)
	}
	return string(a.Body)
}

// prepared puts a keyboard into the cart and prepares the checkout. It returns
// the body of the order.
func (h *hosted) prepared() string {
	h.t.Helper()
	h.do(dispatch.Applied, "/api/cart/items", `{"productId":"fieldwork-keyboard","quantity":1}`)
	a, _ := h.do(dispatch.Applied, "/api/checkouts", `{"cartVersion":2,"addressRef":"addr_home"}`)
	var c struct {
		ID string `json:"checkoutId"`
	}
	if err := json.Unmarshal(a.Body, &c); err != nil {
		h.t.Fatal(err)
	}
	return fmt.Sprintf(`{"checkoutId":%q,"cartVersion":2,"amountCents":"13700","currency":"USD","destination":"addr_home"}`, c.ID)
}

// dump is the whole database as text, to see that nothing changed.
func (s *shop) dump() string {
	s.t.Helper()
	var b strings.Builder
	for _, table := range []string{"products", "addresses", "sessions", "cart_lines", "checkouts", "orders", "dispatch_ledger"} {
		rows, err := s.store.read.Query(`SELECT * FROM ` + table + ` ORDER BY 1, 2`)
		if err != nil {
			s.t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			s.t.Fatal(err)
		}
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(sql.RawBytes)
			}
			if err := rows.Scan(values...); err != nil {
				s.t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s", table)
			for _, v := range values {
				fmt.Fprintf(&b, " %s", *v.(*sql.RawBytes))
			}
			b.WriteByte('\n')
		}
		if err := rows.Err(); err != nil {
			s.t.Fatal(err)
		}
		rows.Close()
	}
	return b.String()
}

func (s *shop) rows(table string) (n int) {
	s.t.Helper()
	if err := s.store.read.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

type problem struct {
	Status     int    `json:"status"`
	ReasonCode string `json:"reasonCode"`
	Check      string `json:"check"`
}

func problemOf(t *testing.T, a dispatch.Answer) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(a.Body, &p); err != nil || p.Status != a.Status {
		t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	return p
}

// The purchase of the fixture: 12900 + 800 shipping + 0 tax = 13700 (G-06).
func TestPurchase(t *testing.T) {
	h := newShop(t).session("0192f0c0-0000-7000-8000-000000000001")

	catalog := h.get(200, "/api/catalog")
	for _, want := range []string{
		`{"currency":"USD","description":"Low-profile mechanical keyboard, 75 keys, aluminium frame, cable included.","maker":"Fieldwork","name":"Fieldwork keyboard","priceCents":"12900","productId":"fieldwork-keyboard"}`,
		`"name":"Fieldworks keyboard","priceCents":"12900","productId":"fieldworks-keyboard"`,
		`"priceCents":"4900","productId":"fieldwork-mouse"`,
		`"priceCents":"3900","productId":"fieldwork-desk-mat"`,
		`"shippingCents":"800","taxCents":"0"`, `"addressRefs":["addr_home","addr_office"]`,
	} {
		if !strings.Contains(catalog, want) {
			t.Errorf("catalog lacks %s", want)
		}
	}
	if got := h.get(200, "/api/cart"); got != `{"cartVersion":1,"checkout":null,"currency":"USD","lines":[],"subtotalCents":"0"}` {
		t.Errorf("empty cart %s", got)
	}
	const line = `{"lineCents":"12900","name":"Fieldwork keyboard","productId":"fieldwork-keyboard","quantity":1,"unitPriceCents":"12900"}`
	a, _ := h.do(dispatch.Applied, "/api/cart/items", `{"productId":"fieldwork-keyboard","quantity":1}`)
	if want := `{"cartVersion":2,"checkout":null,"currency":"USD","lines":[` + line + `],"subtotalCents":"12900"}`; a.Status != 200 || string(a.Body) != want || h.get(200, "/api/cart") != want {
		t.Errorf("cart %d %s", a.Status, a.Body)
	}

	a, p := h.do(dispatch.Applied, "/api/checkouts", `{"cartVersion":2,"addressRef":"addr_home"}`)
	r := h.receipt(a, p, dispatch.Applied)
	if a.Status != 201 || r.OrderID != nil || r.AmountCents != nil || r.Operation != "POST /api/checkouts" {
		t.Errorf("checkout %d, receipt %+v", a.Status, r)
	}
	var c map[string]any
	if err := json.Unmarshal(a.Body, &c); err != nil {
		t.Fatal(err)
	}
	for member, want := range map[string]any{
		"cartVersion": 2.0, "subtotalCents": "12900", "shippingCents": "800", "taxCents": "0", "totalCents": "13700", "currency": "USD", "addressRef": "addr_home",
	} {
		if c[member] != want {
			t.Errorf("checkout.%s is %v, want %v", member, c[member], want)
		}
	}
	if !strings.Contains(h.get(200, "/api/cart"), `"checkout":`+string(a.Body)) {
		t.Error("the cart does not show the checkout")
	}

	a, p = h.do(dispatch.Applied, "/api/orders", fmt.Sprintf(`{"checkoutId":%q,"cartVersion":2,"amountCents":"13700","currency":"USD","destination":"addr_home"}`, c["checkoutId"]))
	r = h.receipt(a, p, dispatch.Applied)
	if a.Status != 201 || r.OrderID == nil || *r.AmountCents != "13700" || r.Operation != "POST /api/orders" || r.Audience != planeOrigin || r.Issuer != h.origin {
		t.Fatalf("order %d, receipt %+v", a.Status, r)
	}
	if got := h.get(200, "/api/orders/"+*r.OrderID); got != string(a.Body) || !strings.Contains(got, `"totalCents":"13700"`) || !strings.Contains(got, `"lines":[`+line+`]`) {
		t.Errorf("order %s", got)
	}
	if got := h.get(200, "/api/cart"); got != `{"cartVersion":3,"checkout":null,"currency":"USD","lines":[],"subtotalCents":"0"}` {
		t.Errorf("cart afterwards %s", got)
	}
	if page := h.get(200, "/orders/"+*r.OrderID); !strings.Contains(page, "$137.00 USD") {
		t.Error("the order page does not show the total")
	}

	other := h.session("sess-other")
	other.get(404, "/api/orders/"+*r.OrderID)
	other.get(404, "/orders/"+*r.OrderID)
}

// mutations are all of them, with bodies that the shop would take in the state
// that prepared leaves.
func (h *hosted) mutations(order string) map[string]string {
	return map[string]string{
		"/api/sessions":          `{}`,
		"/api/cart/items":        `{"productId":"fieldwork-mouse","quantity":1}`,
		"/api/cart/items/remove": `{"productId":"fieldwork-keyboard"}`,
		"/api/checkouts":         `{"cartVersion":2,"addressRef":"addr_office"}`,
		"/api/orders":            order,
		"/api/dispatches/close":  `{"jti":"exec-1000"}`,
	}
}

// H-143: a session cookie alone, a real one too, authorizes nothing. The control
// takes the permit check away: then the same requests do change the shop.
func TestCookieAloneAuthorizesNothing(t *testing.T) {
	h := newShop(t).session("sess-1")
	order := h.prepared()
	before := h.dump()
	for path, body := range h.mutations(order) {
		for name, cookie := range map[string]string{"session": h.cookie, "visitor": "store_visitor=x", "none": ""} {
			a := h.send("", path, body, cookie)
			if p := problemOf(t, a); a.Status != 401 || p.ReasonCode != "DISPATCH_PERMIT_REQUIRED" || a.Receipt != "" {
				t.Errorf("%s with cookie %s: %d %s", path, name, a.Status, a.Body)
			}
		}
	}
	if h.dump() != before {
		t.Fatal("something changed")
	}

	h.store.verify = func(r *http.Request, body []byte) (dispatch.Permit, error) {
		return h.permit("sess-1", r.Method, r.URL.Path, string(body)), nil
	}
	if a := h.send("", "/api/orders", order, h.cookie); a.Status != 201 || h.dump() == before {
		t.Errorf("control: without the check the order must go through: %d %s", a.Status, a.Body)
	}
}

func TestDamagedClaims(t *testing.T) {
	h := newShop(t).session("sess-1")
	order := h.prepared()
	before := h.dump()
	_, strange, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for check, change := range map[string]func(p *dispatch.Permit) (string, error){
		"unknown_key": func(p *dispatch.Permit) (string, error) { return p.Sign(strange) },
		"signature": func(p *dispatch.Permit) (string, error) {
			token, err := p.Sign(h.key)
			return flipSignature(token), err
		},
		"malformed":     func(p *dispatch.Permit) (string, error) { token, err := p.Sign(h.key); return token + "=", err },
		"not_yet_valid": func(p *dispatch.Permit) (string, error) { p.IssuedAt += 7; return p.Sign(h.key) },
		"expired": func(p *dispatch.Permit) (string, error) {
			p.IssuedAt, p.ExpiresAt = p.IssuedAt-30, p.ExpiresAt-30
			return p.Sign(h.key)
		},
		"audience": func(p *dispatch.Permit) (string, error) {
			p.Audience, p.Target = "http://other.example", "http://other.example/api/orders"
			return p.Sign(h.key)
		},
		"method":  func(p *dispatch.Permit) (string, error) { p.Method = "PUT"; return p.Sign(h.key) },
		"target":  func(p *dispatch.Permit) (string, error) { p.Target = h.origin + "/api/checkouts"; return p.Sign(h.key) },
		"body":    func(p *dispatch.Permit) (string, error) { p.BodyHash = dispatch.HashBody(nil); return p.Sign(h.key) },
		"session": func(p *dispatch.Permit) (string, error) { p.Session = "sess-2"; return p.Sign(h.key) },
	} {
		p := h.permit("sess-1", "POST", "/api/orders", order)
		token, err := change(&p)
		if err != nil {
			t.Fatal(err)
		}
		a := h.send(token, "/api/orders", order, h.cookie)
		if got := problemOf(t, a); a.Status != 403 || got.ReasonCode != "DISPATCH_PERMIT_INVALID" || got.Check != check || a.Receipt != "" {
			t.Errorf("%s: %d %s", check, a.Status, a.Body)
		}
	}
	if h.dump() != before {
		t.Fatal("something changed")
	}
	h.do(dispatch.Applied, "/api/orders", order)
}

func flipSignature(token string) string {
	i := strings.LastIndexByte(token, '.') + 1
	flipped := byte('A')
	if token[i] == 'A' {
		flipped = 'B'
	}
	return token[:i] + string(flipped) + token[i+1:]
}

// The session is the cookie's, and the permit's sid must be that one.
func TestSessionBinding(t *testing.T) {
	s := newShop(t)
	h, other := s.session("sess-1"), s.session("sess-2")
	const body = `{"productId":"fieldwork-mouse","quantity":1}`
	before := s.dump()
	for name, cookie := range map[string]string{
		"no cookie":         "",
		"another session's": other.cookie,
		"the session id":    "store_session=sess-1",
		"two cookies":       h.cookie + "; " + other.cookie,
		"visitor":           "store_visitor=" + strings.TrimPrefix(h.cookie, "store_session="),
	} {
		p := s.permit("sess-1", "POST", "/api/cart/items", body)
		a := s.send(s.sign(p), "/api/cart/items", body, cookie)
		if got := problemOf(t, a); a.Status != 403 || got.Check != "session" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if s.dump() != before {
		t.Fatal("something changed")
	}
	for path, want := range map[string]int{"/api/catalog": 401, "/api/cart": 401, "/api/products/fieldwork-mouse": 401, "/api/orders/ord_1": 401} {
		(&hosted{s, "", ""}).get(want, path)
		(&hosted{s, "", "store_visitor=x"}).get(want, path)
	}
	h.do(dispatch.Applied, "/api/cart/items", body)

	// The three boundaries of the lifetime of 24 h.
	s.offset.Store(int64(24*time.Hour - time.Minute))
	h.get(200, "/api/cart")
	s.offset.Store(int64(24 * time.Hour))
	h.get(401, "/api/cart")
	p := s.permit("sess-1", "POST", "/api/cart/items", body)
	if a := s.send(s.sign(p), "/api/cart/items", body, h.cookie); a.Status != 403 {
		t.Errorf("expired session: %d", a.Status)
	}
}

func TestSessionCookie(t *testing.T) {
	s := newShop(t)
	p := s.permit("sess-1", "POST", "/api/sessions", "{}")
	a := s.send(s.sign(p), "/api/sessions", "{}", "")
	c, err := http.ParseSetCookie(a.SetCookie[0])
	if err != nil || c.Name != "store_session" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Domain != "" || c.Path != "/" || c.Secure || len(c.Value) != 43 {
		t.Errorf("cookie %q, %v", a.SetCookie, err)
	}
	if strings.Contains(s.dump(), c.Value) {
		t.Error("the database holds the cookie's value")
	}
	again := s.send(s.sign(p), "/api/sessions", "{}", "")
	if again.Status != 409 || again.Receipt != a.Receipt || len(again.SetCookie) != 0 {
		t.Errorf("a repeated permit: %d, cookies %q", again.Status, again.SetCookie)
	}
	p = s.permit("sess-1", "POST", "/api/sessions", "{}")
	a = s.send(s.sign(p), "/api/sessions", "{}", "")
	s.receipt(a, p, dispatch.Refused)
	if got := problemOf(t, a); got.ReasonCode != "SESSION_EXISTS" || len(a.SetCookie) != 0 {
		t.Errorf("%s %q", a.Body, a.SetCookie)
	}
}

func TestRepeatedPermit(t *testing.T) {
	s := newShop(t)
	for _, path := range []string{"/api/cart/items", "/api/cart/items/remove", "/api/checkouts", "/api/orders", "/api/dispatches/close"} {
		h := s.session("sess" + strings.ReplaceAll(path, "/", "-"))
		body := h.mutations(h.prepared())[path]
		p := h.permit(h.sid, "POST", path, body)
		first := h.send(h.sign(p), path, body, h.cookie)
		if first.Receipt == "" {
			t.Fatalf("%s: %d %s", path, first.Status, first.Body)
		}
		before := h.dump()
		again := h.send(h.sign(p), path, body, h.cookie)
		if got := problemOf(t, again); again.Status != 409 || got.ReasonCode != "DISPATCH_PERMIT_SPENT" || again.Receipt != first.Receipt {
			t.Errorf("%s: %d %s", path, again.Status, again.Body)
		}
		if h.dump() != before {
			t.Errorf("%s: something changed", path)
		}
	}

	// Control: the row is what refuses. Without it the same permit counts again.
	h := s.session("sess-control")
	const body = `{"productId":"fieldwork-mouse","quantity":1}`
	_, p := h.do(dispatch.Applied, "/api/cart/items", body)
	if _, err := h.store.write.Exec(`DELETE FROM dispatch_ledger WHERE jti = $1`, p.ID); err != nil {
		t.Fatal(err)
	}
	if a := h.send(h.sign(p), "/api/cart/items", body, h.cookie); a.Status != 200 || !strings.Contains(string(a.Body), `"quantity":2`) {
		t.Errorf("control: %d %s", a.Status, a.Body)
	}
}

// Forty senders of one permit have one effect. The control gives each its own.
func TestConcurrentReplays(t *testing.T) {
	for name, want := range map[string]int{"one permit": 1, "control: forty permits": 40} {
		t.Run(name, func(t *testing.T) {
			h := newShop(t).session("sess-1")
			const body = `{"productId":"fieldwork-mouse","quantity":1}`
			token := h.sign(h.permit("sess-1", "POST", "/api/cart/items", body))
			var wg sync.WaitGroup
			var applied, spent atomic.Int64
			receipts := sync.Map{}
			for range 40 {
				wg.Go(func() {
					token := token
					if want == 40 {
						token = h.sign(h.permit("sess-1", "POST", "/api/cart/items", body))
					}
					a, err := h.client.Send(t.Context(), dispatch.Request{Method: "POST", URL: h.origin + "/api/cart/items", Body: []byte(body), Permit: token, Cookie: h.cookie})
					if err != nil {
						t.Error(err)
						return
					}
					receipts.Store(a.Receipt, true)
					switch a.Status {
					case 200:
						applied.Add(1)
					case 409:
						spent.Add(1)
					}
				})
			}
			wg.Wait()
			different := 0
			receipts.Range(func(any, any) bool { different++; return true })
			if int(applied.Load()) != want || int(spent.Load()) != 40-want || different != want {
				t.Errorf("%d applied, %d spent, %d receipts", applied.Load(), spent.Load(), different)
			}
			if got := h.get(200, "/api/cart"); !strings.Contains(got, fmt.Sprintf(`"cartVersion":%d`, 1+want)) || !strings.Contains(got, fmt.Sprintf(`"quantity":%d`, want)) {
				t.Errorf("cart %s", got)
			}
		})
	}
}

func setPrice(cents int64) func(*hosted, string) {
	return func(h *hosted, _ string) {
		if err := h.store.SetPrice(h.t.Context(), "fieldwork-keyboard", cents); err != nil {
			h.t.Fatal(err)
		}
	}
}

// A refusal is a signed receipt and a row in the ledger, and nothing else.
func TestRefusals(t *testing.T) {
	keyboard := `{"productId":"fieldwork-keyboard","quantity":1}`
	with := func(member, value string) func(string) string {
		return func(order string) string {
			var o map[string]any
			if err := json.Unmarshal([]byte(order), &o); err != nil {
				panic(err)
			}
			o[member] = json.RawMessage(value)
			b, err := json.Marshal(o)
			if err != nil {
				panic(err)
			}
			return string(b)
		}
	}
	same := func(order string) string { return order }
	for name, c := range map[string]struct {
		arrange func(h *hosted, order string)
		path    string
		body    func(order string) string
		code    string
	}{
		"unknown product":       {nil, "/api/cart/items", func(string) string { return `{"productId":"gift-card","quantity":1}` }, "PRODUCT_UNKNOWN"},
		"more than 99":          {nil, "/api/cart/items", func(string) string { return `{"productId":"fieldwork-keyboard","quantity":99}` }, "QUANTITY_LIMIT"},
		"remove what is not in": {nil, "/api/cart/items/remove", func(string) string { return `{"productId":"fieldwork-mouse"}` }, "NOT_IN_CART"},
		"checkout of an old":    {nil, "/api/checkouts", func(string) string { return `{"cartVersion":1,"addressRef":"addr_home"}` }, "CART_CHANGED"},
		"checkout of a later":   {nil, "/api/checkouts", func(string) string { return `{"cartVersion":3,"addressRef":"addr_home"}` }, "CART_CHANGED"},
		"unknown address":       {nil, "/api/checkouts", func(string) string { return `{"cartVersion":2,"addressRef":"addr_new"}` }, "ADDRESS_UNKNOWN"},
		"empty cart": {func(h *hosted, _ string) {
			h.do(dispatch.Applied, "/api/cart/items/remove", `{"productId":"fieldwork-keyboard"}`)
		}, "/api/checkouts", func(string) string { return `{"cartVersion":3,"addressRef":"addr_home"}` }, "CART_EMPTY"},
		"unknown checkout":       {nil, "/api/orders", with("checkoutId", `"chk_1"`), "CHECKOUT_UNKNOWN"},
		"another cart version":   {nil, "/api/orders", with("cartVersion", `3`), "CART_CHANGED"},
		"amount one below":       {nil, "/api/orders", with("amountCents", `"13699"`), "AMOUNT_MISMATCH"},
		"amount one above":       {nil, "/api/orders", with("amountCents", `"13701"`), "AMOUNT_MISMATCH"},
		"another currency":       {nil, "/api/orders", with("currency", `"EUR"`), "CURRENCY_MISMATCH"},
		"another address":        {nil, "/api/orders", with("destination", `"addr_office"`), "DESTINATION_MISMATCH"},
		"cart changed after it":  {func(h *hosted, _ string) { h.do(dispatch.Applied, "/api/cart/items", keyboard) }, "/api/orders", same, "CART_CHANGED"},
		"price raised after it":  {setPrice(12901), "/api/orders", same, "PRICE_CHANGED"},
		"price lowered after it": {setPrice(12899), "/api/orders", same, "PRICE_CHANGED"},
		"replaced by a newer": {func(h *hosted, _ string) {
			h.do(dispatch.Applied, "/api/checkouts", `{"cartVersion":2,"addressRef":"addr_office"}`)
		}, "/api/orders", same, "CHECKOUT_UNKNOWN"},
		"ordered already": {func(h *hosted, order string) { h.do(dispatch.Applied, "/api/orders", order) }, "/api/orders", same, "CHECKOUT_UNKNOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newShop(t).session("sess-1")
			order := h.prepared()
			if c.arrange != nil {
				c.arrange(h, order)
			}
			orders, ledger, cart := h.rows("orders"), h.rows("dispatch_ledger"), h.get(200, "/api/cart")
			a, p := h.do(dispatch.Refused, c.path, c.body(order))
			if got := problemOf(t, a); a.Status != 422 || got.ReasonCode != c.code {
				t.Errorf("%d %s", a.Status, a.Body)
			}
			if r := h.receipt(a, p, dispatch.Refused); r.OrderID != nil || r.AmountCents != nil {
				t.Errorf("receipt %+v", r)
			}
			if h.rows("orders") != orders || h.get(200, "/api/cart") != cart {
				t.Error("something changed")
			}
			if h.rows("dispatch_ledger") != ledger+1 {
				t.Error("the refusal left no row")
			}
		})
	}
}
