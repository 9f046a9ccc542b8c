package sqlite

import (
	"fmt"
	"time"

	"countersign/internal/ledger"
)

const (
	// selectFreeze is -1 while the workspace is frozen, else how many freezes it has seen.
	selectFreeze = `SELECT CASE name WHEN '` + ledger.AttributeFrozen + `' THEN -1 ELSE CAST(value AS INTEGER) END FROM attributes
		WHERE workspace = ? AND kind = ? AND id = ? AND name IN ('` + ledger.AttributeFrozen + `', '` + ledger.AttributeFreezes + `') ORDER BY name DESC LIMIT 1`
	insertSubject = `INSERT INTO subjects (workspace, kind, id, revision, sequence, head, state, attributes, due, updated)
		VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	updateSubject = `UPDATE subjects SET revision = revision + 1, sequence = sequence + ?, head = ?, state = ?, attributes = ?,
		due = ?, updated = coalesce(?, updated)
		WHERE workspace = ? AND kind = ? AND id = ? AND revision = ? AND head = ? AND sequence = coalesce(?, sequence)`
	updateSubjectOnly = updateSubject + ` AND attributes = ?`
	selectGuard       = `SELECT revision FROM subjects WHERE workspace = ? AND kind = ? AND id = ?`
	selectRead        = `SELECT 1 FROM subjects WHERE workspace = ? AND kind = ? AND id = ? AND revision = ? AND head = ?`
	deleteAttributes  = `DELETE FROM attributes WHERE workspace = ? AND kind = ? AND id = ?`
	insertAttribute   = `INSERT INTO attributes (workspace, kind, id, name, value) VALUES (?, ?, ?, ?, ?)`
	insertEvent       = `INSERT INTO events (workspace, kind, subject, sequence, id, type, data, timestamp, previous_hash, hash,
		signature, key_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertText = `INSERT INTO texts (workspace, kind, subject, commitment, salt, text) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	upsertSeal = `INSERT INTO sealed (workspace, kind, subject, name, bytes) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET bytes = excluded.bytes`
	deleteSeal   = `DELETE FROM sealed WHERE workspace = ? AND kind = ? AND subject = ? AND name = ?`
	insertRecord = `INSERT INTO idempotency (workspace, principal, key, fingerprint, subject_kind, subject_id, object, sequence)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	insertPermit = `INSERT INTO spent_permits (workspace, permit, subject_kind, subject_id, fate, cause, execution)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	insertCredential = `INSERT INTO credentials (workspace, hash, kind, subject, generation, origin, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	deleteCredential = `DELETE FROM credentials WHERE workspace = ? AND hash = ?`
)

var stored = ledger.Result{Outcome: ledger.Stored}

func conflict(which ledger.Which, on ledger.Key) (ledger.Result, error) {
	return ledger.Result{Outcome: ledger.Conflict, Which: which, On: on}, nil
}

// apply writes c into the open transaction. Anything but Stored means that the
// caller has to undo it; an error means that the whole transaction has to go.
func (t *tx) apply(c *change, now time.Time) (ledger.Result, error) {
	if now.Before(c.newest) {
		now = c.newest
	}
	if !c.NotAfter.IsZero() && !now.Before(c.NotAfter) {
		return conflict(ledger.OnExpiry, ledger.Key{})
	}
	if c.Freezable {
		epoch, _, err := t.number(afterFreeze, selectFreeze, c.workspace, ledger.KindWorkspace, c.workspace)
		switch {
		case err != nil:
			return ledger.Result{}, err
		case epoch < 0:
			return conflict(ledger.OnFreeze, ledger.Key{})
		case epoch != c.FreezeEpoch: // of a workspace that was never frozen it is 0
			return conflict(ledger.OnEpoch, ledger.Key{})
		}
	}
	for _, g := range c.Guards {
		revision, _, err := t.number(afterGuard, selectGuard, g.Workspace, g.Kind, g.ID)
		if err != nil {
			return ledger.Result{}, err
		}
		if revision != g.Revision { // an absent subject has revision 0
			return conflict(ledger.OnGuard, g.Key)
		}
	}
	for i := range c.writes {
		if r, err := t.write(&c.writes[i]); err != nil || r.Outcome != ledger.Stored {
			return r, err
		}
	}
	return t.rows(c)
}

// write moves one subject and appends what comes with it.
func (t *tx) write(w *write) (ledger.Result, error) {
	changed, attributes, err := t.subject(w)
	if err != nil {
		return ledger.Result{}, err
	}
	if changed == 0 {
		return t.whyNot(w)
	}
	if attributes {
		if err := t.attributes(w); err != nil {
			return ledger.Result{}, err
		}
	}
	for i := range w.Events {
		e := &w.Events[i]
		_, err := t.exec(afterEvent, insertEvent, w.Workspace, w.Kind, w.ID, e.Sequence, e.ID, e.Type, []byte(e.Data), e.Timestamp,
			e.PreviousHash, e.Hash, e.Signature, e.KeyID)
		if err != nil {
			return ledger.Result{}, err
		}
	}
	for _, x := range w.Texts {
		if _, err := t.exec(afterText, insertText, w.Workspace, w.Kind, w.ID, x.Commitment, x.Salt, []byte(x.Text)); err != nil {
			return ledger.Result{}, err
		}
	}
	for _, s := range w.Sealed {
		point, query, args := afterSeal, upsertSeal, []any{w.Workspace, w.Kind, w.ID, s.Name, s.Bytes}
		if s.Bytes == nil {
			point, query, args = afterUnseal, deleteSeal, args[:4]
		}
		if _, err := t.exec(point, query, args...); err != nil {
			return ledger.Result{}, err
		}
	}
	return stored, nil
}

// subject creates or moves the row and reports whether the attributes have to
// be written. The common case, the same attributes as before, is one statement.
func (t *tx) subject(w *write) (changed int64, attributes bool, err error) {
	events := int64(len(w.Events))
	if w.Revision == 0 {
		changed, err = t.exec(afterInsert, insertSubject, w.Workspace, w.Kind, w.ID, events, w.head, w.State, w.attributes, w.due, w.updated)
		return changed, len(w.Attributes) > 0, err
	}
	var sequence any // that of the head read; without events only the head tells
	if events > 0 {
		sequence = w.Events[0].Sequence - 1
	}
	args := []any{events, w.head, w.State, w.attributes, w.due, w.updated, w.Workspace, w.Kind, w.ID, w.Revision, w.Head, sequence, w.attributes}
	changed, err = t.exec(afterUpdate, updateSubjectOnly, args...)
	if err != nil || changed > 0 {
		return changed, false, err
	}
	changed, err = t.exec(afterUpdate, updateSubject, args[:len(args)-1]...)
	return changed, true, err
}

// whyNot tells a subject that moved from a Change that was never right.
func (t *tx) whyNot(w *write) (ledger.Result, error) {
	if w.Revision > 0 {
		_, asRead, err := t.number("", selectRead, w.Workspace, w.Kind, w.ID, w.Revision, w.Head)
		if err != nil {
			return ledger.Result{}, err
		}
		if asRead {
			err := fmt.Errorf("%w: sequence %d does not follow the head of %s", ledger.ErrInvalid, w.Events[0].Sequence, w.Key)
			return ledger.Result{Outcome: ledger.NotStored, Cause: err}, nil
		}
	}
	return conflict(ledger.OnSubject, w.Key)
}

func (t *tx) attributes(w *write) error {
	if w.Revision > 0 {
		if _, err := t.exec("", deleteAttributes, w.Workspace, w.Kind, w.ID); err != nil {
			return err
		}
	}
	for _, a := range w.Attributes {
		if _, err := t.exec("", insertAttribute, w.Workspace, w.Kind, w.ID, a.Name, a.Value); err != nil {
			return err
		}
	}
	return t.at(afterAttributes)
}

// rows inserts what belongs to no single subject. An existing key is a failed
// guard, never an error that would take the neighbours along.
func (t *tx) rows(c *change) (ledger.Result, error) {
	if r := c.Record; r != nil {
		inserted, err := t.exec(afterRecord, insertRecord, r.Workspace, r.Principal, r.Key, r.Fingerprint, r.Subject.Kind, r.Subject.ID, r.Object, r.Sequence)
		if err != nil {
			return ledger.Result{}, err
		}
		if inserted == 0 {
			return conflict(ledger.OnRecord, ledger.Key{})
		}
	}
	for _, f := range c.Fates {
		inserted, err := t.exec(afterPermit, insertPermit, f.Workspace, f.PermitID, f.Subject.Kind, f.Subject.ID, f.Fate, f.Cause, f.Execution)
		if err != nil {
			return ledger.Result{}, err
		}
		if inserted == 0 {
			return conflict(ledger.OnPermit, ledger.Key{})
		}
	}
	for _, d := range c.Credentials {
		inserted, err := t.exec(afterCredential, insertCredential, d.Workspace, d.Hash, d.Kind, d.Subject, d.Generation, d.Origin, d.ExpiresAt.UnixMilli())
		if err != nil {
			return ledger.Result{}, err
		}
		if inserted == 0 {
			return conflict(ledger.OnCredential, ledger.Key{})
		}
	}
	for _, hash := range c.Revoke {
		if _, err := t.exec(afterRevoke, deleteCredential, c.workspace, hash); err != nil {
			return ledger.Result{}, err
		}
	}
	return stored, nil
}
