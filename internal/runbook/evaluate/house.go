package evaluate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
)

// house is an installation that is there to be evaluated against.
type house struct {
	dir    string
	plane  *app.App
	clock  ledger.Clock // moved to let approvals expire and hours pass
	http   *http.Client
	keys   evidence.Keys
	public []byte // evidence.pub
	end    []func() error
	begun  int // sessions within the hour of the clock
}

// open makes an installation in a temporary folder and serves it.
func open(ctx context.Context, log *slog.Logger) (_ *house, err error) {
	h := &house{http: client.New()}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	if h.dir, err = os.MkdirTemp("", "countersign-eval-plane-"); err != nil {
		return nil, fmt.Errorf("%w; set TMPDIR to a folder that exists and that this user may write", err)
	}
	h.end = append(h.end, func() error { return os.RemoveAll(h.dir) })
	control := filepath.Join(h.dir, "control")
	if err := app.Init(ctx, control, ""); err != nil {
		return nil, err
	}
	if h.public, err = os.ReadFile(filepath.Join(control, "keys", "evidence.pub")); err != nil {
		return nil, err
	}
	if h.keys, err = evidence.ParseKeys(h.public); err != nil {
		return nil, err
	}
	if h.plane, err = app.Open(ctx, app.Config{Dir: control, Addr: "localhost:0", Incident: true, Clock: &h.clock, Log: log}); err != nil {
		return nil, err
	}
	h.end = append(h.end, h.plane.Close)
	serving, stop := context.WithCancel(context.Background()) // until closed, whatever becomes of ctx
	ended := make(chan error, 1)
	go func() { ended <- h.plane.Serve(serving) }()
	h.end = append(h.end, func() error { stop(); h.http.CloseIdleConnections(); return <-ended })
	return h, nil
}

// room sees to it that two more sessions may begin: where the limit of an address would be
// reached, the clock moves on to the next hour. The limit itself stays.
func (h *house) room() {
	if h.begun+2 > control.MaxNew {
		h.clock.Move(control.NewWindow)
		h.begun = 0
	}
}

// close ends everything, the newest first.
func (h *house) close() error {
	var errs []error
	for len(h.end) > 0 {
		last := len(h.end) - 1
		errs = append(errs, h.end[last]())
		h.end = h.end[:last]
	}
	return errors.Join(errs...)
}
