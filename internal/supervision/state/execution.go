package state

import (
	"encoding/json"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/money"
)

// Permit is the live step permit and what its claim needs.
type Permit struct {
	authority.Permit
	EntryID     string      `json:"entryId"`
	Class       string      `json:"class"`
	AmountCents money.Cents `json:"amountCents"`
}

// Execution is the newest execution. A new one is claimed only when this one is
// resolved.
type Execution struct {
	ID             string          `json:"executionId"`
	PermitID       string          `json:"permitId"`
	TurnID         string          `json:"turnId"`
	GrantID        string          `json:"grantId"`
	OperationID    string          `json:"operationId"`
	Class          string          `json:"class"`
	Args           json.RawMessage `json:"args"`
	Postconditions []string        `json:"postconditions"`
	EffectDigest   string          `json:"effectDigest"`
	AmountCents    money.Cents     `json:"amountCents"`
	State          string          `json:"state"`
	Sequence       int64           `json:"sequence"` // of execution.dispatched
	DispatchedAt   evidence.Time   `json:"dispatchedAt"`
	Dispatch       *Dispatch       `json:"dispatch"` // what a hosted mutation sent; nil for reads and local targets
	Hosted         bool            `json:"hosted"`   // a store's receipt is recorded
	OrderID        *string         `json:"orderId"`
	// Owed is true while the reservation and the grant use are held.
	Owed         bool   `json:"owed"`
	Finding      string `json:"finding"`      // that an owner stated in place of a receipt, else ""
	Contradicted bool   `json:"contradicted"` // a receipt said otherwise than the owner
}

// Dispatch names one signed request to a store. The jti is the execution id.
type Dispatch struct {
	Audience   string `json:"aud"`
	SessionID  string `json:"sid"`
	Method     string `json:"htm"`
	URI        string `json:"htu"`
	BodySHA256 string `json:"bh"`
	KeyID      string `json:"kid"`
}

// Lease spans the outside part of an attempt.
type Lease struct {
	Holder string        `json:"holder"`
	Until  evidence.Time `json:"until"`
}

// HostedSession is the session at the hosted store.
type HostedSession struct {
	ID          string   `json:"sid"`
	ExecutionID string   `json:"executionId"`
	Phase       string   `json:"phase"` // dispatched, opened, failed
	Dispatch    Dispatch `json:"dispatch"`
	EffectHash  string   `json:"effectDigest"`
}

// Session is the restricted session of the run's consumer. Only a token of the
// current generation is good.
type Session struct {
	Generation int64         `json:"generation"` // 0: none issued
	ExpiresAt  evidence.Time `json:"expiresAt"`
	Origin     string        `json:"origin"`
}
