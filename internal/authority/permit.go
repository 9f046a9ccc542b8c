package authority

import (
	"time"

	"countersign/evidence"
)

// PermitLife is the longest life of a step permit (H-080).
const PermitLife = 30 * time.Second

// Bindings are the ten things a step permit is good for (H-079). A permit used
// for anything that differs in one of them authorizes nothing.
type Bindings struct {
	RunID                 string  `json:"runId"`
	Goal                  string  `json:"goal"` // goal digest, so that a clarification voids the permit
	TurnID                string  `json:"turnId"`
	GrantID               string  `json:"grantId"`
	ObservationID         string  `json:"observationId"`
	DocumentEpoch         int64   `json:"documentEpoch"`
	StateRevision         int64   `json:"stateRevision"`
	ActionDigest          string  `json:"actionDigest"`
	OperationID           string  `json:"operationId"`
	TransactionProposalID *string `json:"transactionProposalId"`
}

// Equal reports whether all ten bindings agree.
func (b Bindings) Equal(c Bindings) bool {
	p, q := b.TransactionProposalID, c.TransactionProposalID
	if (p == nil) != (q == nil) || p != nil && *p != *q {
		return false
	}
	b.TransactionProposalID, c.TransactionProposalID = nil, nil
	return b == c
}

// Permit is one step permit. It is good for one claim before ExpiresAt.
type Permit struct {
	ID           string        `json:"permitId"`
	Bindings     Bindings      `json:"bindings"`
	EffectDigest string        `json:"effectDigest"`
	ExpiresAt    evidence.Time `json:"expiresAt"`
}

// Live reports whether the permit has not expired: at now == ExpiresAt it has.
func (p *Permit) Live(now evidence.Time) bool { return now < p.ExpiresAt }

// PermitExpiry is the latest lawful end of a permit issued now under a grant
// that ends at grantExpiry (H-080).
func PermitExpiry(now, grantExpiry evidence.Time) evidence.Time {
	return min(now.Add(PermitLife), grantExpiry)
}
