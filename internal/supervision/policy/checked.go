package policy

import "countersign/internal/supervision/run"

// NewChecked writes a review down, with the digests of the effect and the action
// that were reviewed.
func NewChecked(s *run.State, turnID string, r Review) run.Checked {
	c := run.Checked{TurnID: turnID, Findings: r.Findings, Verdict: run.CheckPassed, Provenance: run.ByHardPolicy}
	if s.Observation != nil {
		c.ObservationID = &s.Observation.ID
	}
	if r.Reason != "" {
		c.Verdict, c.ReasonCode = run.Pause, &r.Reason
	}
	if r.Entry != nil {
		amount := r.Entry.Amount()
		c.EntryID, c.AmountCents = &r.Entry.EntryID, &amount
	}
	if r.Entry != nil && s.Observation != nil {
		effect := r.Entry.EffectDigest(s.Config.Service, s.StateRevision)
		action := r.Entry.ActionDigest(effect, s.Observation.ID, s.Observation.DocumentEpoch)
		c.EffectDigest, c.ActionDigest = &effect, &action
	}
	if r.Grant != nil {
		c.GrantID = &r.Grant.ID
	}
	return c
}
