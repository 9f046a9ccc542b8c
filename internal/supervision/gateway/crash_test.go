package gateway_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/money"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
)

// path is one way through the cycle on which a control plane is killed.
type path struct {
	name    string
	target  string
	steps   []string // the last is the one that is not finished; none: the run is not
	request string   // to the shop, of that step
	table   string   // where the shop keeps its effect, "" for none
	late    bool     // nobody asks again before the lease is over and settled
	goesOn  string   // an entry that can be executed afterwards
	points  []found
}

// found is what a control plane leaves that was killed at a point.
type found struct {
	point             string
	arrived, effects  int // requests and effects at the shop; effects at the local service
	execution, status string
	spent, reserved   money.Cents
	stop              string // the reason for which the run has stopped
	answer            string // to the same request: the state of the execution, or a reason
	resumed           string // the status after the next observation, when one is due
}

// paths are all ways through the cycle with all their points.
func paths() []*path {
	steps := append(slices.Clone(submit.steps), submit.entry)
	unknown := func(point string, n int) found {
		return found{point, n, n, run.ExecutionUnconfirmed, run.StatusPaused, 0, 13700, authority.DispatchUnconfirmed, authority.DispatchUnconfirmed, ""}
	}
	pending := func(point string) found {
		return found{point, 1, 1, run.ExecutionReceipted, run.StatusReady, 13700, 0, "", run.ExecutionReceipted, run.StatusCompleted}
	}
	failed := func(point string, n int, stop string) found {
		return found{point: point, arrived: n, effects: n, status: run.StatusFailed, stop: stop, answer: authority.RunNotReady}
	}
	unread := func(point string, n int) found {
		return found{point: point, arrived: n, execution: run.ExecutionNotApplied, status: run.StatusReady, answer: run.ExecutionNotApplied}
	}
	unapplied := func(point string) found {
		return found{
			point: point, execution: run.ExecutionNotApplied, status: run.StatusPaused, stop: authority.ExecutionNotApplied,
			answer: run.ExecutionNotApplied,
		}
	}
	asked := path{
		name: "submit", target: run.TargetHosted, steps: steps, request: submit.request, table: submit.table,
		points: []found{
			unknown("after-intent", 0), unknown("before-send", 0), unknown("after-send", 1), unknown("before-receipt", 1),
			pending("after-receipt"), pending("before-verify"),
			{"after-verify", 1, 1, run.ExecutionVerified, run.StatusCompleted, 13700, 0, "", run.ExecutionVerified, ""},
		},
	}
	late := asked
	late.name, late.late = "submit, nobody asks", true
	return []*path{
		{
			name: "opening a session", target: run.TargetHosted, request: openSession, table: "sessions", late: true,
			points: []found{
				failed("session-intent", 0, authority.DispatchUnconfirmed),
				failed("after-send", 1, authority.DispatchUnconfirmed),
				failed("session-answer", 1, authority.DispatchUnconfirmed),
				failed("session-receipt", 1, authority.HostedUnreachable), // the store was not observed
			},
		},
		&asked,
		&late,
		{
			name: "read", target: run.TargetHosted, steps: []string{"merchant.catalog", "product:fieldwork-keyboard"},
			request: "GET /api/products/fieldwork-keyboard", late: true, goesOn: "product:fieldwork-keyboard",
			points: []found{
				unread("after-intent", 0), unread("before-send", 0), unread("after-send", 1),
				{"before-verify", 1, 0, run.ExecutionReceipted, run.StatusReady, 0, 0, "", run.ExecutionReceipted, run.StatusReady},
				{"after-verify", 1, 0, run.ExecutionVerified, run.StatusReady, 0, 0, "", run.ExecutionVerified, ""},
			},
		},
		{
			name: "local submit", target: run.TargetLocal, steps: steps,
			points: []found{
				unapplied("after-intent"), unapplied(beforeEffect),
				{afterEffect, 0, 1, run.ExecutionVerified, run.StatusCompleted, 13700, 0, "", run.ExecutionVerified, ""},
			},
		},
	}
}

