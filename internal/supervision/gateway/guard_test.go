package gateway_test

import (
	"context"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/internal/authority"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/supervision/chain"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
)

// layer is one of the guards that stand behind each other, and how a test takes
// it away: by a door, or by a ledger, a sender or pinned keys without it.
type layer struct {
	name string
	off  option
}

func door(name string, open func(*decide.Doors)) layer {
	return layer{name, func(c *gateway.Config) { open(&c.Doors) }}
}

// weakened takes a guard out of every Change on its way to the ledger.
type weakened struct {
	gateway.Ledger
	without func(*ledger.Change)
}

func (w weakened) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	w.without(&c)
	return w.Ledger.Commit(ctx, c)
}

func without(name string, guard func(*ledger.Change)) layer {
	return layer{name, func(c *gateway.Config) { c.Ledger = weakened{c.Ledger, guard} }}
}

// forgetting finds no idempotency record.
type forgetting struct{ gateway.Ledger }

func (forgetting) Record(context.Context, string, string, string) (ledger.Record, error) {
	return ledger.Record{}, ledger.ErrNotFound
}

var (
	settled    = door("settling", func(d *decide.Doors) { d.Settle = true })
	machine    = door("the machine", func(d *decide.Doors) { d.Machine = true })
	permit     = door("permit state", func(d *decide.Doors) { d.PermitState = true })
	generation = door("generation", func(d *decide.Doors) { d.Generation = true })
	recheck    = door("recheck", func(d *decide.Doors) { d.Recheck = true })
	notAfter   = without("notAfter", func(c *ledger.Change) { c.NotAfter = time.Time{} })
	freezable  = without("freeze", func(c *ledger.Change) { c.Freezable = false })
	record     = without("unique record", func(c *ledger.Change) { c.Record = nil })
	lookUp     = layer{"look-up", func(c *gateway.Config) { c.Ledger = forgetting{c.Ledger} }}
)

// opening opens doors later than a house is made, so that a run can be prepared
// by an honest gateway first.
func (h *house) opening(layers []layer) *gateway.Gateway {
	options := make([]option, 0, len(layers))
	for _, l := range layers {
		options = append(options, l.off)
	}
	return h.another(options...)
}

// guard is something that must not happen and what stands before it.
type guard struct {
	name   string
	layers []layer // each holds on its own
	want   string  // the refusal
	// unlawful is the rule by which an auditor finds it in the chain, "" when the
	// chain cannot show it.
	unlawful string
	// try does it at a gateway with the layers off and says whether it has happened.
	try func(h *house, off []layer) (id string, happened bool, err error)
}

