package control

import (
	"context"
	"encoding/hex"
	"fmt"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/runbook/incident"
)

// kindVisit is the kind of subject that remembers when a session began and from where, for
// the bounds on sessions. It has no chain: it is no evidence.
const kindVisit = "incidentvisit"

// Attributes. The address is kept as a keyed hash.
const (
	attributeOpen    = "open"    // of a visit: its session has not ended
	attributeAddress = "address" // of a visit
	attributeKey     = "key"     // of a session: of what is staged, so that another session's use of it is known for one
)

// visit is the state of a visit.
type visit struct {
	OpenedAt evidence.Time `json:"openedAt"`
}

// opening is a session that begins with the request that is decided.
type opening struct {
	id, cookie string
	at         evidence.Time
	credential identity.Credential
	address    string
}

// open makes the names of a new session, if there is room for one. Sessions that begin at
// once can all find room. The bounds slow down what fills the storage and protect nothing
// else: what a session has stored stays when it has ended (L-16).
func (p *Plane) open(ctx context.Context, remote string) (*opening, error) {
	at, err := p.Ledger.Now(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	o := &opening{at: evidence.TimeOf(at), address: hex.EncodeToString(p.MAC("incident-address", remote))[:32]}
	if p.Without != "limit" {
		if err := p.hasRoom(ctx, o.address, o.at); err != nil {
			return nil, err
		}
	}
	o.cookie, o.credential = identity.NewIncidentCookie(p.Workspace, p.Issuer, o.at.Add(incident.SessionLife).Time())
	o.id = incident.SessionID(o.at, o.credential.Hash)
	o.credential.Subject = o.id
	return o, nil
}

// visit is what remembers the session that begins.
func (p *Plane) visit(o *opening) (ledger.Write, error) {
	state, err := canon.Marshal(visit{o.at})
	subject := ledger.NewSubject(ledger.Key{Workspace: p.Workspace, Kind: kindVisit, ID: o.id})
	return ledger.Write{
		Key: subject.Key, Head: subject.Head, State: state, Due: o.at.Add(incident.SessionLife).Time(),
		Attributes: []ledger.Attribute{{Name: attributeOpen, Value: "1"}, {Name: attributeAddress, Value: o.address}},
	}, err
}

// settleVisit notes that a session has ended: it no longer counts as open. Its chain and
// state stay as they are.
func (p *Plane) settleVisit(ctx context.Context, key ledger.Key) error {
	r, err := ledger.Decide(ctx, p.Ledger, MaxTries, func() (*ledger.Change, error) {
		subject, now, err := p.Ledger.Load(ctx, key)
		if err != nil || subject.Due.IsZero() || now.Before(subject.Due) {
			return nil, err
		}
		return &ledger.Change{Writes: []ledger.Write{{Key: key, Revision: subject.Revision, Head: subject.Head, State: subject.State}}}, nil
	})
	if err != nil {
		return err
	}
	return r.Err()
}

// hasRoom refuses an address that began too many sessions, and everybody when too many are
// open.
func (p *Plane) hasRoom(ctx context.Context, address string, now evidence.Time) error {
	began, err := p.visits(ctx, attributeAddress, address, "")
	if err != nil {
		return err
	}
	if len(began) == MaxNew {
		oldest, err := openedAt(began[MaxNew-1])
		if err != nil {
			return err
		}
		if free := oldest.Add(NewWindow); now < free {
			return &LimitError{free.Sub(now)}
		}
	}
	before := ""
	for range MaxOpen / MaxNew {
		page, err := p.visits(ctx, attributeOpen, "1", before)
		if err != nil || len(page) < MaxNew {
			return err
		}
		last := page[MaxNew-1]
		before = last.ID
		if opened, err := openedAt(last); err != nil || now >= opened.Add(incident.SessionLife) {
			return err // this one and all behind it have ended, whether or not that was noted
		}
	}
	return fmt.Errorf("%w: %d", ErrFull, MaxOpen)
}

func openedAt(subject ledger.Subject) (evidence.Time, error) {
	var v visit
	err := canon.Unmarshal(subject.State, &v)
	return v.OpenedAt, err
}

// visits are the newest visits with an attribute, [MaxNew] at most.
func (p *Plane) visits(ctx context.Context, name, value, before string) ([]ledger.Subject, error) {
	return p.find(ctx, ledger.Query{Kind: kindVisit, Where: []ledger.Attribute{{Name: name, Value: value}}, Before: before, Limit: MaxNew})
}

func (p *Plane) find(ctx context.Context, q ledger.Query) ([]ledger.Subject, error) {
	q.Workspace = p.Workspace
	list, err := p.Ledger.Find(ctx, q)
	if err != nil {
		return nil, unavailable(err)
	}
	return list, nil
}

// foreign reports whether a key was given to another session.
func (p *Plane) foreign(ctx context.Context, session, key string) (bool, error) {
	list, err := p.find(ctx, ledger.Query{Kind: incident.Kind, Where: []ledger.Attribute{{Name: attributeKey, Value: key}}, Limit: 2})
	if err != nil {
		return false, err
	}
	for _, of := range list {
		if of.ID != session {
			return true, nil
		}
	}
	return false, nil
}
