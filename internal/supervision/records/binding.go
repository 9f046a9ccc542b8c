package records

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/run"
)

// The attribute that tells runs of a policy's verification (H-207) and of the attack suite
// from all others.
const (
	AttributePurpose    = "purpose"
	PurposeOperation    = "operation"
	PurposeVerification = "verification"
	PurposeAttack       = "attack"
)

// Purpose is that attribute of a run.
func Purpose(s *run.State) ledger.Attribute {
	return ledger.Attribute{Name: AttributePurpose, Value: purpose(s.Config)}
}

func purpose(c run.Config) string {
	switch {
	case c.Verification:
		return PurposeVerification
	case c.Attack:
		return PurposeAttack
	}
	return PurposeOperation
}

// purposes say what a synthetic run is there for.
var purposes = map[string]string{
	PurposeVerification: "Synthetic run of a guardian policy's verification.",
	PurposeAttack:       "Synthetic run of the attack suite.",
}

// synthetic says of a run what is made up, nil when nothing is.
func (r *Reader) synthetic(c run.Config) *string {
	labels := []string{}
	if label, ok := purposes[purpose(c)]; ok {
		labels = append(labels, label)
	}
	if label, ok := r.Synthetic[c.Service]; ok && c.Target == run.TargetLocal {
		labels = append(labels, label)
	}
	if len(labels) == 0 {
		return nil
	}
	all := strings.Join(labels, " ")
	return &all
}

// Policy reads a guardian policy, with the guard of a decision that leans on it and the
// time that it was read at.
func (r *Reader) Policy(ctx context.Context, id string) (*guardian.State, ledger.Guard, evidence.Time, error) {
	key := ledger.Key{Workspace: r.workspace, Kind: guardian.Kind, ID: id}
	subject, now, err := r.ledger.Load(ctx, key)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, ledger.Guard{}, 0, &authority.Denial{Reason: authority.NotFound, Detail: "There is no such guardian policy."}
	}
	if err != nil {
		return nil, ledger.Guard{}, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	s, err := guardian.DecodeState(subject.State)
	if err != nil {
		return nil, ledger.Guard{}, 0, err
	}
	return s, ledger.Guard{Key: key, Revision: subject.Revision}, max(evidence.TimeOf(now), s.UpdatedAt), nil
}

// binding labels the policy that the run is bound to as it stands now: current,
// degraded, superseded or under_verification. The run itself keeps its snapshot (H-217).
func (r *Reader) binding(ctx context.Context, s *run.State) (string, error) {
	if s.Binding == nil {
		return "", nil
	}
	policy, _, now, err := r.Policy(ctx, s.Binding.GuardianID)
	if err != nil {
		return "", err
	}
	return policy.Label(s.Binding, now), nil
}
