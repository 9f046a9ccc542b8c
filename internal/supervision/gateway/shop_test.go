package gateway_test

import (
	"bytes"
	"crypto/ed25519"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"countersign/dispatch"
	"countersign/internal/supervision/gateway"
	"countersign/store"
)

// shopTask is a shop in a process of its own: the real store behind a handler that
// misbehaves as it is told.
type shopTask struct {
	Dir   string
	Addr  string // to listen on; "" for any
	Trust string // lines of dispatch.pub
}

// Ways in which a shop answers a request that it was told to spoil.
const (
	honest         = ""
	dropBefore     = "drop before"          // drops the connection, nothing done
	commitAndDrop  = "commit and drop"      // does it and drops the connection
	error500       = "500 before"           // nothing done
	commitAnd500   = "commit and 500"       // does it
	killedBefore   = "killed before commit" // nothing done
	killedAfter    = "killed after commit"  // does it and is killed before the answer
	redirect       = "307 elsewhere"        // points to another origin
	otherPermit    = "receipt of another permit"
	alteredReceipt = "altered receipt"
	otherKey       = "receipt of another key"
	otherAmount    = "receipt of another amount"
	otherEffect    = "receipt of another effect"
	otherBody      = "receipt of another answer"
	noReceipt      = "no receipt"
	twoReceipts    = "two receipts"
	hangs          = "hangs after commit"
	halfAnswer     = "half an answer"
	hugeAnswer     = "endless answer"
)

type shop struct {
	real   http.Handler
	key    ed25519.PrivateKey
	origin string

	mu        sync.Mutex
	how, what string   // how to spoil which request
	arrived   *os.File // a line for each request: method, path, and the jti if there is one
	receipt   string   // the newest real one
}

// elsewhere is what the other origin notes about a request.
const elsewhere = "elsewhere"

func (h *shop) note(what string) {
	if _, err := h.arrived.WriteString(what + "\n"); err != nil {
		panic(err)
	}
}

func (s *shopTask) serve() error {
	trust, err := dispatch.ParseKeys([]byte(s.Trust))
	if err != nil {
		return err
	}
	addr := s.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	public, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	manage, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "store.db")); err != nil {
		if err := store.Create(s.Dir); err != nil {
			return err
		}
	}
	h := &shop{origin: "http://" + public.Addr().String()}
	if h.arrived, err = os.OpenFile(filepath.Join(s.Dir, "arrived"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	opened, err := store.Open(s.Dir, store.Options{Origin: h.origin, Trust: trust, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	h.real = opened.Handler()
	if h.key, err = receiptKey(s.Dir); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /spoil", func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.how, h.what = r.FormValue("how"), r.FormValue("what")
	})
	// Every other path is the other origin that a redirect points to.
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) { h.note(elsewhere) })
	go http.Serve(manage, mux)
	say(line{Origin: h.origin, Manage: "http://" + manage.Addr().String()})
	h.origin = "http://" + manage.Addr().String()
	return http.Serve(public, h)
}