var guards = []guard{
	{"a spent permit buys the next effect", []layer{permit}, authority.PermitConsumed, "", func(h *house, off []layer) (string, bool, error) {
		id := h.create(run.TargetLocal)
		spent := h.allow(id, "merchant.catalog")
		_, err := h.operate(id, spent, "key-of-the-first-use")
		must(h.t, err)
		r := request(id, h.allow(id, "merchant.cart"))
		r.Token = spent.Token
		_, err = h.opening(off).Operate(h.t.Context(), r)
		return id, h.count(id, "execution.dispatched") == 2, err
	}},
	{"an expired permit is used", []layer{settled, machine, notAfter}, authority.PermitExpired, "claim-expired", func(h *house, off []layer) (string, bool, error) {
		id := h.create(run.TargetLocal)
		r := request(id, h.allow(id, "merchant.catalog"))
		h.clock.Move(30 * time.Second)
		_, err := h.opening(off).Operate(h.t.Context(), r)
		return id, h.count(id, "execution.dispatched") == 1, err
	}},
	{"a former token claims", []layer{generation}, identity.ErrUnauthenticated.Error(), "", func(h *house, off []layer) (string, bool, error) {
		id := h.create(run.TargetLocal)
		_, err := h.IssueSession(h.t.Context(), id)
		must(h.t, err)
		r := request(id, h.allow(id, "merchant.catalog"))
		r.Generation = 1
		_, err = h.IssueSession(h.t.Context(), id)
		must(h.t, err)
		_, err = h.opening(off).Operate(h.t.Context(), r)
		return id, h.count(id, "execution.dispatched") == 1, err
	}},
	{"a former token authenticates", []layer{generation}, identity.ErrUnauthenticated.Error(), "", func(h *house, off []layer) (string, bool, error) {
		id := h.create(run.TargetLocal)
		former, err := h.IssueSession(h.t.Context(), id)
		must(h.t, err)
		_, err = h.IssueSession(h.t.Context(), id)
		must(h.t, err)
		_, err = h.opening(off).Authenticate(h.t.Context(), former.Token)
		return id, err == nil, err
	}},
	{"a taken key buys a second effect", []layer{lookUp, record}, authority.IdempotencyConflict, "", func(h *house, off []layer) (string, bool, error) {
		id := h.create(run.TargetLocal)
		first := request(id, h.allow(id, "merchant.catalog"))
		_, err := h.Operate(h.t.Context(), first)
		must(h.t, err)
		second := request(id, h.allow(id, "merchant.cart"))
		second.Key = first.Key
		_, err = h.opening(off).Operate(h.t.Context(), second)
		return id, h.count(id, "execution.dispatched") == 2, err
	}},
	{"a frozen workspace issues", []layer{freezable}, authority.Frozen, "", func(h *house, off []layer) (string, bool, error) {
		id := h.create(run.TargetLocal)
		o, entry := h.entry(id, "merchant.catalog")
		defer h.freeze()()
		_, err := h.opening(off).Propose(h.t.Context(), id, "", report(o, entry))
		return id, h.count(id, "permit.issued") == 1, err
	}},
	{"a frozen workspace claims", []layer{freezable}, authority.Frozen, "", func(h *house, off []layer) (string, bool, error) {
		id := h.create(run.TargetLocal)
		r := request(id, h.allow(id, "merchant.catalog"))
		defer h.freeze()()
		_, err := h.opening(off).Operate(h.t.Context(), r)
		return id, h.count(id, "execution.dispatched") == 1, err
	}},
	{"a frozen workspace opens a session at the store", []layer{freezable}, authority.Frozen, "", func(h *house, off []layer) (string, bool, error) {
		defer h.freeze()()
		sent := &counting{Sender: h.config.Sender}
		g := h.opening(append(off, layer{"", func(c *gateway.Config) { c.Sender = sent }}))
		id, err := g.Create(h.t.Context(), createRequest(run.TargetHosted))
		return id, sent.posts == 1, err
	}},
	{"what was settled meanwhile is sent", []layer{recheck}, authority.DispatchUnconfirmed, "", func(h *house, off []layer) (string, bool, error) {
		id, p := h.toSubmit()
		bury := h.another(func(c *gateway.Config) { c.Ledger = burying{c.Ledger} })
		sent := &counting{Sender: h.config.Sender}
		g := h.opening(append(off, layer{"", func(c *gateway.Config) {
			c.Sender = sent
			c.Fault = func(point string) {
				if point == "after-intent" { // another replica takes this one for dead
					bury.Observe(h.t.Context(), id) // its refusal is not the point
					if n := h.count(id, "execution.unconfirmed"); n != 1 {
						h.t.Errorf("%d execution.unconfirmed", n)
					}
				}
			}
		}}))
		_, err := g.Operate(h.t.Context(), request(id, p))
		return id, sent.posts == 1, err
	}},
}

// burying takes every holder of a lease for dead.
type burying struct{ gateway.Ledger }

func (burying) HolderAlive(context.Context, string) (bool, error) { return false, nil }

// H-017 H-080 H-081 H-134 G-12 L-8 design 1: what each guard refuses happens as soon as
// the guard is off; where several stand behind each other, each holds alone.
func TestEachGuard(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, g := range slices.Concat(guards, receiptGuards, []guard{waitedGuard, endedGuard}, usedUpGuards) {
			id, happened, err := g.try(h, nil)
			if happened || reason(err) != g.want {
				t.Errorf("%s: happened %t, %v; want %s", g.name, happened, err, g.want)
			}
			if id != "" {
				h.verify(id)
			}
			for i := range g.layers {
				others := slices.Delete(slices.Clone(g.layers), i, i+1)
				if len(others) == 0 {
					break
				}
				if _, happened, err := g.try(h, others); happened || err == nil {
					t.Errorf("%s: with %s alone it happened: %v", g.name, g.layers[i].name, err)
				}
			}
			id, happened, err = g.try(h, g.layers)
			if !happened || err != nil {
				t.Errorf("%s: with every guard off it did not happen: %v", g.name, err)
			}
			if g.unlawful != "" && !h.breaks(id, g.unlawful) {
				t.Errorf("%s: an auditor does not find %s", g.name, g.unlawful)
			}
		}
	})
}

// breaks reports whether the replay of the chain finds a rule broken.
func (h *house) breaks(id, rule string) bool {
	h.t.Helper()
	var replayed chain.Replay
	for _, e := range h.events(id) {
		replayed.Apply(e)
	}
	return slices.ContainsFunc(replayed.Unlawful(), func(u run.Unlawful) bool { return u.Rule == rule })
}

// forging alters the answers to one request on their way from the store and signs
// them again.
type forging struct {
	gateway.Sender
	path    string
	key     ed25519.PrivateKey
	receipt func(*dispatch.Receipt)
	body    string // added to the answer's
}

