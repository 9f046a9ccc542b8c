package sqlite

import (
	"bytes"
	"sync"
	"time"

	"countersign/internal/ledger"
)

// recent holds subjects as the newest commits left them. While the folder is locked
// nobody but this process's writer changes the file, and only the writer puts
// subjects here, behind each COMMIT; so what is here is what a read would find. The
// zero value is ready; it must not be copied.
type recent struct {
	mu       sync.RWMutex
	subjects map[ledger.Key]ledger.Subject
}

// maxRecent bounds the subjects, each with a state of a few KB.
const maxRecent = 1024

func (r *recent) get(key ledger.Key) (ledger.Subject, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s, ok := r.subjects[key]
	return s, ok
}

// put takes in the writes of a Change that is stored.
func (r *recent) put(c *change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range c.writes {
		w := &c.writes[i]
		old, known := r.subjects[w.Key]
		if w.Revision > 0 && old.Revision != w.Revision {
			delete(r.subjects, w.Key) // what an update without events keeps is not known here
			if len(w.Events) == 0 {
				continue
			}
			old, known = ledger.Subject{}, false
		}
		if !known && len(r.subjects) >= maxRecent {
			for victim := range r.subjects {
				delete(r.subjects, victim)
				break
			}
		}
		if r.subjects == nil {
			r.subjects = map[ledger.Key]ledger.Subject{}
		}
		r.subjects[w.Key] = w.after(old)
	}
}

// after is the subject that the write makes of the one before it.
func (w *write) after(old ledger.Subject) ledger.Subject {
	s := ledger.Subject{
		Key: w.Key, Revision: w.Revision + 1, Sequence: old.Sequence, Head: w.head, State: bytes.Clone(w.State), UpdatedAt: old.UpdatedAt,
	}
	if n := len(w.Events); n > 0 {
		s.Sequence = w.Events[n-1].Sequence
	}
	if at, ok := w.updated.(int64); ok {
		s.UpdatedAt = time.UnixMilli(at).UTC()
	}
	if at, ok := w.due.(int64); ok {
		s.Due = time.UnixMilli(at).UTC()
	}
	return s
}

// forget drops everything: what became of the last group has to be read.
func (r *recent) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.subjects)
}
