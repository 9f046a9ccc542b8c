package gateway

import (
	"sync"

	"countersign/internal/ledger"
	"countersign/internal/supervision/run"
)

// memory keeps what was last decoded or stored of some runs, so that a cycle does
// not decode state and catalog anew for each of its steps. It decides nothing: the
// ledger is asked every time which revision is the newest, and what is remembered
// counts only for exactly that one. The zero value is ready; it must not be copied.
type memory struct {
	mu   sync.Mutex
	runs map[ledger.Key]remembered
}

// remembered is shared and never changed.
type remembered struct {
	revision int64
	head     string
	state    *run.State
	observed *run.Observed // nil: not read yet
}

// maxRemembered bounds the runs in memory, with some 30 KB each.
const maxRemembered = 512

// state returns a copy of the state at the subject's revision, or nil.
func (m *memory) state(s *ledger.Subject) *run.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.runs[s.Key]; ok && r.revision == s.Revision && r.head == s.Head {
		return r.state.Clone()
	}
	return nil
}

// keep remembers a state that is not changed any more.
func (m *memory) keep(key ledger.Key, revision int64, head string, s *run.State, observed *run.Observed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, known := m.runs[key]
	switch {
	case known && old.revision > revision:
		return
	case known && observed == nil:
		observed = old.observed
	case !known && len(m.runs) >= maxRemembered:
		for any := range m.runs {
			delete(m.runs, any)
			break
		}
	}
	if m.runs == nil {
		m.runs = map[ledger.Key]remembered{}
	}
	m.runs[key] = remembered{revision, head, s, observed}
}

// observed returns the run's observation of that id, or nil.
func (m *memory) observed(key ledger.Key, id string) *run.Observed {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.runs[key].observed; o != nil && o.ObservationID == id {
		return o
	}
	return nil
}

// saw adds an observation to a run that is remembered.
func (m *memory) saw(key ledger.Key, o *run.Observed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.runs[key]; ok {
		r.observed = o
		m.runs[key] = r
	}
}