func (f forging) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	a, err := f.Sender.Send(ctx, r)
	if err == nil && r.Permit != "" && strings.HasSuffix(r.URL, f.path) {
		a.Receipt = resign(a.Receipt, f.key, f.receipt)
		a.Body = append(a.Body, f.body...)
	}
	return a, err
}

// forge adds to the cart, or submits, with a forged answer and says whether that
// was believed.
func (h *house) forge(off []layer, f forging) (id string, believed bool, err error) {
	h.t.Helper()
	var p *gateway.Permit
	if f.path == "/api/orders" {
		id, p = h.toSubmit()
	} else {
		f.path, id = "/api/cart/items", h.create(run.TargetHosted)
		h.do(id, "merchant.catalog")
		p = h.allow(id, "add:fieldwork-keyboard:1")
	}
	if f.key == nil {
		f.key, err = receiptKey(h.storeDir())
		must(h.t, err)
	}
	g := h.opening(append([]layer{{"", func(c *gateway.Config) {
		f.Sender = c.Sender
		c.Sender = f
	}}}, off...))
	_, err = g.Operate(h.t.Context(), request(id, p))
	x, b := h.state(id).Execution, h.state(id).Budget
	switch believed = x.State == run.ExecutionVerified; {
	case !believed && x.State != run.ExecutionUnconfirmed:
		h.t.Errorf("execution %s", x.State)
	case believed && b.Spent != x.AmountCents, !believed && (b.Spent != 0 || b.Reserved != x.AmountCents):
		h.t.Errorf("believed %t, budget %+v", believed, b)
	}
	return id, believed, err
}

// forged is a guard against a receipt that differs from the true one as edit says.
func forged(member string, off layer, path string, edit func(*dispatch.Receipt)) guard {
	return guard{"receipt of another " + member, []layer{off}, authority.DispatchUnconfirmed, "", func(h *house, off []layer) (string, bool, error) {
		return h.forge(off, forging{path: path, receipt: edit})
	}}
}

func asItIs(*dispatch.Receipt) {}

const anotherID = "0192f0c1-2b3c-7d4e-8f50-616263646566"

var (
	about  = door("receipt", func(d *decide.Doors) { d.Receipt = true })
	answer = door("answer", func(d *decide.Doors) { d.Answer = true })
	amount = door("amount", func(d *decide.Doors) { d.Amount = true })
)

// H-143 to H-147, design 4: a receipt by the pinned key, with one member that is
// another's, does not decide.
var receiptGuards = []guard{
	forged("issuer", about, "", func(r *dispatch.Receipt) { r.Issuer = "http://elsewhere.example" }),
	forged("audience", about, "", func(r *dispatch.Receipt) { r.Audience = "http://elsewhere.example" }),
	forged("jti", about, "", func(r *dispatch.Receipt) { r.ID = anotherID }),
	forged("step permit", about, "", func(r *dispatch.Receipt) { r.StepPermit = anotherID }),
	forged("session", about, "", func(r *dispatch.Receipt) { r.Session = anotherID }),
	forged("effect", about, "", func(r *dispatch.Receipt) { r.EffectDigest = strings.Repeat("0", 64) }),
	forged("request body", about, "", func(r *dispatch.Receipt) { r.BodyHash = dispatch.HashBody([]byte("{}")) }),
	forged("operation", about, "", func(r *dispatch.Receipt) { r.Operation = "POST /api/checkouts" }),
	forged("amount", amount, "/api/orders", func(r *dispatch.Receipt) { more := "13701"; r.AmountCents = &more }),
	forged("amount: none", amount, "/api/orders", func(r *dispatch.Receipt) { r.AmountCents = nil }),
	forged("answer", answer, "", func(r *dispatch.Receipt) { r.AnswerHash = dispatch.HashBody([]byte("{}")) }),
	forged("nothing: a charge for what is free", amount, "", func(r *dispatch.Receipt) { one := "1"; r.AmountCents = &one }),
	{"another body under a true receipt", []layer{answer}, authority.DispatchUnconfirmed, "", func(h *house, off []layer) (string, bool, error) {
		return h.forge(off, forging{receipt: asItIs, body: " "})
	}},
	{"receipt by another key", []layer{{"pinned key", nil}}, authority.DispatchUnconfirmed, "", func(h *house, off []layer) (string, bool, error) {
		public, other, err := ed25519.GenerateKey(nil)
		must(h.t, err)
		if len(off) > 0 { // the run pins the other key too
			pinned := &gateway.Store{Origin: h.config.Store.Origin, Keys: append(h.config.Store.Keys, dispatch.TrustedKey{Public: public})}
			former := h.Gateway
			defer func() { h.Gateway = former }()
			h.Gateway = h.another(func(c *gateway.Config) { c.Store = pinned })
		}
		return h.forge(nil, forging{key: other, receipt: asItIs})
	}},
}
