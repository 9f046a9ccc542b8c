package ledgertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/internal/ledger"
)

// testControls switches each guard off, behind the engine, and runs the test
// that must notice it, on one database.
func testControls(t *testing.T, b Backend) {
	before, durable := b.Points[0], b.Durable[0]
	location := b.Create(t)
	fault := func(point string) func(testing.TB, Backend) {
		return func(t testing.TB, b Backend) { faultAt(t, b, point) }
	}
	kill := func(t testing.TB, b Backend) { killAt(t, b, before) }
	var controls []Control
	for _, c := range []struct {
		test, off, want string
		check           func(testing.TB, Backend)
		weaken          weakening
	}{
		{"OneGroup", "the revision guard", "2 of 2 are stored", testOneGroup, patching},
		{"OneGroup", "unique rows", "2 of 2 are stored", testOneGroup, withoutRows},
		{"FullQueue", "refusing, it drops", "refusal", testFullQueue, optimistic},
		{"FullQueue", "the bound", "0 of 16 are refused", testFullQueue, queueing},
		{"CancelledCaller", "the writer's own context", "neighbour", testCancelledCaller, sharing},
		{"FaultAtEveryPoint", "saying what was not stored", "from revision 0 to 0", fault(before), optimistic},
		{"FaultAtEveryPoint", "undoing all of what was not stored", "record of revision 1", fault(before), halving},
		{"FaultAtEveryPoint", "looking up what may be stored", "from revision 0 to 1", fault(durable), pessimistic},
		{"DiskFull", "saying what was not stored", "Change 0: stored", testDiskFull, optimistic},
		{"DiskFull", "undoing all of what was not stored", "fate of revision 2", testDiskFull, halvingNeighbours},
		{"IOError", "saying what was not stored", "Change 0: stored", testIOError, optimistic},
		{"IOError", "undoing all of what was not stored", "fate of revision 2", testIOError, halvingNeighbours},
		{"KillAtEveryPoint", "durability before the answer", "commits were acknowledged and", kill, lazy},
		{"Restart", "durability before the answer", "revision 0, want 1", testRestart, lazy},
		{"Leases", "the end of a lease with its holder", "alive: true", testLeases, immortal},
		{"Leases", "the life of a lease with its holder", "alive: false", testLeases, mortal},
		{"Leases", "a name for each opening", "former one's name", testLeases, nameless},
		{"Workspaces", "the workspace of a look-up", "fate 2: ledger: not found", testWorkspaces, merging},
		{"Blobs", "the workspace of a hash", "missing elsewhere", testBlobs, mergingBlobs},
		{"InvalidBlobs", "the hash of the bytes", "altered bytes: <nil>", testInvalidBlobs, unchecked},
		{"BlobFaultAtEveryPoint", "saying what was not stored", "stored, and 3 are not there", testBlobFaults, hoping},
		{"Installation", "comparing the keys", "another key: accepted", testInstallation, trusting},
	} {
		weak := b
		weak.weaken = c.weaken
		weak.Create = func(testing.TB) string { return location }
		controls = append(controls, Control{c.test, c.off, c.want, func(t testing.TB) { c.check(t, weak) }})
	}
	RunControls(t, controls)
}

// weakening puts an engine of an instance behind a door that switches a guard
// off. It exists for negative controls only. In a child there is no instance.
type weakening func(*instance, Engine) Engine

func patching(_ *instance, e Engine) Engine    { return overwriting{e} }
func withoutRows(_ *instance, e Engine) Engine { return weakened{e, withoutUniqueRows} }

// retold gives other answers than the engine's.
type retold struct {
	Engine
	tell func(ledger.Result) ledger.Result
}

func (r retold) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	return r.tell(r.Engine.Commit(ctx, c))
}

// optimistic says that everything is stored, what the queue refused too.
func optimistic(_ *instance, e Engine) Engine {
	return retold{e, func(r ledger.Result) ledger.Result {
		if r.Outcome == ledger.NotStored {
			return ledger.Result{Outcome: ledger.Stored}
		}
		return r
	}}
}

