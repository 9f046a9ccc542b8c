package control

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"slices"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/runbook/incident"
)

// Snapshot is a session as it is shown. Everything that decides is on the server; nothing
// in it is authority.
type Snapshot struct {
	Now         evidence.Time
	Session     *SessionView // nil before the first request
	Incident    incident.Incident
	Mitigations []incident.Mitigation
	Status      string
	Version     int64
	Metrics     incident.Metrics
	Frozen      bool // the workspace is: nothing is approved or executed
	Staged      *incident.Staged
	Approval    *incident.Approval  // the newest of what is staged
	Execution   *incident.Execution // the newest: a client that lost its answer repeats it
	Receipts    Receipts
}

// SessionView names a session.
type SessionView struct {
	ID        string
	Identity  string
	OpenedAt  evidence.Time
	ExpiresAt evidence.Time
}

// Receipts is the newest part of a session's chain.
type Receipts struct {
	Total     int64
	Truncated bool
	Anchor    *evidence.Link // the receipt before the first that is returned; nil when all are
	Head      string         // SEQ:HASH of the newest; "" without one
	Items     []evidence.Event
	Verified  Verification
}

// Verification is what came of hashing what is returned anew. It shows that the segment was
// not altered since it was signed by a key of this server; it is no independent witness
//
type Verification struct {
	OK         bool
	Hashes     bool // every content hash is that of its content
	Links      bool // each names the one before it, the first the anchor, the last is the head
	Signatures bool // each is signed by a key of this server
}

// ApprovalState says what the approval of a snapshot is worth at its time: "none",
// "active", "expired" or "consumed".
func (s *Snapshot) ApprovalState() string {
	switch a := s.Approval; {
	case a == nil:
		return "none"
	case a.Consumed():
		return "consumed"
	case !a.Live(s.Now):
		return "expired"
	}
	return "active"
}

// Snapshot returns the session of a cookie as it is. It creates nothing and leaves no
// receipt (L-14).
func (p *Plane) Snapshot(ctx context.Context, cookie string) (*Snapshot, error) {
	h, err := p.session(ctx, cookie)
	if err != nil {
		return nil, err
	}
	return p.snapshot(ctx, h)
}

// after is the snapshot after a request, which may have begun the session or left none.
func (p *Plane) after(ctx context.Context, a *attempt) (*Snapshot, error) {
	if a.opening != nil && a.receipt == nil {
		return p.snapshot(ctx, nil)
	}
	h, err := p.load(ctx, a.session)
	if err != nil {
		return nil, err
	}
	return p.snapshot(ctx, h)
}

// snapshot shows a session as it was read; nil is the one that has not begun.
func (p *Plane) snapshot(ctx context.Context, h *held) (*Snapshot, error) {
	out := &Snapshot{Incident: incident.TheIncident, Mitigations: incident.Catalog, Receipts: Receipts{Items: []evidence.Event{}, Verified: Verification{true, true, true, true}}}
	s := incident.New()
	if h == nil {
		now, err := p.Ledger.Now(ctx)
		if err != nil {
			return nil, unavailable(err)
		}
		out.Now = evidence.TimeOf(now)
	} else {
		s, out.Now = h.s, h.now
		out.Session = &SessionView{s.ID, incident.Identity(s.ID), s.CreatedAt, s.CreatedAt.Add(incident.SessionLife)}
		receipts, err := p.receipts(ctx, h)
		if err != nil {
			return nil, err
		}
		out.Receipts = *receipts
	}
	out.Status, out.Version, out.Metrics = s.Status, s.Version, s.Metrics
	out.Staged, out.Approval, out.Execution = s.Staged, s.Approval, s.Execution
	var err error
	if out.Frozen, _, err = p.Freeze(ctx); err != nil {
		return nil, unavailable(err)
	}
	return out, nil
}

// receipts reads the newest receipts up to the head that was read, and verifies them. What
// was altered or taken out of the ledger is no error: it is shown as far as it is there, and
// what was verified tells it.
func (p *Plane) receipts(ctx context.Context, h *held) (*Receipts, error) {
	total := h.subject.Sequence
	after := max(0, total-MaxShown)
	from := max(0, after-1) // the anchor is read too
	events, err := p.Ledger.Events(ctx, h.subject.Key, from, MaxShown+1)
	if err != nil {
		return nil, unavailable(err)
	}
	events = slices.DeleteFunc(events, func(e evidence.Event) bool { return e.Sequence > total })
	out := &Receipts{Total: total, Truncated: after > 0, Head: h.subject.Link().String()}
	before := evidence.Link{Hash: evidence.Genesis}
	if after > 0 {
		before = evidence.Link{Sequence: after} // no receipt follows that, unless the anchor is there
		if len(events) > 0 && events[0].Sequence == after {
			before.Hash, events = events[0].Hash, events[1:]
			out.Anchor = &evidence.Link{Sequence: after, Hash: before.Hash}
		}
	}
	events = events[max(0, len(events)-MaxShown):]
	out.Items, out.Verified = events, p.verify(before, events, h.subject.Link())
	return out, nil
}

// verify hashes a segment anew and holds it between its anchor and the head.
func (p *Plane) verify(before evidence.Link, events []evidence.Event, head evidence.Link) Verification {
	v := Verification{Hashes: true, Links: true, Signatures: true}
	for _, e := range events {
		digest, err := e.Digest()
		v.Hashes = v.Hashes && err == nil && hex.EncodeToString(digest[:]) == e.Hash
		v.Links = v.Links && e.Sequence == before.Sequence+1 && e.PreviousHash == before.Hash
		v.Signatures = v.Signatures && err == nil && p.signed(digest[:], e)
		before = evidence.Link{Sequence: e.Sequence, Hash: e.Hash}
	}
	v.Links = v.Links && before == head
	v.OK = v.Hashes && v.Links && v.Signatures
	return v
}

func (p *Plane) signed(digest []byte, e evidence.Event) bool {
	signature, err := canon.DecodeBase64(e.Signature)
	if err != nil {
		return false
	}
	for _, k := range p.Keys {
		if evidence.KeyID(k.Public) == e.KeyID {
			return ed25519.Verify(k.Public, digest, signature)
		}
	}
	return false
}
