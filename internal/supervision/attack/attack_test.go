package attack_test

import (
	"context"
	"path/filepath"
	"testing"

	"countersign/internal/app"
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
