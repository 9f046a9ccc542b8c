package gateway_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"countersign/dispatch"
	"countersign/internal/authority"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
)

const readCatalog = "GET /api/catalog"

// Design 4: a read that fails is a definite no-effect and leaves the run ready.
func TestReadFails(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		id := h.create(run.TargetHosted)
		p := h.allow(id, "merchant.catalog")
		shop.kill()
		out, err := h.Operate(t.Context(), request(id, p))
		if err != nil || out.State != run.ExecutionNotApplied || out.Receipt != nil {
			t.Errorf("%+v, %v", out, err)
		}
		if s := h.state(id); s.Status != run.StatusReady {
			t.Errorf("status %s", s.Status)
		}
		if _, err := h.Observe(t.Context(), id); reason(err) != authority.HostedUnreachable {
			t.Errorf("observation: %v", err)
		}
		shop.restart()
		h.do(id, "merchant.catalog")
		h.verify(id)
	})
}

// Design 4: whatever a shop does instead of answering a read, it is sent once and
// nowhere else, had definitely no effect, and the run goes on.
func TestHostileShopRead(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h, shop := farHouse(t, e)
		id := h.create(run.TargetHosted)
		for _, how := range []string{redirect, error500, dropBefore, halfAnswer, hugeAnswer} {
			r := request(id, h.allow(id, "merchant.catalog"))
			before, everything := shop.arrivals(readCatalog), shop.arrivals("")
			shop.spoil(how, readCatalog)
			out, err := h.Operate(t.Context(), r)
			shop.spoil(honest, "")
			if err != nil || out.State != run.ExecutionNotApplied || out.Receipt != nil {
				t.Errorf("%s: %+v, %v", how, out, err)
			}
			again, err := h.Operate(t.Context(), r)
			if err != nil || again.State != run.ExecutionNotApplied || again.Receipt != nil || !again.Replayed {
				t.Errorf("%s: the same request: %+v, %v", how, again, err)
			}
			if s := h.state(id); s.Status != run.StatusReady || s.Stop != nil || s.Budget.Reserved != 0 || s.Budget.Spent != 0 {
				t.Errorf("%s: status %s, stop %+v, budget %+v", how, s.Status, s.Stop, s.Budget)
			}
			if n, all := shop.arrivals(readCatalog)-before, shop.arrivals("")-everything; n != 1 || all != 1 {
				t.Errorf("%s: the read arrived %d times, want 1; %d requests in all, want 1", how, n, all)
			}
			h.do(id, "merchant.catalog")
		}
		if n := shop.arrivals(elsewhere); n != 0 {
			t.Errorf("%d requests followed a redirect", n)
		}
		h.verify(id)
	})
}

// follower goes where a redirect points to, as a careless client would.
type follower struct{ gateway.Sender }

func (s follower) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return dispatch.Answer{}, err
	}
	req.Header.Set(dispatch.PermitHeader, r.Permit)
	req.Header.Set("Cookie", r.Cookie)
	got, err := http.DefaultClient.Do(req)
	if err != nil {
		return dispatch.Answer{}, err
	}
	got.Body.Close()
	return s.Sender.Send(ctx, r)
}

// The controls of what arrives: a client that follows a redirect is seen elsewhere,
// one that sends a read again is seen twice.
func TestHostileShopReadControl(t *testing.T) {
	h, shop := farHouse(t, engines[0])
	id := h.create(run.TargetHosted)
	follows := h.another(shop.use, func(c *gateway.Config) { c.Sender = follower{c.Sender} })
	r := request(id, h.allow(id, "merchant.catalog"))
	shop.spoil(redirect, readCatalog)
	_, err := follows.Operate(t.Context(), r)
	must(t, err)
	if n := shop.arrivals(elsewhere); n != 1 {
		t.Errorf("%d requests arrived elsewhere, want the read", n)
	}
	shop.spoil(redirect, openSession)
	if _, err := follows.Create(t.Context(), createRequest(run.TargetHosted)); reason(err) != authority.DispatchUnconfirmed {
		t.Error(err)
	}
	if n := shop.arrivals(elsewhere); n != 2 {
		t.Errorf("%d requests arrived elsewhere, want the read and the session", n)
	}
	shop.spoil(honest, "")

	repeats := h.another(shop.use, func(c *gateway.Config) { c.Sender = insistent{c.Sender} })
	r = request(id, h.allow(id, "merchant.catalog"))
	before := shop.arrivals(readCatalog)
	shop.spoil(dropBefore, readCatalog)
	_, err = repeats.Operate(t.Context(), r)
	must(t, err)
	if n := shop.arrivals(readCatalog) - before; n != 2 {
		t.Errorf("the read arrived %d times, want 2", n)
	}
}
