package dispatch

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"countersign/internal/canon"
)

const (
	shopOrigin  = "http://127.0.0.1:8421"
	planeOrigin = "http://localhost:8420"
)

var (
	issued    = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	orderBody = []byte(`{"amountCents":"13700","checkoutId":"chk_1"}`)
)

func newKey(t testing.TB) (ed25519.PrivateKey, []TrustedKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return private, []TrustedKey{{Public: public}}
}

// validPermit is for POST /api/orders with orderBody and lives for 30 s.
func validPermit() Permit {
	return Permit{
		Issuer: planeOrigin, Audience: shopOrigin,
		IssuedAt: issued.Unix(), ExpiresAt: issued.Unix() + 30,
		ID: "exec-1", Session: "sess-1", StepPermit: "step-1",
		Method: "POST", Target: shopOrigin + "/api/orders",
		BodyHash: HashBody(orderBody), EffectDigest: canon.Hash([]byte("effect")),
	}
}

// sealPermit signs claims as they are, also those that Sign refuses.
func sealPermit(key ed25519.PrivateKey, p Permit) string {
	return seal(permitType, key, canon.MustMarshal(p))
}

func orderRequest(token string) *http.Request {
	r, err := http.NewRequest("POST", shopOrigin+"/api/orders", bytes.NewReader(orderBody))
	if err != nil {
		panic(err)
	}
	r.Header.Set(PermitHeader, token)
	return r
}

func fixed(t time.Time) func() time.Time { return func() time.Time { return t } }

func reasonOf(t *testing.T, err error) Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	e, ok := err.(*PermitError)
	if !ok {
		t.Fatalf("error %v is not a *PermitError", err)
	}
	return e.Reason
}

func TestPermitTimeBoundaries(t *testing.T) {
	key, keys := newKey(t)
	at := func(iat, exp int64) Permit {
		p := validPermit()
		p.IssuedAt, p.ExpiresAt = iat, exp
		return p
	}
	base := issued.Unix()
	ms := time.Millisecond
	for _, c := range []struct {
		name   string
		permit Permit
		now    time.Time
		want   Reason
	}{
		{"iat ahead by just under 5 s", at(base, base+30), issued.Add(-5*time.Second + ms), ""},
		{"iat ahead by 5 s", at(base, base+30), issued.Add(-5 * time.Second), ""},
		{"iat ahead by just over 5 s", at(base, base+30), issued.Add(-5*time.Second - ms), NotYetValid},
		{"lifetime 29 s", at(base, base+29), issued, ""},
		{"lifetime 30 s", at(base, base+30), issued, ""},
		{"lifetime 31 s", at(base, base+31), issued, WrongLifetime},
		{"lifetime negative", at(base, base-1), issued.Add(-2 * time.Second), WrongLifetime},
		{"just before exp", at(base, base+30), issued.Add(30*time.Second - ms), ""},
		{"at exp", at(base, base+30), issued.Add(30 * time.Second), Expired},
		{"just after exp", at(base, base+30), issued.Add(30*time.Second + ms), Expired},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &Verifier{Origin: shopOrigin, Keys: keys, Now: fixed(c.now)}
			_, err := v.Verify(orderRequest(sealPermit(key, c.permit)), orderBody)
			if got := reasonOf(t, err); got != c.want {
				t.Fatalf("reason %q, want %q", got, c.want)
			}
		})
	}
}

func TestKeyEnd(t *testing.T) {
	key, keys := newKey(t)
	for _, c := range []struct {
		name string
		end  time.Time
		want Reason
	}{
		{"ends later", issued.Add(time.Second), ""},
		{"ends now", issued, ""},
		{"ended", issued.Add(-time.Second), KeyExpired},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &Verifier{Origin: shopOrigin, Keys: []TrustedKey{{keys[0].Public, c.end}}, Now: fixed(issued)}
			_, err := v.Verify(orderRequest(sealPermit(key, validPermit())), orderBody)
			if got := reasonOf(t, err); got != c.want {
				t.Fatalf("reason %q, want %q", got, c.want)
			}
		})
	}
}

