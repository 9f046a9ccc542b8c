package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"countersign/dispatch"
	"countersign/internal/app"
	"countersign/store"
)

type storeCommand struct {
	Dir    string `required:"" placeholder:"D" help:"Folder of the store."`
	Addr   string `default:"127.0.0.1:8421" placeholder:"HOST:PORT" help:"Where to listen (${default}); port 0 picks a free one. Anything but loopback needs an https --origin."`
	Origin string `placeholder:"URL" help:"Public origin, as permits name it. Default: where it listens."`
	Trust  string `required:"" placeholder:"FILE" help:"dispatch.pub of the control plane whose permits count. A new one may be put in its place while the store runs."`
	Create bool   `help:"Create the store first when the folder holds none."`
}

func (storeCommand) Help() string {
	return `A shop of synthetic goods that changes nothing without a dispatch permit. It is a separate program to
the control plane: other folder, other key, other host name (cookies ignore ports). The folder's
keys/receipt.pub is what the control plane takes as --store-key.

It prints the line "countersign: ready at ORIGIN" to stderr when it serves.

Example: countersign store --dir S --create --trust D/keys/dispatch.pub`
}

// storeGrace is how long running requests of the store have when it ends; what a
// client may take to send and to read is within it, so that nobody can delay the end.
const (
	storeGrace = 9 * time.Second
	storeRead  = 4 * time.Second
	storeWrite = 8 * time.Second
)

func (c *storeCommand) Run(ctx context.Context, s streams) error {
	trust, err := readKeys(c.Trust, "--trust", dispatch.ParseKeys)
	if err != nil {
		return err
	}
	// The address first: what cannot be served is not created either.
	listener, origin, err := app.Listen(c.Addr, c.Origin, "http")
	if err != nil {
		return mend(err, c.Dir, database{})
	}
	defer listener.Close()
	if c.Create {
		if err := store.Create(c.Dir); err != nil && !errors.Is(err, store.ErrExists) {
			return mend(err, c.Dir, database{})
		}
	}
	log := slog.New(slog.NewTextHandler(s.Err, nil))
	shop, err := store.Open(c.Dir, store.Options{Origin: origin, Trust: trust, TrustFile: c.Trust, Log: log})
	if errors.Is(err, store.ErrNotCreated) {
		return fmt.Errorf("%w; add --create", err)
	}
	if err != nil {
		return mend(err, c.Dir, database{})
	}
	defer shop.Close()
	server := &http.Server{
		Handler: shop.Handler(), ReadTimeout: storeRead, WriteTimeout: storeWrite, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Fprintf(s.Err, "folder    %s\nkey       %s signs the receipts\n%s%s\n", c.Dir, shop.ReceiptKey().ID(), readyMark, origin)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeGrace)
	defer cancel()
	return server.Shutdown(limit)
}
