package ledger

import (
	"errors"
	"maps"
	"slices"
)

// Installation is what a database says of the installation that it belongs to. One
// that holds no ledger says nothing.
type Installation struct {
	Migrations []string            // that were applied, by name, in order
	Keys       map[string]string   // fingerprints of the keys in use, by the key's name
	Former     map[string][]string // fingerprints of keys that were replaced, by name
}

// Knows reports whether keys with these fingerprints are the ones in use, or were at
// some time: then former names those that were replaced, in order.
func (i Installation) Knows(fingerprints map[string]string) (former []string, known bool) {
	if len(fingerprints) != len(i.Keys) {
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(fingerprints)) {
		switch given := fingerprints[name]; {
		case given == i.Keys[name]:
		case slices.Contains(i.Former[name], given):
			former = append(former, name)
		default:
			return nil, false
		}
	}
	return former, true
}

var (
	// ErrServed is about a ledger that cannot be had alone, because a server has it.
	ErrServed = errors.New("ledger: it is being served")
	// ErrOtherKey is about a key that is not the one in use nor the next.
	ErrOtherKey = errors.New("ledger: its key is another")
)
