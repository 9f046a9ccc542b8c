package records

// MaxRemembered bounds the subjects in memory.
const MaxRemembered = maxRemembered

// Remembered counts the subjects in memory.
func (r *Reader) Remembered() int {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	return len(r.memory.subjects)
}