// pessimistic takes whatever met a fault for not stored, as an engine that does
// not look it up.
func pessimistic(i *instance, e Engine) Engine {
	var told atomic.Bool
	return retold{e, func(r ledger.Result) ledger.Result {
		if i.points.failed.Load() && told.CompareAndSwap(false, true) {
			return ledger.Result{Outcome: ledger.NotStored, Cause: errInjected}
		}
		return r
	}}
}

// halved leaves a part of what is not stored.
type halved struct {
	Engine
	part func(*ledger.Change)
}

func (h halved) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	r := h.Engine.Commit(ctx, c)
	if r.Outcome == ledger.NotStored {
		h.part(&c)
		h.Engine.Commit(ctx, c) // whatever becomes of it, the caller is told of the whole
	}
	return r
}

func halving(_ *instance, e Engine) Engine {
	return halved{e, func(c *ledger.Change) { c.Record = nil }}
}

// halvingNeighbours leaves a permit's fate alone, which no storage refuses.
func halvingNeighbours(_ *instance, e Engine) Engine {
	return halved{e, func(c *ledger.Change) { *c = ledger.Change{Workspace: c.Workspace, Fates: c.Fates} }}
}

// unbounded tries what the queue refuses until there is room.
type unbounded struct{ Engine }

func (u unbounded) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	for {
		r := u.Engine.Commit(ctx, c)
		if !errors.Is(r.Cause, ledger.ErrQueueFull) {
			return r
		}
		ctx.Done() // a caller that waits asks for its end
	}
}

func queueing(_ *instance, e Engine) Engine { return unbounded{e} }

// shared writes under one context, which the first caller that leaves ends.
type shared struct {
	Engine
	all context.Context
	end context.CancelFunc
}

func (s shared) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	defer context.AfterFunc(ctx, s.end)()
	return s.Engine.Commit(s.all, c)
}

func sharing(_ *instance, e Engine) Engine {
	all, end := context.WithCancel(context.Background())
	return shared{e, all, end}
}

// postponing answers a Change with events before it is written, which happens
// when its subject is loaded next.
type postponing struct {
	Engine
	mu   *sync.Mutex
	held map[ledger.Key]ledger.Change
}

func lazy(_ *instance, e Engine) Engine {
	return postponing{e, new(sync.Mutex), make(map[ledger.Key]ledger.Change)}
}

func (p postponing) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	if len(c.Writes) == 0 || len(c.Writes[0].Events) == 0 {
		return p.Engine.Commit(ctx, c)
	}
	key := c.Writes[0].Key
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.held[key]; ok {
		return ledger.Result{Outcome: ledger.Conflict, Which: ledger.OnSubject, On: key}
	}
	p.held[key] = c
	return ledger.Result{Outcome: ledger.Stored}
}

func (p postponing) Load(ctx context.Context, key ledger.Key) (s ledger.Subject, now time.Time, err error) {
	p.mu.Lock()
	c, ok := p.held[key]
	delete(p.held, key)
	p.mu.Unlock()
	if ok {
		if err := p.Engine.Commit(ctx, c).Err(); err != nil {
			return s, now, err
		}
	}
	return p.Engine.Load(ctx, key)
}

// holders answers for the holders of leases.
type holders struct {
	Engine
	name  func() string
	alive func(holder string) bool
}

func (h holders) Holder() string { return h.name() }
func (h holders) HolderAlive(_ context.Context, holder string) (bool, error) {
	return h.alive(holder), nil
}

func immortal(_ *instance, e Engine) Engine {
	return holders{e, e.Holder, func(string) bool { return true }}
}

func mortal(_ *instance, e Engine) Engine {
	return holders{e, e.Holder, func(string) bool { return false }}
}

func nameless(_ *instance, e Engine) Engine {
	return holders{e, func() string { return "control plane" }, func(holder string) bool { return holder == "control plane" }}
}

// gullible takes any keys for the installation's.
type gullible struct{ Engine }

func (gullible) CheckInstallation(context.Context, map[string]string) error { return nil }

func trusting(_ *instance, e Engine) Engine { return gullible{e} }
