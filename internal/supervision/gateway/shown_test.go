package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"countersign/dispatch"
	"countersign/internal/authority"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
)

// boastful alters what a store shows at a path.
type boastful struct {
	gateway.Sender
	path string
	edit func(map[string]any)
}

func (s *boastful) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	a, err := s.Sender.Send(ctx, r)
	if err != nil || s.path == "" || r.Method != http.MethodGet || !strings.HasSuffix(r.URL, s.path) {
		return a, err
	}
	var shown map[string]any
	if err := json.Unmarshal(a.Body, &shown); err != nil {
		return a, err
	}
	s.edit(shown)
	a.Body, err = json.Marshal(shown)
	return a, err
}

// What a store shows has bounds. A run at a store that exceeds them is told that the
// store is not understood, the log names the member, nothing of it is stored, and
// the owner can revoke. Within the bounds the same run goes on.
func TestStoreThatShowsTooMuch(t *testing.T) {
	maker := func(n int) func(map[string]any) {
		return func(shown map[string]any) {
			shown["products"].([]any)[0].(map[string]any)["maker"] = strings.Repeat("m", n)
		}
	}
	address := func(n int) func(map[string]any) {
		return func(shown map[string]any) {
			shown["checkout"] = map[string]any{
				"checkoutId": "chk_1", "cartVersion": shown["cartVersion"], "addressRef": strings.Repeat("a", n),
				"totalCents": "13700", "currency": "USD", "expiresAt": "2100-01-01T00:00:00.000Z",
			}
		}
	}
	for _, c := range []struct {
		name, path string
		edit       func(map[string]any)
		named      string // in the log; "" when it is within the bounds
	}{
		{"maker of 200", "/api/catalog", maker(200), ""},
		{"maker of 201", "/api/catalog", maker(201), "products[0].maker has over 200 characters"},
		{"maker of 1 MB less what is around it", "/api/catalog", maker(1<<20 - 4096), "catalog has over 65536 bytes"},
		{"address of 200", "/api/cart", address(200), ""},
		{"address of 40 KB", "/api/cart", address(40 << 10), "checkout.addressRef has over 200 characters"},
	} {
		h := newHouse(t, engines[0])
		var log bytes.Buffer
		store := &boastful{Sender: h.config.Sender, edit: c.edit}
		g := h.another(func(config *gateway.Config) {
			config.Sender, config.Log = store, slog.New(slog.NewTextHandler(&log, nil))
		})
		id := h.create(run.TargetHosted)
		h.do(id, "merchant.catalog")
		events := len(h.events(id))
		store.path = c.path
		out, err := g.Operate(t.Context(), request(id, h.allow(id, "add:fieldwork-keyboard:1")))
		must(t, err)
		if c.named == "" {
			if out.State != run.ExecutionVerified {
				t.Errorf("%s: execution %s, log %s", c.name, out.State, &log)
			}
			must(t, h.ledger.Close())
			continue
		}
		if _, err := g.Observe(t.Context(), id); reason(err) != authority.HostedUnreachable {
			t.Errorf("%s: %v", c.name, err)
		}
		if out.State != run.ExecutionReceipted || !strings.Contains(log.String(), c.named) {
			t.Errorf("%s: execution %s, log %s", c.name, out.State, &log)
		}
		stored := h.events(id)
		for _, e := range stored[events:] {
			if len(e.Data) > 32<<10 {
				t.Errorf("%s: %s has %d bytes", c.name, e.Type, len(e.Data))
			}
		}
		must(t, g.Revoke(t.Context(), id))
		if s := h.state(id); s.Status != run.StatusRevoked {
			t.Errorf("%s: status %s", c.name, s.Status)
		}
		h.verify(id)
		if _, err := g.Create(t.Context(), createRequest(run.TargetHosted)); c.path == "/api/catalog" && reason(err) != authority.HostedUnreachable {
			t.Errorf("%s: a new run: %v", c.name, err)
		}
		must(t, h.ledger.Close())
	}
}
