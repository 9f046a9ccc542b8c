package runbookhttp

import (
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-json-experiment/json/jsontext"

	"countersign/evidence"
	"countersign/internal/channel/edge"
	"countersign/internal/channel/wire"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// IncidentAnswer is the answer to a request that was let through.
type IncidentAnswer struct {
	Operation string                      `json:"operation" enum:"snapshot,compare,stage,approve,execute,reset"`
	Replayed  bool                        `json:"replayed" doc:"true: an earlier execution with the same key is told again; nothing was applied."`
	Result    IncidentResult              `json:"result"`
	Receipt   wire.Nullable[ReceiptEvent] `json:"receipt" doc:"The receipt that the request left."`
	Snapshot  IncidentSnapshot            `json:"snapshot" doc:"The session after it."`
}

// DecidedProblem is a refusal that was decided in a session.
type DecidedProblem struct {
	edge.Problem
	Receipt  wire.Nullable[ReceiptEvent] `json:"receipt" doc:"The receipt of the refusal; null when it left none, as a request that lost to another version."`
	Snapshot IncidentSnapshot            `json:"snapshot" doc:"The session after it."`
}

// IncidentResult is what a request came to.
type IncidentResult struct {
	Status    string                           `json:"status" enum:"investigating,awaiting-approval,mitigated,monitoring,recovery-required"`
	Metrics   incident.Metrics                 `json:"metrics"`
	Compared  []string                         `json:"compared" doc:"Mitigations that were compared."`
	Staged    wire.Nullable[incident.Staged]   `json:"staged" doc:"Of stage, else null."`
	Approval  wire.Nullable[IncidentApproval]  `json:"approval" doc:"Of approve, else null."`
	Execution wire.Nullable[IncidentExecution] `json:"execution" doc:"Of execute, else null; of a replay the record of the first."`
}

// IncidentSnapshot is a session as it is shown. Nothing in it is authority.
type IncidentSnapshot struct {
	Now             evidence.Time                    `json:"now" doc:"The server's time."`
	Session         wire.Nullable[IncidentSession]   `json:"session" doc:"null before the first request that leaves a receipt."`
	Incident        incident.Incident                `json:"incident"`
	Mitigations     []incident.Mitigation            `json:"mitigations"`
	Status          string                           `json:"status" enum:"investigating,awaiting-approval,mitigated,monitoring,recovery-required"`
	ResourceVersion int64                            `json:"resourceVersion" doc:"Counts staging, execution and reset, from 1."`
	Metrics         incident.Metrics                 `json:"metrics" doc:"As they are now."`
	Frozen          bool                             `json:"frozen" doc:"The owner has frozen the workspace: nothing is approved or executed until that is lifted."`
	Staged          wire.Nullable[incident.Staged]   `json:"staged" doc:"What waits for an approval, or was executed last."`
	Approval        wire.Nullable[IncidentApproval]  `json:"approval" doc:"The newest of what is staged."`
	LastExecution   wire.Nullable[IncidentExecution] `json:"lastExecution" doc:"A client that lost its answer repeats it with these values."`
	Receipts        IncidentReceipts                 `json:"receipts"`
	Boundary        []string                         `json:"boundary" doc:"What the workflow shows and what it does not."`
}

// IncidentSession names a browser's session, and no person.
type IncidentSession struct {
	ID        string        `json:"id"`
	Identity  string        `json:"identity"`
	OpenedAt  evidence.Time `json:"openedAt"`
	ExpiresAt evidence.Time `json:"expiresAt"`
}

// IncidentApproval is an approval of exactly one action for one use.
type IncidentApproval struct {
	ApprovalID      string         `json:"approvalId"`
	State           string         `json:"state" enum:"active,expired,consumed"`
	ActionDigest    string         `json:"actionDigest"`
	ResourceVersion int64          `json:"resourceVersion"`
	MitigationID    string         `json:"mitigationId"`
	Arrival         string         `json:"arrival" enum:"page-form-nonce" doc:"How it reached the server. That a person pressed the button is not proved."`
	ApprovedAt      evidence.Time  `json:"approvedAt"`
	ExpiresAt       evidence.Time  `json:"expiresAt" doc:"It is good before this time."`
	ConsumedAt      *evidence.Time `json:"consumedAt" nullable:"true"`
}

// IncidentExecution is the record of one execution.
type IncidentExecution incident.Execution

// IncidentReceipts is the newest part of a session's chain.
type IncidentReceipts struct {
	Total        int64                         `json:"total"`
	Returned     int64                         `json:"returned" doc:"100 at most."`
	Truncated    bool                          `json:"truncated"`
	Anchor       wire.Nullable[IncidentAnchor] `json:"anchor" doc:"The receipt before the first that is returned; null when all are."`
	Head         string                        `json:"head" doc:"SEQ:HASH of the newest, empty without one."`
	Verification IncidentVerification          `json:"verification"`
	Items        []ReceiptEvent                `json:"items" doc:"Oldest first, as in the export."`
}

// ReceiptEvent is a receipt as it stands in evidence, signed; its data is an
// incident.receipt.
type ReceiptEvent evidence.Event

// IncidentAnchor links what is returned to what is not.
type IncidentAnchor struct {
	Sequence int64  `json:"sequence"`
	Hash     string `json:"hash"`
}

// IncidentVerification is what came of hashing what is returned anew.
type IncidentVerification struct {
	Verified   bool `json:"verified" doc:"All three."`
	Hashes     bool `json:"hashes" doc:"Every hash is that of its content."`
	Links      bool `json:"links" doc:"Each names the one before it, from the anchor to the head."`
	Signatures bool `json:"signatures" doc:"Each is signed by a key of this server."`
}

func answered(operation string, a *control.Answer) IncidentAnswer {
	r := a.Result
	return IncidentAnswer{
		operation, a.Replayed,
		IncidentResult{r.Status, r.Metrics, r.Compared, wire.Null(r.Staged), approval(r.Approval, a.Snapshot.Now), wire.Null((*IncidentExecution)(r.Execution))},
		event(a.Receipt), shown(a.Snapshot),
	}
}

func event(e *evidence.Event) wire.Nullable[ReceiptEvent] { return wire.Null((*ReceiptEvent)(e)) }

// told is an event as far as JSON can tell it: one whose row was altered in the ledger may
// hold anything. Data that is no JSON object is an empty one, and what is no text is replaced; what
// was verified says that the hashes do not hold.
func told(e evidence.Event) ReceiptEvent {
	if data := jsontext.Value(e.Data); data.Kind() != '{' || !data.IsValid() {
		e.Data = []byte("{}")
	}
	for _, s := range []*string{&e.ID, &e.RunID, &e.Type, &e.Timestamp, &e.PreviousHash, &e.Hash, &e.Signature, &e.KeyID} {
		*s = text(*s)
	}
	return ReceiptEvent(e)
}

func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// shown is the snapshot on the wire.
func shown(s *control.Snapshot) IncidentSnapshot {
	out := IncidentSnapshot{
		Now: s.Now, Incident: s.Incident, Mitigations: s.Mitigations, Status: s.Status, ResourceVersion: s.Version, Metrics: s.Metrics, Frozen: s.Frozen,
		Staged: wire.Null(s.Staged), Approval: approval(s.Approval, s.Now), LastExecution: wire.Null((*IncidentExecution)(s.Execution)), Boundary: incident.Boundary,
	}
	if v := s.Session; v != nil {
		out.Session = wire.Null(&IncidentSession{v.ID, v.Identity, v.OpenedAt, v.ExpiresAt})
	}
	r, v := s.Receipts, s.Receipts.Verified
	out.Receipts = IncidentReceipts{
		Total: r.Total, Returned: int64(len(r.Items)), Truncated: r.Truncated, Head: text(r.Head), Verification: IncidentVerification{v.OK, v.Hashes, v.Links, v.Signatures}, Items: []ReceiptEvent{},
	}
	for _, e := range r.Items {
		out.Receipts.Items = append(out.Receipts.Items, told(e))
	}
	if r.Anchor != nil {
		out.Receipts.Anchor = wire.Null(&IncidentAnchor{r.Anchor.Sequence, text(r.Anchor.Hash)})
	}
	return out
}

// approval is an approval as it is worth at a time.
func approval(a *incident.Approval, now evidence.Time) wire.Nullable[IncidentApproval] {
	if a == nil {
		return wire.Null[IncidentApproval](nil)
	}
	state := (&control.Snapshot{Approval: a, Now: now}).ApprovalState()
	digest := ""
	if a.Grant.EffectDigest != nil {
		digest = *a.Grant.EffectDigest
	}
	return wire.Null(&IncidentApproval{a.Grant.ID, state, digest, a.Version, a.MitigationID, a.Arrival, a.ApprovedAt, a.Grant.ExpiresAt, a.ConsumedAt})
}

// reading is a request that only reads.
type reading struct{ request *http.Request }

// Resolve keeps the request, whose cookie and origin are looked at as those of a POST.
func (r *reading) Resolve(ctx huma.Context) []error {
	r.request, _ = humago.Unwrap(ctx)
	return nil
}

type snapshotOutput struct{ Body IncidentSnapshot }
