package control

import (
	"context"
	"crypto/hmac"
	"encoding/hex"
	"strconv"

	"countersign/evidence"
	"countersign/internal/runbook/incident"
)

// Form returns the snapshot for the page with the nonce of its approval form; "" when there
// is nothing that an approval would be new for.
func (p *Plane) Form(ctx context.Context, cookie string) (shown *Snapshot, nonce string, err error) {
	h, err := p.session(ctx, cookie)
	if err != nil {
		return nil, "", err
	}
	if shown, err = p.snapshot(ctx, h); err != nil || h == nil || h.s.Staged == nil {
		return shown, "", err
	}
	if a := h.s.Approval; a != nil && (a.Consumed() || a.Live(h.now)) {
		return shown, "", nil
	}
	return shown, p.nonce(h.subject.ID, h.s, h.s.Approvals), nil
}

// nonce is good for the approval with that number of what is staged.
func (p *Plane) nonce(session string, s *incident.Session, approvals int64) string {
	return hex.EncodeToString(p.MAC("incident-approval", session, s.Staged.Digest, strconv.FormatInt(s.Staged.Version, 10), strconv.FormatInt(approvals, 10)))
}

// isForm reports whether a nonce is that of the form as it is shown now, or the one that
// made the approval that lives: pressed twice, the button gets the same record.
func (p *Plane) isForm(session string, s *incident.Session, nonce string, now evidence.Time) bool {
	if s.Staged == nil {
		return false
	}
	number := s.Approvals
	if a := s.Approval; a != nil && a.Live(now) {
		number--
	}
	return hmac.Equal([]byte(nonce), []byte(p.nonce(session, s, number)))
}
