package ledgertest

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"countersign/evidence"
	"countersign/internal/ledger"
)

// instance is one database with one engine open on it.
type instance struct {
	Engine          // the newest opening
	raw      Engine // the same one, without b.weaken
	t        testing.TB
	b        Backend
	location string
	o        Options
	clock    *ledger.Clock
	points   *points
	key      evidence.SigningKey
}

// start makes a database and opens it. The fault door of o is taken by points.
func start(t testing.TB, b Backend, o Options) *instance {
	t.Helper()
	i := &instance{t: t, b: b, o: o, clock: new(ledger.Clock), points: new(points), key: newKey(t)}
	i.o.Clock, i.o.Fault = i.clock, i.points.reach
	i.location = b.Create(t)
	i.Engine = i.open()
	return i
}

func newKey(t testing.TB) evidence.SigningKey {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return evidence.NewSigningKey(private)
}

// open opens the database once more, which needs a free replica.
func (i *instance) open() Engine {
	i.t.Helper()
	e, err := i.b.Open(i.t.Context(), i.location, i.o)
	if err != nil {
		i.t.Fatalf("open: %v", err)
	}
	i.t.Cleanup(func() {
		if err := e.Close(); err != nil {
			i.t.Errorf("close: %v", err)
		}
	})
	i.raw = e
	if i.b.weaken != nil {
		return i.b.weaken(i, e)
	}
	return e
}

// restart closes the engine and opens the same database again.
func (i *instance) restart() {
	i.t.Helper()
	if err := i.Close(); err != nil {
		i.t.Fatalf("close: %v", err)
	}
	i.Engine = i.open()
}

// replicas returns as many engines on the database as may live at once.
func (i *instance) replicas() []Engine {
	engines := []Engine{i.Engine}
	for len(engines) < i.b.Replicas {
		engines = append(engines, i.open())
	}
	return engines
}

func (i *instance) rows() map[string]int64 {
	i.t.Helper()
	return i.b.Rows(i.t, i.location)
}

// unchanged reports rows that appeared or vanished since before.
func (i *instance) unchanged(before map[string]int64) error {
	if now := i.rows(); !maps.Equal(before, now) {
		return fmt.Errorf("rows changed from %v to %v", before, now)
	}
	return nil
}

func (i *instance) must(r ledger.Result) {
	i.t.Helper()
	if r.Outcome != ledger.Stored {
		i.t.Fatalf("commit: %v", r.Err())
	}
}

func (i *instance) load(key ledger.Key) ledger.Subject {
	i.t.Helper()
	s, err := load(i.t.Context(), i.Engine, key)
	if err != nil {
		i.t.Fatal(err)
	}
	return s
}

// load reads a subject and returns one of revision 0 when there is none.
func load(ctx context.Context, e Engine, key ledger.Key) (ledger.Subject, error) {
	s, _, err := e.Load(ctx, key)
	if errors.Is(err, ledger.ErrNotFound) {
		return ledger.Subject{Key: key, Head: evidence.Genesis}, nil
	}
	return s, err
}

func runKey(id string) ledger.Key {
	return ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, ID: id}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// bare is the smallest write of a subject: a state and nothing else.
func bare(s ledger.Subject, state string) ledger.Write {
	return ledger.Write{Key: s.Key, Revision: s.Revision, Head: s.Head, State: []byte(state)}
}

// fresh is a Change that creates a subject of its own.
func fresh() ledger.Change {
	return ledger.Change{Writes: []ledger.Write{bare(ledger.Subject{Key: runKey(newID()), Head: evidence.Genesis}, `{"v":1}`)}}
}

// points is the fault door of an instance: it counts and lets a test decide.
type points struct {
	mu   sync.Mutex
	hits map[string]int
	hook func(point string) error

	failed atomic.Bool // hook has returned an error
}

func (p *points) reach(point string) error {
	p.mu.Lock()
	if p.hits == nil {
		p.hits = make(map[string]int)
	}
	p.hits[point]++
	hook := p.hook
	p.mu.Unlock()
	if hook == nil {
		return nil
	}
	err := hook(point)
	if err != nil {
		p.failed.Store(true)
	}
	return err
}

func (p *points) set(hook func(point string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

func (p *points) count(point string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits[point]
}

// hold stops every writer of the instance's first engine before it sends
// anything, so that what is committed until release waits in the queue.
func (i *instance) hold() (release func()) {
	i.t.Helper()
	return i.holdThen(nil)
}

// holdThen is hold; from release on, hook is called at every point.
func (i *instance) holdThen(hook func(point string) error) (release func()) {
	i.t.Helper()
	reached, gate := make(chan struct{}), make(chan struct{})
	i.points.set(func(point string) error {
		if point == i.b.Points[0] {
			select {
			case reached <- struct{}{}:
				<-gate
			case <-gate:
			}
		}
		return nil
	})
	plugs := make(chan ledger.Result, i.b.Writers)
	for range i.b.Writers {
		go func() { plugs <- i.Commit(context.Background(), fresh()) }()
		<-reached
	}
	var once sync.Once
	release = func() {
		once.Do(func() {
			i.points.set(hook)
			close(gate)
			for range i.b.Writers {
				if r := <-plugs; r.Outcome != ledger.Stored {
					i.t.Errorf("held commit: %v", r.Err())
				}
			}
		})
	}
	i.t.Cleanup(release)
	return release
}

// queue commits the Changes while the writers are held and returns when all of
// them wait. Both engines ask for a context's Done once the Change is queued,
// and that is the sign; a test that uses it must not depend on it for its verdict.
func (i *instance) queue(changes ...ledger.Change) []<-chan ledger.Result {
	answers := make([]<-chan ledger.Result, len(changes))
	for n, c := range changes {
		answers[n] = i.queueOne(context.Background(), c)
	}
	return answers
}

func (i *instance) queueOne(ctx context.Context, c ledger.Change) <-chan ledger.Result {
	answer := make(chan ledger.Result, 1)
	asked := newAskedContext(ctx)
	go func() { answer <- i.Commit(asked, c) }()
	<-asked.asked
	return answer
}

// askedContext tells when somebody starts to wait for its end.
type askedContext struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func newAskedContext(ctx context.Context) *askedContext {
	return &askedContext{Context: ctx, asked: make(chan struct{})}
}

func (c *askedContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.asked) })
	return c.Context.Done()
}