// H-145 to H-147, design 1 and 3: a control plane that is killed with -9 at any
// point of the cycle never does anything twice and loses no receipt that it has
// stored. The run is then in its documented state, and the same request with the
// same key and permit is answered with what is known and sends nothing. This shows
// the death of a process, not the loss of power.
func TestKilledControlPlane(t *testing.T) {
	passed, places := map[string]bool{}, 0
	for _, p := range paths() {
		for _, f := range p.points {
			passed[f.point] = true
			places++
		}
	}
	for _, point := range gateway.Points {
		if !passed[point] {
			t.Errorf("no path passes %s", point)
		}
	}
	onEach(t, func(t *testing.T, e engine) {
		place := 0
		for _, p := range paths() {
			t.Run(p.name, func(t *testing.T) {
				h := emptyHouse(t, e)
				var shop *farShop
				if p.target == run.TargetHosted {
					shop = startShop(t, filepath.Join(h.dir, "shop"), h.dispatchKeys())
				}
				h.passes(shop, p)
				for _, f := range p.points {
					before := 0
					if shop != nil {
						before = shop.arrivals(p.request)
					}
					id, asked := h.killed(shop, p, f.point)
					place++
					t.Logf("fail point %q hit, %d of %d: killed", p.name+": "+f.point, place, places)
					f.arrived += before
					h.afterwards(shop, p, f, id, asked)
					must(t, h.ledger.Close())
				}
			})
		}
	})
}

// passes checks that a control plane that is not killed passes exactly the points of
// the path, in their order.
func (h *house) passes(shop *farShop, p *path) {
	h.t.Helper()
	points, armed := []string{}, len(p.steps) == 0
	note := func(point string) {
		if armed {
			points = append(points, point)
		}
	}
	h.openFor(shop, func(c *gateway.Config) {
		c.Fault, c.Ledger = note, effectLedger{c.Ledger, note, func() bool { return false }}
	})
	id := h.create(p.target)
	for i, entry := range p.steps {
		armed = i == len(p.steps)-1
		h.do(id, entry)
	}
	want := []string{}
	for _, f := range p.points {
		want = append(want, f.point)
	}
	if !slices.Equal(points, want) {
		h.t.Fatalf("%s passes %q, expectations are there for %q", p.name, points, want)
	}
	must(h.t, h.ledger.Close())
}

// openFor opens the house for runs at the shop, if there is one.
func (h *house) openFor(shop *farShop, options ...option) {
	h.t.Helper()
	if shop != nil {
		options = append(options, shop.use)
	}
	h.open(options...)
}

// killed has a control plane of another process killed at a point of the path, and
// opens its ledger here. It returns the run and the request that was not answered.
func (h *house) killed(shop *farShop, p *path, point string) (id string, asked *gateway.OperateRequest) {
	h.t.Helper()
	c := controlTask{Engine: h.engine.name, Location: h.location, Control: h.control(), Steps: p.steps, Point: point}
	if shop != nil {
		c.Shop, c.ShopKey = shop.origin, string(dispatch.FormatKeys([]dispatch.TrustedKey{shop.key}))
	}
	child := startChild(h.t, task{Control: &c})
	for {
		l, ok := child.next()
		if !ok {
			h.t.Fatalf("%s: %s was not reached", p.name, point)
		}
		if l.Request != nil {
			asked = l.Request
		}
		if l.Point == point {
			break
		}
	}
	child.kill()
	h.engine.gone(h.t, h.location)
	h.openFor(shop)
	h.holdersAreDead()
	list, err := h.List(h.t.Context(), "", 1)
	must(h.t, err)
	return list[0].State.ID, asked
}

// afterwards checks everything that is there after a control plane was killed, while
// the same is asked again and again.
func (h *house) afterwards(shop *farShop, p *path, f found, id string, asked *gateway.OperateRequest) {
	h.t.Helper()
	if !p.late {
		h.askAgain(shop, p, f, id, asked)
	}
	h.clock.Move(11 * time.Second) // settling writes what the dead holder left
	h.SettleDue(h.t.Context())
	h.clock.Move(-11 * time.Second) // the shop's clock did not move
	for _, d := range h.differences(shop, p, f, id) {
		h.t.Errorf("%s, %s: %s", p.name, f.point, d)
	}
	h.verify(id)
	h.askAgain(shop, p, f, id, asked)
	if f.resumed != "" {
		_, err := h.Observe(h.t.Context(), id)
		must(h.t, err)
		f.status, f.execution, f.answer = f.resumed, run.ExecutionVerified, run.ExecutionVerified
		h.askAgain(shop, p, f, id, asked)
	}
	for _, d := range h.differences(shop, p, f, id) {
		h.t.Errorf("%s, %s, later: %s", p.name, f.point, d)
	}
	if p.goesOn != "" {
		h.do(id, p.goesOn)
	}
	h.verify(id)
}

