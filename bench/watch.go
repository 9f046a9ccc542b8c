package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/channel/edge"
	"countersign/internal/channel/stream"
)

// watching is how many clients follow one stream.
const watching = 1000

// watchArgument starts this program as a server of one stream, by the product's API
// layer or by a plain handler. Every line of its input is an order: "memory" is
// answered with its resident bytes after a collection, "publish" puts one more frame
// into the stream.
const watchArgument = "watch"

// watchServer is what a child serves: a stream whose frames never get lost.
type watchServer interface {
	publish()
	handler(origin string) (http.Handler, error)
}

func watchChild(kind string, in io.Reader, out io.Writer) int {
	time.AfterFunc(childLife, func() { os.Exit(3) })
	var s watchServer = &plainRing{}
	if kind == "layer" {
		s = &layerRing{wakes: make(chan struct{}, 1)}
	}
	origin, err := serveLayer(s.handler)
	if err != nil {
		fmt.Fprintln(out, "fail", err)
		return 1
	}
	fmt.Fprintln(out, "origin", strings.TrimPrefix(origin, "http://"))
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch lines.Text() {
		case "publish":
			s.publish()
		case "memory":
			for range 4 { // a collection halves an idle stack once
				debug.FreeOSMemory()
			}
			resident, err := residentBytes()
			if err != nil {
				fmt.Fprintln(out, "fail", err)
				return 1
			}
			fmt.Fprintln(out, "memory", resident)
		}
	}
	return 0
}

// residentBytes is what the kernel says of this process.
func residentBytes() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, errors.New("unreadable statm")
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

var frameData = encode(map[string]string{"event": strings.Repeat("e", 480)})

// layerRing is a stream of the product: package stream's ring behind package edge.
type layerRing struct {
	mu     sync.Mutex
	frames []stream.Frame
	wakes  chan struct{}
	rings  stream.Rings
}

func (s *layerRing) publish() {
	s.mu.Lock()
	s.frames = append(s.frames, stream.Frame{ID: int64(len(s.frames) + 1), Event: "happened", Data: frameData})
	s.mu.Unlock()
	select {
	case s.wakes <- struct{}{}:
	default:
	}
}

func (s *layerRing) handler(origin string) (http.Handler, error) {
	a, err := edge.New(edge.Config{Origin: origin, Title: "bench", Version: "0"})
	if err != nil {
		return nil, err
	}
	edge.RegisterStream(a, edge.Stream{Operation: edge.Operation{Operation: huma.Operation{OperationID: "watch", Method: http.MethodGet, Path: "/watch"}}},
		func(context.Context, *struct{}) (stream.Source, error) {
			return s.rings.Share("one", func() stream.Source {
				return stream.Source{
					Head: func(context.Context) (int64, error) {
						s.mu.Lock()
						defer s.mu.Unlock()
						return int64(len(s.frames)), nil
					},
					Next: func(_ context.Context, after int64) ([]stream.Frame, error) {
						s.mu.Lock()
						defer s.mu.Unlock()
						return s.frames[after:len(s.frames):len(s.frames)], nil
					},
					Wake: s.wakes,
				}
			}), nil
		})
	return a, nil
}

// plainRing is the least that is not lossy: a slice of rendered frames, and a channel
// that is closed when there is one more.
type plainRing struct {
	mu     sync.Mutex
	frames [][]byte
	more   chan struct{}
}

func (s *plainRing) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames = append(s.frames, fmt.Appendf(nil, "id: %d\nevent: happened\ndata: %s\n\n", len(s.frames)+1, frameData))
	if s.more != nil {
		close(s.more)
		s.more = nil
	}
}

func (s *plainRing) behind(after int) ([][]byte, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more == nil {
		s.more = make(chan struct{})
	}
	return s.frames[after:len(s.frames):len(s.frames)], s.more
}

func (s *plainRing) handler(string) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush := w.(http.Flusher)
		flush.Flush()
		for at := 0; ; {
			frames, more := s.behind(at)
			if len(frames) > 0 {
				if _, err := w.Write(bytes.Join(frames, nil)); err != nil {
					return
				}
				flush.Flush()
				at += len(frames)
				continue
			}
			select {
			case <-more:
			case <-r.Context().Done():
				return
			}
		}
	}), nil
}

// watchLoad is what one server came to.
type watchLoad struct {
	perWatcher float64 // resident bytes
	deliveries float64 // a second
}

