// Package app puts an installation together. It is the only package that knows
// every concrete type, and the only one that reads the clock for the others; the
// serve command and the end-to-end tests use the same [Open].
//
//	err := app.Init(ctx, dir, "")             // keys, owner secret and ledger
//	a, err := app.Open(ctx, app.Config{Dir: dir, Addr: "localhost:8420"})
//	err = a.Serve(ctx)                        // until ctx ends
//	err = a.Close()
//
// Init creates state and Open only opens it. Open refuses what would be unsafe to
// serve: an address that is not loopback without an https origin, a store under
// the control plane's host name, keys that are not the ledger's, a ledger with
// pending migrations.
package app
