package run

import (
	"countersign/evidence"
	"countersign/internal/authority"
)

// AttackReported is attack.report: in a synthetic run of the attack suite the agent's
// route refused a malformed report, which leaves nothing by itself (H-167, L-11). There is
// no turn and no permit; the run pauses in the same commit.
type AttackReported struct {
	AttackID string              `json:"attackId"` // of the catalog
	SHA256   string              `json:"sha256"`   // of the whole report, hex
	Bytes    int64               `json:"bytes"`
	Raw      evidence.Commitment `json:"raw"` // its first 2,000 characters
}

func (AttackReported) EventType() string { return "attack.report" }

func (e AttackReported) apply(f *fold) {
	f.must(f.s.Config.Attack, "attack-run", "only a run of the attack suite holds a report of an attack")
	f.status("attack-status", StatusReady)
	f.must(f.s.Permit == nil, "attack-under-permit", "no report is taken while a permit is live")
	f.owe("attack-without-stop", "a malformed report of an attack was stored and the run did not pause for it", func(b Event) bool {
		p, ok := b.(*Paused)
		return ok && p.Stop.ReasonCode == authority.MalformedProposal
	}, nil)
}
