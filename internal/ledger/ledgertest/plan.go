package ledgertest

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/ledger"
)

// The plan of a subject says for every revision what its Change holds, so that
// whoever finds the subject later, in another process too, can tell whether
// exactly the first so many Changes are there, each of them whole. A Change of
// the plan touches every table.
type plan struct {
	id    string
	key   evidence.SigningKey // nil private half: can audit only
	guard ledger.Guard        // read guard of every Change after the first; zero: none
}

const planEvents = 2 // of each Change

func (p plan) subject() ledger.Key        { return runKey(p.id) }
func (p plan) state(r int64) []byte       { return []byte(fmt.Sprintf(`{"revision":%d}`, r)) }
func (p plan) record(r int64) string      { return fmt.Sprintf("key-%d", r) }
func (p plan) permit(r int64) string      { return fmt.Sprintf("%s-permit-%d", p.id, r) }
func (p plan) execution(r int64) string   { return fmt.Sprintf("%s-execution-%d", p.id, r) }
func (p plan) credential(r int64) string  { return canon.Hash([]byte(p.permit(r))) }
func (p plan) fingerprint(r int64) string { return canon.Hash([]byte(p.record(r))) }
func (p plan) seal(r int64) string        { return fmt.Sprintf("session-%d", r) }
func (p plan) status(r int64) string      { return fmt.Sprintf("%s at %d", p.id, r) }

func (p plan) text(r int64) evidence.Text {
	var salt [evidence.SaltSize]byte
	copy(salt[:], p.credential(r))
	return evidence.NewText(salt, "text of "+p.permit(r))
}

// next is the Change that follows s.
func (p plan) next(s ledger.Subject, now time.Time) (ledger.Change, error) {
	r := s.Revision + 1
	drafts := []evidence.Draft{
		{ID: newID(), Type: "plan.claimed", Data: map[string]any{"revision": r, "text": p.text(r).Commit()}},
		{ID: newID(), Type: "plan.intent", Data: map[string]any{"revision": r}},
	}
	events, err := evidence.Seal(p.key, p.id, s.Link(), now, drafts)
	if err != nil {
		return ledger.Change{}, err
	}
	w := ledger.Write{
		Key: s.Key, Revision: s.Revision, Head: s.Head, State: p.state(r), Due: now.Add(time.Hour),
		Attributes: []ledger.Attribute{{Name: "status", Value: p.status(r)}, {Name: "owner", Value: p.id}},
		Events:     events, Texts: []evidence.Text{p.text(r)},
		Sealed: []ledger.Sealed{{Name: p.seal(r), Bytes: []byte(p.seal(r))}},
	}
	c := ledger.Change{
		Record: &ledger.Record{Workspace: s.Workspace, Principal: p.id, Key: p.record(r), Fingerprint: p.fingerprint(r),
			Subject: s.Key, Object: p.execution(r), Sequence: events[0].Sequence},
		Fates: []ledger.Fate{{Workspace: s.Workspace, PermitID: p.permit(r), Subject: s.Key, Fate: "claimed", Execution: p.execution(r)}},
		Credentials: []ledger.Credential{{Workspace: s.Workspace, Hash: p.credential(r), Kind: ledger.CredentialRun, Subject: p.id,
			Generation: r, Origin: "http://localhost:8420", ExpiresAt: now.Add(time.Hour)}},
		Workspace: s.Workspace, NotAfter: now.Add(10 * time.Minute), Freezable: true,
	}
	if r > 1 {
		w.Sealed = append(w.Sealed, ledger.Sealed{Name: p.seal(r - 1)})
		c.Revoke = []string{p.credential(r - 1)}
		if p.guard.Revision > 0 {
			c.Guards = []ledger.Guard{p.guard}
		}
	}
	c.Writes = []ledger.Write{w}
	return c, nil
}

// step loads the subject and commits the next Change of the plan.
func (p plan) step(ctx context.Context, e Engine) (ledger.Change, ledger.Result, error) {
	s, now, err := e.Load(ctx, p.subject())
	if errors.Is(err, ledger.ErrNotFound) {
		s, err = ledger.Subject{Key: p.subject(), Head: evidence.Genesis}, nil
	}
	if err != nil {
		return ledger.Change{}, ledger.Result{}, err
	}
	c, err := p.next(s, now)
	if err != nil {
		return c, ledger.Result{}, err
	}
	return c, e.Commit(ctx, c), nil
}

