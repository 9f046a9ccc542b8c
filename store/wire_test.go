package store

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/dispatch"
)

// wire sends one request line, headers and a body as they are.
func (s *shop) wire(line, headers, body string) (*http.Response, string) {
	s.t.Helper()
	host := strings.TrimPrefix(s.origin, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n%s", line, host, headers, body); err != nil {
		s.t.Fatal(err)
	}
	method, _, _ := strings.Cut(line, " ")
	r, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	defer r.Body.Close()
	answer, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	return r, string(answer)
}

// Somebody has a session's cookie and a visitor's and no permit, and tries every
// mutation with every spelling of a request. Nothing changes, nothing is signed,
// nothing is redirected: a redirected POST is a second request.
func TestNobodyWithoutAPermit(t *testing.T) {
	h := newShop(t).session("sess-1")
	order := h.prepared()
	before := h.dump()
	cookies := "Cookie: " + h.cookie + "; store_visitor=x\r\n"
	length := func(body string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(body)) }
	const unsigned = "eyJhbGciOiJub25lIiwidHlwIjoiY291bnRlcnNpZ24tZGlzcGF0Y2grand0In0.eyJzaWQiOiJzZXNzLTEifQ."
	try := func(want int, line, headers, body string) {
		t.Helper()
		r, answer := h.wire(line, cookies+headers, body)
		if r.StatusCode != want || r.Header.Get(dispatch.ReceiptHeader) != "" || r.Header.Get("Location") != "" {
			t.Errorf("%s %q: %d %s, want %d", line, headers, r.StatusCode, answer, want)
		}
		if h.dump() != before {
			t.Fatalf("%s %q: something changed", line, headers)
		}
	}
	for path, body := range h.mutations(order) {
		post, json := "POST "+path, "Content-Type: application/json\r\n"+length(body)
		try(401, post, json, body)
		try(401, post, json+"Origin: "+h.origin+"\r\nSec-Fetch-Site: same-origin\r\nX-Halfspan-Owner: 1\r\nAuthorization: Bearer x\r\n", body)
		try(401, post, json+"X-HTTP-Method-Override: PUT\r\n", body)
		try(401, "POST http://elsewhere.example"+path, json, body)
		try(401, post, "Content-Type: text/plain\r\n"+length(body), body)
		try(401, post+"?permit="+unsigned, json, body)
		try(401, post, "Transfer-Encoding: chunked\r\n", "zz\r\n")
		try(401, post, "Transfer-Encoding: chunked\r\n", "8000\r\n"+strings.Repeat("[", 0x8000)+"\r\n0\r\n\r\n")
		for _, permit := range []string{"", unsigned, ".", "..", "null", strings.Repeat("A", 20_000), "Bearer " + unsigned} {
			try(403, post, json+"Countersign-Permit: "+permit+"\r\n", body)
		}
		try(403, post, json+"Countersign-Permit: a\r\nCountersign-Permit: b\r\n", body)
		try(403, "POST "+strings.Replace(path, "/api/", "/%61pi/", 1), json+"Countersign-Permit: "+unsigned+"\r\n", body)
		for _, method := range []string{"PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "post"} {
			try(404, method+" "+path, json, body)
		}
		for _, spelled := range []string{"/" + path, path + "/", path + "//", "/." + path, "/x/.." + path, strings.Replace(path, "/api/", "/api//", 1), strings.Replace(path, "/api/", "/API/", 1), path + "%00", path + "%2f"} {
			try(404, "POST "+spelled, json, body)
		}
	}
	for _, path := range []string{"//", "/static/index.html", "/static/.", "/static/%2e%2e", "/static/..%2fstore.db", "/cart/", "//cart", "/orders/%ff%fe", "/products/%00", "/api/orders/%ff"} {
		try(404, "GET "+path, "", "")
	}

	// Controls: without the check of the path the mux redirects, and with a permit
	// the same request changes the shop.
	h.store.without = "NOT_FOUND"
	if r, _ := h.wire("POST //api/orders", cookies+length(order), order); r.StatusCode != 307 {
		t.Errorf("control: %d", r.StatusCode)
	}
	h.store.without = ""
	if a := h.send(h.sign(h.permit("sess-1", "POST", "/api/orders", order)), "/api/orders", order, h.cookie); a.Status != 201 || h.dump() == before {
		t.Errorf("control: %d %s", a.Status, a.Body)
	}
}

// A body has one reading: its type is named once, in UTF-8 and without an
// encoding that a reader in between would undo.
func TestContentTypeHasOneReading(t *testing.T) {
	h := newShop(t).session("sess-1")
	const body = `{"productId":"fieldwork-mouse","quantity":1}`
	for headers, want := range map[string]int{
		"Content-Type: application/json\r\n":                200,
		"Content-Type: Application/JSON; charset=UTF-8\r\n": 200,
		"": 415,
		"Content-Type: application/json\r\nContent-Type: application/json\r\n": 415,
		"Content-Type: application/json\r\nContent-Type: text/plain\r\n":       415,
		"Content-Type: application/json; charset=utf-16\r\n":                   415,
		"Content-Type: application/json; version=1\r\n":                        415,
		"Content-Type: application/json\r\nContent-Encoding: gzip\r\n":         415,
	} {
		before := h.dump()
		permit := h.sign(h.permit("sess-1", "POST", "/api/cart/items", body))
		r, answer := h.wire("POST /api/cart/items", fmt.Sprintf("Cookie: %s\r\n%sCountersign-Permit: %s\r\nContent-Length: %d\r\n", h.cookie, headers, permit, len(body)), body)
		if r.StatusCode != want || (h.dump() == before) != (want == 415) {
			t.Errorf("%q: %d %s, want %d", headers, r.StatusCode, answer, want)
		}
	}
}

// Twenty permits of twenty ids for one checkout are one order: each is valid, and
// the checkout is there once.
func TestOneCheckoutManyPermits(t *testing.T) {
	h := newShop(t).session("sess-1")
	order := h.prepared()
	var wg sync.WaitGroup
	var applied, refused atomic.Int64
	for range 20 {
		wg.Go(func() {
			p := h.permit("sess-1", "POST", "/api/orders", order)
			a, err := h.client.Send(t.Context(), dispatch.Request{Method: "POST", URL: h.origin + "/api/orders", Body: []byte(order), Permit: h.sign(p), Cookie: h.cookie})
			switch {
			case err != nil:
				t.Error(err)
			case a.Status == 201:
				applied.Add(1)
			case a.Status == 422 && strings.Contains(string(a.Body), "CHECKOUT_UNKNOWN"):
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if applied.Load() != 1 || refused.Load() != 19 || h.rows("orders") != 1 {
		t.Errorf("%d applied, %d refused, %d orders", applied.Load(), refused.Load(), h.rows("orders"))
	}
}
