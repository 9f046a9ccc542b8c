package service

import (
	"fmt"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/propose"
)

// Catalog collects the entries that an adapter offers. The zero value is empty.
type Catalog struct{ entries []propose.Entry }

// Add adds an entry whose target is still to be named. What Add returns may be changed
// until the next call.
func (c *Catalog) Add(id, operation string, args any, label string, effect propose.Effect, facts ...authority.Fact) *propose.Entry {
	c.entries = append(c.entries, propose.Entry{
		EntryID: id, Kind: "service", OperationID: operation, Args: canon.MustMarshal(args), Label: label, Transport: "service", Effect: effect,
		Facts: append([]authority.Fact{}, facts...),
	})
	return &c.entries[len(c.entries)-1]
}

// Entries returns them in their order, or an error when there are more than a catalog
// may have.
func (c *Catalog) Entries() ([]propose.Entry, error) {
	if len(c.entries) > propose.MaxEntries {
		return nil, fmt.Errorf("service: there are more than %d controls", propose.MaxEntries)
	}
	return c.entries, nil
}
