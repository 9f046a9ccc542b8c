package gateway_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// controlTask is a control plane in a process of its own. It buys at the shop and
// stops for good at one point.
type controlTask struct {
	Engine   string
	Location string // of the ledger
	Control  string // folder of the keys
	Shop     string // origin
	ShopKey  string // a line of receipt.pub
	Point    string
	Commit   bool // stop during the submit; otherwise at the first hit
}

func (c *controlTask) work() error {
	t := &childTB{}
	e, err := engineNamed(c.Engine)
	if err != nil {
		return err
	}
	opened, err := e.open(context.Background(), c.Location, &ledger.Clock{})
	if err != nil {
		return err
	}
	keys, err := dispatch.ParseKeys([]byte(c.ShopKey))
	if err != nil {
		return err
	}
	config := newConfig(t, opened, c.Control)
	config.Store = &gateway.Store{Origin: c.Shop, Keys: keys}
	submitting := false
	config.Fault = func(point string) {
		if point == c.Point && (submitting || !c.Commit) {
			say(line{Point: point})
			select {}
		}
	}
	g := gateway.New(config)
	ctx := context.Background()
	id, err := g.Create(ctx, createRequest(run.TargetHosted))
	if err != nil {
		return err
	}
	say(line{Run: id})
	for _, entry := range []string{"merchant.catalog", "add:fieldwork-keyboard:1", "checkout:addr_home", "merchant.checkout.submit"} {
		submitting = entry == "merchant.checkout.submit"
		o, err := g.Observe(ctx, id)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(o.Catalog, func(e propose.Entry) bool { return e.EntryID == entry || e.OperationID == entry })
		if i < 0 {
			return fmt.Errorf("the catalog has no %s", entry)
		}
		turn, err := g.Propose(ctx, id, report(o, &o.Catalog[i]))
		if err != nil || turn.Permit == nil {
			return fmt.Errorf("%s: %+v, %w", entry, turn, err)
		}
		out, err := g.Operate(ctx, request(id, turn.Permit))
		if err != nil {
			return err
		}
		say(line{Answered: out.ExecutionID})
	}
	return nil
}

// childTB lets a child use what tests share; a failure ends it.
type childTB struct{ testing.TB }

func (*childTB) Helper() {}
func (*childTB) Fatal(args ...any) {
	say(line{Err: fmt.Sprint(args...)})
	os.Exit(1)
}

// H-145 to H-147, design 1: a control plane that is killed with -9 at any point of
// the cycle never does anything twice and loses no receipt that it has stored; the
// run is then in its documented state. This shows the death of a process, not the
// loss of power.
func TestKilledControlPlane(t *testing.T) {
	type want struct {
		orders            int
		execution, status string
		spent, reserved   int64
		resumed           string // the status after the next observation, when it can be taken
	}
	unknown := func(orders int) want {
		return want{orders, run.ExecutionUnconfirmed, run.StatusPaused, 0, 13700, ""}
	}
	wants := map[string]want{
		"after-intent":   unknown(0),
		"before-send":    unknown(0),
		"after-send":     unknown(1),
		"before-receipt": unknown(1),
		"after-receipt":  {1, run.ExecutionReceipted, run.StatusReady, 13700, 0, run.StatusCompleted},
		"before-verify":  {1, run.ExecutionReceipted, run.StatusReady, 13700, 0, run.StatusCompleted},
		"after-verify":   {1, run.ExecutionVerified, run.StatusCompleted, 13700, 0, ""},
		// Opening the session: the run never began.
		"session-intent":  {status: run.StatusFailed},
		"session-answer":  {status: run.StatusFailed},
		"session-receipt": {status: run.StatusFailed},
	}
	if len(wants) != len(gateway.Points) {
		t.Fatalf("%d points, %d expectations", len(gateway.Points), len(wants))
	}
	onEach(t, func(t *testing.T, e engine) {
		h := emptyHouse(t, e)
		shop := startShop(t, filepath.Join(h.dir, "shop"), h.dispatchKeys())
		for _, point := range gateway.Points {
			w, ok := wants[point]
			if !ok {
				t.Fatalf("no expectation for %s", point)
			}
			session := w.execution == ""
			c := startChild(t, task{Control: &controlTask{
				Engine: e.name, Location: h.location, Control: h.control(), Shop: shop.origin,
				ShopKey: string(dispatch.FormatKeys([]dispatch.TrustedKey{shop.key})), Point: point, Commit: !session,
			}})
			hit := false
			for l, ok := c.next(); ok && !hit; l, ok = c.next() {
				if hit = l.Point == point; hit {
					break
				}
			}
			if !hit {
				t.Fatalf("%s was not reached", point)
			}
			t.Logf("fail point %q hit, %d of %d: killed", point, slices.Index(gateway.Points, point)+1, len(gateway.Points))
			c.kill()

			e.gone(t, h.location)
			h.open(shop.use)
			h.holdersAreDead()
			list, err := h.List(t.Context(), "", 1)
			must(t, err)
			id := list[0].State.ID
			h.clock.Move(11 * time.Second) // settling writes what the dead holder left
			h.SettleDue(t.Context())
			s := h.state(id)
			if s.Status != w.status || int64(s.Budget.Spent) != w.spent || int64(s.Budget.Reserved) != w.reserved {
				t.Errorf("%s: status %s, want %s; budget %+v, want %d spent and %d reserved", point, s.Status, w.status, s.Budget, w.spent, w.reserved)
			}
			h.verify(id)
			if session {
				if x := s.Execution; x != nil {
					t.Errorf("%s: an execution %+v", point, x)
				}
			} else {
				if s.Execution.State != w.execution {
					t.Errorf("%s: execution %s, want %s", point, s.Execution.State, w.execution)
				}
				if n := shop.orders(s.Hosted.ID); n != w.orders {
					t.Errorf("%s: %d orders, want %d", point, n, w.orders)
				}
				if w.resumed != "" {
					h.clock.Move(-11 * time.Second) // the shop's clock did not move
					_, err := h.Observe(t.Context(), id)
					must(t, err)
					if s := h.state(id); s.Status != w.resumed {
						t.Errorf("%s: after the next observation %s, want %s", point, s.Status, w.resumed)
					}
				}
				// Asking again sends nothing, and answers what is known.
				if n := shop.arrivals(s.Execution.ID); n != w.orders {
					t.Errorf("%s: the request arrived %d times, want %d", point, n, w.orders)
				}
				if n := shop.orders(s.Hosted.ID); n != w.orders {
					t.Errorf("%s: later %d orders, want %d", point, n, w.orders)
				}
			}
			h.verify(id)
			must(t, h.ledger.Close())
		}
	})
}

// holdersAreDead checks that no holder of a lease of the newest run is said to be
// alive.
func (h *house) holdersAreDead() {
	h.t.Helper()
	list, err := h.List(h.t.Context(), "", 1)
	must(h.t, err)
	for _, x := range h.events(list[0].State.ID) {
		if holder := leaseHolder(h.t, x); holder != "" {
			alive, err := h.ledger.HolderAlive(h.t.Context(), holder)
			must(h.t, err)
			if alive {
				h.t.Error("the killed holder is still said to be alive")
			}
		}
	}
}

func leaseHolder(t *testing.T, e evidence.Event) string {
	t.Helper()
	var d struct {
		Lease *run.Lease `json:"lease"`
	}
	must(t, canon.Decode(e.Data, &d))
	if d.Lease == nil {
		return ""
	}
	return d.Lease.Holder
}
