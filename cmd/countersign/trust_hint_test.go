package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/dispatch"
	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/supervision/gateway"
	"countersign/store"
)

// buffer is a log that several write to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A store that was given the wrong dispatch.pub refuses every run. What it says
// proves nothing, and is what the operator needs: the log has it as a hint.
func TestWrongTrustIsHinted(t *testing.T) {
	ctx, root := context.Background(), t.TempDir()
	for _, name := range []string{"control", "other"} {
		must(t, app.Init(ctx, filepath.Join(root, name), ""))
	}
	other, err := keys.Load(filepath.Join(root, "other"))
	must(t, err)
	must(t, store.Create(filepath.Join(root, "store")))
	server := httptest.NewUnstartedServer(nil)
	origin := "http://" + server.Listener.Addr().String()
	shop, err := store.Open(filepath.Join(root, "store"), store.Options{Origin: origin, Trust: []dispatch.TrustedKey{{Public: other.Dispatch().Public()}}})
	must(t, err)
	t.Cleanup(func() { must(t, shop.Close()) })
	server.Config.Handler = shop.Handler()
	server.Start()
	t.Cleanup(server.Close)

	log := &buffer{}
	a, err := app.Open(ctx, app.Config{
		Dir: filepath.Join(root, "control"), Addr: "localhost:0", Log: slog.New(slog.NewTextHandler(log, nil)),
		Store: &gateway.Store{Origin: origin, Keys: []dispatch.TrustedKey{shop.ReceiptKey()}},
	})
	must(t, err)
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- a.Serve(serving) }()
	t.Cleanup(func() {
		stop()
		must(t, <-served)
		must(t, a.Close())
	})
	secret, err := keys.ReadSecret(filepath.Join(root, "control", "owner.secret"))
	must(t, err)
	owner := client.Owner{Origin: a.Origin(), HTTP: client.New()}
	_, err = owner.SignIn(ctx, secret)
	must(t, err)
	_, r, err := owner.CreateRun(ctx, map[string]string{
		"service": "merchant", "target": "hosted", "channel": "http", "mode": "bounded", "budgetCents": "13700", "instruction": demoInstruction,
	})
	if err == nil || r.Status != 502 || r.Reason != "DISPATCH_UNCONFIRMED" {
		t.Fatalf("%s, want DISPATCH_UNCONFIRMED: a hint decides nothing", r.Got())
	}
	if !strings.Contains(log.String(), "unverified_reason=DISPATCH_PERMIT_INVALID unverified_check=unknown_key") {
		t.Errorf("the log lacks the hint:\n%s", log)
	}
}
