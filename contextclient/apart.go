package contextclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// What the library calls for its own sake stands apart from the model's call: it may fail,
// panic or hang, and the call begins and ends as it would have.
const (
	toldWithin = time.Second // OnTrouble is waited for
	tellers    = 16          // calls of OnTrouble that have not returned
	grace      = 2 * time.Second
)

// apart is tell on a goroutine of its own, waited for within toldWithin. Its panic is logged
// with what it was told. While tellers of it have not returned nothing more is told.
func apart(tell func(error)) func(error) {
	room := make(chan struct{}, tellers)
	return func(err error) {
		late := time.NewTimer(toldWithin)
		defer late.Stop()
		select {
		case room <- struct{}{}:
		case <-late.C:
			return
		}
		done := make(chan struct{})
		go func() {
			defer func() { <-room; close(done) }()
			defer func() {
				if recover() != nil {
					defer func() { _ = recover() }() // the logger's own; there is nobody left to tell
					slog.Error("OnTrouble panicked, which is logged in its place", "error", err)
				}
			}()
			tell(err)
		}()
		select {
		case <-done:
		case <-late.C:
		}
	}
}

var errLate = errors.New("something that it was given, a transport or an outbox, does not come back")

// bounded is what f returns, from a goroutine of its own. It is an error when f panics or is not back
// within d; whatever f returns then is lost.
func bounded[T any](c *Client, d time.Duration, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- result{err: c.panicked(p)}
			}
		}()
		value, err := f()
		done <- result{value, err}
	}()
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		return result{}.value, errLate
	}
}

func (c *Client) panicked(p any) error { return errors.New(c.shown(fmt.Sprint("panic: ", p))) }

// startApart is Start, bounded.
func (c *Client) startApart(ctx context.Context, o StartOptions) (*Turn, error) {
	t, err := bounded(c, c.startWithin+grace, func() (*Turn, error) { return c.Start(ctx, o) })
	return t, asError(err, "turns/start")
}

// compassApart is Compass, bounded.
func (c *Client) compassApart(ctx context.Context, t Tools, task string) (Compass, error) {
	answer, err := bounded(c, c.http.Timeout+grace, func() (Compass, error) { return t.Compass(ctx, task) })
	return answer, asError(err, "compass")
}

// asError makes an *Error of one that is none.
func asError(err error, op string) error {
	if _, is := errors.AsType[*Error](err); is || err == nil {
		return err
	}
	return &Error{Op: op, cause: err}
}