// H-141: each check is the one that protects: with that check alone switched off the
// damaged permit is accepted, and those that fail another check are not.
func TestEachCheckProtects(t *testing.T) {
	key, keys := newKey(t)
	stranger, _ := newKey(t)
	ended := []TrustedKey{{keys[0].Public, issued.Add(-time.Second)}}
	type damage struct {
		change func(*Permit)
		seal   func(Permit) []string // the tokens of the request; nil: one good one
		keys   []TrustedKey
		now    time.Time
	}
	same := func(*Permit) {}
	damages := map[Reason][]damage{
		Malformed: {
			{same, func(p Permit) []string { return []string{seal(receiptType, key, canon.MustMarshal(p))} }, keys, issued},
			{same, func(p Permit) []string { return []string{sealPermit(key, p), sealPermit(key, p)} }, keys, issued},
		},
		UnknownKey: {{same, func(p Permit) []string { return []string{sealPermit(stranger, p)} }, keys, issued}},
		BadSignature: {{same, func(p Permit) []string {
			good, other := sealPermit(key, p), sealPermit(stranger, p)
			return []string{good[:strings.LastIndex(good, ".")] + other[strings.LastIndex(other, "."):]}
		}, keys, issued}},
		KeyExpired:    {{same, nil, ended, issued}},
		WrongAudience: {{func(p *Permit) { p.Audience = "http://other.example" }, nil, keys, issued}},
		WrongLifetime: {{func(p *Permit) { p.ExpiresAt++ }, nil, keys, issued}},
		NotYetValid:   {{same, nil, keys, issued.Add(-6 * time.Second)}},
		Expired:       {{same, nil, keys, issued.Add(31 * time.Second)}},
		WrongMethod:   {{func(p *Permit) { p.Method = "PUT" }, nil, keys, issued}},
		WrongTarget:   {{func(p *Permit) { p.Target = shopOrigin + "/api/checkouts" }, nil, keys, issued}},
		WrongBody:     {{func(p *Permit) { p.BodyHash = HashBody([]byte(`{}`)) }, nil, keys, issued}},
	}
	verify := func(d damage, without Reason) Reason {
		p := validPermit()
		d.change(&p)
		tokens := []string{sealPermit(key, p)}
		if d.seal != nil {
			tokens = d.seal(p)
		}
		r := orderRequest("")
		r.Header[PermitHeader] = tokens
		v := &Verifier{Origin: shopOrigin, Keys: d.keys, Now: fixed(d.now), without: without}
		_, err := v.Verify(r, orderBody)
		return reasonOf(t, err)
	}
	for reason, list := range damages {
		for i, d := range list {
			if got := verify(d, ""); got != reason {
				t.Errorf("%s %d: reason %q", reason, i, got)
			}
			for off := range damages {
				want := reason
				if off == reason {
					want = ""
				}
				if got := verify(d, off); got != want {
					t.Errorf("%s %d without the check %s: reason %q, want %q", reason, i, off, got, want)
				}
			}
		}
	}
}

func TestVerifyLooksAtTheRequestOnly(t *testing.T) {
	key, keys := newKey(t)
	v := &Verifier{Origin: shopOrigin, Keys: keys, Now: fixed(issued)}
	token := sealPermit(key, validPermit())

	r := orderRequest(token)
	r.Host = "attacker.example"
	if _, err := v.Verify(r, orderBody); err != nil {
		t.Errorf("the Host header decided: %v", err)
	}
	for name, change := range map[string]func(*http.Request){
		"a query":            func(r *http.Request) { r.URL.RawQuery = "x=1" },
		"an empty query":     func(r *http.Request) { r.URL.ForceQuery = true },
		"a trailing slash":   func(r *http.Request) { r.URL.Path += "/" },
		"an escaped letter":  func(r *http.Request) { r.URL.RawPath = "/api/%6frders" },
		"a letter's case":    func(r *http.Request) { r.URL.Path = "/api/Orders" },
		"a directory inside": func(r *http.Request) { r.URL.Path = "/api/./orders" },
	} {
		r := orderRequest(token)
		change(r)
		_, err := v.Verify(r, orderBody)
		if got := reasonOf(t, err); got != WrongTarget {
			t.Errorf("%s: reason %q, want %q", name, got, WrongTarget)
		}
	}
	r = orderRequest(token)
	r.Header.Add(PermitHeader, token)
	if _, err := v.Verify(r, orderBody); reasonOf(t, err) != Malformed {
		t.Errorf("two permits: %v", err)
	}
	r = orderRequest(token)
	r.Header.Del(PermitHeader)
	if _, err := v.Verify(r, orderBody); reasonOf(t, err) != Missing {
		t.Errorf("no permit: %v", err)
	}
}

