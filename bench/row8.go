package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/channel/edge"
)

// layers is row 8: what the HTTP side costs.
func layers(ctx context.Context, b *bench) ([]line, error) {
	layer := &contestant{name: "API layer", order: order{Post: "layer", Callers: callers}}
	plain := &contestant{name: "net/http", order: order{Post: "plain", Callers: callers}}
	over := &contestant{name: "over HTTP", order: order{HTTP: true, Callers: callers}}
	inside := &contestant{name: "in process", order: order{Callers: callers}}
	posted, err := b.turns(ctx, 0, layer, plain)
	if err != nil {
		return nil, err
	}
	problems, err := b.turns(ctx, 0, over, inside)
	if err != nil {
		return nil, err
	}
	watched, err := b.watchers(ctx)
	if err != nil {
		return nil, err
	}
	return append([]line{
		{row: 8, name: "API layer POST / plain net/http", pairs: ratios(layer.rates, plain.rates), aim: atLeast(0.7), problems: posted,
			note: fmt.Sprintf("%.0f and %.0f requests/s of 64 connections, client on the same cores; the plain side decodes and encodes the same body and checks nothing", median(layer.rates), median(plain.rates))},
		{row: 8, name: "cycles: over HTTP / in process", pairs: ratios(over.rates, inside.rates), aim: atLeast(0.5), problems: problems,
			note: cyclesPerSecond(over) + ", " + cyclesPerSecond(inside) + "; client on the same cores"},
	}, watched...), nil
}

// thing is the body of the POST, of the size of a small report.
type thing struct {
	Name        string   `json:"name" minLength:"1" maxLength:"200"`
	Count       int      `json:"count" minimum:"0" maximum:"9"`
	AmountCents string   `json:"amountCents" pattern:"^(0|[1-9][0-9]{0,11})$"`
	Tags        []string `json:"tags" maxItems:"16"`
}

type thingInput struct {
	ID   string `path:"id" maxLength:"36"`
	Body thing
}

type thingOutput struct{ Body thing }

var thingBody = encode(thing{Name: strings.Repeat("n", 150), Count: 3, AmountCents: "13700", Tags: []string{"first", "second", "third"}})

// newLayer is the product's API layer with one open route, which answers what it got.
func newLayer(origin string) (*edge.API, error) {
	a, err := edge.New(edge.Config{Origin: origin, Title: "bench", Version: "0"})
	if err != nil {
		return nil, err
	}
	edge.Register(a, edge.Operation{Operation: huma.Operation{OperationID: "thing", Method: http.MethodPost, Path: "/open/{id}"}},
		func(_ context.Context, in *thingInput) (*thingOutput, error) { return &thingOutput{in.Body}, nil })
	return a, nil
}

// plainThing does the same with the standard library alone.
func plainThing(w http.ResponseWriter, r *http.Request) {
	var in thing
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(in) // the client sees what is missing
}

// serveLayer serves h at a loopback address until the process ends.
func serveLayer(make func(origin string) (http.Handler, error)) (origin string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	origin = "http://" + l.Addr().String()
	h, err := make(origin)
	if err != nil {
		return "", err
	}
	server := httptest.NewUnstartedServer(h)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	return origin, nil
}

// posting is a client with a connection of its own.
type posting struct {
	url    string
	client *http.Client
	n      int
}

func newPosting(_ context.Context, o order) (callers []cycler, err error) {
	origin, err := serveLayer(func(origin string) (http.Handler, error) {
		if o.Post == "plain" {
			mux := http.NewServeMux()
			mux.HandleFunc("POST /open/{id}", plainThing)
			return mux, nil
		}
		return newLayer(origin)
	})
	if err != nil {
		return nil, err
	}
	for range o.Callers {
		callers = append(callers, &posting{url: origin + "/open/here", client: &http.Client{Transport: &http.Transport{}}})
	}
	return callers, nil
}

func (p *posting) next(ctx context.Context) (string, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, strings.NewReader(string(thingBody)))
	if err != nil {
		return "", "", err
	}
	r.Header.Set("Content-Type", "application/json")
	got, err := p.client.Do(r)
	if err != nil {
		return "", "", err
	}
	body, err := io.ReadAll(got.Body)
	if err = errors.Join(err, got.Body.Close()); err != nil {
		return "", "", err
	}
	if got.StatusCode != http.StatusOK || strings.TrimSpace(string(body)) != string(thingBody) {
		return "", "", fmt.Errorf("status %d and another body", got.StatusCode)
	}
	p.n++
	return "post", fmt.Sprint(p.n), nil
}
