package stream

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
)

// ringFrames and ringBytes bound what a ring keeps. A client that lags further
// behind reads for himself until he has caught up.
const (
	ringFrames = 1024
	ringBytes  = 1 << 20
)

// Rings lets the clients of one stream share one source: each new frame is read and
// rendered once, into a ring, in which every client has his place. The zero value is
// ready; it must not be copied. It is safe for concurrent use.
type Rings struct {
	mu    sync.Mutex
	rings map[string]*ring
}

// Share returns a client's view of the stream with that name. The first client's
// open makes the source that all use; it is closed when the last has left. Check is
// the caller's to set.
func (r *Rings) Share(name string, open func() Source) Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	shared := r.rings[name]
	if shared == nil || shared.failed() { // who still holds on to a failed one is told so
		if r.rings == nil {
			r.rings = map[string]*ring{}
		}
		ctx, stop := context.WithCancel(context.Background())
		shared = &ring{source: open(), stop: stop, clients: map[chan struct{}]bool{}}
		r.rings[name] = shared
		go shared.run(ctx)
	}
	wake := make(chan struct{}, 1)
	shared.join(wake)
	return Source{
		Head: shared.source.Head,
		Next: shared.next,
		Wake: wake,
		Close: func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if shared.leave(wake) && r.rings[name] == shared {
				delete(r.rings, name)
			}
		},
	}
}

// ring holds the newest frames of one stream.
type ring struct {
	source Source
	stop   context.CancelFunc

	mu      sync.Mutex
	clients map[chan struct{}]bool
	begun   bool
	frames  []Frame // in order and without a gap
	last    int64   // id of the newest frame that was read, or of the one behind which the ring begins
	bytes   int
	err     error // ends every client
}

func (r *ring) join(wake chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients[wake] = true
}

// leave reports whether the ring has ended with it.
func (r *ring) leave(wake chan struct{}) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.clients, wake)
	if len(r.clients) > 0 {
		return false
	}
	r.stop()
	return true
}

// run reads what is new until the last client has left or the source fails.
func (r *ring) run(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			r.fail(fmt.Errorf("stream: a stream's source panicked: %v", p))
		}
	}()
	if r.source.Close != nil {
		defer r.source.Close()
	}
	head, err := r.source.Head(ctx)
	r.mu.Lock()
	r.last, r.begun = head, true
	r.wake() // what came before is found by who looks again
	r.mu.Unlock()
	for err == nil {
		var frames []Frame
		if frames, err = r.source.Next(ctx, r.last); err == nil && len(frames) > 0 {
			r.keep(frames)
			continue
		}
		if err != nil {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-r.source.Wake:
		}
	}
	if ctx.Err() == nil {
		r.fail(err)
	}
}

func (r *ring) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// keep renders and appends what was read, drops the oldest over the bounds, and
// wakes the clients.
func (r *ring) keep(frames []Frame) {
	for i := range frames {
		frames[i].text = frames[i].render()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range frames {
		r.frames, r.bytes, r.last = append(r.frames, f), r.bytes+len(f.text), f.ID
	}
	drop := 0
	for len(r.frames)-drop > ringFrames || r.bytes > ringBytes {
		r.bytes -= len(r.frames[drop].text)
		drop++
	}
	clear(r.frames[:drop])
	r.frames = r.frames[drop:]
	r.wake()
}

func (r *ring) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	r.wake()
}

func (r *ring) wake() {
	for c := range r.clients {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// next returns a client's frames behind the id after. What is older than the ring he
// reads for himself.
func (r *ring) next(ctx context.Context, after int64) ([]Frame, error) {
	r.mu.Lock()
	if r.err != nil {
		defer r.mu.Unlock()
		return nil, r.err
	}
	behind := r.last // the ring begins behind this id
	if len(r.frames) > 0 {
		behind = r.frames[0].ID - 1
	}
	if !r.begun || after < behind {
		r.mu.Unlock()
		return r.source.Next(ctx, after)
	}
	defer r.mu.Unlock()
	i, _ := slices.BinarySearchFunc(r.frames, after+1, func(f Frame, id int64) int { return cmp.Compare(f.ID, id) })
	return slices.Clone(r.frames[i:]), nil
}
