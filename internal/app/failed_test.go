package app_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/keys"
)

// A COMMIT of SQLite errs, and the file cannot be opened again to see what became
// of it. The caller is told that nobody knows, the server ends by itself, and the
// next start shows what was stored.
func TestLedgerCannotTell(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
	must(t, app.Init(ctx, dir, ""))
	file := filepath.Join(dir, "countersign.db")
	var broken atomic.Bool
	fault := func(point string) error {
		if point == "after COMMIT" && broken.CompareAndSwap(true, false) {
			return errors.Join(errors.New("the disk is on fire"), os.Rename(file, file+".gone"))
		}
		return nil
	}
	a, err := app.Open(ctx, app.Config{Dir: dir, Addr: "localhost:0", EngineFault: fault})
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx) }() // ctx never ends
	secret, err := keys.ReadSecret(filepath.Join(dir, "owner.secret"))
	must(t, err)
	owner := client.Owner{Origin: a.Origin(), HTTP: client.New()}
	_, err = owner.SignIn(ctx, secret)
	must(t, err)
	id, _, err := owner.CreateRun(ctx, localRun)
	must(t, err)
	broken.Store(true)
	_, r, err := owner.IssueToken(ctx, id)
	if err == nil || r.Status != http.StatusServiceUnavailable || r.Reason != "LEDGER_UNAVAILABLE" {
		t.Errorf("a commit whose fate is unknown: %d %s, %v; want 503 LEDGER_UNAVAILABLE", r.Status, r.Reason, err)
	}
	if err := <-served; err == nil || !strings.Contains(err.Error(), "start again") {
		t.Errorf("the server ended with %v, want the reason and what to do", err)
	}
	if resp, err := client.New().Get(a.Origin() + "/healthz"); err == nil {
		resp.Body.Close()
		t.Error("something still answers")
	}
	_ = a.Close() // its connections lost their file

	must(t, os.Rename(file+".gone", file))
	a, _ = serve(t, app.Config{Dir: dir, Addr: "localhost:0"})
	if r, err := signedIn(t, a.Origin(), dir).Export(ctx, id); err != nil || r.Status != http.StatusOK {
		t.Errorf("the run after a restart: %d %s, %v", r.Status, r.Reason, err)
	}
}
