package stream_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"countersign/internal/channel/stream"
)

// source is a growing list of frames.
type source struct {
	mu     sync.Mutex
	frames []stream.Frame
	wake   chan struct{}
	closed chan struct{}
	fail   error
	page   int
}

func newSource() *source {
	return &source{wake: make(chan struct{}, 1), closed: make(chan struct{}, 8), page: 2}
}

func (s *source) add(n int) {
	s.mu.Lock()
	for range n {
		id := int64(len(s.frames) + 1)
		s.frames = append(s.frames, stream.Frame{ID: id, Event: "test.happened", Data: fmt.Appendf(nil, `{"n":%d}`, id)})
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *source) head(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.frames)), nil
}

func (s *source) next(_ context.Context, after int64) ([]stream.Frame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.frames[after:]
	return slices.Clone(list[:min(len(list), s.page)]), s.fail
}
