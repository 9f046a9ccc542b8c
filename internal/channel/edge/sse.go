package edge

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"countersign/internal/authority"
	"countersign/internal/channel/bounds"
	"countersign/internal/channel/stream"
)

const (
	// heartbeat is how often a stream sends a comment and is checked again (G-15).
	heartbeat = 15 * time.Second
	// writeTimeout ends a stream whose client does not read.
	writeTimeout = 10 * time.Second
)

// Stream adds what is special about streams to an operation.
type Stream struct {
	Operation
	// Heartbeat is the time between two comments, 0 means 15 s; WriteTimeout is how
	// long a client may take to accept one write, 0 means 10 s. Only tests set them.
	Heartbeat, WriteTimeout time.Duration
}

type streamed struct{ Body func(huma.Context) }

type lastEventKey struct{}

// RegisterStream adds a Server-Sent Events operation. Last-Event-ID resumes
// strictly behind it; what is not an integer, or above the head, is 400. open
// decides whether the stream may be read and returns its source. The stream ends
// when the client leaves or stops reading, when Check or the source fail, and
// when the server shuts down; clients come back with Last-Event-ID.
func RegisterStream[I any](a *API, op Stream, open func(context.Context, *I) (stream.Source, error)) {
	o := a.operation(op.Operation, false)
	o.Parameters = append(o.Parameters, &huma.Param{
		Name: "Last-Event-ID", In: "header", Description: "Resume behind the event with this id.", Example: 17,
		Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(float64)},
	})
	o.Responses["200"] = &huma.Response{
		Description: "Events as they are recorded; a comment at least every 15 s.",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}
	o.Middlewares = append(o.Middlewares, a.readLastEventID)
	s := streaming{a, o.OperationID, cmp.Or(op.Heartbeat, heartbeat), cmp.Or(op.WriteTimeout, writeTimeout)}
	huma.Register(a.huma, o, func(ctx context.Context, in *I) (*streamed, error) {
		source, err := open(ctx, in)
		if err != nil {
			return nil, a.refused(ctx, o.OperationID, err)
		}
		after, _ := ctx.Value(lastEventKey{}).(int64)
		return &streamed{func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			w.(*bounds.Exchange).Then = func() { s.serve(w, r, source, after) }
		}}, nil
	})
}

func (a *API) readLastEventID(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	given := r.Header["Last-Event-Id"]
	if len(given) == 0 {
		next(ctx)
		return
	}
	after, err := strconv.ParseInt(given[0], 10, 64)
	if err != nil || after < 0 || strconv.FormatInt(after, 10) != given[0] {
		Refuse(authority.InvalidRequest, "").at("header.Last-Event-ID", "not the id of an event").write(w)
		return
	}
	next(huma.WithValue(ctx, lastEventKey{}, after))
}

// EndStreams ends all streams and every one that is opened later.
func (a *API) EndStreams() { a.end.Do(func() { close(a.ended) }) }

// streaming writes one kind of stream.
type streaming struct {
	api          *API
	route        string
	heartbeat    time.Duration
	writeTimeout time.Duration
}

func (s streaming) serve(w http.ResponseWriter, r *http.Request, source stream.Source, after int64) {
	if source.Close != nil {
		defer source.Close()
	}
	head, err := source.Head(r.Context())
	if err == nil && after > head {
		err = Refuse(authority.InvalidRequest, "").at("header.Last-Event-ID", "above the newest event")
	}
	if err != nil {
		s.api.refused(r.Context(), s.route, err).write(w)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	out := &client{w, http.NewResponseController(w), s.writeTimeout}
	if err := s.follow(r.Context(), out, source, after); err != nil && !errors.Is(err, errGone) {
		// The status is sent: what is left is to tell the operator and to hang up.
		s.api.refused(r.Context(), s.route, err)
	}
}

// errGone means that the client no longer reads, which is nobody's fault.
var errGone = errors.New("edge: the client has left")

func (s streaming) follow(ctx context.Context, out *client, source stream.Source, after int64) error {
	ticker := time.NewTicker(s.heartbeat)
	defer ticker.Stop()
	if err := out.send(nil); err != nil {
		return err
	}
	for {
		list, err := source.Next(ctx, after)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			chunk, err := stream.Render(list, after)
			if err != nil {
				return err
			}
			if err := out.send(chunk); err != nil {
				return err
			}
			after = list[len(list)-1].ID
		}
		switch s.wait(ctx, source.Wake, ticker.C, len(list) == 0) {
		case over:
			return nil
		case beat:
			if source.Check != nil {
				if err := source.Check(ctx); err != nil {
					return err
				}
			}
			if err := out.send([]byte(": still here\n\n")); err != nil {
				return err
			}
		}
	}
}

// What a stream does next.
type step uint8

const (
	read step = iota // ask the source
	beat             // check, send a comment, ask the source
	over
)

// always is ready to be received from.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// wait blocks while there is nothing to do. A stream that is not idle does not
// block, and ends and beats no later for being busy.
func (s streaming) wait(ctx context.Context, wake <-chan struct{}, tick <-chan time.Time, idle bool) step {
	select {
	case <-ctx.Done():
		return over
	case <-s.api.ended:
		return over
	default:
	}
	select {
	case <-tick:
		return beat
	default:
	}
	busy := always
	if idle {
		busy = nil
	}
	select {
	case <-ctx.Done():
		return over
	case <-s.api.ended:
		return over
	case <-tick:
		return beat
	case <-wake:
	case <-busy:
	}
	return read
}

// client is who reads a stream.
type client struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// send writes and flushes within the timeout, or returns errGone.
func (c *client) send(chunk []byte) error {
	if err := c.control.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return errGone
	}
	if _, err := c.w.Write(chunk); err != nil {
		return errGone
	}
	if err := c.control.Flush(); err != nil {
		return errGone
	}
	// A deadline that passes while nothing is written would end an HTTP/2 stream.
	if err := c.control.SetWriteDeadline(time.Time{}); err != nil {
		return errGone
	}
	return nil
}
