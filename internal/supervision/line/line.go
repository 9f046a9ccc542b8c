// Package line makes those who want the same thing wait for each other, so that many at
// once do not starve each other. It is order and no guard: other processes know nothing
// of it.
package line

import (
	"context"
	"sync"
)

// Lines holds a waiting line for each run that is being decided about. The zero
// value is ready; it must not be copied.
type Lines struct {
	mu   sync.Mutex
	runs map[string]*line
}

type line struct {
	turn   chan struct{} // holds a token while somebody decides
	people int           // deciding or waiting
}

// Enter waits for the run's turn or until ctx ends. The caller calls leave once
// when err is nil.
func (l *Lines) Enter(ctx context.Context, run string) (leave func(), err error) {
	l.mu.Lock()
	if l.runs == nil {
		l.runs = map[string]*line{}
	}
	at := l.runs[run]
	if at == nil {
		at = &line{turn: make(chan struct{}, 1)}
		l.runs[run] = at
	}
	at.people++
	l.mu.Unlock()
	select {
	case at.turn <- struct{}{}:
		return func() { <-at.turn; l.gone(run, at) }, nil
	case <-ctx.Done():
		l.gone(run, at)
		return nil, ctx.Err()
	}
}

func (l *Lines) gone(run string, at *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.people--; at.people == 0 {
		delete(l.runs, run)
	}
}
