package evidence

import "slices"

// Check is one of the questions that a verification answers by itself.
type Check string

// The checks, in the order of a report.
const (
	CheckKeys       Check = "key match"          // every key of the file is one of the trusted keys
	CheckHashes     Check = "hashes"             // every event hashes to its hash
	CheckSignatures Check = "signatures"         // every hash is signed by the key the event names
	CheckOrder      Check = "order"              // sequences from 1 without a gap, each event behind the one before
	CheckSubject    Check = "subject"            // all events are of the one subject that the first states
	CheckTimes      Check = "timestamps"         // timestamps never decrease
	CheckKeyOrder   Check = "key order"          // no older key behind a newer, none after its notAfter, the newest signs the export
	CheckHead       Check = "head and count"     // the export names its last event and the number of events
	CheckManifest   Check = "manifest signature" // the export is signed
	CheckTexts      Check = "texts"              // every text that is present belongs to an event
	CheckKnownHead  Check = "known head"         // the chain holds the head known from elsewhere; only when one is given
)

// Finding is one thing that does not hold.
type Finding struct {
	Sequence int64  `json:"sequence,omitempty"` // of the event; 0 when it is about the export
	ID       string `json:"id,omitempty"`       // of the event
	Problem  string `json:"problem"`
}

// MaxFindings is the number of findings that a result spells out.
const MaxFindings = 20

// Result answers one check.
type Result struct {
	Check    Check     `json:"check"`
	OK       bool      `json:"ok"`
	Failures int       `json:"failures"` // all of them, also those beyond MaxFindings
	Findings []Finding `json:"findings"` // the first ones
}

// Texts counts the free texts that a chain commits to, each once. An erased
// text is lawful: the chain verifies without it.
type Texts struct {
	Present int `json:"present"`
	Erased  int `json:"erased"`
}

// Report is what a verification found.
type Report struct {
	Subject       Subject  `json:"subject"`
	SignatureRule string   `json:"signatureRule"` // by which signatures of events and export were accepted
	Count         int64    `json:"count"`         // of the events that were read
	Head          string   `json:"head"`          // hash of the last of them
	KeyID         string   `json:"keyId"`         // of the key that the export says it is signed with
	ExportedAt    Time     `json:"exportedAt"`
	Texts         Texts    `json:"texts"`
	Results       []Result `json:"results"`
	CannotShow    []string `json:"cannotShow"` // the same sentences in every report
}

// OK reports whether every check holds.
func (r *Report) OK() bool {
	return len(r.Results) > 0 && !slices.ContainsFunc(r.Results, func(r Result) bool { return !r.OK })
}

// Result returns the answer to one check, and a failed one when the check was
// not made.
func (r *Report) Result(c Check) Result {
	if i := slices.IndexFunc(r.Results, func(r Result) bool { return r.Check == c }); i >= 0 {
		return r.Results[i]
	}
	return Result{Check: c}
}

func (r *Report) fail(c Check, f Finding) {
	i := slices.IndexFunc(r.Results, func(r Result) bool { return r.Check == c })
	result := &r.Results[i]
	result.OK = false
	result.Failures++
	if len(result.Findings) < MaxFindings {
		result.Findings = append(result.Findings, f)
	}
}

// cannotShow is what no verification of one export can show.
var cannotShow = []string{
	"That nothing follows: the chain is complete only up to exportedAt, and a holder of the key can export less than there is. A head known from elsewhere narrows this.",
	"That no other run was left out: each export tells one subject.",
	"That no second history exists: a holder of the signing key can fork a chain undetected until heads are anchored elsewhere. Comparing two exports of one subject finds a fork between them.",
	"That what an event says is true: a signature shows that the holder of a trusted key recorded it unchanged, neither that an explanation is true nor that an authority still holds.",
	"When something happened: timestamps are the times at which events were recorded, as the signer's clock told them.",
}
