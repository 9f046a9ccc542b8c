package dispatch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"countersign/internal/pgtest"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// shop is a database with one table that effects write.
type shop struct {
	db     *sql.DB
	ledger *Ledger
	keys   []TrustedKey
	clock  func() time.Time
}

// opener makes a shop on one engine.
type opener func(*testing.T) *shop

// onBoth runs a test on SQLite and on PostgreSQL: the ledger has one text for both.
func onBoth(t *testing.T, test func(*testing.T, opener)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newShop) })
	t.Run("postgres", func(t *testing.T) {
		test(t, func(t *testing.T) *shop { return openShop(t, "pgx", pgtest.Empty(t)) })
	})
}

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func newShop(t *testing.T) *shop {
	t.Helper()
	return openShop(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
}

func openShop(t *testing.T, driver, source string) *shop {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(20)
	t.Cleanup(func() { db.Close() })
	if _, err := db.Exec(Schema + `CREATE TABLE orders (id TEXT PRIMARY KEY);`); err != nil {
		t.Fatal(err)
	}
	private, keys := newKey(t)
	s := &shop{db: db, keys: keys, clock: fixed(issued)}
	s.ledger = &Ledger{Origin: shopOrigin, Key: private, Now: func() time.Time { return s.clock() }}
	return s
}

func (s *shop) in(t *testing.T, step func(*sql.Tx) (Answer, error)) (Answer, error) {
	t.Helper()
	tx, err := s.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	a, err := step(tx)
	// Commit also after an error: nothing of the call may be left in tx.
	if commitErr := tx.Commit(); commitErr != nil {
		t.Fatal(commitErr)
	}
	return a, err
}

func (s *shop) spend(t *testing.T, p Permit, effectErr error) (Answer, error) {
	t.Helper()
	return s.in(t, func(tx *sql.Tx) (Answer, error) {
		return s.ledger.Spend(context.Background(), tx, p, func() (Effect, error) {
			if _, err := tx.Exec(`INSERT INTO orders VALUES ($1)`, fmt.Sprintf("ord_%s", p.ID)); err != nil {
				return Effect{}, err
			}
			return Effect{Status: 201, Body: []byte(`{}`), OrderID: "ord_" + p.ID, AmountCents: "13700"}, effectErr
		})
	})
}

func (s *shop) close(t *testing.T, probe Permit, jti string) (Answer, error) {
	t.Helper()
	return s.in(t, func(tx *sql.Tx) (Answer, error) {
		return s.ledger.Close(context.Background(), tx, probe, jti)
	})
}

func (s *shop) count(t *testing.T, table string) (n int) {
	t.Helper()
	if err := s.db.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *shop) receipt(t *testing.T, a Answer, about Permit, want Result) Receipt {
	t.Helper()
	r, err := ParseReceipt(a.Receipt, s.keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Answers(about); err != nil {
		t.Fatal(err)
	}
	if r.Result != want {
		t.Fatalf("result %q, want %q", r.Result, want)
	}
	return r
}

func probeOf(p Permit, id string) Permit {
	probe := p
	probe.ID, probe.Target, probe.BodyHash = id, shopOrigin+ClosePath, HashBody(CloseBody(p.ID))
	return probe
}

func TestSpendApplied(t *testing.T) { onBoth(t, testSpendApplied) }

func testSpendApplied(t *testing.T, newShop opener) {
	s, p := newShop(t), validPermit()
	a, err := s.spend(t, p, nil)
	if err != nil || a.Status != 201 {
		t.Fatalf("%d, %v", a.Status, err)
	}
	r := s.receipt(t, a, p, Applied)
	if r.AnswerHash != HashBody(a.Body) || *r.OrderID != "ord_exec-1" || *r.AmountCents != "13700" || r.IssuedAt != issued.Unix() {
		t.Errorf("receipt %+v", r)
	}
	var row [6]string
	if err := s.db.QueryRow(`SELECT jti, pid, sid, bh, result, receipt FROM dispatch_ledger`).Scan(&row[0], &row[1], &row[2], &row[3], &row[4], &row[5]); err != nil {
		t.Fatal(err)
	}
	if row != [6]string{"exec-1", "step-1", "sess-1", p.BodyHash, "applied", a.Receipt} {
		t.Errorf("row %v", row)
	}

	again, err := s.spend(t, p, nil)
	if err != nil || again.Status != 409 || again.Receipt != a.Receipt {
		t.Errorf("repeated: %d, the stored receipt: %t, %v", again.Status, again.Receipt == a.Receipt, err)
	}
	if n := s.count(t, "orders"); n != 1 {
		t.Errorf("%d orders", n)
	}
}

func TestSpendRefused(t *testing.T) { onBoth(t, testSpendRefused) }

func testSpendRefused(t *testing.T, newShop opener) {
	s, p := newShop(t), validPermit()
	a, err := s.spend(t, p, Refuse("PRICE_CHANGED", "The price changed."))
	if err != nil || a.Status != 422 {
		t.Fatalf("%d, %v", a.Status, err)
	}
	if r := s.receipt(t, a, p, Refused); r.OrderID != nil || r.AmountCents != nil || r.AnswerHash != HashBody(a.Body) {
		t.Errorf("receipt %+v", r)
	}
	if orders, rows := s.count(t, "orders"), s.count(t, "dispatch_ledger"); orders != 0 || rows != 1 {
		t.Errorf("%d orders, %d rows: the effect must be undone and the row kept", orders, rows)
	}
	if again, err := s.spend(t, p, nil); err != nil || again.Status != 409 || again.Receipt != a.Receipt {
		t.Errorf("repeated: %d, %v", again.Status, err)
	}
}

// H-142: an error that is no refusal leaves nothing, even when the caller commits, and
// the permit can still be spent.
func TestSpendErrorLeavesNothing(t *testing.T) { onBoth(t, testSpendErrorLeavesNothing) }

func testSpendErrorLeavesNothing(t *testing.T, newShop opener) {
	s, p := newShop(t), validPermit()
	broken := errors.New("disk")
	if a, err := s.spend(t, p, broken); err != broken || a.Receipt != "" {
		t.Fatalf("%+v, %v", a, err)
	}
	if orders, rows := s.count(t, "orders"), s.count(t, "dispatch_ledger"); orders != 0 || rows != 0 {
		t.Fatalf("%d orders, %d rows", orders, rows)
	}
	if a, err := s.spend(t, p, nil); err != nil || a.Status != 201 {
		t.Errorf("%d, %v", a.Status, err)
	}
}

func TestSpendRefusesAnswersThatAreNoEffect(t *testing.T) {
	onBoth(t, testSpendRefusesAnswersThatAreNoEffect)
}

func testSpendRefusesAnswersThatAreNoEffect(t *testing.T, newShop opener) {
	for _, e := range []Effect{{Status: 199}, {Status: 300}, {Status: 200, AmountCents: "1.00"}, {Status: 200, OrderID: "a b"}} {
		s, p := newShop(t), validPermit()
		_, err := s.in(t, func(tx *sql.Tx) (Answer, error) {
			return s.ledger.Spend(context.Background(), tx, p, func() (Effect, error) { return e, nil })
		})
		if err == nil || s.count(t, "dispatch_ledger") != 0 {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// The expiry is tested behind the write lock, at the three boundaries.
func TestExpiryInsideTheTransaction(t *testing.T) { onBoth(t, testExpiryInsideTheTransaction) }

func testExpiryInsideTheTransaction(t *testing.T, newShop opener) {
	for _, c := range []struct {
		now  time.Time
		want Reason
	}{
		{issued.Add(30*time.Second - time.Millisecond), ""},
		{issued.Add(30 * time.Second), Expired},
		{issued.Add(30*time.Second + time.Millisecond), Expired},
	} {
		s, p := newShop(t), validPermit()
		s.clock = fixed(c.now)
		_, err := s.spend(t, p, nil)
		if got := reasonOf(t, err); got != c.want {
			t.Errorf("at %s: reason %q, want %q", c.now.Sub(issued), got, c.want)
		}
		if n := s.count(t, "orders"); (n == 1) != (c.want == "") {
			t.Errorf("at %s: %d orders", c.now.Sub(issued), n)
		}
		_, err = s.close(t, probeOf(p, "probe-1"), "exec-other")
		if got := reasonOf(t, err); got != c.want {
			t.Errorf("probe at %s: reason %q, want %q", c.now.Sub(issued), got, c.want)
		}
	}
}

// Forty callers with one permit have one effect. The control gives each caller
// a jti of its own: then there are forty, so the count does see a second effect.
func TestConcurrentReplays(t *testing.T) { onBoth(t, testConcurrentReplays) }

func testConcurrentReplays(t *testing.T, newShop opener) {
	for name, c := range map[string]struct {
		id   func(i int) string
		want int
	}{
		"one jti":             {func(int) string { return "exec-1" }, 1},
		"control: forty jtis": {func(i int) string { return fmt.Sprintf("exec-%d", i) }, 40},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			var wg sync.WaitGroup
			var mu sync.Mutex
			statuses, receipts := map[int]int{}, map[string]bool{}
			for i := range 40 {
				wg.Go(func() {
					p := validPermit()
					p.ID = c.id(i)
					tx, err := s.db.Begin()
					if err != nil {
						t.Error(err)
						return
					}
					defer tx.Rollback()
					a, err := s.ledger.Spend(t.Context(), tx, p, func() (Effect, error) {
						_, err := tx.Exec(`INSERT INTO orders VALUES ($1)`, fmt.Sprintf("ord_%d", i))
						return Effect{Status: 201, Body: []byte(`{}`)}, err
					})
					if err == nil {
						err = tx.Commit()
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					statuses[a.Status]++
					receipts[a.Receipt] = true
				})
			}
			wg.Wait()
			if statuses[201] != c.want || statuses[409] != 40-c.want || s.count(t, "orders") != c.want || len(receipts) != c.want {
				t.Errorf("statuses %v, %d orders, %d receipts, want %d", statuses, s.count(t, "orders"), len(receipts), c.want)
			}
		})
	}
}

func TestCloseThenLateOriginal(t *testing.T) { onBoth(t, testCloseThenLateOriginal) }

func testCloseThenLateOriginal(t *testing.T, newShop opener) {
	s, p := newShop(t), validPermit()
	probe := probeOf(p, "probe-1")
	a, err := s.close(t, probe, p.ID)
	if err != nil || a.Status != 200 || string(a.Body) != `{"jti":"exec-1","result":"closed"}` {
		t.Fatalf("%d %s %v", a.Status, a.Body, err)
	}
	if r := s.receipt(t, a, p, Closed); r.AnswerHash != HashBody(a.Body) || r.OrderID != nil || r.AmountCents != nil {
		t.Errorf("receipt %+v", r)
	}
	late, err := s.spend(t, p, nil)
	if err != nil || late.Status != 409 || late.Receipt != a.Receipt || s.count(t, "orders") != 0 {
		t.Errorf("late original: %d, %d orders, %v", late.Status, s.count(t, "orders"), err)
	}
	for name, probe := range map[string]Permit{"the same probe": probe, "a new probe": probeOf(p, "probe-2")} {
		again, err := s.close(t, probe, p.ID)
		if err != nil || again.Receipt != a.Receipt {
			t.Errorf("%s: %d, %v", name, again.Status, err)
		}
	}
}

func TestCloseAfterTheOriginal(t *testing.T) { onBoth(t, testCloseAfterTheOriginal) }

func testCloseAfterTheOriginal(t *testing.T, newShop opener) {
	for want, effectErr := range map[Result]error{Applied: nil, Refused: Refuse("NO", "No.")} {
		s, p := newShop(t), validPermit()
		first, err := s.spend(t, p, effectErr)
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.close(t, probeOf(p, "probe-1"), p.ID)
		if err != nil || a.Status != 200 || a.Receipt != first.Receipt || string(a.Body) != fmt.Sprintf(`{"jti":"exec-1","result":%q}`, want) {
			t.Errorf("%s: %d %s %v", want, a.Status, a.Body, err)
		}
		s.receipt(t, a, p, want)
	}
}

func TestCloseKeepsToItsSession(t *testing.T) { onBoth(t, testCloseKeepsToItsSession) }

func testCloseKeepsToItsSession(t *testing.T, newShop opener) {
	s, p := newShop(t), validPermit()
	if _, err := s.spend(t, p, nil); err != nil {
		t.Fatal(err)
	}
	probe := probeOf(p, "probe-1")
	probe.Session = "sess-2"
	if _, err := s.close(t, probe, p.ID); reasonOf(t, err) != SessionMismatch {
		t.Errorf("another session's receipt: %v", err)
	}
	if _, err := s.close(t, probe, probe.ID); err == nil {
		t.Error("a probe about itself is answered")
	}
	if n := s.count(t, "dispatch_ledger"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// The original and its probe race: whichever is first, both get one receipt, and
// an order exists exactly when it says applied.
func TestCloseRacesTheOriginal(t *testing.T) { onBoth(t, testCloseRacesTheOriginal) }

func testCloseRacesTheOriginal(t *testing.T, newShop opener) {
	s := newShop(t)
	applied := 0
	for i := range 30 {
		p := validPermit()
		p.ID = fmt.Sprintf("exec-%d", i)
		var answers [2]Answer
		var wg sync.WaitGroup
		start := make(chan struct{})
		wg.Go(func() { <-start; answers[0] = s.mustSpend(t, p) })
		wg.Go(func() { <-start; answers[1] = s.mustClose(t, probeOf(p, fmt.Sprintf("probe-%d", i)), p.ID) })
		close(start)
		wg.Wait()
		if answers[0].Receipt != answers[1].Receipt {
			t.Fatalf("%s: two receipts", p.ID)
		}
		r, err := ParseReceipt(answers[0].Receipt, s.keys)
		if err != nil {
			t.Fatal(err)
		}
		if r.Result == Applied {
			applied++
		}
	}
	if n := s.count(t, "orders"); n != applied {
		t.Errorf("%d orders, %d receipts say applied", n, applied)
	}
}

func (s *shop) mustSpend(t *testing.T, p Permit) Answer {
	a, err := s.spend(t, p, nil)
	if err != nil {
		t.Error(err)
	}
	return a
}

func (s *shop) mustClose(t *testing.T, probe Permit, jti string) Answer {
	a, err := s.close(t, probe, jti)
	if err != nil {
		t.Error(err)
	}
	return a
}

// The ledger's three checks, each switched off alone: the call that it refuses
// goes through, and the other two are refused as before.
func TestEachLedgerCheckProtects(t *testing.T) { onBoth(t, testEachLedgerCheckProtects) }

func testEachLedgerCheckProtects(t *testing.T, newShop opener) {
	// Each returns whether the call was refused, as it must be.
	calls := map[Reason]func(*testing.T, *shop) bool{
		spent: func(t *testing.T, s *shop) bool {
			p, effects := validPermit(), 0
			for range 2 {
				_, err := s.in(t, func(tx *sql.Tx) (Answer, error) {
					return s.ledger.Spend(context.Background(), tx, p, func() (Effect, error) {
						effects++
						return Effect{Status: 200, Body: []byte(`{}`)}, nil
					})
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			return effects == 1
		},
		Expired: func(t *testing.T, s *shop) bool {
			p := validPermit()
			p.ID = "exec-expired"
			s.clock = fixed(issued.Add(30 * time.Second))
			defer func() { s.clock = fixed(issued) }()
			_, err := s.spend(t, p, nil)
			if err != nil && reasonOf(t, err) != Expired {
				t.Fatal(err)
			}
			return err != nil
		},
		SessionMismatch: func(t *testing.T, s *shop) bool {
			p := validPermit()
			p.ID = "exec-other"
			s.mustSpend(t, p)
			probe := probeOf(p, "probe-other")
			probe.Session = "sess-2"
			_, err := s.close(t, probe, p.ID)
			if err != nil && reasonOf(t, err) != SessionMismatch {
				t.Fatal(err)
			}
			return err != nil
		},
	}
	for off := range calls {
		for name, call := range calls {
			s := newShop(t)
			if !call(t, s) {
				t.Errorf("%s: not refused", name)
			}
			s = newShop(t)
			s.ledger.without = off
			if refused := call(t, s); refused != (name != off) {
				t.Errorf("%s without the check %s: refused is %t", name, off, refused)
			}
		}
	}
}
