package identity_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// opener returns an empty ledger whose clock stands at start until moved.
type opener func(t *testing.T) (identity.Ledger, *ledger.Clock)

// engines runs a test on SQLite and on PostgreSQL.
func engines(t *testing.T, test func(t *testing.T, open opener)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, func(t *testing.T) (identity.Ledger, *ledger.Clock) { return open(t) })
	})
	t.Run("postgres", func(t *testing.T) { test(t, openPostgres) })
}

// openPostgres puts a clock that stands in front of the database's own, so that a
// boundary can be hit to the millisecond.
func openPostgres(t *testing.T) (identity.Ledger, *ledger.Clock) {
	t.Helper()
	url := pgtest.Database(t, postgres.Migrate)
	c, err := pgx.Connect(t.Context(), url)
	must(t, err)
	_, err = c.Exec(t.Context(), fmt.Sprintf(`
		CREATE SCHEMA standing;
		CREATE FUNCTION standing.clock_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS $$ SELECT timestamptz '%s' $$;
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET search_path = standing, pg_catalog, public', current_database()); END $$`,
		start.Format(time.RFC3339)))
	must(t, err)
	must(t, c.Close(t.Context()))
	clock := new(ledger.Clock)
	l, err := postgres.Open(t.Context(), url, postgres.Options{Clock: clock})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	if now, err := l.Now(t.Context()); err != nil || !now.Equal(start) {
		t.Fatalf("the database's clock says %s, %v; want %s", now, err, start)
	}
	return l, clock
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// boundaries are one millisecond before an end, the end and one after it.
func boundaries(end time.Duration, try func(after time.Duration, before bool)) {
	try(end-time.Millisecond, true)
	try(end, false)
	try(end+time.Millisecond, false)
}

// G-20: a session is good for 12 hours, wherever it is looked at.
func TestSessionExpiry(t *testing.T) {
	engines(t, func(t *testing.T, open opener) {
		boundaries(12*time.Hour, func(after time.Duration, before bool) {
			l, clock := open(t)
			o := identity.NewOwners(l, workspace, secret)
			cookie, s := signIn(t, o)
			clock.Move(after)
			_, err := o.Verify(t.Context(), cookie)
			again := o.Recheck(t.Context(), s)
			for what, err := range map[string]error{"verify": err, "recheck": again} {
				if before && err != nil || !before && !errors.Is(err, identity.ErrUnauthenticated) {
					t.Errorf("%s after %s: %v", what, after, err)
				}
			}
			// Negative control: nothing but the time refuses it.
			o.Without("expiry")
			if _, err := o.Verify(t.Context(), cookie); err != nil {
				t.Errorf("control: verify after %s without expiry: %v", after, err)
			}
			if err := o.Recheck(t.Context(), s); err != nil {
				t.Errorf("control: recheck after %s without expiry: %v", after, err)
			}
		})
	})
}

// A run's token is good before the time that it was given, and no longer.
func TestRunTokenExpiry(t *testing.T) {
	engines(t, func(t *testing.T, open opener) {
		boundaries(time.Hour, func(after time.Duration, before bool) {
			l, clock := open(t)
			token, c := identity.NewRunToken(workspace, "run", 3, "http://localhost:8420", start.Add(time.Hour))
			must(t, l.Commit(t.Context(), ledger.Change{Credentials: []ledger.Credential{c}}).Err())
			clock.Move(after)
			tokens := identity.NewTokens(l, workspace)
			got, err := tokens.Lookup(t.Context(), token)
			if before && err != nil || !before && !errors.Is(err, identity.ErrUnauthenticated) {
				t.Errorf("after %s: %v", after, err)
			}
			if before && (got.Subject != "run" || got.Generation != 3 || got.Origin != "http://localhost:8420") {
				t.Errorf("looked up %+v", got)
			}
			if got, err := tokens.Without("expiry").Lookup(t.Context(), token); err != nil || got.Subject != "run" {
				t.Errorf("control: after %s without expiry: %+v, %v", after, got, err)
			}
		})
	})
}

// wrong tries so many wrong secrets, a second apart, each of which is compared.
func wrong(t *testing.T, o *identity.Owners, clock *ledger.Clock, n int) {
	t.Helper()
	for i := range n {
		if err := try(t, o, "wrong", "192.0.2.1"); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Fatalf("wrong secret %d: %v", i+1, err)
		}
		clock.Move(time.Second)
	}
}

