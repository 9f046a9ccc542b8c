package store

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/dispatch"
)

// The permit passes its checks in time and then waits for the write lock until
// it has expired: the second test, behind the lock, refuses it. One control waits
// without the clock moving, the other has a second test that sees no time pass.
func TestExpiryBehindTheLock(t *testing.T) {
	for name, c := range map[string]struct {
		wait   time.Duration
		off    bool // the second test
		status int
	}{
		"expired while it waited": {31 * time.Second, false, 403},
		"control: still valid":    {0, false, 201},
		"control: no second test": {31 * time.Second, true, 201},
	} {
		t.Run(name, func(t *testing.T) {
			h := newShop(t).session("sess-1")
			order := h.prepared()
			token := h.sign(h.permit("sess-1", "POST", "/api/orders", order))
			if start := h.now(); c.off {
				h.store.ledger.Now = func() time.Time { return start }
			}
			verified := make(chan struct{})
			verify := h.store.verify
			h.store.verify = func(r *http.Request, body []byte) (dispatch.Permit, error) {
				defer close(verified)
				return verify(r, body)
			}
			blocker, err := h.store.write.Begin()
			if err != nil {
				t.Fatal(err)
			}
			before := h.dump()
			answer := make(chan dispatch.Answer, 1)
			go func() {
				a, err := h.client.Send(context.Background(), dispatch.Request{Method: "POST", URL: h.origin + "/api/orders", Body: []byte(order), Permit: token, Cookie: h.cookie})
				if err != nil {
					t.Error(err)
				}
				answer <- a
			}()
			<-verified
			h.offset.Store(int64(c.wait))
			if err := blocker.Rollback(); err != nil {
				t.Fatal(err)
			}
			a := <-answer
			if a.Status != c.status {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			if c.status == 403 && (problemOf(t, a).Check != "expired" || h.dump() != before) {
				t.Errorf("%s, or something changed", a.Body)
			}
		})
	}
}

func (s *shop) probe(of dispatch.Permit) dispatch.Answer {
	s.t.Helper()
	body := string(dispatch.CloseBody(of.ID))
	p := s.permit(of.Session, "POST", dispatch.ClosePath, body)
	p.StepPermit, p.EffectDigest = of.StepPermit, of.EffectDigest
	return s.send(s.sign(p), dispatch.ClosePath, body, "")
}

func TestCloseThenLateOriginal(t *testing.T) {
	h := newShop(t).session("sess-1")
	order := h.prepared()
	p := h.permit("sess-1", "POST", "/api/orders", order)
	a := h.probe(p)
	r := h.receipt(a, p, dispatch.Closed)
	if a.Status != 200 || string(a.Body) != fmt.Sprintf(`{"jti":%q,"result":"closed"}`, p.ID) || r.AnswerHash != dispatch.HashBody(a.Body) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	late := h.send(h.sign(p), "/api/orders", order, h.cookie)
	if late.Status != 409 || late.Receipt != a.Receipt || h.rows("orders") != 0 {
		t.Errorf("late original: %d %s, %d orders", late.Status, late.Body, h.rows("orders"))
	}
	if again := h.probe(p); again.Receipt != a.Receipt {
		t.Errorf("asked again: %d, another receipt", again.Status)
	}
	// Control: without a probe the same original goes through.
	h.do(dispatch.Applied, "/api/orders", order)
}

func TestCloseAfterTheOriginal(t *testing.T) {
	h := newShop(t).session("sess-1")
	order := h.prepared()
	refused, p := h.do(dispatch.Refused, "/api/orders", strings.Replace(order, "13700", "13699", 1))
	if a := h.probe(p); a.Status != 200 || a.Receipt != refused.Receipt {
		t.Errorf("refused: %d %s", a.Status, a.Body)
	}
	applied, p := h.do(dispatch.Applied, "/api/orders", order)
	if a := h.probe(p); a.Status != 200 || a.Receipt != applied.Receipt || string(a.Body) != fmt.Sprintf(`{"jti":%q,"result":"applied"}`, p.ID) {
		t.Errorf("applied: %d %s", a.Status, a.Body)
	}
	p.Session = "sess-2"
	if a := h.probe(p); a.Status != 403 || a.Receipt != "" {
		t.Errorf("from another session: %d %s", a.Status, a.Body)
	}
}

// The sender leaves after its request has arrived; the order happens all the same
// and the receipt is there for a probe.
func TestSenderLeaves(t *testing.T) {
	h := newShop(t).session("sess-1")
	order := h.prepared()
	p := h.permit("sess-1", "POST", "/api/orders", order)
	arrived, gone, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	verify := h.store.verify
	h.store.verify = func(r *http.Request, body []byte) (dispatch.Permit, error) {
		close(arrived)
		<-r.Context().Done()
		<-gone
		return verify(r, body)
	}
	h.store.reached = func(point string) {
		if point == "after commit" {
			close(done)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, err := h.client.Send(ctx, dispatch.Request{Method: "POST", URL: h.origin + "/api/orders", Body: []byte(order), Permit: h.sign(p), Cookie: h.cookie}); err == nil {
		t.Fatal("the sender got an answer")
	}
	h.store.verify = verify
	close(gone)
	<-done
	h.store.reached = func(string) {}
	h.receipt(h.probe(p), p, dispatch.Applied)
	if h.rows("orders") != 1 {
		t.Errorf("%d orders", h.rows("orders"))
	}
}

// H-019 H-142: a commit that fails is answered without a receipt, and nothing is stored.
func TestCommitFails(t *testing.T) {
	h := newShop(t).session("sess-1")
	order := h.prepared()
	before := h.dump()
	if _, err := h.store.write.Exec(`CREATE TABLE parent (id INTEGER PRIMARY KEY);
		CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
		CREATE TRIGGER fail AFTER INSERT ON orders BEGIN INSERT INTO child VALUES (1); END;`); err != nil {
		t.Fatal(err)
	}
	p := h.permit("sess-1", "POST", "/api/orders", order)
	a := h.send(h.sign(p), "/api/orders", order, h.cookie)
	if a.Status != 500 || a.Receipt != "" || strings.Contains(string(a.Body), "constraint") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if h.dump() != before {
		t.Error("something was stored")
	}
	if _, err := h.store.write.Exec(`DROP TRIGGER fail`); err != nil {
		t.Fatal(err)
	}
	if a := h.send(h.sign(p), "/api/orders", order, h.cookie); a.Status != 201 {
		t.Errorf("the next good request: %d %s", a.Status, a.Body)
	}
}

// The process is killed with -9 right before and right after the commit of an
// order, so that nobody gets an answer. (This shows process death, not power
// loss.)
func TestKilledAroundTheCommit(t *testing.T) {
	for point, want := range map[string]dispatch.Result{"before commit": dispatch.Closed, "after commit": dispatch.Applied} {
		t.Run(point, func(t *testing.T) {
			s := newShop(t)
			h := s.session("sess-1")
			order := h.prepared()
			if err := s.store.Close(); err != nil {
				t.Fatal(err)
			}

			child, origin := startChild(t, s, point)
			inParent := s.origin
			s.origin = origin
			p := s.permit("sess-1", "POST", "/api/orders", order)
			sent := make(chan error, 1)
			go func() {
				_, err := s.client.Send(context.Background(), dispatch.Request{Method: "POST", URL: p.Target, Body: []byte(order), Permit: s.sign(p), Cookie: h.cookie})
				sent <- err
			}()
			child.wait(t, point)
			if err := child.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := <-sent; err == nil || errors.Is(err, dispatch.ErrNotConnected) {
				t.Fatalf("sender: %v", err)
			}
			child.cmd.Wait()

			// The same shop again, under the same origin.
			s.origin = inParent
			listener, err := net.Listen("tcp", strings.TrimPrefix(origin, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			if s.store, err = Open(s.dir, Options{Origin: origin, Trust: s.trust, Clock: s.now}); err != nil {
				t.Fatal(err)
			}
			server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: s.store.Handler()}}
			server.Start()
			defer s.store.Close()
			defer server.Close()
			s.origin = origin

			a := s.probe(p)
			r := s.receipt(a, p, want)
			orders := 0
			if want == dispatch.Applied {
				orders = 1
				if got := h.get(200, "/api/orders/"+*r.OrderID); dispatch.HashBody([]byte(got)) != r.AnswerHash {
					t.Errorf("the order is not the one of the receipt: %s", got)
				}
			}
			again := s.send(s.sign(p), "/api/orders", order, h.cookie)
			if again.Status != 409 || again.Receipt != a.Receipt {
				t.Errorf("sent again: %d %s", again.Status, again.Body)
			}
			if n := s.rows("orders"); n != orders {
				t.Errorf("%d orders, want %d", n, orders)
			}
		})
	}
}

type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

const childVariable = "STORE_TEST_CHILD"

type childConfig struct{ Dir, Point, Trust string }

// startChild serves the shop's folder in a process of its own, which stops for
// good when it reaches point.
func startChild(t *testing.T, s *shop, point string) (*child, string) {
	t.Helper()
	config, err := json.Marshal(childConfig{s.dir, point, string(dispatch.FormatKeys(s.trust))})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(config))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	c := &child{cmd, bufio.NewScanner(out)}
	if !c.lines.Scan() {
		t.Fatal("the child did not start")
	}
	return c, c.lines.Text()
}

func (c *child) wait(t *testing.T, point string) {
	t.Helper()
	if !c.lines.Scan() || c.lines.Text() != point {
		t.Fatalf("the child said %q, want %q", c.lines.Text(), point)
	}
}

func TestMain(m *testing.M) {
	if config := os.Getenv(childVariable); config != "" {
		fmt.Fprintln(os.Stderr, "store child:", runChild(config))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func runChild(config string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	trust, err := dispatch.ParseKeys([]byte(c.Trust))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	origin := "http://" + listener.Addr().String()
	s, err := Open(c.Dir, Options{Origin: origin, Trust: trust})
	if err != nil {
		return err
	}
	s.reached = func(point string) {
		if point == c.Point {
			fmt.Println(point)
			select {}
		}
	}
	fmt.Println(origin)
	return http.Serve(listener, s.Handler())
}

func TestRestart(t *testing.T) {
	s := newShop(t)
	h := s.session("sess-1")
	order := h.prepared()
	first, p := h.do(dispatch.Applied, "/api/orders", order)
	token, key, before := s.sign(p), s.store.ReceiptKey().ID(), s.dump()
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	s.serve()
	if s.dump() != before || s.store.ReceiptKey().ID() != key {
		t.Fatal("the store is not as it was")
	}
	h.get(200, "/api/cart")
	// The new origin is another shop to the old permit; its ledger still knows it.
	if a := s.send(token, "/api/orders", order, h.cookie); a.Status != 403 || problemOf(t, a).Check != "audience" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	again := s.permit("sess-1", "POST", "/api/orders", order)
	again.ID = p.ID
	if a := s.send(s.sign(again), "/api/orders", order, h.cookie); a.Status != 409 || a.Receipt != first.Receipt {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestCreateAndOpen(t *testing.T) {
	s := newShop(t)
	options := Options{Origin: "http://127.0.0.1:8421", Trust: s.trust}
	for path, mode := range map[string]os.FileMode{"": 0o700 | os.ModeDir, "store.db": 0o600, "keys": 0o700 | os.ModeDir, "keys/receipt.key": 0o600, "keys/receipt.pub": 0o644} {
		info, err := os.Stat(filepath.Join(s.dir, path))
		if err != nil || info.Mode() != mode {
			t.Errorf("%q: %v, %v", path, info.Mode(), err)
		}
	}
	file, err := os.ReadFile(filepath.Join(s.dir, "keys", "receipt.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := dispatch.ParseKeys(file); err != nil || len(keys) != 1 || keys[0].ID() != s.store.ReceiptKey().ID() {
		t.Errorf("receipt.pub: %v, %v", keys, err)
	}
	var mode, synchronous string
	if err := s.store.write.QueryRow(`PRAGMA journal_mode`).Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal_mode %s, %v", mode, err)
	}
	if err := s.store.write.QueryRow(`PRAGMA synchronous`).Scan(&synchronous); err != nil || synchronous != "2" {
		t.Errorf("synchronous %s, want 2 (FULL), %v", synchronous, err)
	}
	if _, err := s.store.read.Exec(`DELETE FROM orders`); err == nil {
		t.Error("the read connections can write")
	}

	if err := Create(s.dir); !errors.Is(err, ErrExists) {
		t.Errorf("created twice: %v", err)
	}
	if _, err := Open(s.dir, options); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	if _, err := Open(t.TempDir(), options); !errors.Is(err, ErrNotCreated) {
		t.Errorf("an empty folder: %v", err)
	}
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, origin := range []string{"", "127.0.0.1:8421", "http://127.0.0.1:8421/", "http://a@127.0.0.1", "ftp://127.0.0.1", "HTTP://127.0.0.1"} {
		if _, err := Open(s.dir, Options{Origin: origin, Trust: s.trust}); err == nil {
			t.Errorf("origin %q is accepted", origin)
		}
	}
	if _, err := Open(s.dir, Options{Origin: options.Origin}); err == nil {
		t.Error("a store that trusts nobody opens")
	}

	key := filepath.Join(s.dir, "keys", "receipt.key")
	good, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(key, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.dir, options); err == nil {
		t.Error("a key that others can read is accepted")
	}
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "x", strings.TrimPrefix(string(good), privateTag), privateTag + "AAAA\n"} {
		if err := os.WriteFile(key, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(s.dir, options); err == nil {
			t.Errorf("key file %q is accepted", bad)
		}
	}
	if err := os.WriteFile(key, good, 0o600); err != nil {
		t.Fatal(err)
	}
	setVersion(t, s.dir, 2)
	if _, err := Open(s.dir, options); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a newer schema: %v", err)
	}
	setVersion(t, s.dir, 1)
	again, err := Open(s.dir, options)
	if err != nil {
		t.Fatalf("after each refusal the folder is free: %v", err)
	}
	again.Close()
}

func setVersion(t *testing.T, dir string, version int) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(filepath.Join(dir, "store.db")))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		t.Fatal(err)
	}
}

// A receipt is signed with the store's key and no other.
func TestReceiptKeyIsItsOwn(t *testing.T) {
	a, b := newShop(t), newShop(t)
	if a.store.ReceiptKey().ID() == b.store.ReceiptKey().ID() || a.store.ReceiptKey().Public.Equal(a.key.Public().(ed25519.PublicKey)) {
		t.Error("two parties share a key")
	}
}

func TestSetPrice(t *testing.T) {
	s := newShop(t)
	if err := s.store.SetPrice(t.Context(), "no-such-product", 1); err == nil {
		t.Error("a product that is not there got a price")
	}
	if err := s.store.SetPrice(t.Context(), "fieldwork-mouse", -1); err == nil {
		t.Error("a price below nothing")
	}
}