// watchers compares both servers.
func (b *bench) watchers(ctx context.Context) ([]line, error) {
	kinds := []string{"layer", "plain"}
	memory, rates := map[string][]float64{}, map[string][]float64{}
	for pair := range b.pairs {
		for i := range kinds {
			kind := kinds[(i+pair)%2]
			got, err := b.watch(ctx, kind)
			if err != nil {
				return nil, fmt.Errorf("watchers of the %s: %w", kind, err)
			}
			memory[kind], rates[kind] = append(memory[kind], got.perWatcher), append(rates[kind], got.deliveries)
		}
	}
	return []line{
		{row: 8, name: "memory of an idle watcher / plain handler", pairs: ratios(memory["layer"], memory["plain"]), aim: atMost(1.25),
			note: fmt.Sprintf("%.1f and %.1f KB resident each, of %d", median(memory["layer"])/1024, median(memory["plain"])/1024, watching)},
		{row: 8, name: "deliveries to 1,000 watchers / plain ring", pairs: ratios(rates["layer"], rates["plain"]), aim: atLeast(0.8),
			note: fmt.Sprintf("%.0f and %.0f/s; a frame is published when the one before has reached everybody; every client got every frame in order, or there would be no number", median(rates["layer"]), median(rates["plain"]))},
	}, nil
}

// watch starts a server, connects the watchers, weighs them, and publishes for a
// window.
func (b *bench) watch(ctx context.Context, kind string) (_ *watchLoad, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd, in, out, err := b.start(ctx, watchArgument, kind)
	if err != nil {
		return nil, err
	}
	defer func() {
		in.Close()
		if waitErr := cmd.Wait(); err == nil && waitErr != nil {
			err = waitErr
		}
	}()
	lines := bufio.NewScanner(out)
	answer := func(name string) (string, error) {
		if !lines.Scan() {
			return "", errors.Join(errors.New("the server has ended"), lines.Err())
		}
		got, rest, _ := strings.Cut(lines.Text(), " ")
		if got != name {
			return "", errors.New(lines.Text())
		}
		return rest, nil
	}
	weigh := func() (float64, error) {
		if _, err := fmt.Fprintln(in, "memory"); err != nil {
			return 0, err
		}
		text, err := answer("memory")
		if err != nil {
			return 0, err
		}
		return strconv.ParseFloat(text, 64)
	}
	addr, err := answer("origin")
	if err != nil {
		return nil, err
	}
	before, err := weigh()
	if err != nil {
		return nil, err
	}
	a := &audience{failed: make(chan error, watching), all: make(chan struct{}, 1)}
	defer a.leave()
	for range watching {
		if err := a.join(addr); err != nil {
			return nil, err
		}
	}
	after, err := weigh()
	if err != nil {
		return nil, err
	}
	got := &watchLoad{perWatcher: (after - before) / watching}
	start, frames := time.Now(), 0
	for ; time.Since(start) < b.window; frames++ {
		if _, err := fmt.Fprintln(in, "publish"); err != nil {
			return nil, err
		}
		select {
		case <-a.all:
		case err := <-a.failed:
			return nil, err
		case <-time.After(childLife):
			return nil, errors.New("a frame did not reach everybody")
		}
	}
	got.deliveries = float64(frames) * watching / time.Since(start).Seconds()
	return got, nil
}

// audience are the clients of one stream.
type audience struct {
	conns  []net.Conn
	got    atomic.Int64
	all    chan struct{} // when each has one frame more
	failed chan error
	gone   atomic.Bool
}

func (a *audience) join(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	a.conns = append(a.conns, conn)
	if _, err := fmt.Fprintf(conn, "GET /watch HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", addr); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the stream is refused with %d", response.StatusCode)
	}
	go a.follow(bufio.NewReader(response.Body))
	return nil
}

// follow counts frames, each of which must be the next.
func (a *audience) follow(r *bufio.Reader) {
	for next := int64(1); ; next++ {
		id, err := frameID(r)
		if err == nil && id != next {
			err = fmt.Errorf("frame %d came where %d was due", id, next)
		}
		if err != nil {
			if !a.gone.Load() {
				a.failed <- err
			}
			return
		}
		if a.got.Add(1)%watching == 0 {
			a.all <- struct{}{}
		}
	}
}

func frameID(r *bufio.Reader) (id int64, err error) {
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		text = strings.TrimSuffix(text, "\n")
		if rest, ok := strings.CutPrefix(text, "id: "); ok {
			if id, err = strconv.ParseInt(rest, 10, 64); err != nil {
				return 0, err
			}
		} else if rest, ok := strings.CutPrefix(text, "data: "); ok && !json.Valid([]byte(rest)) {
			return 0, errors.New("a frame is damaged")
		} else if text == "" && id != 0 {
			return id, nil
		}
	}
}

func (a *audience) leave() {
	a.gone.Store(true)
	for _, c := range a.conns {
		c.Close()
	}
}
