package attack_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"countersign/dispatch"
	"countersign/internal/app"
	"countersign/internal/supervision/attack"
	"countersign/internal/supervision/gateway"
	"countersign/store"
)

// shop is a store with a listener of its own that trusts the installation's dispatch key.
// without names one of its comparisons that is left out, as in store.Options.
func shop(t testing.TB, without string) func(*app.Config) {
	t.Helper()
	return func(c *app.Config) {
		list, err := os.ReadFile(filepath.Join(c.Dir, "keys", "dispatch.pub"))
		must(t, err)
		trust, err := dispatch.ParseKeys(list)
		must(t, err)
		dir := filepath.Join(t.TempDir(), "store")
		must(t, store.Create(dir))
		server := httptest.NewUnstartedServer(nil)
		origin := "http://" + server.Listener.Addr().String()
		s, err := store.Open(dir, store.Options{Origin: origin, Trust: trust, Log: slog.New(slog.DiscardHandler), Without: without})
		must(t, err)
		server.Config.Handler = s.Handler()
		server.Start()
		t.Cleanup(func() {
			server.Close()
			must(t, s.Close())
		})
		c.Store, c.AttackedStore = &gateway.Store{Origin: origin, Keys: []dispatch.TrustedKey{s.ReceiptKey()}}, s
	}
}

// L-18: what was approved at one price is refused by the store at another, with a
// receipt that it signs, and nothing is charged.
func TestHostedPriceChange(t *testing.T) {
	a := serve(t, "", shop(t, ""))
	r, err := a.Attacks().Run(context.Background(), "H01", attack.Merchant)
	must(t, err)
	if !r.Blocked() || r.Target != "hosted" || !r.Twin || r.Permits != 0 || r.Effects != 0 || *r.Got != (attack.Answer{Status: 200, Code: "EXECUTION_NOT_APPLIED"}) || r.DecidedBy != "runtime" {
		t.Errorf("%+v", *r)
	}
}

// Control: a store that leaves the comparison out charges what nobody approved, and the
// attack counts as not blocked.
func TestHostedPriceChangeUncompared(t *testing.T) {
	a := serve(t, "", shop(t, "PRICE_CHANGED"))
	r, err := a.Attacks().Run(context.Background(), "H01", attack.Merchant)
	must(t, err)
	if r.Outcome != "open" || !r.Twin || r.Effects != 1 {
		t.Errorf("%+v", *r)
	}
}
