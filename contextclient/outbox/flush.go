package outbox

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Flushed is what a flush has come to.
type Flushed struct {
	Delivered int
	Dropped   int // refused for good, or too old
	Waiting   int // still in the outbox
	// Unreachable is why the flush stopped before its end: no answer came, or the
	// server asked everybody to wait. Nil when it went through.
	Unreachable error
}

// Flush sends what is due, one after the other, oldest first, each at most once. It
// stops when no answer comes or the server answers 429, since the next would fare no better. The error is that
// of the store or of ctx; what became of each report is in Flushed and through [Options.Told].
func (o *Outbox) Flush(ctx context.Context, send Send) (Flushed, error) {
	return o.flush(ctx, send, (*Entry).due)
}

// FlushAll is Flush for a person who does not want to wait: it also sends what is not due yet.
func (o *Outbox) FlushAll(ctx context.Context, send Send) (Flushed, error) {
	return o.flush(ctx, send, (*Entry).free)
}

func (o *Outbox) flush(ctx context.Context, send Send, due func(*Entry, time.Time) bool) (f Flushed, err error) {
	tried := map[string]bool{}
	if idle, waiting := o.idle(due); idle {
		return Flushed{Waiting: waiting}, ctx.Err()
	}
	for {
		if ctx.Err() != nil {
			return f, ctx.Err()
		}
		e, waiting, old, err := o.take(ctx, tried, due)
		f.Waiting, f.Dropped = waiting, f.Dropped+old
		if err != nil || e.Key == "" {
			return f, err
		}
		tried[e.Key] = true
		err = o.attempt(ctx, e, send)
		kept, isKept := errors.AsType[*KeptError](err)
		_, isRefused := errors.AsType[*RefusedError](err)
		switch {
		case err == nil:
			f.Delivered++
			f.Waiting--
		case isRefused:
			f.Dropped++
			f.Waiting--
		case isKept && (kept.Err != nil || kept.Answer.Status == http.StatusTooManyRequests):
			f.Unreachable = kept
			return f, ctx.Err()
		case !isKept:
			return f, err
		}
	}
}

// idle reports whether there is nothing to be done for a flush. It leaves everything unusual to what
// looks under the lock.
func (o *Outbox) idle(due func(*Entry, time.Time) bool) (bool, int) {
	s, err := o.store.look()
	if err != nil {
		return false, 0
	}
	waiting, now := len(s.Entries), o.now()
	if len(s.expire(now)) > 0 {
		return false, 0
	}
	for i := range s.Entries {
		if due(&s.Entries[i], now) {
			return false, 0
		}
	}
	return true, waiting
}

// take marks the next entry that is due and was not tried yet as being sent. It is zero when there is none.
func (o *Outbox) take(ctx context.Context, tried map[string]bool, due func(*Entry, time.Time) bool) (e Entry, waiting, old int, err error) {
	old, err = o.update(ctx, func(s *State, now time.Time) (bool, error) {
		waiting = len(s.Entries)
		for i := range s.Entries {
			if at := &s.Entries[i]; !tried[at.Key] && due(at, now) {
				o.begin(at, now)
				e = *at
				return true, nil
			}
		}
		return false, nil
	})
	return e, waiting, old, err
}

// lookAgain is how often Run looks at a file for what other processes have put in.
const lookAgain = time.Minute

// Run flushes whenever something is due, until ctx ends, and returns its error. A store that
// cannot be read or written is looked at again after a second; every time told is called with the error, if it is not nil.
func (o *Outbox) Run(ctx context.Context, send Send, told func(error)) error {
	for {
		_, err := o.Flush(ctx, send)
		wait := time.Second
		if err == nil {
			wait, err = o.untilDue(ctx)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && told != nil {
			told(err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-o.added:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// untilDue is how long nothing will be due, unless something is put in.
func (o *Outbox) untilDue(ctx context.Context) (time.Duration, error) {
	s, err := o.State(ctx)
	if err != nil {
		return time.Second, err
	}
	now, wait := o.now(), lookAgain
	for i := range s.Entries {
		e := &s.Entries[i]
		wait = min(wait, max(e.NotBefore.Sub(now), e.SendingUntil.Sub(now), 0))
	}
	return max(wait, 10*time.Millisecond), nil
}
