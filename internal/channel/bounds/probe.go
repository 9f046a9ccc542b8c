package bounds

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// probeEvery is how often a question is asked, and how old an answer may be.
	probeEvery = time.Second
	// probeTimeout bounds a question, and how long who asks waits for its answer.
	probeTimeout = 2 * time.Second
)

// Probe asks a question that costs something, such as a commit, for many who want
// to know the answer. It is safe for concurrent use.
type Probe struct {
	ask func(context.Context) error
	now func() time.Time

	mu   sync.Mutex
	last *question // the newest; nil: none yet
}

// question is one that was asked. err is set before done is closed.
type question struct {
	at   time.Time
	done chan struct{}
	err  error
}

// NewProbe returns a probe that asks with ask.
func NewProbe(ask func(context.Context) error) *Probe { return &Probe{ask: ask, now: time.Now} }

// Ready returns the answer to a question that is under way or was asked less than a
// second ago, and otherwise asks. At most one question is under way, and at most one
// a second is asked. No answer within 2 s, or until ctx ends, is an error. The
// question outlives who asked it: others wait for the answer too.
func (p *Probe) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	q := p.question(ctx)
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return fmt.Errorf("bounds: no answer: %w", ctx.Err())
	}
}

func (p *Probe) question(ctx context.Context) *question {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if q := p.last; q != nil && (q.open() || now.Sub(q.at) < probeEvery) {
		return q
	}
	p.last = &question{at: now, done: make(chan struct{})}
	go p.last.put(context.WithoutCancel(ctx), p.ask)
	return p.last
}

// open reports whether there is no answer yet.
func (q *question) open() bool {
	select {
	case <-q.done:
		return false
	default:
		return true
	}
}

func (q *question) put(ctx context.Context, ask func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	defer close(q.done)
	defer func() {
		if v := recover(); v != nil {
			q.err = fmt.Errorf("bounds: the question panicked: %T", v)
		}
	}()
	q.err = ask(ctx)
}
