package turn

import (
	"errors"
	"slices"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/machine"
)

// State is everything that deciding about a context turn needs.
type State struct {
	machine.Progress
	Project      string               `json:"project"`
	Client       string               `json:"client"`
	Profile      string               `json:"profile"`
	Environment  string               `json:"environment"`
	Via          string               `json:"via"`
	Run          *string              `json:"run"` // of a turn that supervision opened
	ClientRef    *evidence.Commitment `json:"clientRef"`
	Status       string               `json:"status"`
	OpenedAt     evidence.Time        `json:"openedAt"`
	ExpiresAt    evidence.Time        `json:"expiresAt"`
	Calls        int64                `json:"calls"` // of context tools, deliveries included
	Deliveries   int64                `json:"deliveries"`
	Observations int64                `json:"observations"`
	LateReports  int64                `json:"lateReports"` // completions reported after expiry
	Reported     string               `json:"reported"`    // what the client reported; empty: nothing yet
	CompletedAt  *evidence.Time       `json:"completedAt"`
	Note         *evidence.Commitment `json:"note"`
}

// At returns the status at a time: an open turn whose end has come has expired, whatever
// was stored.
func (s *State) At(now evidence.Time) string {
	if s.Status == Open && now >= s.ExpiresAt {
		return Expired
	}
	return s.Status
}

// Interaction is a call of a context tool. One outside a turn (S-014, L-16) has a chain of
// its own; of one in a turn the evidence is in the turn's, and this is how it is found.
type Interaction struct {
	Machine     int64         `json:"machine"`
	ID          string        `json:"id"`
	Project     string        `json:"project"`
	Client      string        `json:"client"`
	Profile     string        `json:"profile"`
	Environment string        `json:"environment"`
	At          evidence.Time `json:"at"`
	Turn        *string       `json:"turn"`
	Call        Call          `json:"call"`
}

// Receipt is what a local bridge saw (G-38).
type Receipt struct {
	Machine     int64         `json:"machine"`
	ID          string        `json:"id"`
	Project     string        `json:"project"`
	Client      string        `json:"client"`
	Environment string        `json:"environment"`
	At          evidence.Time `json:"at"`
	Seen        Seen          `json:"seen"`
}

// Seen is one transition that a bridge reports: its kind and the digest of what was read,
// written, started, ended, requested or answered.
type Seen struct {
	Kind   string `json:"kind"`
	Digest string `json:"digest"` // lowercase hex SHA-256
}

// Single is what a chain of one event comes to. How far it has come is not stored.
type Single[T any] struct {
	machine.Progress
	Of T
}

// Build is the content that a call was answered from (G-33).
type Build struct {
	Environment string `json:"environment"`
	Number      int64  `json:"number"` // 0 of a draft
	Digest      string `json:"digest"` // of the manifest
	Draft       bool   `json:"draft"`
}

// Item is one document that was handed out.
type Item struct {
	Ref    string `json:"ref"`
	SHA256 string `json:"sha256"` // of the document
}

// Call is one call of a context tool as evidence keeps it. Request and Answer are the JSON
// of both, beside the chain.
type Call struct {
	InteractionID string              `json:"interactionId"`
	Tool          string              `json:"tool"`
	Build         *Build              `json:"build"`
	Verdict       *string             `json:"verdict"` // of compass
	Items         []Item              `json:"items"`
	Gap           *string             `json:"gap"` // of report-gap
	Request       evidence.Commitment `json:"request"`
	Answer        evidence.Commitment `json:"answer"`
}

// Delivers reports whether the call counts as a delivery (G-32).
func (c *Call) Delivers() bool {
	return slices.Contains([]string{Compass, Resolve, Find, Why}, c.Tool) && len(c.Items) > 0
}

var errMachine = errors.New("turn: this state belongs to another version of the state machine")

// DecodeState reads a stored turn and refuses another machine's.
func DecodeState(raw []byte) (*State, error) { return turns.Decode(raw) }

// DecodeInteraction reads a stored call outside a turn and refuses another machine's.
func DecodeInteraction(raw []byte) (*Interaction, error) {
	return decode(raw, func(s *Interaction) int64 { return s.Machine })
}

// DecodeReceipt reads a stored bridge receipt and refuses another machine's.
func DecodeReceipt(raw []byte) (*Receipt, error) {
	return decode(raw, func(s *Receipt) int64 { return s.Machine })
}

func decode[T any](raw []byte, version func(*T) int64) (*T, error) {
	var s T
	if err := canon.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	if version(&s) != Machine {
		return nil, errMachine
	}
	return &s, nil
}
