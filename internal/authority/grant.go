package authority

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/money"
)

// Bounds of a grant's life in minutes (G-07).
const (
	MaxGrantMinutes      = 60
	MaxExactGrantMinutes = 5
)

// Kinds of a grant.
const (
	KindBounded = "bounded" // limits, approved up front
	KindExact   = "exact"   // one effect, approved as it is, for one use
)

// Rules of a constraint.
const (
	RuleEquals = "equals" // the fact is exactly the value
	RuleAtMost = "atMost" // both are amounts or counts, and the fact is not larger
)

// Constraint is one of the owner's terms in the form a check can apply without
// knowing the service.
type Constraint struct {
	Name  string `json:"name"`
	Rule  string `json:"rule"`
	Value string `json:"value"`
}

// Fact is what an action says about itself, to be held against the constraint
// of the same name.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (c Constraint) admits(value string) bool {
	switch c.Rule {
	case RuleEquals:
		return value == c.Value
	case RuleAtMost:
		limit, err1 := money.Parse(c.Value)
		n, err2 := money.Parse(value)
		return err1 == nil && err2 == nil && n <= limit
	}
	return false
}

// Grant is what an owner allowed, immutable once created (H-014, G-07). What is
// used of it stands in [Usage].
type Grant struct {
	ID            string           `json:"grantId"`
	Kind          string           `json:"kind"`
	Operations    []string         `json:"operations"`
	OnApproval    []string         `json:"onApproval"` // operations that the owner approves one by one, within these constraints
	Constraints   []Constraint     `json:"constraints"`
	Currency      string           `json:"currency"`
	MaxTotalCents money.Cents      `json:"maxTotalCents"`
	MaxUses       map[string]int64 `json:"maxUses"` // by operation; an operation without an entry is not counted
	ExpiresAt     evidence.Time    `json:"expiresAt"`
	ProposalID    *string          `json:"transactionProposalId"` // of an exact grant, else nil
	EffectDigest  *string          `json:"effectDigest"`          // of an exact grant: the one effect that was approved
}

// Usage counts the uses of a grant by operation. A use is counted at the claim
// of a permit and given back exactly when the reservation is released (L-11).
type Usage map[string]int64

// Covers reports whether the grant names the operation.
func (g *Grant) Covers(operation string) bool { return slices.Contains(g.Operations, operation) }

// Approvable reports whether the owner may approve single effects of the operation
// within the grant's constraints.
func (g *Grant) Approvable(operation string) bool { return slices.Contains(g.OnApproval, operation) }

// Approves reports whether the grant was made for exactly this proposal and effect.
func (g *Grant) Approves(proposalID, effectDigest string) bool {
	return g.Kind == KindExact && g.ProposalID != nil && *g.ProposalID == proposalID && g.EffectDigest != nil && *g.EffectDigest == effectDigest
}

// Live reports whether the grant has not expired: at now == ExpiresAt it has.
func (g *Grant) Live(now evidence.Time) bool { return now < g.ExpiresAt }

// UsesLeft reports whether one more use of the operation is within the limit.
func (g *Grant) UsesLeft(operation string, used Usage) bool {
	limit, counted := g.MaxUses[operation]
	return !counted || used[operation] < limit
}

// Admits reports whether every fact satisfies the constraint of its name. A
// fact without a constraint is not admitted: what the owner did not speak of is
// not allowed.
func (g *Grant) Admits(facts []Fact) bool {
	for _, fact := range facts {
		i := slices.IndexFunc(g.Constraints, func(c Constraint) bool { return c.Name == fact.Name })
		if i < 0 || !g.Constraints[i].admits(fact.Value) {
			return false
		}
	}
	return true
}