// A token changed in one character, cut or lengthened never verifies.
func TestChangedTokenNeverVerifies(t *testing.T) {
	key, keys := newKey(t)
	tokens := map[string]func(string) error{}
	permit := sealPermit(key, validPermit())
	receipt, err := validReceipt().Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	tokens[permit] = func(s string) error { _, err := ParsePermit(s, keys); return err }
	tokens[receipt] = func(s string) error { _, err := ParseReceipt(s, keys); return err }
	alphabet := "A="
	for token, parse := range tokens {
		if err := parse(token); err != nil {
			t.Fatal(err)
		}
		for i := range token {
			for _, c := range append([]byte(alphabet), token[i]^1) {
				if c == token[i] {
					continue
				}
				changed := token[:i] + string(c) + token[i+1:]
				if parse(changed) == nil {
					t.Fatalf("byte %d changed to %q verifies", i, c)
				}
			}
			if parse(token[:i]) == nil || parse(token[:i]+token[i+1:]) == nil {
				t.Fatalf("cut at byte %d verifies", i)
			}
		}
		for _, more := range []string{"A", ".", "=", "\n", "." + token} {
			if parse(token+more) == nil || parse(more+token) == nil {
				t.Fatalf("token with %q verifies", more)
			}
		}
	}
}

func validReceipt() Receipt {
	p := validPermit()
	order, amount := "ord_1", "13700"
	return Receipt{
		Issuer: p.Audience, Audience: p.Issuer, ID: p.ID, StepPermit: p.StepPermit, Session: p.Session,
		EffectDigest: p.EffectDigest, BodyHash: p.BodyHash, AnswerHash: HashBody([]byte(`{"orderId":"ord_1"}`)),
		Operation: "POST /api/orders", OrderID: &order, AmountCents: &amount, Result: Applied, IssuedAt: issued.Unix(),
	}
}

