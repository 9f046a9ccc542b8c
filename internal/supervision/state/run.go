// Package state is the state of a run: what its owner fixed, the newest of everything
// that has a place in it, and what can be read off it. What may become of it is the
// machine's to say, in package run, which knows all of this under the same names.
//
// Everything here is pure.
package state

import (
	"slices"
	"strings"

	"countersign/evidence"
	"countersign/internal/money"
)

// Config is how a run was set up; it never changes.
type Config struct {
	Service           string `json:"service"`
	Target            string `json:"target"`
	Channel           string `json:"channel"`
	TrafficActor      string `json:"trafficActor"` // caller-reported, no proof of identity (H-194)
	Mode              string `json:"mode"`
	ExecutionMode     string `json:"executionMode"`
	Executor          string `json:"executor"`
	Interrogator      string `json:"interrogator"`
	ReasoningEvidence bool   `json:"reasoningEvidence"`
	Verification      bool   `json:"verification"` // a synthetic run of a policy's verification: no operational lists (H-207)
	Attack            bool   `json:"attack"`       // a synthetic run of the attack suite: no operational lists either
	// ContextClient is whose context turns the managed attempts are made in (G-39); nil: none.
	ContextClient *string `json:"contextClient"`
}

// Binding is the guardian policy that a run is bound to, as it was published when the
// run was created (H-213). A later version changes nothing in it (H-217).
type Binding struct {
	GuardianID    string      `json:"guardianId"`
	Service       string      `json:"service"`
	Environment   string      `json:"environment"`
	PolicyVersion int64       `json:"policyVersion"`
	Mode          string      `json:"mode"`
	BudgetCents   money.Cents `json:"budgetCents"`
	Provider      string      `json:"provider"` // of the guardian: the run's interrogator
	Operations    []string    `json:"operations"`
	Channels      []string    `json:"channels"`
}

// LocalEnvironment is that of the built-in local services; every other one is remote.
const LocalEnvironment = "local"

// Differs names the members in which a run is not what the policy was published for
// (H-214, H-216). The policy of a local service is none for a hosted target.
func (b *Binding) Differs(c Config, budget money.Cents) (members []string) {
	for _, m := range []struct {
		name string
		same bool
	}{
		{"service", c.Service == b.Service},
		{"channel", slices.Contains(b.Channels, c.Channel)},
		{"target", b.Environment != LocalEnvironment || c.Target == "local"},
		{"mode", c.Mode == b.Mode},
		{"budgetCents", budget == b.BudgetCents},
		{"interrogator", c.Interrogator == b.Provider},
	} {
		if !m.same {
			members = append(members, m.name)
		}
	}
	return members
}

// Allows reports whether the policy selects the operation (H-215). Without a policy
// every operation of the service is.
func (b *Binding) Allows(operation string) bool {
	return b == nil || slices.Contains(b.Operations, operation)
}

// Values of the protocol.
var (
	Channels  = []string{"browser", "http", "mcp", "webmcp"}
	Modes     = []string{"exact", "bounded"}
	Providers = []string{"openai", "replay"}
)

// Known reports whether every value is one of the protocol's (H-092). Services are
// not listed: a chain names its own.
func (c Config) Known() bool {
	in := func(value string, known ...string) bool { return slices.Contains(known, value) }
	return !(c.Verification && c.Attack) && in(c.Target, "local", "hosted") && in(c.Channel, Channels...) && in(c.TrafficActor, "agent", "human") &&
		in(c.Mode, Modes...) && in(c.ExecutionMode, "live", "replay") && in(c.Executor, Providers...) && in(c.Interrogator, Providers...) &&
		(c.ContextClient == nil || IsContextClient(*c.ContextClient))
}

// Step is one step of a workflow and the postcondition that closes it.
type Step struct {
	Name     string `json:"name"`
	ClosedBy string `json:"closedBy"`
}

// Observation is what the run remembers of its newest trusted observation; the
// catalog itself stands in the observation.recorded event at Sequence.
type Observation struct {
	ID            string        `json:"observationId"`
	Sequence      int64         `json:"sequence"`
	DocumentEpoch int64         `json:"documentEpoch"`
	StateRevision int64         `json:"stateRevision"`
	CapturedAt    evidence.Time `json:"capturedAt"`
	CatalogDigest string        `json:"catalogDigest"`
}

