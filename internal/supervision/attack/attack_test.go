package attack_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"countersign/internal/app"
	"countersign/internal/supervision/attack"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve serves a new installation, on PostgreSQL when url names an empty database.
func serve(t testing.TB, url string, edits ...func(*app.Config)) *app.App {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "D")
	must(t, app.Init(context.Background(), dir, url))
	c := app.Config{Dir: dir, Addr: "localhost:0", Database: url}
	for _, f := range edits {
		f(&c)
	}
	a, err := app.Open(context.Background(), c)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
		must(t, a.Close())
	})
	return a
}

// G-17: every attack of the catalog is blocked with its code, without a permit and
// without an effect, after its benign twin was allowed.
func TestCatalogIsBlocked(t *testing.T) {
	a := serve(t, "")
	for _, line := range attack.Lines() {
		if line.Service == attack.Hosted {
			continue
		}
		start := time.Now()
		r, err := a.Attacks().Run(t.Context(), line.ID, line.Service)
		if err != nil {
			t.Errorf("%v: %v", line, err)
			continue
		}
		if !r.Blocked || !r.Twin || r.Permits != 0 || r.Effects != 0 {
			t.Errorf("%v: %+v", line, *r)
		}
		t.Logf("%v %v %v %v", line, r.Got, r.Failed, time.Since(start))
	}
}
