package identity_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
)

const workspace = ledger.DefaultWorkspace

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// open returns an empty SQLite ledger whose clock stands at start until moved.
func open(t *testing.T) (*sqlite.Ledger, *ledger.Clock) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "countersign.db")
	if err := sqlite.Create(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	clock := &ledger.Clock{Source: func() time.Time { return start }}
	l, err := sqlite.Open(t.Context(), path, sqlite.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, clock
}

// secret is made at run time.
var secret = strings.TrimPrefix(newToken(), identity.TokenPrefix)

func newToken() string {
	token, _ := identity.NewRunToken(workspace, "run", 1, "http://localhost:8420", start)
	return token
}

func signIn(t *testing.T, o *identity.Owners) (string, identity.Session) {
	t.Helper()
	cookie, s, err := o.SignIn(t.Context(), secret, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	return cookie, s
}

func TestSessionFromSignInToSignOut(t *testing.T) {
	l, _ := open(t)
	o := identity.NewOwners(l, workspace, secret)
	cookie, s := signIn(t, o)
	if len(cookie) != 43 {
		t.Errorf("a cookie of %d characters, want 43 (256 bits)", len(cookie))
	}
	if want := start.Add(12 * time.Hour); !s.ExpiresAt.Equal(want) {
		t.Errorf("expires %s, want %s", s.ExpiresAt, want)
	}
	if stored, _, err := l.Credential(t.Context(), workspace, s.Hash); err != nil || stored.Hash == cookie || stored.Kind != "owner" {
		t.Errorf("stored %+v, %v", stored, err)
	}
	other, _ := signIn(t, o)
	if other == cookie {
		t.Error("two sessions have one cookie")
	}
	got, err := o.Verify(t.Context(), cookie)
	if err != nil || got.Hash != s.Hash || !got.ExpiresAt.Equal(s.ExpiresAt) {
		t.Errorf("verified as %+v, %v", got, err)
	}
	for range 2 {
		if err := o.SignOut(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.Verify(t.Context(), cookie); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("after signing out: %v", err)
	}
	if err := o.Recheck(t.Context(), s); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("recheck after signing out: %v", err)
	}
	if _, err := o.Verify(t.Context(), other); err != nil {
		t.Errorf("another session ended too: %v", err)
	}
}

func TestRunTokenShape(t *testing.T) {
	token, c := identity.NewRunToken(workspace, "run", 1, "http://localhost:8420", start)
	if !strings.HasPrefix(token, "cs_run_") || len(token) != len("cs_run_")+43 {
		t.Errorf("token has %d characters", len(token))
	}
	if c.Hash != identity.Hash(token) || strings.Contains(fmt.Sprintf("%+v", c), token) {
		t.Error("the credential does not hold the hash alone")
	}
}

// TestOneIsNotTheOther asks that cookie and token never stand for each other
// (H-027, H-139) and that nothing near to one is recognized.
func TestOneIsNotTheOther(t *testing.T) {
	l, _ := open(t)
	o, tokens := identity.NewOwners(l, workspace, secret), identity.NewTokens(l, workspace)
	cookie, _ := signIn(t, o)
	token, c := identity.NewRunToken(workspace, "run", 1, "http://localhost:8420", start.Add(time.Hour))
	// A row of the other kind under the hash: the kind alone must refuse it.
	crossed := identity.TokenPrefix + cookie
	change := ledger.Change{Credentials: []ledger.Credential{c,
		{Workspace: workspace, Hash: identity.Hash(crossed), Kind: ledger.CredentialOwner, ExpiresAt: start.Add(time.Hour)},
		{Workspace: workspace, Hash: identity.Hash(strings.TrimPrefix(token, identity.TokenPrefix)), Kind: ledger.CredentialRun, Subject: "run", ExpiresAt: start.Add(time.Hour)},
	}}
	if err := l.Commit(t.Context(), change).Err(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", token, strings.TrimPrefix(token, identity.TokenPrefix), secret, cookie + "=", cookie + "\n", " " + cookie, cookie[:42], identity.Hash(cookie), "\x00"} {
		if _, err := o.Verify(t.Context(), text); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("cookie %q: %v", text, err)
		}
	}
	for _, text := range []string{"", cookie, crossed, secret, identity.TokenPrefix, token + "=", token + "\n", strings.ToUpper(token), strings.TrimPrefix(token, identity.TokenPrefix), identity.Hash(token)} {
		if _, err := tokens.Lookup(t.Context(), text); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("token %q: %v", text, err)
		}
	}
	if _, err := o.Verify(t.Context(), cookie); err != nil {
		t.Error("the cookie itself:", err)
	}
	if _, err := tokens.Lookup(t.Context(), token); err != nil {
		t.Error("the token itself:", err)
	}
	if _, err := identity.NewOwners(l, "another", secret).Verify(t.Context(), cookie); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Error("the cookie in another workspace:", err)
	}
}