// audit reads everything about the subject and reports its revision, or what
// of the plan is there in part, missing or too much.
func (p plan) audit(ctx context.Context, e Engine) (revision int64, err error) {
	s, err := load(ctx, e, p.subject())
	if err != nil {
		return 0, err
	}
	r := s.Revision
	if r > 0 && (string(s.State) != string(p.state(r)) || s.Due.IsZero()) {
		return r, fmt.Errorf("%s: state %s at revision %d", p.id, s.State, r)
	}
	if err := p.auditChain(ctx, e, s); err != nil {
		return r, err
	}
	texts, err := e.Texts(ctx, s.Key)
	if err != nil {
		return r, err
	}
	if int64(len(texts)) != r {
		return r, fmt.Errorf("%s: %d texts at revision %d", p.id, len(texts), r)
	}
	for n := int64(1); n <= r; n++ {
		want := p.text(n)
		if !slices.ContainsFunc(texts, func(t evidence.Text) bool {
			return t.Commitment == want.Commitment && t.Text == want.Text && slices.Equal(t.Salt, want.Salt)
		}) {
			return r, fmt.Errorf("%s: text of revision %d is missing", p.id, n)
		}
	}
	for n := int64(1); n <= r+1; n++ {
		if err := p.auditRevision(ctx, e, n, n <= r, n == r); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (p plan) auditChain(ctx context.Context, e Engine, s ledger.Subject) error {
	link := evidence.Link{Hash: evidence.Genesis}
	for {
		page, err := e.Events(ctx, s.Key, link.Sequence, 7)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, event := range page {
			digest, err := event.Digest()
			if err != nil {
				return err
			}
			signature, err := canon.DecodeBase64(event.Signature)
			if err != nil {
				return err
			}
			switch {
			case event.Sequence != link.Sequence+1 || event.PreviousHash != link.Hash || event.RunID != s.ID:
				return fmt.Errorf("%s: event %d does not follow %d", p.id, event.Sequence, link.Sequence)
			case hex.EncodeToString(digest[:]) != event.Hash:
				return fmt.Errorf("%s: event %d has another hash", p.id, event.Sequence)
			case !ed25519.Verify(p.key.Public(), digest[:], signature):
				return fmt.Errorf("%s: event %d has a bad signature", p.id, event.Sequence)
			}
			link = evidence.Link{Sequence: event.Sequence, Hash: event.Hash}
		}
	}
	if link != s.Link() || link.Sequence != planEvents*s.Revision {
		return fmt.Errorf("%s: chain ends at %d, subject says %d at revision %d", p.id, link.Sequence, s.Sequence, s.Revision)
	}
	return nil
}

// auditRevision checks what the Change to revision n left: all of it or none,
// and of what the next Change removes only the last.
func (p plan) auditRevision(ctx context.Context, e Engine, n int64, stored, last bool) error {
	workspace := p.subject().Workspace
	record, errRecord := e.Record(ctx, workspace, p.id, p.record(n))
	fate, errFate := e.Fate(ctx, workspace, p.permit(n))
	_, _, errCredential := e.Credential(ctx, workspace, p.credential(n))
	_, errSealed := e.SealedValue(ctx, p.subject(), p.seal(n))
	for _, part := range []struct {
		name string
		err  error
		want bool
	}{
		{"record", errRecord, stored}, {"fate", errFate, stored}, {"credential", errCredential, last}, {"sealed value", errSealed, last},
	} {
		if part.err != nil && !errors.Is(part.err, ledger.ErrNotFound) {
			return part.err
		}
		if there := part.err == nil; there != part.want {
			return fmt.Errorf("%s: %s of revision %d there: %v, want %v", p.id, part.name, n, there, part.want)
		}
	}
	if stored && (record.Object != p.execution(n) || fate.Execution != p.execution(n)) {
		return fmt.Errorf("%s: record or fate of revision %d names another execution", p.id, n)
	}
	found, err := e.Find(ctx, ledger.Query{Workspace: workspace, Kind: ledger.KindRun,
		Where: []ledger.Attribute{{Name: "owner", Value: p.id}, {Name: "status", Value: p.status(n)}}})
	if err != nil {
		return err
	}
	if (len(found) == 1) != last {
		return fmt.Errorf("%s: found by the status of revision %d: %d", p.id, n, len(found))
	}
	return nil
}
