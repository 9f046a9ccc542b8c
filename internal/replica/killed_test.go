package replica_test

import (
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"countersign/internal/keys"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/replica"
	"countersign/internal/supervision/gateway"
)

// crowd is some shoppers at work.
type crowd struct {
	journal  journal
	meter    meter
	closing  atomic.Bool // no further runs are begun
	shoppers []*shopper
	work     sync.WaitGroup
	failed   chan error
}

// leastRequests is what each shopper has answered at the least.
const leastRequests = 40

// kind is what a shopper has done.
type kind struct {
	service, target, mode string
	revokes               bool // some of the runs, in the middle of an operation
}

// kinds are every service, both targets and both modes.
var kinds = []kind{
	{"merchant", "hosted", "bounded", false}, {"merchant", "hosted", "bounded", true}, {"merchant", "hosted", "exact", false}, {"merchant", "hosted", "exact", true},
	{"merchant", "local", "bounded", true}, {"bank", "local", "exact", false}, {"bank", "local", "bounded", true}, {"broker", "local", "exact", false},
}

// gather makes a shopper of each kind.
func gather(t *testing.T, seed uint64, in *replica.Installation, r *replica.Replica, kinds ...kind) *crowd {
	t.Helper()
	owner := in.SignIn(t, r.Client())
	secret, err := keys.ReadSecret(filepath.Join(in.Dir, "owner.secret"))
	must(t, err)
	c := &crowd{failed: make(chan error, len(kinds))}
	for i, k := range kinds {
		c.shoppers = append(c.shoppers, &shopper{
			name: fmt.Sprintf("shopper %d", i), kind: k, owner: owner, secret: secret, http: r.Client(),
			journal: &c.journal, meter: &c.meter, rng: mathrand.New(mathrand.NewPCG(seed, uint64(i))),
		})
	}
	return c
}

// begin lets the shoppers go to work until close.
func (c *crowd) begin(t *testing.T) {
	for _, s := range c.shoppers {
		c.work.Go(func() {
			for !c.closing.Load() || s.requests < leastRequests {
				if err := s.life(t.Context()); err != nil {
					c.failed <- err
					return
				}
			}
		})
	}
}

// close lets everybody finish what is under way, and waits.
func (c *crowd) close(t *testing.T) {
	t.Helper()
	c.closing.Store(true)
	c.work.Wait()
	close(c.failed)
	for err := range c.failed {
		t.Error(err)
	}
}

// stop is one end of the server: at a pass of a point, or from outside in the middle of
// something.
type stop struct {
	fault replica.Fault
	after int  // answers, for an end from outside
	early bool // the fault is there from the start of the process on, recovery included
}

// mostRequests is within how many requests of the crowd a point has to be passed.
const mostRequests = 2000

// passes says within how many passes of a point it is chosen; the rest is passed less
// often.
const passes = 4

var rare = []string{
	"session-intent", "session-answer", "session-receipt", gateway.PointProbed,
	"after subject insert", "after guard check", "after sealed upsert", "after credential insert", "after credential delete",
}

// unreached are points of the engine that requests to a server do not reach in this
// build; the engine's own tests kill a process there.
var unreached = []string{
	"after sealed delete", // nothing that was sealed is removed
	"after ROLLBACK TO",   // one process puts the requests about one run in a line, so that no guard fails
}

// stops are the ends of the server on an engine, in an order that the seed says: each
// point once, and some from outside.
func stops(rng *mathrand.Rand, engine string) (list []stop) {
	points := append(slices.Clone(gateway.Points), gateway.PointProbed)
	if engine == replica.PostgreSQL {
		points = append(points, postgres.Points...)
	} else {
		points = append(points, sqlite.Points...)
	}
	for _, p := range points {
		switch {
		case slices.Contains(unreached, p):
		case slices.Contains(rare, p):
			list = append(list, stop{fault: replica.Fault{Point: p, Hit: 1 + rng.IntN(2)}})
		default:
			list = append(list, stop{fault: replica.Fault{Point: p, Hit: 1 + rng.IntN(passes)}})
		}
	}
	for range 3 {
		list = append(list, stop{after: 10 + rng.IntN(40)})
	}
	for i := range list {
		list[i].early = list[i].fault.Point != "" && rng.IntN(3) == 0
	}
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// forgetful has the store lose every seventh answer to a change that it has made.
func forgetful() func(http.Handler) http.Handler {
	var n atomic.Int64
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || n.Add(1)%7 != 0 {
				next.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		})
	}
}

// survive has the server end, after its former end unless it runs, and returns false when
// it did so by itself, at the point.
func (c *crowd) survive(t *testing.T, r *replica.Replica, s stop) (outside bool) {
	t.Helper()
	o, most := replica.Options{}, s.after
	if s.early {
		o.Fault = s.fault
	}
	select {
	case <-r.Ended():
		if !r.Restart(o) {
			return false // while it opened the ledger
		}
	default:
		s.early = false // the first one is running
	}
	if s.fault.Point != "" {
		most = mostRequests
		if !s.early {
			r.Arm(s.fault)
		}
	}
	select {
	case <-r.Ended():
	case err := <-c.failed:
		t.Fatal(err)
	case <-c.meter.after(most):
		r.Kill()
	}
	if at := r.Killed(); at != s.fault.Point {
		t.Errorf("killed at %q, want %q at its pass %d within %d answers", at, s.fault.Point, s.fault.Hit, most)
	}
	return r.Killed() == ""
}

// H-145 to H-147, design 1: the server is killed with -9 at every step of the cycle and
// of a commit while owners and agents go on, and started again. In the end nothing was
// done twice, no receipt that anybody was told is lost, every budget held at every event,
// every chain verifies and replays, and each run came to its end or is ready.
func TestKilledServer(t *testing.T) {
	replica.Each(t, func(t *testing.T, engine string) {
		t.Parallel()
		seed := mathrand.Uint64()
		rng := mathrand.New(mathrand.NewPCG(seed, 0))
		list := stops(rng, engine)
		in := replica.Prepare(t, engine)
		shop := in.OpenShop(t)
		r := in.Start(t, replica.Options{})[0]
		shop.Around(forgetful())
		c := gather(t, seed, in, r, kinds...)
		c.begin(t)
		hit, points := 0, 0
		for _, s := range list {
			if s.fault.Point != "" {
				points++
			}
		}
		for _, s := range list {
			if !c.survive(t, r, s) {
				hit++
				t.Logf("fail point %q hit, %d of %d: killed at pass %d, seed %d", s.fault.Point, hit, points, s.fault.Hit, seed)
			}
		}
		if !r.Restart(replica.Options{}) {
			t.Fatal("a server without a fault killed itself")
		}
		c.close(t)
		a := settle(t, in, r, shop, c.shoppers[0].owner, c.journal.list)
		for _, f := range a.findings() {
			t.Error(f)
		}
		statuses := map[string]int{}
		for _, x := range a.chains {
			statuses[x.view.Status]++
		}
		t.Logf("%s: %d kills at points, %d from outside, %d answers, %d runs %v, %d things told, %d orders", engine, hit, len(list)-hit, c.meter.n, len(a.chains), statuses, len(a.told), len(a.orders))
	})
}
