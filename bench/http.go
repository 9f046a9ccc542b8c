package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// httpCaller does the same cycle as planeCaller over loopback HTTP, with the
// product's own server and the client that its demo uses.
type httpCaller struct {
	owner    *client.Owner
	consumer *client.Consumer
	runID    string
	done     int
}

// newHTTP opens the installation in o.Dir and serves it from this process.
func newHTTP(ctx context.Context, o order) ([]cycler, error) {
	a, err := app.Open(ctx, app.Config{Dir: o.Dir, Addr: "localhost:0", Database: o.Database})
	if err != nil {
		return nil, err
	}
	go func() { _ = a.Serve(ctx) }() // its end is seen by the next request
	loaded, err := keys.Load(o.Dir)
	if err != nil {
		return nil, err
	}
	owner := &client.Owner{Origin: a.Origin(), HTTP: client.New()}
	if _, err := owner.SignIn(ctx, loaded.Secret()); err != nil {
		return nil, err
	}
	var callers []cycler
	for range o.Callers {
		c := &httpCaller{owner: owner}
		if err := c.fresh(ctx); err != nil {
			return nil, err
		}
		callers = append(callers, c)
	}
	return callers, nil
}

func (c *httpCaller) fresh(ctx context.Context) error {
	id, _, err := c.owner.CreateRun(ctx, map[string]string{
		"service": "merchant", "target": run.TargetLocal, "channel": "http", "mode": "bounded", "budgetCents": "13700",
		"instruction": "Buy one Fieldwork keyboard for $137 total using the approved terms.",
	})
	if err != nil {
		return err
	}
	session, _, err := c.owner.IssueToken(ctx, id)
	if err != nil {
		return err
	}
	c.runID, c.done = id, 0
	c.consumer = &client.Consumer{Origin: c.owner.Origin, Token: session.Token, HTTP: client.New()}
	return nil
}

func (c *httpCaller) next(ctx context.Context) (string, string, error) {
	if c.done == cyclesPerRun {
		if err := c.fresh(ctx); err != nil {
			return "", "", err
		}
	}
	c.done++
	var seen struct {
		ObservationID string          `json:"observationId"`
		Catalog       []propose.Entry `json:"catalog"`
	}
	reply, err := c.consumer.Get(ctx, "/api/v1/observation")
	if err := accept(reply, err, &seen); err != nil {
		return "", "", err
	}
	report, err := reportOn(seen.Catalog, seen.ObservationID, cycled)
	if err != nil {
		return "", "", err
	}
	var turn struct {
		Permit *struct {
			PermitID string          `json:"permitId"`
			Token    string          `json:"token"`
			Action   json.RawMessage `json:"action"`
		} `json:"permit"`
	}
	reply, err = c.consumer.Propose(ctx, encode(report))
	if err := accept(reply, err, &turn); err != nil {
		return "", "", err
	}
	if turn.Permit == nil {
		return "", "", fmt.Errorf("%s was not permitted: %s", cycled, reply.Body)
	}
	var done struct {
		State string `json:"state"`
	}
	reply, err = c.consumer.Operate(ctx, turn.Permit.Token, encode(map[string]any{"action": turn.Permit.Action}))
	if err := accept(reply, err, &done); err != nil {
		return "", "", err
	}
	if done.State != run.ExecutionVerified {
		return "", "", fmt.Errorf("%s ended as %s", cycled, done.State)
	}
	return c.runID, turn.Permit.PermitID, nil
}

// accept reads an answer that must be 200.
func accept(r client.Reply, err error, v any) error {
	if err != nil {
		return err
	}
	if r.Status != http.StatusOK {
		return fmt.Errorf("status %d %s", r.Status, r.Reason)
	}
	return json.Unmarshal(r.Body, v)
}
