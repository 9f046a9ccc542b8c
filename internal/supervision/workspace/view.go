package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/guardian"
)

// View is everything that the workspace holds (H-199).
type View struct {
	Services  []Service
	Guardians []*Guardian
	Head      string // of the inventory's chain, "" before its first event
}

// Service is a registered service.
type Service struct {
	guardian.Service
	Text string // the description, "" when there is none or it was erased
}

// Guardian is a policy as it stands now.
type Guardian struct {
	State  *guardian.State
	Status string // draft, verified, published or degraded (G-22)
	Tests  []guardian.Test
	Runs   []string // the synthetic runs of the verification
	Now    evidence.Time
	Head   string
	// Activation and NewRuns are what a request to activate the current revision, and one
	// for a new bound run, would be denied with now; nil: neither would be.
	Activation, NewRuns *authority.Denial
}

// View returns the inventory and every policy, oldest first.
func (w *Workspace) View(ctx context.Context) (*View, error) {
	subject, inventory, _, err := w.inventory(ctx)
	if err != nil {
		return nil, err
	}
	v := &View{Services: []Service{}, Guardians: []*Guardian{}}
	if subject.Revision > 0 {
		v.Head = subject.Link().String()
	}
	for _, s := range inventory.Services {
		shown := Service{Service: s}
		if s.Description != nil {
			text, err := w.Ledger.Text(ctx, subject.Key, s.Description.Text)
			if err != nil && !isNotFound(err) {
				return nil, unavailable(err)
			}
			shown.Text = text.Text
		}
		v.Services = append(v.Services, shown)
	}
	for _, id := range inventory.Guardians {
		g, err := w.Guardian(ctx, id)
		if err != nil {
			return nil, err
		}
		v.Guardians = append(v.Guardians, g)
	}
	return v, nil
}

// Guardian returns one policy.
func (w *Workspace) Guardian(ctx context.Context, id string) (*Guardian, error) {
	subject, s, now, err := w.policy(ctx, id)
	if err != nil {
		return nil, err
	}
	now = max(now, s.UpdatedAt)
	g := &Guardian{State: s, Status: s.At(now), Now: now, Head: subject.Link().String()}
	again := *s
	g.Activation = guardian.Begin(&again, now, [32]byte{}).Publish(s.Revision)
	_, g.NewRuns = s.Bindable(now)
	if v := s.Verification; v != nil {
		events, err := w.Ledger.Events(ctx, subject.Key, v.Sequence-1, 1)
		if err != nil {
			return nil, unavailable(err)
		}
		at := slices.IndexFunc(events, func(e evidence.Event) bool { return e.Sequence == v.Sequence })
		if at < 0 {
			return nil, fmt.Errorf("workspace: the chain of %s has no event %d", id, v.Sequence)
		}
		var completed guardian.Completed
		if err := json.Unmarshal(events[at].Data, &completed); err != nil {
			return nil, fmt.Errorf("workspace: event %s: %w", events[at].ID, err)
		}
		g.Tests, g.Runs = completed.Tests, completed.Runs
	}
	return g, nil
}

// ExportGuardian writes the signed evidence of a policy.
func (w *Workspace) ExportGuardian(ctx context.Context, id string, to io.Writer) error {
	return w.export(ctx, w.Key(id), "There is no such guardian policy.", to)
}

// ExportInventory writes the signed evidence of the inventory.
func (w *Workspace) ExportInventory(ctx context.Context, to io.Writer) error {
	return w.export(ctx, w.InventoryKey(), "Nothing has been registered yet.", to)
}

func (w *Workspace) export(ctx context.Context, key ledger.Key, missing string, to io.Writer) error {
	err := w.Runs.ExportChain(ctx, key, to)
	if authority.Denied(err, authority.NotFound) {
		return &authority.Denial{Reason: authority.NotFound, Detail: missing}
	}
	return err
}
