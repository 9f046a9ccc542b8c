package ledger

import "sync"

// Hub wakes watchers of subjects inside one process. A wake-up carries no data
// and may be spurious or coalesced: a watcher reads the ledger to see what is
// new. The zero Hub is ready; it must not be copied.
type Hub struct {
	mu       sync.Mutex
	watchers map[Key]map[*Watcher]struct{}
}

// Watcher receives wake-ups for one subject until Close.
type Watcher struct {
	C   <-chan struct{}
	c   chan struct{}
	key Key
	hub *Hub
}

// Watch starts watching key.
func (h *Hub) Watch(key Key) *Watcher {
	c := make(chan struct{}, 1)
	w := &Watcher{C: c, c: c, key: key, hub: h}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers = make(map[Key]map[*Watcher]struct{})
	}
	if h.watchers[key] == nil {
		h.watchers[key] = make(map[*Watcher]struct{})
	}
	h.watchers[key][w] = struct{}{}
	return w
}

// Close ends the wake-ups. It may be called more than once.
func (w *Watcher) Close() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers[w.key], w)
	if len(h.watchers[w.key]) == 0 {
		delete(h.watchers, w.key)
	}
}

// Wake wakes every watcher of the keys. It never blocks.
func (h *Hub) Wake(keys ...Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		for w := range h.watchers[key] {
			select {
			case w.c <- struct{}{}:
			default:
			}
		}
	}
}

// Watched returns the keys that have a watcher.
func (h *Hub) Watched() []Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := make([]Key, 0, len(h.watchers))
	for key := range h.watchers {
		keys = append(keys, key)
	}
	return keys
}