// receiptKey reads the key that the store in dir signs with.
func receiptKey(dir string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(filepath.Join(dir, "keys", "receipt.key"))
	if err != nil {
		return nil, err
	}
	_, encoded, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	seed, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// jti reads the permit's id without checking anything.
func jti(r *http.Request) string {
	parts := strings.Split(r.Header.Get(dispatch.PermitHeader), ".")
	if len(parts) != 3 {
		return ""
	}
	var claims struct {
		ID string `json:"jti"`
	}
	raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
	json.Unmarshal(raw, &claims)
	return claims.ID
}

func (h *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.Method + " " + r.URL.Path
	h.mu.Lock()
	h.note(what + " " + jti(r))
	how := h.how
	if what != h.what {
		how = honest
	}
	h.mu.Unlock()
	if how == honest {
		h.pass(w, r)
		return
	}
	h.spoil(how, w, r)
}

// pass answers as the real store does.
func (h *shop) pass(w http.ResponseWriter, r *http.Request) {
	rec := h.run(r)
	h.mu.Lock()
	if receipt := rec.Header().Get(dispatch.ReceiptHeader); receipt != "" {
		h.receipt = receipt
	}
	h.mu.Unlock()
	maps.Copy(w.Header(), rec.Header())
	w.WriteHeader(rec.Code)
	w.Write(rec.Body.Bytes())
}

func (h *shop) run(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.real.ServeHTTP(rec, r)
	return rec
}

// drop closes the connection, after some bytes of an answer.
func drop(w http.ResponseWriter, some string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	io.WriteString(conn, some)
	conn.Close()
}

func die() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (h *shop) spoil(how string, w http.ResponseWriter, r *http.Request) {
	switch how {
	case dropBefore:
		drop(w, "")
		return
	case error500:
		http.Error(w, "{}", 500)
		return
	case killedBefore:
		die()
	case redirect:
		http.Redirect(w, r, h.origin+r.URL.Path, http.StatusTemporaryRedirect)
		return
	}
	rec := h.run(r)
	receipt := rec.Header().Get(dispatch.ReceiptHeader)
	body := rec.Body.Bytes()
	receipts := []string{receipt}
	switch how {
	case commitAndDrop:
		drop(w, "")
		return
	case commitAnd500:
		http.Error(w, "{}", 500)
		return
	case killedAfter:
		die()
	case hangs:
		say(line{Point: hangs})
		<-r.Context().Done()
		return
	case halfAnswer:
		drop(w, "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"+dispatch.ReceiptHeader+": "+receipt+
			"\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+string(body[:len(body)/2]))
		return
	case hugeAnswer:
		body = append(body, bytes.Repeat([]byte(" "), dispatch.MaxAnswer)...)
	case otherPermit:
		h.mu.Lock()
		receipts[0] = h.receipt
		h.mu.Unlock()
	case alteredReceipt:
		i := strings.IndexByte(receipt, '.') + 20
		receipts[0] = receipt[:i] + flip(receipt[i]) + receipt[i+1:]
	case otherKey:
		_, other, err := ed25519.GenerateKey(nil)
		if err != nil {
			panic(err)
		}
		receipts[0] = resign(receipt, other, func(*dispatch.Receipt) {})
	case otherAmount:
		receipts[0] = resign(receipt, h.key, func(r *dispatch.Receipt) { more := "13701"; r.AmountCents = &more })
	case otherEffect:
		receipts[0] = resign(receipt, h.key, func(r *dispatch.Receipt) { r.EffectDigest = strings.Repeat("0", 64) })
	case otherBody:
		body = bytes.Replace(body, []byte("13700"), []byte("13701"), 1)
	case noReceipt:
		receipts = nil
	case twoReceipts:
		receipts = append(receipts, receipt)
	}
	maps.Copy(w.Header(), rec.Header())
	w.Header()[dispatch.ReceiptHeader] = receipts
	w.WriteHeader(rec.Code)
	w.Write(body)
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// resign alters a receipt and signs it again.
func resign(token string, key ed25519.PrivateKey, edit func(*dispatch.Receipt)) string {
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		panic(err)
	}
	var r dispatch.Receipt
	if err := json.Unmarshal(raw, &r); err != nil {
		panic(err)
	}
	edit(&r)
	signed, err := r.Sign(key)
	if err != nil {
		panic(err)
	}
	return signed
}

// farShop is a shop in another process, seen from here.
type farShop struct {
	*child
	t      *testing.T
	task   shopTask
	origin string
	manage string
	key    dispatch.TrustedKey
}

func startShop(t *testing.T, dir string, trust []dispatch.TrustedKey) *farShop {
	t.Helper()
	s := &farShop{t: t, task: shopTask{Dir: dir, Trust: string(dispatch.FormatKeys(trust))}}
	s.restart()
	text, err := os.ReadFile(filepath.Join(dir, "keys", "receipt.pub"))
	must(t, err)
	keys, err := dispatch.ParseKeys(text)
	must(t, err)
	s.key = keys[0]
	return s
}

// restart starts the shop where it was before.
func (s *farShop) restart() {
	s.t.Helper()
	s.child = startChild(s.t, task{Shop: &s.task})
	l, ok := s.next()
	if !ok {
		s.t.Fatal("the shop did not start")
	}
	s.origin, s.manage = l.Origin, l.Manage
	s.task.Addr = strings.TrimPrefix(l.Origin, "http://")
}

// spoil has every request that is what, such as "POST /api/orders", answered in
// that way from now on, and any other honestly.
func (s *farShop) spoil(how, what string) {
	s.t.Helper()
	got, err := http.PostForm(s.manage+"/spoil", url.Values{"how": {how}, "what": {what}})
	must(s.t, err)
	got.Body.Close()
}

// arrivals counts the requests that arrived with that jti, or method and path, or
// elsewhere; for "" all of them.
func (s *farShop) arrivals(which string) int {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.task.Dir, "arrived"))
	must(s.t, err)
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, which) {
			n++
		}
	}
	return n
}

// rows counts what the shop's own database holds of a hosted session in a table.
func (s *farShop) rows(table, sid string) int {
	s.t.Helper()
	return countRows(s.t, s.task.Dir, table, sid)
}

// orders counts the orders of a hosted session in the shop's own database.
func (s *farShop) orders(sid string) int {
	s.t.Helper()
	return s.rows("orders", sid)
}

func countOrders(t *testing.T, dir, sid string) int {
	t.Helper()
	return countRows(t, dir, "orders", sid)
}

func countRows(t *testing.T, dir, table, sid string) int {
	t.Helper()
	db := storeDatabase(t, dir)
	defer db.Close()
	var n int
	must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table+` WHERE sid = ?`, sid).Scan(&n))
	return n
}

// receipt is the one that the shop has stored for a permit.
func (s *farShop) receipt(jti string) string {
	s.t.Helper()
	db := s.database()
	defer db.Close()
	var receipt string
	must(s.t, db.QueryRowContext(s.t.Context(), `SELECT receipt FROM dispatch_ledger WHERE jti = ?`, jti).Scan(&receipt))
	return receipt
}

// database is the shop's own, behind its back.
func (s *farShop) database() *sql.DB { return storeDatabase(s.t, s.task.Dir) }

func storeDatabase(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "store.db")+"?_busy_timeout=5000")
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// use makes a house's runs those of this shop.
func (s *farShop) use(c *gateway.Config) {
	c.Store = &gateway.Store{Origin: s.origin, Keys: []dispatch.TrustedKey{s.key}}
}
