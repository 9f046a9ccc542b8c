package postgres

import (
	"context"
	"sync"

	"countersign/internal/ledger"
)

const (
	// directWriters is how many Changes are written by themselves at the same
	// time. Flushes of sessions overlap in the server, so few callers are served
	// fastest this way.
	directWriters = 8
	// groupWriters is how many groups are written at the same time when there are
	// more: one executes while the other flushes.
	groupWriters = 2
)

// job is a Change on its way through the queue.
type job struct {
	change   *ledger.Change
	claims   []claim
	alone    bool // must not share a statement with any other
	answered chan ledger.Result
}

// queue holds the Changes that wait for a writer. It has a bound and refuses.
type queue struct {
	mu      sync.Mutex
	wake    *sync.Cond
	size    int
	limit   int // of a group
	waiting []*job
	running int // transactions under way
	inside  int // Changes waiting or under way
	closed  bool
}

func newQueue(size, limit int) *queue {
	q := &queue{size: size, limit: limit}
	q.wake = sync.NewCond(&q.mu)
	return q
}

// Commit stores a Change or none of it; see [ledger.Result]. A Change that is
// not well formed is NotStored. A caller whose context ends while its Change is
// queued or being written gets Unknown with the context's error; the Change
// keeps its fate. A context that has ended before the call is NotStored. The
// Change must not be altered afterwards.
func (l *Ledger) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	if err := ctx.Err(); err != nil {
		return ledger.Result{Outcome: ledger.NotStored, Cause: err}
	}
	if err := c.Validate(); err != nil {
		return ledger.Result{Outcome: ledger.NotStored, Cause: err}
	}
	j := newJob(&c)
	if err := l.queue.push(j); err != nil {
		return ledger.Result{Outcome: ledger.NotStored, Cause: err}
	}
	select {
	case r := <-j.answered:
		return r
	case <-ctx.Done():
		return ledger.Result{Outcome: ledger.Unknown, Cause: ctx.Err()}
	}
}

func (q *queue) push(j *job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ledger.ErrClosed
	}
	if len(q.waiting) >= q.size {
		return ledger.ErrQueueFull
	}
	q.waiting = append(q.waiting, j)
	q.inside++
	q.wake.Signal()
	return nil
}

// take waits for the next transaction: one Change, or a group when there are
// more than the direct writers serve. It returns nil when the queue is closed
// and empty.
func (q *queue) take() []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		grouped := q.limit > 1 && q.inside > directWriters
		if len(q.waiting) > 0 && (!grouped || q.running < groupWriters) {
			q.running++
			if !grouped {
				return q.cut(1)
			}
			// Half of what is inside, so that both group writers have work.
			return q.cut(min(q.limit, (q.inside+1)/groupWriters))
		}
		if q.closed && len(q.waiting) == 0 {
			return nil
		}
		q.wake.Wait()
	}
}

// cut removes at most n Changes from the front that can share a statement. Those
// in between that cannot keep their place.
func (q *queue) cut(n int) []*job {
	first := q.waiting[0]
	if n == 1 || first.alone {
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		q.rouse()
		return []*job{first}
	}
	group := make([]*job, 0, n)
	claimed := make(claims, 4*n)
	rest := q.waiting[:0]
	for i, j := range q.waiting {
		if len(group) == n {
			rest = append(rest, q.waiting[i:]...)
			break
		}
		if !j.alone && claimed.add(j.claims) {
			group = append(group, j)
		} else {
			rest = append(rest, j)
		}
	}
	clear(q.waiting[len(rest):])
	q.waiting = rest
	q.rouse()
	return group
}

// rouse passes the turn on when there is more to take.
func (q *queue) rouse() {
	if len(q.waiting) > 0 {
		q.wake.Signal()
	}
}

// done ends a transaction of n Changes.
func (q *queue) done(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running--
	q.inside -= n
	if q.closed {
		q.wake.Broadcast()
		return
	}
	q.rouse()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake.Broadcast()
}

// claim is what a Change must not share with another of the same statement.
type claim struct {
	kind  byte // s subject, i idempotency key, p permit, c credential
	key   ledger.Key
	write bool // only guards of the same subject may meet
}

// claims are those of a group, with what is written.
type claims map[claim]bool

// add takes all claims or none, and says which.
func (c claims) add(list []claim) bool {
	for _, one := range list {
		written, taken := c[claim{kind: one.kind, key: one.key}]
		if taken && (written || one.write) {
			return false
		}
	}
	for _, one := range list {
		c[claim{kind: one.kind, key: one.key}] = one.write
	}
	return true
}

func newJob(c *ledger.Change) *job {
	j := &job{change: c, answered: make(chan ledger.Result, 1)}
	workspace := c.Scope()
	for i := range c.Writes {
		w := &c.Writes[i]
		j.claims = append(j.claims, claim{'s', w.Key, true})
		if freezes(w.Key) {
			j.alone = true
		}
	}
	for _, g := range c.Guards {
		j.claims = append(j.claims, claim{'s', g.Key, false})
		if g.Revision == 0 {
			j.alone = true
		}
	}
	if r := c.Record; r != nil {
		j.claims = append(j.claims, claim{'i', ledger.Key{Workspace: workspace, Kind: r.Principal, ID: r.Key}, true})
	}
	for _, f := range c.Fates {
		j.claims = append(j.claims, claim{'p', ledger.Key{Workspace: workspace, ID: f.PermitID}, true})
	}
	for _, k := range c.Credentials {
		j.claims = append(j.claims, claim{'c', ledger.Key{Workspace: workspace, ID: k.Hash}, true})
	}
	for _, h := range c.Revoke {
		j.claims = append(j.claims, claim{'c', ledger.Key{Workspace: workspace, ID: h}, true})
	}
	return j
}

// freezes says whether a Write to key can freeze or unfreeze its workspace.
func freezes(key ledger.Key) bool {
	return key.Kind == ledger.KindWorkspace && key.ID == key.Workspace
}