// Proposal is a prepared transaction, immutable (G-07).
type Proposal struct {
	ID            string        `json:"proposalId"`
	OperationID   string        `json:"operationId"`
	Destination   string        `json:"destination"`
	AmountCents   money.Cents   `json:"amountCents"`
	Currency      string        `json:"currency"`
	TermsDigest   string        `json:"termsDigest"`
	StateRevision int64         `json:"stateRevision"`
	DocumentEpoch int64         `json:"documentEpoch"`
	ExpiresAt     evidence.Time `json:"expiresAt"`
}

// Live reports whether the proposal has not expired: at now == ExpiresAt it has.
func (p *Proposal) Live(now evidence.Time) bool { return now < p.ExpiresAt }

// ContextTurn is the context turn that a report was made in (L-10). It is a correlation
// label: it permits nothing and blocks nothing.
type ContextTurn struct {
	ID    string `json:"id"`
	Class string `json:"class"` // ClassReported or ClassObserved
}

// Classes of a context turn.
const (
	ClassReported = "reported" // whoever reported says so
	ClassObserved = "observed" // the turn was in this ledger and open when the report was decided on
)

// Lawful reports whether a context turn is named as one is, and has a class. nil is.
func (t *ContextTurn) Lawful() bool {
	return t == nil || IsContextTurn(t.ID) && (t.Class == ClassReported || t.Class == ClassObserved)
}

// IsContextTurn reports whether s could be the id of a context turn, IsContextClient
// whether it could be that of a named client.
func IsContextTurn(s string) bool   { return isPrefixedID("trn_", s) }
func IsContextClient(s string) bool { return isPrefixedID("cli_", s) }

// isPrefixedID reports whether s is prefix and 32 lowercase hex digits.
func isPrefixedID(prefix, s string) bool {
	digits, found := strings.CutPrefix(s, prefix)
	return found && len(digits) == 32 && strings.Trim(digits, "0123456789abcdef") == ""
}

// Turn is the newest proposal turn and how far it came.
type Turn struct {
	ID           string       `json:"turnId"`
	AttemptID    *string      `json:"attemptId"` // of a managed turn
	ContextTurn  *ContextTurn `json:"contextTurn"`
	Phase        string       `json:"phase"` // proposed, checked, decided
	Passed       bool         `json:"passed"`
	Allowed      bool         `json:"allowed"`
	EntryID      string       `json:"entryId"`
	GrantID      string       `json:"grantId"`
	EffectDigest string       `json:"effectDigest"`
	ActionDigest string       `json:"actionDigest"`
	AmountCents  money.Cents  `json:"amountCents"`
}

// Attempt names the attempt of a turn; a direct one is its own.
func (t *Turn) Attempt() string {
	if t.AttemptID != nil {
		return *t.AttemptID
	}
	return t.ID
}

// Decision is the newest answer to a report (H-072).
type Decision struct {
	TurnID               string               `json:"turnId"`
	Verdict              string               `json:"decision"`
	ReasonCode           string               `json:"reasonCode"`
	Explanation          *evidence.Commitment `json:"explanation"` // nil: the fixed sentence of the reason
	ClarificationRequest *evidence.Commitment `json:"clarificationRequest"`
	Provenance           string               `json:"provenance"`
	Answered             bool                 `json:"answered"` // the owner let the run go on after it
}

// Approval is the owner's approval of one prepared effect (H-047, G-07).
type Approval struct {
	ProposalID   string        `json:"transactionProposalId"`
	EffectDigest string        `json:"effectDigest"`
	GrantID      string        `json:"grantId"`
	ApprovedAt   evidence.Time `json:"approvedAt"`
}

// Asked is the model call that is out: who was asked in which attempt.
type Asked struct {
	AttemptID string `json:"attemptId"`
	Who       string `json:"who"` // executor or guardian
	Repair    bool   `json:"repair"`
}