// G-20: five wrong secrets a minute from one address. Each further one has to wait until
// the first failure is a minute old.
func TestFiveWrongSecretsAMinute(t *testing.T) {
	engines(t, func(t *testing.T, open opener) {
		boundaries(time.Minute, func(after time.Duration, before bool) {
			l, clock := open(t)
			o := identity.NewOwners(l, workspace, secret)
			wrong(t, o, clock, 5) // 5 s have passed since the first
			if again, ok := limited(try(t, o, "wrong", "192.0.2.1")); !ok || again != 55*time.Second {
				t.Errorf("sixth attempt: limited %v, again after %s, want 55s", ok, again)
			}
			if err := try(t, o, "wrong", "192.0.2.2"); !errors.Is(err, identity.ErrUnauthenticated) {
				t.Errorf("another address: %v", err)
			}
			clock.Move(after - 5*time.Second)
			err := try(t, o, "wrong", "192.0.2.1")
			if _, ok := limited(err); ok != before {
				t.Errorf("%s after the first failure: %v", after, err)
			}
			if _, ok := limited(try(t, o, "wrong", "192.0.2.1")); !ok {
				t.Errorf("%s after the first failure more than one attempt became free", after)
			}
		})
		// Negative control: without the bound a guesser goes on, and no other stops it.
		l, clock := open(t)
		wrong(t, identity.NewOwners(l, workspace, secret).Without("own"), clock, 20)
	})
}

// guess tries a hundred wrong secrets, each from an address of its own and compared.
func guess(t *testing.T, o *identity.Owners) {
	t.Helper()
	for i := range 100 {
		if err := try(t, o, "wrong", fmt.Sprintf("192.0.2.%d", i)); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Fatalf("attempt %d: %v", i+1, err)
		}
	}
}

// A guesser with many addresses has a hundred attempts a minute.
func TestWrongSecretsOfManyAddresses(t *testing.T) {
	engines(t, func(t *testing.T, open opener) {
		boundaries(time.Minute, func(after time.Duration, before bool) {
			l, clock := open(t)
			o := identity.NewOwners(l, workspace, secret)
			guess(t, o)
			if again, ok := limited(try(t, o, "wrong", "198.51.100.1")); !ok || again != time.Minute {
				t.Errorf("attempt 101: limited %v, again after %s", ok, again)
			}
			clock.Move(after)
			if _, ok := limited(try(t, o, "wrong", "198.51.100.1")); ok != before {
				t.Errorf("%s after them: limited %v", after, ok)
			}
		})
		l, _ := open(t)
		o := identity.NewOwners(l, workspace, secret).Without("all")
		guess(t, o)
		if err := try(t, o, "wrong", "198.51.100.1"); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("control: without the bound: %v", err)
		}
	})
}

// Nobody keeps the owner out: when wrong secrets have used up both bounds the right one
// signs in from their address, from another and from inside the program, and wrong ones
// still have to wait.
func TestNobodyLocksTheOwnerOut(t *testing.T) {
	engines(t, func(t *testing.T, open opener) {
		l, _ := open(t)
		o := identity.NewOwners(l, workspace, secret)
		for range 5 {
			if err := try(t, o, "wrong", "203.0.113.1"); !errors.Is(err, identity.ErrUnauthenticated) {
				t.Fatal(err)
			}
		}
		for i := range 95 {
			if err := try(t, o, "wrong", fmt.Sprintf("192.0.2.%d", i)); !errors.Is(err, identity.ErrUnauthenticated) {
				t.Fatal(err)
			}
		}
		places := []string{"203.0.113.1", "192.0.2.1", "198.51.100.1", "attack", "verification", "serve --freeze"}
		for round := range 2 {
			for _, place := range places {
				if _, ok := limited(try(t, o, "wrong", place)); !ok {
					t.Errorf("round %d: a wrong secret from %s is not limited", round, place)
				}
				cookie, _, err := o.SignIn(t.Context(), secret, place)
				if err == nil {
					_, err = o.Verify(t.Context(), cookie)
				}
				if err != nil {
					t.Errorf("round %d: the right secret from %s: %v", round, place, err)
				}
			}
		}
		// Negative control: the bounds are used up, and without the exception they hold the
		// right secret up as well.
		o.Without("right")
		for _, place := range places {
			if _, ok := limited(try(t, o, secret, place)); !ok {
				t.Errorf("control: the right secret from %s is not limited", place)
			}
		}
	})
}
