package sqlite

import (
	"context"
	"runtime"
	"sync"

	"countersign/internal/ledger"
)

// job is one thing for the writer: a Change, or a small write of the engine's
// own. Whoever waits for answer may leave; the writer never blocks on it.
type job struct {
	change *change
	run    func(*tx) error // when change is nil
	answer chan ledger.Result
	result ledger.Result // the writer's, until it is answered
}

// queue holds the jobs that wait. It refuses when it is full and never drops.
type queue struct {
	size, limit int
	ready       chan struct{} // holds a token when there may be something to take

	mu      sync.Mutex
	waiting []*job
	closed  error // why nothing is taken any more
}

func newQueue(size, limit int) *queue {
	return &queue{size: size, limit: limit, ready: make(chan struct{}, 1)}
}

// put queues j or says why not.
func (q *queue) put(j *job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed != nil:
		return q.closed
	case len(q.waiting) >= q.size:
		return ledger.ErrQueueFull
	}
	q.waiting = append(q.waiting, j)
	if len(q.waiting) == 1 {
		q.signal()
	}
	return nil
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take appends to group what waits, up to the limit. It reports whether the
// queue is closed and empty.
func (q *queue) take(group []*job) (_ []*job, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), q.limit-len(group))
	group = append(group, q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return group, q.closed != nil && rest == 0
}

// next waits for at least one job and gathers the group that goes with it.
// Yielding lets callers that are about to queue do so; there is no timer, so a
// lone caller waits for nobody.
func (q *queue) next(group []*job) (_ []*job, ended bool) {
	for {
		if group, ended = q.take(group); len(group) > 0 || ended {
			break
		}
		<-q.ready
	}
	for i := 0; i < 3 && len(group) < q.limit && !ended; i++ {
		runtime.Gosched()
		group, ended = q.take(group)
	}
	return group, ended
}

// close refuses further jobs with the reason; those that wait are still taken.
func (q *queue) close(reason error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = reason
	}
	q.signal()
}

// Commit stores c or nothing of it. It blocks until the group's COMMIT is
// durable or ctx ends: then the answer is Unknown with ctx's error, and the
// Change keeps its fate. A context that has ended already, a full queue, a
// closed ledger and an unfit Change (ledger.ErrInvalid) are NotStored.
func (l *Ledger) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	prepared, err := prepare(&c)
	if err != nil {
		return ledger.Result{Outcome: ledger.NotStored, Cause: err}
	}
	return l.submit(ctx, &job{change: prepared})
}

func (l *Ledger) submit(ctx context.Context, j *job) ledger.Result {
	if err := ctx.Err(); err != nil {
		return ledger.Result{Outcome: ledger.NotStored, Cause: err}
	}
	j.answer = make(chan ledger.Result, 1)
	if err := l.queue.put(j); err != nil {
		return ledger.Result{Outcome: ledger.NotStored, Cause: err}
	}
	select {
	case r := <-j.answer:
		return r
	case <-ctx.Done():
		return ledger.Result{Outcome: ledger.Unknown, Cause: ctx.Err()}
	}
}

// do runs a small write of the engine's own in the next group.
func (l *Ledger) do(ctx context.Context, run func(*tx) error) error {
	return l.submit(ctx, &job{run: run}).Err()
}
