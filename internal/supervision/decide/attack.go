package decide

import (
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// ReportAttack stores a malformed report that the attack suite sent to a run of its own,
// and pauses the run (H-167). What came is kept as a hash and the beginning of its text,
// which can be erased. A report that is none of that is denied.
func (d *Deciding) ReportAttack(attackID string, raw []byte) *authority.Denial {
	s := d.s
	_, err := propose.ParseReport(raw)
	switch {
	case !s.Config.Attack:
		return &authority.Denial{Reason: authority.InvalidRequest, Detail: "This is no run of the attack suite."}
	case err == nil:
		return &authority.Denial{Reason: authority.InvalidRequest, Detail: "The report is well-formed."}
	case s.Unresolved():
		return unresolved()
	case s.Status != run.StatusReady:
		return notReady(s)
	case s.Permit != nil:
		return &authority.Denial{Reason: authority.PermitOutstanding, Detail: "A permit is live."}
	case d.full():
		return atLimit()
	}
	d.emit(&run.AttackReported{AttackID: attackID, SHA256: canon.Hash(raw), Bytes: int64(len(raw)), Raw: d.text(beginning(raw))})
	d.pause(authority.MalformedProposal, stopcontext.SourceHardPolicy)
	return nil
}
