package bounds

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// How long clients may hold a request up. Once the server ends, a body has
// EndingBody to arrive, so that with a dispatch (8 s) after it the answer is there
// inside the server's grace, and it has to be read PollPause before that is over.
const (
	BodyTimeout  = 10 * time.Second       // to send a body
	RestTimeout  = 2 * time.Second        // for what a handler leaves: the end of a body, the end of an answer
	Piece        = 64 << 10               // bytes of a long answer that go at once
	PieceTimeout = 30 * time.Second       // to read one
	EndingBody   = 250 * time.Millisecond // to send a body once the server ends
	// PollPause is longer than the pauses after which http.Server.Shutdown looks
	// whether a connection has ended.
	PollPause = 600 * time.Millisecond
)

// Exchanges are the requests that are being answered. Their deadlines are set here
// alone, so that the end of the server holds for every one of them. The zero value
// is ready; it is safe for concurrent use.
type Exchanges struct {
	mu    sync.Mutex
	open  map[*Exchange]struct{}
	until time.Time // when answers have to be read; zero: the server goes on
}

// Enter takes a request in, whose body, if there is one, has to arrive. Answer it
// through what is returned and call Leave at its end. Once the server ends, net/http
// hands no more requests on, but one may be on its way.
func (e *Exchanges) Enter(w http.ResponseWriter, body bool) *Exchange {
	x := &Exchange{ResponseWriter: w, all: e, arriving: body}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		e.open = map[*Exchange]struct{}{}
	}
	e.open[x] = struct{}{}
	switch {
	case !e.until.IsZero():
		x.finish(e.until)
	case body:
		x.readBy(time.Now().Add(BodyTimeout))
	}
	return x
}

// Leave bounds what net/http still does for a request that was handled: it reads
// the rest of a body that nobody wanted, and sends the rest of the answer.
func (e *Exchanges) Leave(x *Exchange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open, x)
	if !e.until.IsZero() {
		return // the bounds of the end are closer
	}
	if x.arriving {
		x.readBy(time.Now().Add(RestTimeout))
	}
	x.writeBy(time.Now().Add(RestTimeout))
}

// End cuts short what clients hold up: bodies that have not arrived, and answers
// that are not read until then.
func (e *Exchanges) End(until time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until = until
	for x := range e.open {
		x.finish(until)
	}
}

// Exchange is the answer of one request. Its deadlines are set through
// http.ResponseController.
type Exchange struct {
	http.ResponseWriter
	all      *Exchanges
	began    bool
	arriving bool // the body has not arrived whole; under all.mu
	own      bool // the handler sets the deadlines of what it writes; under all.mu
	// Then, unless nil, is called once the handler has returned, and answers. Who waits
	// for long does so there: on a shallow stack, which is half the memory of one that
	// every layer in front has a part of.
	Then func()
}

// Began reports whether the answer has begun. It is for the handler's goroutine.
func (x *Exchange) Began() bool { return x.began }

// readBy and writeBy set deadlines of the connection. One that has none, as in
// tests, or that is gone has nothing to wait for.
func (x *Exchange) readBy(d time.Time) {
	_ = http.NewResponseController(x.ResponseWriter).SetReadDeadline(d)
}

func (x *Exchange) writeBy(d time.Time) {
	_ = http.NewResponseController(x.ResponseWriter).SetWriteDeadline(d)
}

// finish sets the deadlines of the end of the server.
func (x *Exchange) finish(until time.Time) {
	if x.arriving {
		x.readBy(time.Now().Add(EndingBody))
	}
	x.writeBy(until)
}

// SetReadDeadline is for http.ResponseController. No deadline means that the body
// has arrived. Once the server ends, a body has the time of the end and no other.
func (x *Exchange) SetReadDeadline(d time.Time) error {
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	x.arriving = x.arriving && !d.IsZero()
	if !x.all.until.IsZero() && !d.IsZero() {
		return nil
	}
	return http.NewResponseController(x.ResponseWriter).SetReadDeadline(d)
}

// SetWriteDeadline is for http.ResponseController. None is later than the end of
// the server.
func (x *Exchange) SetWriteDeadline(d time.Time) error {
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	x.own = true
	return x.limit(d)
}

// renew gives the next piece of a long answer its time, unless the handler sees to
// that itself.
func (x *Exchange) renew() error {
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	if x.own {
		return nil
	}
	return x.limit(time.Now().Add(PieceTimeout))
}

// limit sets a deadline that is no later than the end of the server. all.mu is held.
func (x *Exchange) limit(d time.Time) error {
	if until := x.all.until; !until.IsZero() && (d.IsZero() || d.After(until)) {
		d = until
	}
	return http.NewResponseController(x.ResponseWriter).SetWriteDeadline(d)
}

// WriteHeader sends the status.
func (x *Exchange) WriteHeader(status int) {
	x.began = true
	x.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the answer. A long one goes in pieces, each with its own time
// to be read, so that who reads slowly but steadily gets all of it. A stream sets its
// own deadlines.
func (x *Exchange) Write(b []byte) (n int, err error) {
	x.began = true
	for {
		m, err := x.ResponseWriter.Write(b[:min(len(b), Piece)])
		if n += m; err != nil || m == len(b) {
			return n, err
		}
		b = b[m:]
		if err := x.renew(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return n, err
		}
	}
}

// Unwrap lets http.ResponseController through.
func (x *Exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }
