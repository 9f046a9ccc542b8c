package identity_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"countersign/internal/identity"
	"countersign/internal/ledger"
)

// S-017: of a context client's token the hash alone is stored; a token of another kind
// never stands for it, nor it for one.
func TestContextTokens(t *testing.T) {
	l, _ := open(t)
	token, c := identity.NewContextToken(workspace, "http://localhost:8420")
	c.Subject, c.Generation = "cli_1", 3
	run, r := identity.NewRunToken(workspace, "run", 1, "http://localhost:8420", start.Add(time.Hour))
	crossed := identity.ContextPrefix + strings.TrimPrefix(run, identity.TokenPrefix)
	other := ledger.Credential{Workspace: workspace, Hash: identity.Hash(crossed), Kind: ledger.CredentialRun, Subject: "run", ExpiresAt: start.Add(time.Hour)}
	if err := l.Commit(t.Context(), ledger.Change{Credentials: []ledger.Credential{c, r, other}}).Err(); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(token, "seif_") || len(token) != len("seif_")+43 || strings.Contains(c.Hash, token) {
		t.Errorf("a token of %d characters", len(token))
	}
	contexts, runs := identity.NewContextTokens(l, workspace), identity.NewTokens(l, workspace)
	if got, err := contexts.Lookup(t.Context(), token); err != nil || got.Subject != "cli_1" || got.Generation != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{run, crossed, identity.ContextPrefix, token + "=", " " + token, strings.TrimPrefix(token, identity.ContextPrefix)} {
		if _, err := contexts.Lookup(t.Context(), text); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("as a context token: %v", err)
		}
	}
	if _, err := runs.Lookup(t.Context(), token); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("as a run token: %v", err)
	}
}
