// Package outbox gathers what other replicas are to hear of after commits, and packs it
// into notifications that a PostgreSQL server takes.
package outbox

import (
	"encoding/json"
	"sync"

	"countersign/internal/ledger"
)

// payloadLimit is below the 8,000 bytes that the server takes.
const payloadLimit = 7000

// Outbox gathers subjects until they are told. It is safe for concurrent use.
type Outbox struct {
	mu    sync.Mutex
	keys  map[ledger.Key]struct{}
	Ready chan struct{} // holds one token when there is something to tell
}

// New returns an empty outbox.
func New() *Outbox {
	return &Outbox{keys: make(map[ledger.Key]struct{}), Ready: make(chan struct{}, 1)}
}

// Add gathers keys; it never waits.
func (o *Outbox) Add(keys []ledger.Key) {
	if len(keys) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range keys {
		o.keys[key] = struct{}{}
	}
	select {
	case o.Ready <- struct{}{}:
	default:
	}
}

// Take empties the outbox into payloads.
func (o *Outbox) Take() []string {
	o.mu.Lock()
	keys := o.keys
	o.keys = make(map[ledger.Key]struct{})
	o.mu.Unlock()
	var payloads []string
	var page []ledger.Key
	size := 2
	flush := func() {
		if len(page) == 0 {
			return
		}
		b, err := json.Marshal(page)
		if err != nil || len(b) > payloadLimit {
			b = []byte("*") // everything
		}
		payloads = append(payloads, string(b))
		page, size = nil, 2
	}
	for key := range keys {
		// Escaping may lengthen a text; flush measures what comes out.
		n := len(key.Workspace) + len(key.Kind) + len(key.ID) + len(`{"Workspace":"","Kind":"","ID":""},`)
		if size+n > payloadLimit {
			flush()
		}
		page, size = append(page, key), size+n
	}
	flush()
	return payloads
}
