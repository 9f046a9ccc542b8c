package dispatch

import (
	"context"
	"strings"
	"testing"
)

// A statement that fails, wherever it stands, leaves nothing of the call, also
// when the caller commits afterwards. Each trigger breaks one statement.
func TestFailingStatements(t *testing.T) {
	for name, c := range map[string]struct {
		trigger string
		call    func(*testing.T, *shop, Permit) (Answer, error)
	}{
		"claim":             {`BEFORE INSERT ON dispatch_ledger WHEN new.jti = 'exec-1'`, spendPlain},
		"finish":            {`BEFORE UPDATE ON dispatch_ledger`, spendPlain},
		"finish of refusal": {`BEFORE UPDATE ON dispatch_ledger`, spendRefused},
		"claim of a probe":  {`BEFORE INSERT ON dispatch_ledger WHEN new.jti = 'probe-1'`, probe},
		"close":             {`BEFORE INSERT ON dispatch_ledger WHEN new.jti = 'exec-1'`, probe},
		"close's receipt":   {`BEFORE UPDATE ON dispatch_ledger WHEN new.jti = 'exec-1'`, probe},
		"probe's receipt":   {`BEFORE UPDATE ON dispatch_ledger WHEN new.jti = 'probe-1'`, probe},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := newShop(t), validPermit()
			if _, err := s.db.Exec(`CREATE TRIGGER broken ` + c.trigger + ` BEGIN SELECT raise(ABORT, 'broken'); END`); err != nil {
				t.Fatal(err)
			}
			a, err := c.call(t, s, p)
			if err == nil || !strings.Contains(err.Error(), "broken") || a.Receipt != "" {
				t.Fatalf("%+v, %v", a, err)
			}
			if orders, rows := s.count(t, "orders"), s.count(t, "dispatch_ledger"); orders != 0 || rows != 0 {
				t.Errorf("%d orders, %d rows", orders, rows)
			}
			if _, err := s.db.Exec(`DROP TRIGGER broken`); err != nil {
				t.Fatal(err)
			}
			if a, err := c.call(t, s, p); err != nil || a.Receipt == "" {
				t.Errorf("the next good call: %+v, %v", a, err)
			}
		})
	}
}

func spendPlain(t *testing.T, s *shop, p Permit) (Answer, error) { return s.spend(t, p, nil) }

func spendRefused(t *testing.T, s *shop, p Permit) (Answer, error) {
	return s.spend(t, p, Refuse("NO", "No."))
}

func probe(t *testing.T, s *shop, p Permit) (Answer, error) {
	return s.close(t, probeOf(p, "probe-1"), p.ID)
}

// A statement that ends the whole transaction, as a full disk does, is an error
// and never a refusal with a receipt.
func TestTransactionThatEndsUnderTheCall(t *testing.T) {
	for name, end := range map[string]error{"effect": nil, "refusal": Refuse("NO", "No.")} {
		s, p := newShop(t), validPermit()
		tx, err := s.db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.ledger.Spend(context.Background(), tx, p, func() (Effect, error) {
			_, err := tx.Exec(`ROLLBACK`)
			if err != nil {
				t.Fatal(err)
			}
			return Effect{Status: 200, Body: []byte(`{}`)}, end
		})
		if err == nil || a.Receipt != "" {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		tx.Rollback()
		if n := s.count(t, "dispatch_ledger"); n != 0 {
			t.Errorf("%s: %d rows", name, n)
		}
	}
}

func TestFinishedTransaction(t *testing.T) {
	s, p := newShop(t), validPermit()
	tx, err := s.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	called := false
	if _, err := s.ledger.Spend(context.Background(), tx, p, func() (Effect, error) { called = true; return Effect{}, nil }); err == nil || called {
		t.Errorf("spent in a transaction that is over: %v", err)
	}
	if _, err := s.ledger.Close(context.Background(), tx, probeOf(p, "probe-1"), p.ID); err == nil {
		t.Error("closed in a transaction that is over")
	}
}

// Words that cannot be written, from a shop's own tables for instance, refuse
// nothing and spend nothing.
func TestRefusalThatCannotBeWritten(t *testing.T) {
	s, p := newShop(t), validPermit()
	if _, err := s.spend(t, p, Refuse("NO", "broken \xff text")); err == nil || s.count(t, "dispatch_ledger") != 0 {
		t.Errorf("%v, %d rows", err, s.count(t, "dispatch_ledger"))
	}
	s.ledger.Origin = "" // no receipt can be signed
	if _, err := s.spend(t, p, nil); err == nil || s.count(t, "dispatch_ledger") != 0 {
		t.Errorf("without an origin: %v", err)
	}
	if _, err := s.close(t, probeOf(p, "probe-1"), p.ID); err == nil || s.count(t, "dispatch_ledger") != 0 {
		t.Errorf("probe without an origin: %v", err)
	}
}
