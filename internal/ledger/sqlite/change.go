package sqlite

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
)

// change is a Change with everything worked out that needs no row of the
// ledger, so that the writer only binds values.
type change struct {
	*ledger.Change
	workspace string
	newest    time.Time // timestamp of the newest event; a commit's time is never before it
	writes    []write
}

type write struct {
	*ledger.Write
	attributes []byte // digest of the attributes
	due        any    // milliseconds or nil
	head       string // after the events
	updated    any    // milliseconds of the newest event, nil without events
}

func prepare(c *ledger.Change) (*change, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p := &change{Change: c, workspace: c.Scope(), writes: make([]write, len(c.Writes))}
	for i := range c.Writes {
		w := write{Write: &c.Writes[i], attributes: digest(c.Writes[i].Attributes), head: c.Writes[i].Head}
		if !w.Due.IsZero() {
			w.due = w.Due.UnixMilli()
		}
		if n := len(w.Events); n > 0 {
			at, err := evidence.ParseTime(w.Events[n-1].Timestamp)
			if err != nil {
				return nil, err
			}
			w.head, w.updated = w.Events[n-1].Hash, at.UnixMilli()
			if at.After(p.newest) {
				p.newest = at
			}
		}
		p.writes[i] = w
	}
	return p, nil
}

// digest is the same for two sets of attributes exactly when the sets are.
func digest(attributes []ledger.Attribute) []byte {
	if len(attributes) == 0 {
		return []byte{}
	}
	sorted := slices.Clone(attributes)
	slices.SortFunc(sorted, func(a, b ledger.Attribute) int { return cmp.Compare(a.Name, b.Name) })
	var text []byte
	for _, a := range sorted {
		for _, s := range [...]string{a.Name, a.Value} {
			text = binary.AppendUvarint(text, uint64(len(s)))
			text = append(text, s...)
		}
	}
	sum := sha256.Sum256(text)
	return sum[:]
}