func try(t *testing.T, o *identity.Owners, secret, remote string) error {
	t.Helper()
	_, _, err := o.SignIn(t.Context(), secret, remote)
	return err
}

func limited(err error) (time.Duration, bool) {
	var limit *identity.RateLimitError
	if errors.As(err, &limit) {
		return limit.RetryAfter, true
	}
	return 0, false
}

func TestRightSecretsAreNotCounted(t *testing.T) {
	l, _ := open(t)
	o := identity.NewOwners(l, workspace, secret)
	for i := range 10 {
		if err := try(t, o, secret, "192.0.2.1"); err != nil {
			t.Fatalf("sign in %d: %v", i+1, err)
		}
	}
}

func TestWrongSecretsAtOnce(t *testing.T) {
	l, _ := open(t)
	o := identity.NewOwners(l, workspace, secret)
	var wg sync.WaitGroup
	compared := make(chan struct{}, 64)
	for range cap(compared) {
		wg.Go(func() {
			if _, ok := limited(try(t, o, "wrong", "192.0.2.1")); !ok {
				compared <- struct{}{}
			}
		})
	}
	wg.Wait()
	if len(compared) != 5 {
		t.Errorf("%d secrets were compared, want 5", len(compared))
	}
}

func TestSecretsNearTheRightOne(t *testing.T) {
	l, _ := open(t)
	o := identity.NewOwners(l, workspace, secret)
	for i, s := range []string{"", secret + "\n", secret[:42], strings.ToLower(secret) + "x", identity.Hash(secret)} {
		if err := try(t, o, s, fmt.Sprint(i)); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// broken is a ledger after its disk has gone.
type broken struct{ result ledger.Result }

var errDisk = errors.New("disk gone")

func (b broken) Now(context.Context) (time.Time, error)              { return start, nil }
func (b broken) Commit(context.Context, ledger.Change) ledger.Result { return b.result }
func (b broken) Credential(context.Context, string, string) (ledger.Credential, time.Time, error) {
	return ledger.Credential{}, time.Time{}, errDisk
}

func TestLedgerUnavailable(t *testing.T) {
	_, s := signIn(t, identity.NewOwners(first(open(t)), workspace, secret))
	for _, outcome := range []ledger.Outcome{ledger.NotStored, ledger.Unknown} {
		l := broken{ledger.Result{Outcome: outcome, Cause: errDisk}}
		o := identity.NewOwners(l, workspace, secret)
		cookie, _, err := o.SignIn(t.Context(), secret, "192.0.2.1")
		if cookie != "" || !errors.Is(err, identity.ErrUnavailable) || !errors.Is(err, errDisk) {
			t.Errorf("%s: sign in %v", outcome, err)
		}
		for _, err := range []error{
			o.SignOut(t.Context(), s),
			o.Recheck(t.Context(), s),
			second(o.Verify(t.Context(), strings.Repeat("A", 43))),
			second(identity.NewTokens(l, workspace).Lookup(t.Context(), newToken())),
		} {
			if !errors.Is(err, identity.ErrUnavailable) || errors.Is(err, identity.ErrUnauthenticated) {
				t.Errorf("%s: %v, want ErrUnavailable", outcome, err)
			}
		}
	}
}

func first[A, B any](a A, _ B) A         { return a }
func second[A any](_ A, err error) error { return err }
