package freeze

import (
	"countersign/evidence"
	"countersign/internal/machine"
)

// State is everything that deciding about a freeze needs.
type State struct {
	machine.Progress
	Epoch  int64   `json:"epoch"`  // freezes that the workspace has seen
	Turned string  `json:"turned"` // id of the event that froze or unfroze it last
	Frozen *Freeze `json:"frozen"` // nil: it is not frozen
	Lifted *Lifted `json:"lifted"` // the newest freeze once it is lifted; nil while one stands
}

// Freeze is the one that stands.
type Freeze struct {
	Since   evidence.Time       `json:"since"`
	Reason  evidence.Commitment `json:"reason"`
	Session string              `json:"session"` // the hash that names the owner's session
	Open    *Open               `json:"open"`    // nil: not listed yet
}

// Lifted is the newest freeze when it does not stand any more.
type Lifted struct {
	Freeze Freeze              `json:"freeze"` // without its list
	Until  evidence.Time       `json:"until"`
	Reason evidence.Commitment `json:"reason"`
	By     string              `json:"session"` // the hash that names the owner's session
}

// Open are the intents that had no outcome when a freeze was stored.
type Open struct {
	Intents []Intent `json:"executions"` // at most [MaxOpen]
	Count   int64    `json:"count"`      // of all of them
}

// Intent is one that had no outcome when it was listed.
type Intent struct {
	ExecutionID string `json:"executionId"`
	RunID       string `json:"runId"`
	State       string `json:"state"` // dispatched or unconfirmed
}
