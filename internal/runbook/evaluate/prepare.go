package evaluate

import (
	"context"
	"fmt"

	"countersign/internal/runbook/incident"
	"countersign/internal/runbook/tasks"
)

// prepare brings a new session into the state in which a task begins, through the API and
// the page alone, and fails unless the API then says that it is reached.
func (h *house) prepare(ctx context.Context, want tasks.State) (*browser, *State, error) {
	h.room()
	b := &browser{house: h}
	if err := b.reach(ctx, want); err != nil {
		return nil, nil, err
	}
	if want.ApprovalState == tasks.Foreign {
		if err := h.foreign(ctx, want); err != nil {
			return nil, nil, err
		}
	}
	got, err := b.state(ctx)
	if err != nil {
		return nil, nil, err
	}
	return b, got, got.isNot(want)
}

// reach brings a session to a state. The versions before it are resets.
func (b *browser) reach(ctx context.Context, want tasks.State) error {
	resets := want.ResourceVersion - 1
	if want.Staged != nil {
		resets--
	}
	if want.ApprovalState == tasks.Consumed {
		resets--
	}
	version := int64(1)
	for ; version <= resets; version++ {
		if err := b.ask(ctx, map[string]any{"operation": incident.Reset, "channel": incident.API, "expectedVersion": version}); err != nil {
			return err
		}
	}
	if want.Staged == nil {
		return nil
	}
	if err := b.ask(ctx, map[string]any{"operation": incident.Stage, "channel": incident.API, "mitigationId": *want.Staged, "expectedVersion": version}); err != nil {
		return err
	}
	if want.ApprovalState == tasks.None || want.ApprovalState == tasks.Foreign {
		return nil
	}
	s, err := b.state(ctx)
	if err != nil {
		return err
	}
	if err := b.approve(ctx, s.Staged); err != nil {
		return err
	}
	switch want.ApprovalState {
	case tasks.Expired:
		b.house.clock.Move(incident.ApprovalLife)
	case tasks.Consumed:
		return b.ask(ctx, map[string]any{
			"operation": incident.Execute, "channel": incident.API, "actionDigest": s.Staged.ActionDigest, "resourceVersion": s.Staged.ResourceVersion, "idempotencyKey": s.Staged.IdempotencyKey,
		})
	}
	return nil
}

// foreign makes another session with a live approval of the same action.
func (h *house) foreign(ctx context.Context, want tasks.State) error {
	other, want := &browser{house: h}, tasks.State{Staged: want.Staged, ApprovalState: tasks.Active, ResourceVersion: want.ResourceVersion}
	if err := other.reach(ctx, want); err != nil {
		return err
	}
	got, err := other.state(ctx)
	if err != nil {
		return err
	}
	return got.isNot(want)
}

// isNot says what of a state is not as wanted, or nil.
func (s *State) isNot(want tasks.State) error {
	staged, approval := "nothing", tasks.None
	if s.Staged != nil {
		staged = s.Staged.MitigationID
	}
	if s.Approval != nil {
		approval = s.Approval.State
	}
	wanted, wantedApproval := "nothing", want.ApprovalState
	if want.Staged != nil {
		wanted = *want.Staged
	}
	if wantedApproval == tasks.Foreign {
		wantedApproval = tasks.None // of this session
	}
	if staged != wanted || approval != wantedApproval || s.ResourceVersion != want.ResourceVersion {
		return fmt.Errorf("evaluate: the initial state is not reached: %s is staged, approval %s, version %d; want %s, %s, %d", staged, approval, s.ResourceVersion, wanted, wantedApproval, want.ResourceVersion)
	}
	return nil
}
