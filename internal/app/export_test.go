package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"time"

	"countersign/internal/ledger"
)

// Engine is what app needs of an open ledger.
type Engine = engine

// NewMetrics makes the metrics of an installation.
var NewMetrics = newMetrics

// Measured wraps an engine as Open does when metrics are on.
func Measured(e Engine, m *metrics) interface {
	Commit(context.Context, ledger.Change) ledger.Result
} {
	return measured{e, m}
}

// ServeMetrics serves metrics until ctx ends.
func ServeMetrics(ctx context.Context, m *metrics, l net.Listener) error {
	return m.serve(ctx, l, slog.New(slog.DiscardHandler))
}

// ClientOf finds the client's address behind trusted proxies.
func ClientOf(peer string, forwardedFor []string, trusted []netip.Prefix) string {
	return clientOf(netip.MustParseAddr(peer), forwardedFor, trusted).String()
}

// Handler answers as the open installation does, without its listener.
func (a *App) Handler() http.Handler { return a.around(a.api) }

// WithAnyKeys opens a ledger that belongs to other keys.
func WithAnyKeys(c Config) Config {
	c.anyKeys = true
	return c
}

// Runs lists the ids of the runs with an attribute.
func (a *App) Runs(ctx context.Context, where ledger.Attribute) (ids []string, err error) {
	found, err := a.ledger.Find(ctx, ledger.Query{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, Where: []ledger.Attribute{where}, Limit: 100})
	for _, s := range found {
		ids = append(ids, s.ID)
	}
	return ids, err
}

// WithSwap puts others in place of dependencies, by the interface that they are wired as.
func WithSwap(c Config, swap func(wired reflect.Type, dependency any) any) Config {
	c.swap = swap
	return c
}

// WithPatience bounds the patience with a guardian, a store and an executor.
func WithPatience(c Config, patience time.Duration) Config {
	c.patience = patience
	return c
}

// Ledger is the open ledger, whatever stands in its place.
func (a *App) Ledger() Engine { return a.ledger }

// Told wraps an engine as Open does.
func Told(e Engine, log *slog.Logger) interface {
	Commit(context.Context, ledger.Change) ledger.Result
} {
	return told{e, log}
}

// IncidentNonce is the nonce of the approval form that the incident's page shows now.
func (a *App) IncidentNonce(ctx context.Context, cookie string) (string, error) {
	_, nonce, err := a.incidents.Form(ctx, cookie)
	return nonce, err
}

// OpenIncidents counts the incident sessions that count as open.
func (a *App) OpenIncidents(ctx context.Context) (int, error) {
	found, err := a.ledger.Find(ctx, ledger.Query{Workspace: ledger.DefaultWorkspace, Kind: "incidentvisit", Where: []ledger.Attribute{{Name: "open", Value: "1"}}, Limit: 100})
	return len(found), err
}
