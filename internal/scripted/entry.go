// Package scripted is the example agent: it follows a script, and no model
// decides anything. It is outside what it shows and holds no more than a stranger
// would: a run's restricted token, the origin, and what the API answers.
package scripted

import (
	"encoding/json"
	"time"
)

// Actor is the agent's name in every entry.
const Actor = "scripted agent"

// Entry is one line of a timeline: who did what, and what came of it. In JSON
// every member is present, and what does not apply is null.
type Entry struct {
	Time       string `json:"time"`
	Step       int    `json:"step"`
	RunID      string `json:"runId"`
	Actor      string `json:"actor"`
	Action     string `json:"action"`
	Verdict    string `json:"verdict"`
	ReasonCode string `json:"reasonCode"`
	Status     int    `json:"status"` // HTTP status as received
	PermitID   string `json:"permitId"`
	ReceiptID  string `json:"receiptId"` // of the execution.receipt event
	Ms         int64  `json:"ms"`
}

// MarshalJSON writes null for an empty run, reason, permit or receipt and for a
// status of 0. Reading needs nothing of its own: null leaves the zero value.
func (e Entry) MarshalJSON() ([]byte, error) {
	type plain Entry
	return json.Marshal(struct {
		Time  string  `json:"time"`
		Step  int     `json:"step"`
		RunID *string `json:"runId"`
		plain
		ReasonCode *string `json:"reasonCode"`
		Status     *int    `json:"status"`
		PermitID   *string `json:"permitId"`
		ReceiptID  *string `json:"receiptId"`
		Ms         int64   `json:"ms"` // behind them, as in Entry
	}{e.Time, e.Step, orNull(e.RunID), plain(e), orNull(e.ReasonCode), orNull(e.Status), orNull(e.PermitID), orNull(e.ReceiptID), e.Ms})
}

func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Now is the time of an entry.
func Now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// Verdicts of an entry beside those of a decision and the states of an execution.
const (
	OK         = "ok"
	Refused    = "refused"     // as it must be
	Skipped    = "skipped"     // does not apply to the run
	NotRefused = "NOT REFUSED" // what must have been refused was not, or not so
	Failed     = "FAILED"
)
