package outbox

import (
	"context"
	"sync"
)

// memory is a store that ends with the process.
type memory struct {
	mu    sync.Mutex
	state State
}

func (m *memory) update(ctx context.Context, change func(*State) bool) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.state)
	return "", nil
}

func (m *memory) look() (*State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &State{append([]Entry(nil), m.state.Entries...), m.state.Counts}, nil
}
