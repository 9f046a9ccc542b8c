package attacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/audit"
	"countersign/internal/client"
	"countersign/internal/command"
	"countersign/internal/keys"
	"countersign/internal/ledger/postgres"
	"countersign/internal/supervision/attack"
	"countersign/internal/supervision/gateway"
	"countersign/store"
)

// bench is a control plane that is there to be attacked, with everything it needs.
type bench struct {
	dir   string
	where string // its ledger, for a person
	plane *app.App
	owner client.Owner
	audit audit.Options
	keep  *keep
	end   []func() error // last first
}

// open serves a new installation, and a store when one of the lines attacks it.
// What an auditor needs is put into k.
func open(ctx context.Context, url string, lines []attack.Line, k *keep, log io.Writer) (_ *bench, err error) {
	b, database := &bench{where: "SQLite in a temporary folder", keep: k}, command.Database{Database: url}
	if url != "" {
		b.where = "PostgreSQL"
		switch empty, err := postgres.IsEmpty(ctx, url); {
		case err != nil:
			return nil, command.Mend(err, "", database)
		case !empty:
			return nil, errors.New("attack: the database is not empty; give --database an empty one, which is left with what is done there")
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "countersign-attack-"); err != nil {
		return nil, fmt.Errorf("%w; set TMPDIR to a folder that exists and that this user may write", err)
	}
	b.later(func() error { return os.RemoveAll(b.dir) })
	control := filepath.Join(b.dir, "control")
	if err := initialize(ctx, control, database); err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError}))
	c := app.Config{Dir: control, Addr: "localhost:0", Database: url, Log: logger}
	if slices.ContainsFunc(lines, func(l attack.Line) bool { return attack.Find(l.ID).Hosted() }) {
		if err := b.openStore(control, &c); err != nil {
			return nil, err
		}
	}
	if b.plane, err = app.Open(ctx, c); err != nil {
		return nil, command.Mend(err, "", database)
	}
	b.later(b.plane.Close)
	b.serve(b.plane.Serve)
	if err := b.signIn(ctx, control); err != nil {
		return nil, err
	}
	return b, nil
}

// initialize makes the installation. A database that was empty may have got another's
// meanwhile: then that keeps it, with app.ErrForeign.
func initialize(ctx context.Context, control string, database command.Database) error {
	return command.Mend(app.Init(ctx, control, database.Database), "", database)
}

func (b *bench) later(f func() error) { b.end = append(b.end, f) }

// serve lets a server work until the bench is closed. Its end has an error of its own.
func (b *bench) serve(server func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server(ctx) }()
	b.later(func() error { stop(); return <-ended })
}

// openStore serves a store of its own, which attacks may change, under another host name
// than the control plane's.
func (b *bench) openStore(control string, c *app.Config) error {
	dir, trust := filepath.Join(b.dir, "store"), filepath.Join(control, "keys", "dispatch.pub")
	raw, err := os.ReadFile(trust)
	if err != nil {
		return err
	}
	trusted, err := dispatch.ParseKeys(raw)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	origin := "http://" + listener.Addr().String()
	if err := store.Create(dir); err != nil {
		return errors.Join(err, listener.Close())
	}
	shop, err := store.Open(dir, store.Options{Origin: origin, Trust: trusted, TrustFile: trust, Log: c.Log})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	b.later(shop.Close)
	server := &http.Server{Handler: shop.Handler(), ReadTimeout: storeTime, WriteTimeout: storeTime, ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn)}
	b.serve(func(ctx context.Context) error {
		shut := make(chan error, 1)
		context.AfterFunc(ctx, func() {
			limit, cancel := context.WithTimeout(context.Background(), storeTime)
			defer cancel()
			shut <- server.Shutdown(limit)
		})
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return <-shut
	})
	receipts := []dispatch.TrustedKey{shop.ReceiptKey()}
	c.Store, c.AttackedStore, b.audit.StoreKeys = &gateway.Store{Origin: origin, Keys: receipts}, shop, receipts
	return b.keep.file("receipt.pub", dispatch.FormatKeys(receipts))
}

// storeTime bounds a request of the store, and its end.
const storeTime = 10 * time.Second

// signIn makes the owner's session that evidence is exported with.
func (b *bench) signIn(ctx context.Context, control string) error {
	raw, err := os.ReadFile(filepath.Join(control, "keys", "evidence.pub"))
	if err != nil {
		return err
	}
	if b.audit.Keys, err = evidence.ParseKeys(raw); err != nil {
		return err
	}
	if err := b.keep.file("evidence.pub", raw); err != nil {
		return err
	}
	secret, err := keys.ReadSecret(filepath.Join(control, "owner.secret"))
	if err != nil {
		return err
	}
	b.owner = client.Owner{Origin: b.plane.Origin(), HTTP: client.New()}
	_, err = b.owner.SignIn(ctx, secret)
	return err
}

// play carries one line out, and verifies and keeps the evidence of its runs. A line whose
// evidence does not verify is open, however it was answered.
func (b *bench) play(ctx context.Context, l attack.Line) (r *attack.Result, verified bool, err error) {
	if r, err = b.plane.Attacks().Run(ctx, l.ID, l.Service); err != nil {
		return nil, false, err
	}
	verified = true
	for _, id := range r.Runs {
		export, err := b.owner.Export(ctx, id)
		if err != nil {
			return nil, false, err
		}
		if err := b.keep.file(fmt.Sprintf("%s-%s-%s.json", l.ID, l.Service, id), export.Body); err != nil {
			return nil, false, err
		}
		report, err := audit.Verify(bytes.NewReader(export.Body), b.audit)
		if err != nil {
			return nil, false, err
		}
		if verified = verified && report.OK(); !report.OK() && r.Outcome != attack.OutcomeOpen {
			r.Outcome, r.Problem = attack.OutcomeOpen, fmt.Sprintf("the evidence of run %s does not verify", id)
		}
	}
	return r, verified, nil
}

// close ends everything, the newest first, and removes the folder.
func (b *bench) close() error {
	var errs []error
	for _, f := range slices.Backward(b.end) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
