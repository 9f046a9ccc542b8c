package records

import (
	"sync"

	"countersign/internal/ledger"
	"countersign/internal/supervision/run"
)

// memory keeps what was last read or stored of some subjects. The zero value is
// ready; it must not be copied.
type memory struct {
	mu       sync.Mutex
	subjects map[ledger.Key]remembered
}

// remembered is shared and never changed. Of a run it has the decoded state, of a
// local service the bytes.
type remembered struct {
	ledger.Subject
	state    *run.State
	observed *run.Observed // nil: not read yet
}

// maxRemembered bounds the subjects in memory, with some 30 KB each.
const maxRemembered = 1024

// state returns a copy of a run's state at the subject's revision, or nil.
func (m *memory) state(s ledger.Subject) *run.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.subjects[s.Key]; ok && r.Revision == s.Revision && r.Head == s.Head {
		return r.state.Clone()
	}
	return nil
}

// newest returns the newest that is known of a run, or a nil state.
func (m *memory) newest(key ledger.Key) (ledger.Subject, *run.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.subjects[key]
	if !ok {
		return ledger.Subject{}, nil
	}
	return r.Subject, r.state.Clone()
}

// service returns the newest that is known of a local service.
func (m *memory) service(key ledger.Key) (ledger.Subject, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.subjects[key]
	return r.Subject, ok
}

// observed returns the run's observation of that id, or nil.
func (m *memory) observed(key ledger.Key, id string) *run.Observed {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.subjects[key].observed; o != nil && o.ObservationID == id {
		return o
	}
	return nil
}

// saw adds an observation to a run that is remembered.
func (m *memory) saw(key ledger.Key, o *run.Observed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.subjects[key]; ok {
		r.observed = o
		m.subjects[key] = r
	}
}

// stored remembers the writes of a commit, the run's first; nobody changes s or
// observed any more.
func (m *memory) stored(writes []ledger.Write, s *run.State, observed *run.Observed) {
	for i, w := range writes {
		now := ledger.Subject{Key: w.Key, Revision: w.Revision + 1, Head: w.Head}
		if i > 0 {
			now.State = w.State
			m.keep(now, nil, nil)
			continue
		}
		last := w.Events[len(w.Events)-1]
		now.Sequence, now.Head = last.Sequence, last.Hash
		m.keep(now, s, observed)
	}
}

// keep remembers a subject, and of a run its state, that nobody changes any more.
func (m *memory) keep(subject ledger.Subject, s *run.State, observed *run.Observed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, known := m.subjects[subject.Key]
	switch {
	case known && old.Revision > subject.Revision:
		return
	case known && observed == nil:
		observed = old.observed
	case !known && len(m.subjects) >= maxRemembered:
		for victim := range m.subjects {
			delete(m.subjects, victim)
			break
		}
	}
	if m.subjects == nil {
		m.subjects = map[ledger.Key]remembered{}
	}
	if s != nil {
		subject.State = nil
	}
	m.subjects[subject.Key] = remembered{subject, s, observed}
}
