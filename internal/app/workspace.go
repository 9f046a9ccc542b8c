package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"countersign/evidence"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/owner"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/supervision/workspace"
)

// newWorkspace makes the workspace, whose verifications ask this installation over its
// own listener.
func (a *App) newWorkspace(owners *identity.Owners) (*workspace.Workspace, error) {
	client, base, err := a.ownClient()
	if err != nil {
		return nil, err
	}
	return workspace.New(workspace.Config{
		Ledger: a.ledger, Signing: a.keys.Evidence(), Issuer: a.origin, Workspace: ledger.DefaultWorkspace, Runs: swapped[workspace.Runs](a.config, a.gateway), Services: a.gateway.Services,
		Channels: available(a.status.Channels), Log: a.config.Log, HTTP: client, Base: base, SignIn: a.signIn(owners, "verification"),
	}), nil
}

func available(list []owner.Capability) (names []string) {
	for _, c := range list {
		if c.Available {
			names = append(names, c.Name)
		}
	}
	return names
}

// ownClient makes a client that reaches this process and nothing else, whatever stands
// in front of it: every connection goes to its own listener, under the name of the public
// origin. With TLS it trusts the configured certificate, for that name.
func (a *App) ownClient() (client *http.Client, base string, err error) {
	origin, err := edge.ParseOrigin(a.origin)
	if err != nil {
		return nil, "", err
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", a.addr)
		},
		DisableKeepAlives: true, // a verification leaves no connection that the end of the server waits for
	}
	if a.config.TLSCert != "" {
		pem, err := os.ReadFile(a.config.TLSCert)
		if err != nil {
			return nil, "", fmt.Errorf("app: %w", err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem) // that it holds one was checked before
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, ServerName: origin.Hostname()}
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, CheckRedirect: stay}, a.config.scheme() + "://" + origin.Host, nil
}

// stalled is after how long without a round the settler is said to be stalled.
const stalled = 10 * time.Second

// hosting reports how the installation is hosted (H-230). It names no path, no address
// of a database and no secret.
func (a *App) hosting(ctx context.Context) (owner.Hosting, error) {
	h := owner.Hosting{
		Database:   owner.Database{Engine: a.engine, Connected: a.ledger.Ping(ctx) == nil},
		Runtime:    owner.Runtime{Location: "local", Platform: runtime.GOOS + "/" + runtime.GOARCH, Origin: a.origin},
		Worker:     owner.Worker{Name: "settler", InProcess: true, Status: "stopped"},
		SigningKey: a.Fingerprint(),
		CheckedAt:  evidence.TimeOf(time.Now()),
	}
	if now, err := a.ledger.Now(ctx); err == nil { // without its ledger an installation still tells the time of its host
		h.CheckedAt = evidence.TimeOf(now)
	}
	began := a.settling.Load()
	if began == nil {
		return h, nil
	}
	last := a.settler.Ended()
	if !last.IsZero() {
		at := h.CheckedAt.Add(-time.Since(last))
		h.Worker.LastPassAt = &at
	} else {
		last = *began
	}
	if h.Worker.Status = "running"; time.Since(last) > stalled {
		h.Worker.Status = "stalled"
	}
	return h, nil
}