// differences tells in what the run and the effects differ from what should be
// found.
func (h *house) differences(shop *farShop, p *path, f found, id string) (list []string) {
	h.t.Helper()
	s, execution, stop := h.state(id), "", ""
	if s.Execution != nil {
		execution = s.Execution.State
	}
	if s.Stop != nil {
		stop = s.Stop.ReasonCode
	}
	arrived, effects := 0, 0
	switch {
	case shop == nil:
		effects = h.localOrders(id)
	case p.table != "":
		effects = shop.rows(p.table, s.Hosted.ID)
	}
	if shop != nil {
		arrived = shop.arrivals(p.request)
	}
	for _, d := range []struct {
		what      string
		got, want any
	}{
		{"status", s.Status, f.status},
		{"stop", stop, f.stop},
		{"execution", execution, f.execution},
		{"spent", s.Budget.Spent, f.spent},
		{"reserved", s.Budget.Reserved, f.reserved},
		{"effects", effects, f.effects},
		{"arrived", arrived, f.arrived},
	} {
		if d.got != d.want {
			list = append(list, fmt.Sprintf("%s %v, want %v", d.what, d.got, d.want))
		}
	}
	return list
}

// localOrders counts the orders of a run's local service.
func (h *house) localOrders(id string) int {
	h.t.Helper()
	local, _, err := h.ledger.Load(h.t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindService, ID: id})
	must(h.t, err)
	var state struct {
		Order *struct{} `json:"order"`
	}
	must(h.t, json.Unmarshal(local.State, &state))
	if state.Order == nil {
		return 0
	}
	return 1
}

// askAgain repeats the request that was not answered, byte by byte, and spends its
// permit under another key: neither reaches the shop, and what is known is answered.
func (h *house) askAgain(shop *farShop, p *path, f found, id string, asked *gateway.OperateRequest) {
	h.t.Helper()
	everything := 0
	if shop != nil {
		everything = shop.arrivals("")
	}
	if asked == nil { // the run never began
		if _, err := h.Observe(h.t.Context(), id); reason(err) != f.answer {
			h.t.Errorf("%s, %s: observation: %v, want %s", p.name, f.point, err, f.answer)
		}
	} else {
		h.sameAnswer(shop, p, f, asked)
		other, want := *asked, authority.PermitConsumed
		if f.answer == authority.DispatchUnconfirmed {
			want = authority.UnresolvedEffect
		}
		other.Key = "another-key-of-sixteen"
		if _, err := h.Operate(h.t.Context(), other); reason(err) != want {
			h.t.Errorf("%s, %s: the permit under another key: %v, want %s", p.name, f.point, err, want)
		}
	}
	if shop != nil && shop.arrivals("") != everything {
		h.t.Errorf("%s, %s: asking again sent %d requests", p.name, f.point, shop.arrivals("")-everything)
	}
}

func (h *house) sameAnswer(shop *farShop, p *path, f found, asked *gateway.OperateRequest) {
	h.t.Helper()
	out, err := h.Operate(h.t.Context(), *asked)
	if err != nil {
		if reason(err) != f.answer {
			h.t.Errorf("%s, %s: the same request: %v, want %s", p.name, f.point, err, f.answer)
		}
		return
	}
	x := h.state(asked.RunID).Execution
	if out.State != f.answer || !out.Replayed || out.ExecutionID != x.ID {
		h.t.Errorf("%s, %s: the same request: %+v, want %s of %s, replayed", p.name, f.point, out, f.answer, x.ID)
	}
	applied := f.answer == run.ExecutionReceipted || f.answer == run.ExecutionVerified
	switch r := out.Receipt; {
	case applied != (r != nil):
		h.t.Errorf("%s, %s: the receipt of %s is %+v", p.name, f.point, f.answer, r)
	case r == nil:
	case r.Result != run.ResultApplied || r.AmountCents != f.spent || (r.OrderID != nil) != (f.effects > 0):
		h.t.Errorf("%s, %s: receipt %+v", p.name, f.point, r)
	case strings.HasPrefix(p.request, "POST") != (r.JWS != nil):
		h.t.Errorf("%s, %s: the store's receipt is %v", p.name, f.point, r.JWS)
	case r.JWS != nil && *r.JWS != shop.receipt(x.ID):
		h.t.Errorf("%s, %s: the receipt is not the one that the shop has stored", p.name, f.point)
	}
}

// The control of what is found: an effect that is stored before its receipt leaves
// half when the control plane is killed between the two.
func TestKilledControlPlaneControl(t *testing.T) {
	h := emptyHouse(t, engines[0])
	all := paths()
	p := all[slices.IndexFunc(all, func(p *path) bool { return p.target == run.TargetLocal })]
	id, _ := h.killed(nil, p, insideEffect)
	h.clock.Move(11 * time.Second)
	h.SettleDue(t.Context())
	i := slices.IndexFunc(p.points, func(f found) bool { return f.point == beforeEffect })
	got := h.differences(nil, p, p.points[i], id)
	if want := []string{"effects 1, want 0"}; !slices.Equal(got, want) {
		t.Errorf("differences %q, want %q", got, want)
	}
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