func TestReceiptHasAllMembers(t *testing.T) {
	key, keys := newKey(t)
	r := validReceipt()
	r.OrderID, r.AmountCents, r.Result = nil, nil, Refused
	token, err := r.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := canon.DecodeBase64(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(payload, &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields("iss aud jti pid sid ed bh rh operation orderId amountCents result iat") {
		if _, ok := members[name]; !ok {
			t.Errorf("no member %s", name)
		}
		delete(members, name)
	}
	if len(members) != 0 {
		t.Errorf("more members: %v", members)
	}
	back, err := ParseReceipt(token, keys)
	if err != nil || back.OrderID != nil || back.AmountCents != nil {
		t.Errorf("read back %+v, %v", back, err)
	}
}

func TestReceiptAnswers(t *testing.T) {
	p := validPermit()
	if err := validReceipt().Answers(p); err != nil {
		t.Fatal(err)
	}
	for member, change := range map[string]func(*Receipt){
		"iss":       func(r *Receipt) { r.Issuer = "http://other.example" },
		"aud":       func(r *Receipt) { r.Audience = "http://other.example" },
		"jti":       func(r *Receipt) { r.ID = "exec-2" },
		"pid":       func(r *Receipt) { r.StepPermit = "step-2" },
		"sid":       func(r *Receipt) { r.Session = "sess-2" },
		"ed":        func(r *Receipt) { r.EffectDigest = canon.Hash([]byte("other")) },
		"bh":        func(r *Receipt) { r.BodyHash = HashBody([]byte("other")) },
		"operation": func(r *Receipt) { r.Operation = "POST /api/checkouts" },
	} {
		r := validReceipt()
		change(&r)
		if err := r.Answers(p); err == nil || !strings.HasSuffix(err.Error(), ": "+member) {
			t.Errorf("%s changed: %v", member, err)
		}
	}
	closed := validReceipt()
	closed.Result, closed.OrderID, closed.AmountCents = Closed, nil, nil
	if closed.Answers(p) == nil {
		t.Error("a closed receipt with the body and operation of the original is accepted")
	}
	closed.BodyHash, closed.Operation = HashBody([]byte(`{"jti":"exec-1"}`)), "POST /api/dispatches/close"
	if err := closed.Answers(p); err != nil {
		t.Error(err)
	}
}

// Signed tokens with a member out of bounds are refused when they are read, and
// Sign does not make them.
func TestMembersOutOfBounds(t *testing.T) {
	key, keys := newKey(t)
	long := strings.Repeat("a", 513)
	for name, change := range map[string]func(*Permit){
		"iss empty": func(p *Permit) { p.Issuer = "" },
		"iss long":  func(p *Permit) { p.Issuer = long },
		"aud empty": func(p *Permit) { p.Audience = "" },
		"jti empty": func(p *Permit) { p.ID = "" },
		"sid slash": func(p *Permit) { p.Session = "a/b" },
		"pid space": func(p *Permit) { p.StepPermit = "a b" },
		"htm empty": func(p *Permit) { p.Method = "" },
		"htu empty": func(p *Permit) { p.Target = "" },
		"bh short":  func(p *Permit) { p.BodyHash = p.BodyHash[:42] },
		"ed short":  func(p *Permit) { p.EffectDigest = p.EffectDigest[:63] },
	} {
		p := validPermit()
		change(&p)
		if _, err := ParsePermit(sealPermit(key, p), keys); err == nil {
			t.Errorf("permit, %s: accepted", name)
		}
		if _, err := p.Sign(key); err == nil {
			t.Errorf("permit, %s: signed", name)
		}
	}
	for name, change := range map[string]func(*Receipt){
		"iss empty":       func(r *Receipt) { r.Issuer = "" },
		"aud empty":       func(r *Receipt) { r.Audience = "" },
		"jti empty":       func(r *Receipt) { r.ID = "" },
		"pid empty":       func(r *Receipt) { r.StepPermit = "" },
		"sid empty":       func(r *Receipt) { r.Session = "" },
		"ed empty":        func(r *Receipt) { r.EffectDigest = "" },
		"bh empty":        func(r *Receipt) { r.BodyHash = "" },
		"rh empty":        func(r *Receipt) { r.AnswerHash = "" },
		"operation empty": func(r *Receipt) { r.Operation = "" },
		"orderId empty":   func(r *Receipt) { s := ""; r.OrderID = &s },
	} {
		r := validReceipt()
		change(&r)
		if _, err := ParseReceipt(seal(receiptType, key, canon.MustMarshal(r)), keys); err == nil {
			t.Errorf("receipt, %s: accepted", name)
		}
		if _, err := r.Sign(key); err == nil {
			t.Errorf("receipt, %s: signed", name)
		}
	}
	big := validPermit()
	big.IssuedAt, big.ExpiresAt = 1<<53, 1<<53+1
	if _, err := big.Sign(key); err == nil {
		t.Error("a time outside the safe range is signed")
	}
	r := validReceipt()
	r.IssuedAt = 1 << 53
	if _, err := r.Sign(key); err == nil {
		t.Error("a receipt's time outside the safe range is signed")
	}
}

func TestCloseBody(t *testing.T) {
	body := CloseBody("exec-1")
	if jti, err := ParseCloseBody(body); string(body) != `{"jti":"exec-1"}` || jti != "exec-1" || err != nil {
		t.Errorf("%s: %q, %v", body, jti, err)
	}
	for _, bad := range []string{``, `{}`, `{"jti":""}`, `{"jti":1}`, `{"jti":"a/b"}`, `{"jti":"a","x":1}`, `{"jti":"a"} ` + "x"} {
		if jti, err := ParseCloseBody([]byte(bad)); err == nil {
			t.Errorf("%s: %q", bad, jti)
		}
	}
}

func TestReadBodyThatEndsEarly(t *testing.T) {
	r, _ := http.NewRequest("POST", shopOrigin, iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, err := ReadBody(r); AnswerError(err).Status != 400 {
		t.Errorf("%v", err)
	}
}

func TestAnswerWrite(t *testing.T) {
	for status, kind := range map[int]string{201: "application/json", 399: "application/json", 400: "application/problem+json"} {
		w := httptest.NewRecorder()
		Answer{Status: status, Body: []byte(`{}`), Receipt: "token", SetCookie: []string{"a=1", "b=2"}}.Write(w)
		h := w.Header()
		if w.Code != status || h.Get("Content-Type") != kind || h.Get(ReceiptHeader) != "token" || len(h.Values("Set-Cookie")) != 2 || h.Get("Cache-Control") != "no-store" || w.Body.String() != `{}` {
			t.Errorf("%d: %v", w.Code, h)
		}
	}
	w := httptest.NewRecorder()
	Answer{Status: 200}.Write(w)
	if _, there := w.Header()[ReceiptHeader]; there {
		t.Error("an empty receipt is sent")
	}
}

// Errors say which check failed and nothing that was submitted.
func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"dispatch: permit refused: audience":        &PermitError{WrongAudience},
		"dispatch: refused: PRICE_CHANGED":          Refuse("PRICE_CHANGED", "The price changed."),
		"dispatch: request: unknown member at /x":   Decode([]byte(`{"x":"secret"}`), &struct{}{}),
		"dispatch: request: bytes follow the value": Decode([]byte(`{} {}`), &struct{}{}),
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	key, _ := newKey(t)
	for name, change := range map[string]func(*Permit){
		"no jti":               func(p *Permit) { p.ID = "" },
		"jti with a slash":     func(p *Permit) { p.ID = "a/b" },
		"jti of 129":           func(p *Permit) { p.ID = strings.Repeat("a", 129) },
		"no sid":               func(p *Permit) { p.Session = "" },
		"no pid":               func(p *Permit) { p.StepPermit = "" },
		"bh in hex":            func(p *Permit) { p.BodyHash = canon.Hash(orderBody) },
		"ed in base64":         func(p *Permit) { p.EffectDigest = HashBody(nil) },
		"target at another":    func(p *Permit) { p.Target = "http://127.0.0.1:84210/api/orders" },
		"lifetime over 30 s":   func(p *Permit) { p.ExpiresAt = p.IssuedAt + 31 },
		"expired when issued":  func(p *Permit) { p.ExpiresAt = p.IssuedAt },
		"issuer with line end": func(p *Permit) { p.Issuer = "a\nb" },
	} {
		p := validPermit()
		change(&p)
		if _, err := p.Sign(key); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
	for name, change := range map[string]func(*Receipt){
		"unknown result":            func(r *Receipt) { r.Result = "beyond" },
		"refused with an order":     func(r *Receipt) { r.Result, r.AmountCents = Refused, nil },
		"refused with a charge":     func(r *Receipt) { r.Result, r.OrderID = Refused, nil },
		"amount with leading zero":  func(r *Receipt) { s := "013700"; r.AmountCents = &s },
		"amount of thirteen digits": func(r *Receipt) { s := "1000000000000"; r.AmountCents = &s },
		"negative amount":           func(r *Receipt) { s := "-1"; r.AmountCents = &s },
	} {
		r := validReceipt()
		change(&r)
		if _, err := r.Sign(key); err == nil {
			t.Errorf("receipt, %s: signed", name)
		}
	}
}

func TestKeyFile(t *testing.T) {
	_, a := newKey(t)
	_, b := newKey(t)
	a[0].NotAfter = issued
	keys := append(a, b...)
	file := FormatKeys(keys)
	back, err := ParseKeys(file)
	if err != nil || len(back) != 2 || !back[0].NotAfter.Equal(issued) || !back[1].NotAfter.IsZero() || !back[1].Public.Equal(b[0].Public) {
		t.Fatalf("read back %v, %v", back, err)
	}
	line := strings.TrimSuffix(string(FormatKeys(b)), "\n")
	for name, bad := range map[string]string{
		"empty":         "",
		"no line end":   line,
		"blank line":    line + "\n\n",
		"padding":       line + "=\n",
		"short key":     line[:40] + "\n",
		"twice":         line + "\n" + line + "\n",
		"carriage":      line + "\r\n",
		"comment":       "# key\n" + line + "\n",
		"two blanks":    line + "  2026-01-01T00:00:00Z\n",
		"a date only":   line + " 2026-01-01\n",
		"trailing word": line + " 2026-01-01T00:00:00Z x\n",
	} {
		if _, err := ParseKeys([]byte(bad)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// SHA-256 of 32 zero bytes begins 66687aadf862bd77.
func TestKeyID(t *testing.T) {
	if id := KeyID(make([]byte, 32)); id != "66687aadf862bd77" {
		t.Error(id)
	}
}

func TestDecodeLeavesNoSecondReading(t *testing.T) {
	type order struct {
		ID       string `json:"checkoutId"`
		Amount   string `json:"amountCents"`
		Quantity int    `json:"quantity"`
	}
	for name, body := range map[string]string{
		"unknown member":   `{"checkoutId":"a","extra":1}`,
		"wrong case":       `{"CheckoutId":"a"}`,
		"duplicate member": `{"checkoutId":"a","checkoutId":"b"}`,
		"trailing bytes":   `{"checkoutId":"a"} x`,
		"two values":       `{}{}`,
		"number for money": `{"amountCents":13700}`,
		"string for count": `{"quantity":"1"}`,
		"fraction":         `{"quantity":1.5}`,
		"exponent":         `{"quantity":1e0}`,
		"2^53+1":           `{"quantity":9007199254740993}`,
		"U+0000":           `{"checkoutId":"\u0000"}`,
		"lone surrogate":   `{"checkoutId":"\ud800"}`,
		"broken UTF-8":     "{\"checkoutId\":\"\xff\"}",
		"deep nesting":     strings.Repeat("[", 40) + strings.Repeat("]", 40),
		"an array":         `[]`,
		"null":             `null`,
		"nothing":          ``,
		"cut":              `{"checkoutId":"a"`,
	} {
		var v order
		err := Decode([]byte(body), &v)
		if _, ok := err.(*RequestError); !ok {
			t.Errorf("%s: %v, want a *RequestError", name, err)
		}
	}
	if err := Decode([]byte(` {"quantity":1, "checkoutId":"a"}`), &order{}); err != nil {
		t.Error(err)
	}
}

func TestReadBodyBound(t *testing.T) {
	for size, want := range map[int]error{MaxBody - 1: nil, MaxBody: nil, MaxBody + 1: ErrBodyTooLarge} {
		r, _ := http.NewRequest("POST", shopOrigin, bytes.NewReader(make([]byte, size)))
		body, err := ReadBody(r)
		if err != want || err == nil && len(body) != size {
			t.Errorf("%d bytes: %d, %v", size, len(body), err)
		}
	}
}

func TestAnswerError(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{&PermitError{Missing}, 401, "DISPATCH_PERMIT_REQUIRED"},
		{&PermitError{Expired}, 403, "DISPATCH_PERMIT_INVALID"},
		{&PermitError{SessionMismatch}, 403, "DISPATCH_PERMIT_INVALID"},
		{&RequestError{"unknown member at /x"}, 400, "INVALID_REQUEST"},
		{ErrBodyTooLarge, 413, "BODY_TOO_LARGE"},
		{http.ErrAbortHandler, 500, "INTERNAL"},
	} {
		a := AnswerError(c.err)
		var p struct {
			ReasonCode string `json:"reasonCode"`
			Status     int    `json:"status"`
		}
		if err := json.Unmarshal(a.Body, &p); err != nil || a.Status != c.status || p.Status != c.status || p.ReasonCode != c.code || a.Receipt != "" {
			t.Errorf("%v: %d %s %v", c.err, a.Status, a.Body, err)
		}
	}
}
