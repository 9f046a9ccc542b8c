// Package statement writes the SQL that stores a group of Changes: one statement
// for all of them, see [Compile]. It touches no database.
//
// The statement is one WITH. Its parts, each there only when some Change of the
// group has use for it:
//
//	held      locks the subjects to write, in key order, and reads them
//	watched   locks the subjects of read guards against writers
//	records, fates, issued   what must not exist yet
//	bad       the Changes that must not be stored: number, rank of the guard, which
//	others    insert or update, each only for Changes that are not bad
//
// It returns bad. A row that another transaction inserts after the statement's
// snapshot is not seen by bad; then a primary key refuses the whole statement,
// which has to be tried again. All of a statement sees one snapshot: two Changes
// of a group must not share a subject that one of them writes, an idempotency
// key, a permit or a credential, or both would win.
//
// A Change that is alone, as most are with few callers, gets a leaner statement
// of the same parts: what a statement of one row costs the server is setting up
// its plan, not the row. Its one-row inputs are written out instead of unnested,
// and bad is asked for a row instead of for a number. No part sorts: the caller
// finds the lowest rank.
package statement

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
)

// ranks orders the guards: of several that fail, the lowest answers.
var ranks = []ledger.Which{
	ledger.OnFreeze, ledger.OnEpoch, ledger.OnExpiry, ledger.OnSubject, ledger.OnGuard, ledger.OnRecord, ledger.OnPermit, ledger.OnCredential,
}

func rank(which ledger.Which) int { return slices.Index(ranks, which) }

// outOfSequence is the rank of events whose sequence does not follow the head
// that was read and found: a fault of the caller that only the row can show.
var outOfSequence = len(ranks)

// Failed is a row of the answer: a guard of a Change that did not hold.
type Failed struct{ Change, Rank, Number int }

// Results says what became of each Change of the group that was compiled: of
// the guards that failed the lowest answers, and without one it is stored. The
// order of failed is of no account and may be changed.
func Results(group []*ledger.Change, failed []Failed) []ledger.Result {
	slices.SortFunc(failed, func(a, b Failed) int { return cmp.Or(a.Rank-b.Rank, a.Number-b.Number) })
	results := make([]ledger.Result, len(group))
	for i := range results {
		results[i].Outcome = ledger.Stored
	}
	for _, f := range failed {
		if r := &results[f.Change]; r.Outcome == ledger.Stored {
			*r = refusal(group[f.Change], f)
		}
	}
	return results
}

func refusal(c *ledger.Change, f Failed) ledger.Result {
	if f.Rank == outOfSequence {
		w := &c.Writes[f.Number]
		return ledger.Result{Outcome: ledger.NotStored, Cause: fmt.Errorf("%w: sequence %d does not follow the head of %s",
			ledger.ErrInvalid, w.Events[0].Sequence, w.Key)}
	}
	r := ledger.Result{Outcome: ledger.Conflict, Which: ranks[f.Rank]}
	switch r.Which {
	case ledger.OnSubject:
		r.On = c.Writes[f.Number].Key
	case ledger.OnGuard:
		r.On = c.Guards[f.Number].Key
	}
	return r
}

// statement is a statement under construction.
type statement struct {
	alone  bool     // the group has one Change
	guards []string // CTEs before bad
	bad    []string // SELECTs of bad
	writes []string // CTEs behind bad
	args   []any
	locks  []string // CTEs that the clock must not be read before
}

// input turns arrays of equal length into rows named alias. A column is written
// as "name type". Text compares by bytes.
//
// The one row of a Change that is alone is written out. Groups always take
// arrays, so that their sizes do not multiply the statements to prepare.
func (s *statement) input(alias string, columns []string, arrays ...any) string {
	row := s.alone && reflect.ValueOf(arrays[0]).Len() == 1
	var args, names strings.Builder
	for i, column := range columns {
		name, kind, _ := strings.Cut(column, " ")
		if i > 0 {
			args.WriteString(", ")
			names.WriteString(", ")
		}
		names.WriteString(name)
		value := arrays[i]
		if row {
			value = reflect.ValueOf(value).Index(0).Interface()
		} else {
			kind += "[]"
		}
		s.args = append(s.args, value)
		args.WriteString("$" + strconv.Itoa(len(s.args)) + "::" + kind)
		if strings.HasPrefix(kind, "text") {
			args.WriteString(` COLLATE "C"`)
		}
	}
	if row {
		return "(VALUES (" + args.String() + ")) AS " + alias + " (" + names.String() + ")"
	}
	return "unnest(" + args.String() + ") AS " + alias + " (" + names.String() + ")"
}

// good is the condition that the Change whose number is in column may be stored.
// Among several it is evaluated through a hash table built once, so that the
// joins stay by key.
func (s *statement) good(column string) string {
	if s.alone {
		return "NOT EXISTS (SELECT FROM bad)"
	}
	return column + " NOT IN (SELECT change FROM bad)"
}

func (s *statement) refuse(which ledger.Which, number, from string) {
	s.fail(rank(which), number, from)
}

func (s *statement) fail(rank int, number, from string) {
	s.bad = append(s.bad, fmt.Sprintf("SELECT change, %d, %s FROM %s", rank, number, from))
}

// Compile makes the statement of a group. The Changes are valid
// ([ledger.Change.Validate]); offset is what the ledger's clock adds to the
// server's. Every row of the answer is a [Failed], in no order, for [Results].
func Compile(group []*ledger.Change, offset time.Duration) (sql string, args []any) {
	s := statement{alone: len(group) == 1}
	s.subjects(group)
	s.readGuards(group)
	s.limits(group, offset)
	s.freeze(group)
	s.records(group)
	s.fates(group)
	s.credentials(group)
	s.events(group)
	s.attributes(group)
	s.texts(group)
	s.sealed(group)

	if len(s.bad) == 0 {
		s.bad = []string{"SELECT 0, 0, 0 WHERE false"}
	}
	parts := append(s.guards, "bad (change, rank, number) AS MATERIALIZED (\n"+strings.Join(s.bad, "\nUNION ALL ")+")")
	parts = append(parts, s.writes...)
	return "WITH " + strings.Join(parts, ",\n") + "\nSELECT change, rank, number FROM bad", s.args
}

// place is a Write or Guard with its numbers.
type place[T any] struct {
	change, number int32
	item           *T
}

func inKeyOrder[T any](list []place[T], key func(*T) ledger.Key) {
	slices.SortFunc(list, func(a, b place[T]) int {
		x, y := key(a.item), key(b.item)
		return cmp.Or(cmp.Compare(x.Workspace, y.Workspace), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.ID, y.ID))
	})
}

// subjects locks, compares and writes the subjects. In the arrays 0 stands for
// no event, -1 for no time.
func (s *statement) subjects(group []*ledger.Change) {
	var list []place[ledger.Write]
	for g, c := range group {
		for n := range c.Writes {
			list = append(list, place[ledger.Write]{int32(g), int32(n), &c.Writes[n]})
		}
	}
	if len(list) == 0 {
		return
	}
	inKeyOrder(list, func(w *ledger.Write) ledger.Key { return w.Key })
	n := len(list)
	change, number, item := make([]int32, n), make([]int32, n), make([]int32, n)
	workspace, kind, id := make([]string, n), make([]string, n), make([]string, n)
	revision, head, state, digests := make([]int64, n), make([]string, n), make([][]byte, n), make([][]byte, n)
	due, first, last, newHead, updated := make([]int64, n), make([]int64, n), make([]int64, n), make([]string, n), make([]int64, n)
	creates, updates := false, false
	for i, p := range list {
		w := p.item
		change[i], number[i], item[i] = p.change, p.number, itemNumber(p.change, p.number)
		workspace[i], kind[i], id[i] = w.Workspace, w.Kind, w.ID
		revision[i], head[i], state[i], digests[i] = w.Revision, w.Head, w.State, digest(w.Attributes)
		due[i], updated[i] = milliseconds(w.Due), -1
		if len(w.Events) > 0 {
			e := &w.Events[len(w.Events)-1]
			first[i], last[i], newHead[i], updated[i] = w.Events[0].Sequence, e.Sequence, e.Hash, timestamp(e)
		}
		creates, updates = creates || w.Revision == 0, updates || w.Revision > 0
	}
	s.guards = append(s.guards, `held AS MATERIALIZED (
SELECT w.*, s.revision AS old_revision, s.head AS old_head, s.sequence AS old_sequence, s.attributes AS old_attributes
FROM `+s.input("w", []string{
		"change int4", "number int4", "item int4", "workspace text", "kind text", "id text", "revision int8", "head text",
		"state bytea", "attributes bytea", "due int8", "first int8", "last int8", "new_head text", "updated int8",
	}, change, number, item, workspace, kind, id, revision, head, state, digests, due, first, last, newHead, updated)+`
LEFT JOIN LATERAL (
  SELECT revision, head, sequence, attributes FROM subjects
  WHERE workspace = w.workspace AND kind = w.kind AND id = w.id FOR NO KEY UPDATE) s ON true)`)
	s.locks = append(s.locks, "held")
	s.refuse(ledger.OnSubject, "number", `held WHERE revision <> coalesce(old_revision, 0) OR head <> coalesce(old_head, head)`)
	s.fail(outOfSequence, "number", `held WHERE first > 0 AND first <> coalesce(old_sequence, 0) + 1`)
	if updates {
		s.writes = append(s.writes, `updated AS (
UPDATE subjects s SET revision = w.revision + 1, state = w.state, attributes = w.attributes, due = nullif(w.due, -1),
  sequence = CASE WHEN w.last > 0 THEN w.last ELSE s.sequence END,
  head = CASE WHEN w.last > 0 THEN w.new_head ELSE s.head END,
  updated = CASE WHEN w.last > 0 THEN w.updated ELSE s.updated END
FROM held w
WHERE s.workspace = w.workspace AND s.kind = w.kind AND s.id = w.id AND w.revision > 0 AND `+s.good("w.change")+`)`)
	}
	if creates {
		s.writes = append(s.writes, `created AS (
INSERT INTO subjects (workspace, kind, id, revision, sequence, head, state, attributes, due, updated)
SELECT workspace, kind, id, 1, last, CASE WHEN last > 0 THEN new_head ELSE head END, state, attributes,
  nullif(due, -1), nullif(updated, -1)
FROM held WHERE revision = 0 AND `+s.good("change")+`)`)
	}
}

// itemNumber numbers the Writes of a group. A Change has far fewer Writes.
func itemNumber(change, number int32) int32 { return change<<16 | number }

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

// timestamp is the time of an event that Validate has seen.
func timestamp(e *evidence.Event) int64 {
	at, err := evidence.ParseTime(e.Timestamp)
	if err != nil {
		panic(err)
	}
	return at.UnixMilli()
}

// newest is the time of the newest event of a Change, 0 when it has none.
func newest(c *ledger.Change) (ms int64) {
	for i := range c.Writes {
		if events := c.Writes[i].Events; len(events) > 0 {
			ms = max(ms, timestamp(&events[len(events)-1]))
		}
	}
	return ms
}

func (s *statement) readGuards(group []*ledger.Change) {
	var list []place[ledger.Guard]
	for g, c := range group {
		for n := range c.Guards {
			list = append(list, place[ledger.Guard]{int32(g), int32(n), &c.Guards[n]})
		}
	}
	if len(list) == 0 {
		return
	}
	inKeyOrder(list, func(g *ledger.Guard) ledger.Key { return g.Key })
	n := len(list)
	change, number, revision := make([]int32, n), make([]int32, n), make([]int64, n)
	workspace, kind, id := make([]string, n), make([]string, n), make([]string, n)
	for i, p := range list {
		change[i], number[i], revision[i] = p.change, p.number, p.item.Revision
		workspace[i], kind[i], id[i] = p.item.Workspace, p.item.Kind, p.item.ID
	}
	s.guards = append(s.guards, `watched AS MATERIALIZED (
SELECT g.*, s.revision AS old_revision
FROM `+s.input("g", []string{"change int4", "number int4", "workspace text", "kind text", "id text", "revision int8"},
		change, number, workspace, kind, id, revision)+`
LEFT JOIN LATERAL (
  SELECT revision FROM subjects WHERE workspace = g.workspace AND kind = g.kind AND id = g.id FOR SHARE) s ON true)`)
	s.locks = append(s.locks, "watched")
	s.refuse(ledger.OnGuard, "number", "watched WHERE revision <> coalesce(old_revision, 0)")
}

// limits compares NotAfter with the time once all row locks are held. The time
// of a transaction is never before the newest event of the Change.
func (s *statement) limits(group []*ledger.Change, offset time.Duration) {
	var change []int32
	var at []time.Time
	for g, c := range group {
		limit := c.NotAfter
		if limit.IsZero() {
			continue
		}
		if newest(c) >= limit.UnixMilli() {
			limit = time.UnixMilli(0) // passed, whatever the clock says
		}
		change, at = append(change, int32(g)), append(at, limit.Add(-offset))
	}
	if len(change) == 0 {
		return
	}
	now := "SELECT clock_timestamp() AS now"
	if len(s.locks) > 0 {
		now += " FROM (SELECT count(*) FROM " + strings.Join(s.locks, ", ") + ") AS locked"
	}
	s.guards = append(s.guards, "clock AS MATERIALIZED ("+now+")")
	s.refuse(ledger.OnExpiry, "0", s.input("l", []string{"change int4", "not_after timestamptz"}, change, at)+
		", clock WHERE clock.now >= l.not_after")
}

// freeze is right only under the lock that precedes the statement.
func (s *statement) freeze(group []*ledger.Change) {
	var change []int32
	var workspace, epoch []string
	for g, c := range group {
		if c.Freezable {
			change, workspace, epoch = append(change, int32(g)), append(workspace, c.Scope()), append(epoch, strconv.FormatInt(c.FreezeEpoch, 10))
		}
	}
	if len(change) == 0 {
		return
	}
	s.guards = append(s.guards, `freezing AS MATERIALIZED (
SELECT f.change, f.epoch = coalesce(n.value, '0') AS current, z.value IS NOT NULL AS frozen
FROM `+s.input("f", []string{"change int4", "workspace text", "epoch text"}, change, workspace, epoch)+
		ofWorkspace("n", ledger.AttributeFreezes)+ofWorkspace("z", ledger.AttributeFrozen)+`)`)
	s.refuse(ledger.OnFreeze, "0", "freezing WHERE frozen")
	s.refuse(ledger.OnEpoch, "0", "freezing WHERE NOT current")
}

// ofWorkspace joins an attribute of f's workspace.
func ofWorkspace(alias, name string) string {
	return `
LEFT JOIN LATERAL (SELECT value FROM attributes WHERE workspace = f.workspace AND kind = '` + ledger.KindWorkspace + `'
  AND id = f.workspace AND name = '` + name + `') ` + alias + ` ON true`
}

func (s *statement) records(group []*ledger.Change) {
	var change []int32
	var sequence []int64
	var workspace, principal, key, fingerprint, kind, id, object []string
	for g, c := range group {
		if r := c.Record; r != nil {
			change, sequence = append(change, int32(g)), append(sequence, r.Sequence)
			workspace, principal, key = append(workspace, r.Workspace), append(principal, r.Principal), append(key, r.Key)
			fingerprint, object = append(fingerprint, r.Fingerprint), append(object, r.Object)
			kind, id = append(kind, r.Subject.Kind), append(id, r.Subject.ID)
		}
	}
	if len(change) == 0 {
		return
	}
	s.guards = append(s.guards, `records AS MATERIALIZED (SELECT * FROM `+s.input("r", []string{
		"change int4", "workspace text", "principal text", "key text", "fingerprint text", "kind text", "id text", "object text", "sequence int8",
	}, change, workspace, principal, key, fingerprint, kind, id, object, sequence)+`)`)
	s.refuse(ledger.OnRecord, "0", `records r WHERE EXISTS (SELECT FROM idempotency o
WHERE o.workspace = r.workspace AND o.principal = r.principal AND o.key = r.key)`)
	s.writes = append(s.writes, `recorded AS (
INSERT INTO idempotency (workspace, principal, key, fingerprint, subject_kind, subject_id, object, sequence)
SELECT workspace, principal, key, fingerprint, kind, id, object, sequence FROM records WHERE `+s.good("change")+`)`)
}

func (s *statement) fates(group []*ledger.Change) {
	var change []int32
	var workspace, permit, kind, id, fate, cause, execution []string
	for g, c := range group {
		for _, f := range c.Fates {
			change, workspace, permit = append(change, int32(g)), append(workspace, f.Workspace), append(permit, f.PermitID)
			kind, id = append(kind, f.Subject.Kind), append(id, f.Subject.ID)
			fate, cause, execution = append(fate, f.Fate), append(cause, f.Cause), append(execution, f.Execution)
		}
	}
	if len(change) == 0 {
		return
	}
	s.guards = append(s.guards, `fates AS MATERIALIZED (SELECT * FROM `+s.input("f", []string{
		"change int4", "workspace text", "permit text", "kind text", "id text", "fate text", "cause text", "execution text",
	}, change, workspace, permit, kind, id, fate, cause, execution)+`)`)
	s.refuse(ledger.OnPermit, "0", `fates f WHERE EXISTS (SELECT FROM spent_permits o
WHERE o.workspace = f.workspace AND o.permit = f.permit)`)
	s.writes = append(s.writes, `spent AS (
INSERT INTO spent_permits (workspace, permit, subject_kind, subject_id, fate, cause, execution)
SELECT workspace, permit, kind, id, fate, cause, execution FROM fates WHERE `+s.good("change")+`)`)
}

func (s *statement) credentials(group []*ledger.Change) {
	var change, revokedBy []int32
	var workspace, hash, kind, subject, origin, revokedIn, revoked []string
	var generation, expires []int64
	for g, c := range group {
		for _, k := range c.Credentials {
			change, workspace, hash = append(change, int32(g)), append(workspace, k.Workspace), append(hash, k.Hash)
			kind, subject, origin = append(kind, k.Kind), append(subject, k.Subject), append(origin, k.Origin)
			generation, expires = append(generation, k.Generation), append(expires, k.ExpiresAt.UnixMilli())
		}
		for _, h := range c.Revoke {
			revokedBy, revokedIn, revoked = append(revokedBy, int32(g)), append(revokedIn, c.Scope()), append(revoked, h)
		}
	}
	if len(change) > 0 {
		s.guards = append(s.guards, `issued AS MATERIALIZED (SELECT * FROM `+s.input("k", []string{
			"change int4", "workspace text", "hash text", "kind text", "subject text", "generation int8", "origin text", "expires int8",
		}, change, workspace, hash, kind, subject, generation, origin, expires)+`)`)
		s.refuse(ledger.OnCredential, "0", `issued k WHERE EXISTS (SELECT FROM credentials o
WHERE o.workspace = k.workspace AND o.hash = k.hash)`)
		s.writes = append(s.writes, `credited AS (
INSERT INTO credentials (workspace, hash, kind, subject, generation, origin, expires)
SELECT workspace, hash, kind, subject, generation, origin, expires FROM issued WHERE `+s.good("change")+`)`)
	}
	if len(revoked) > 0 {
		s.writes = append(s.writes, `revoked AS (
DELETE FROM credentials o USING `+s.input("r", []string{"change int4", "workspace text", "hash text"}, revokedBy, revokedIn, revoked)+`
WHERE o.workspace = r.workspace AND o.hash = r.hash AND `+s.good("r.change")+`)`)
	}
}

func (s *statement) events(group []*ledger.Change) {
	var change []int32
	var sequence []int64
	var data [][]byte
	var workspace, kind, subject, id, types, timestamp, previous, hash, signature, keyID []string
	for g, c := range group {
		for i := range c.Writes {
			w := &c.Writes[i]
			for n := range w.Events {
				e := &w.Events[n]
				change, sequence, data = append(change, int32(g)), append(sequence, e.Sequence), append(data, e.Data)
				workspace, kind, subject = append(workspace, w.Workspace), append(kind, w.Kind), append(subject, w.ID)
				id, types, timestamp = append(id, e.ID), append(types, e.Type), append(timestamp, e.Timestamp)
				previous, hash = append(previous, e.PreviousHash), append(hash, e.Hash)
				signature, keyID = append(signature, e.Signature), append(keyID, e.KeyID)
			}
		}
	}
	if len(change) == 0 {
		return
	}
	s.writes = append(s.writes, `appended AS (
INSERT INTO events (workspace, kind, subject, sequence, id, type, data, timestamp, previous_hash, hash, signature, key_id)
SELECT workspace, kind, subject, sequence, id, type, data, timestamp, previous_hash, hash, signature, key_id
FROM `+s.input("e", []string{
		"change int4", "workspace text", "kind text", "subject text", "sequence int8", "id text", "type text", "data bytea",
		"timestamp text", "previous_hash text", "hash text", "signature text", "key_id text",
	}, change, workspace, kind, subject, sequence, id, types, data, timestamp, previous, hash, signature, keyID)+`
WHERE `+s.good("change")+`)`)
}

// attributes replaces those of a subject when their digest differs.
func (s *statement) attributes(group []*ledger.Change) {
	var item []int32
	var workspace, kind, id, name, value []string
	updates := false
	for g, c := range group {
		for n := range c.Writes {
			w := &c.Writes[n]
			updates = updates || w.Revision > 0
			for _, a := range w.Attributes {
				item = append(item, itemNumber(int32(g), int32(n)))
				workspace, kind, id = append(workspace, w.Workspace), append(kind, w.Kind), append(id, w.ID)
				name, value = append(name, a.Name), append(value, a.Value)
			}
		}
	}
	if updates {
		gone := ""
		if len(item) > 0 {
			gone = " AND (w.item, a.name) NOT IN (SELECT item, name FROM given)"
		}
		s.writes = append(s.writes, `ungiven AS (
DELETE FROM attributes a USING held w
WHERE a.workspace = w.workspace AND a.kind = w.kind AND a.id = w.id
  AND w.revision > 0 AND w.attributes <> w.old_attributes AND `+s.good("w.change")+gone+`)`)
	}
	if len(item) == 0 {
		return
	}
	s.guards = append(s.guards, `given AS MATERIALIZED (SELECT * FROM `+s.input("g", []string{
		"item int4", "workspace text", "kind text", "id text", "name text", "value text",
	}, item, workspace, kind, id, name, value)+`)`)
	s.writes = append(s.writes, `regiven AS (
INSERT INTO attributes AS a (workspace, kind, id, name, value)
SELECT workspace, kind, id, name, value FROM given
WHERE item NOT IN (SELECT item FROM held WHERE attributes = coalesce(old_attributes, '') OR change IN (SELECT change FROM bad))
ON CONFLICT (workspace, kind, id, name) DO UPDATE SET value = excluded.value WHERE a.value <> excluded.value)`)
}

// digest of a set of attributes, whatever their order.
func digest(attributes []ledger.Attribute) []byte {
	sorted := slices.SortedFunc(slices.Values(attributes), func(a, b ledger.Attribute) int { return cmp.Compare(a.Name, b.Name) })
	var b []byte
	for _, a := range sorted {
		b = binary.AppendUvarint(b, uint64(len(a.Name)))
		b = append(b, a.Name...)
		b = binary.AppendUvarint(b, uint64(len(a.Value)))
		b = append(b, a.Value...)
	}
	sum := sha256.Sum256(b)
	return sum[:16]
}

func (s *statement) texts(group []*ledger.Change) {
	var change []int32
	var workspace, kind, subject, commitment []string
	var salt, text [][]byte
	for g, c := range group {
		for i := range c.Writes {
			w := &c.Writes[i]
			for _, t := range w.Texts {
				change, workspace, kind = append(change, int32(g)), append(workspace, w.Workspace), append(kind, w.Kind)
				subject, commitment = append(subject, w.ID), append(commitment, t.Commitment)
				salt, text = append(salt, t.Salt), append(text, []byte(t.Text))
			}
		}
	}
	if len(change) == 0 {
		return
	}
	s.writes = append(s.writes, `told AS (
INSERT INTO texts (workspace, kind, subject, commitment, salt, text)
SELECT workspace, kind, subject, commitment, salt, text
FROM `+s.input("t", []string{
		"change int4", "workspace text", "kind text", "subject text", "commitment text", "salt bytea", "text bytea",
	}, change, workspace, kind, subject, commitment, salt, text)+`
WHERE `+s.good("change")+` ON CONFLICT DO NOTHING)`)
}

func (s *statement) sealed(group []*ledger.Change) {
	var change, goneBy []int32
	var workspace, kind, subject, name, goneIn, goneKind, goneOf, gone []string
	var bytes [][]byte
	for g, c := range group {
		for i := range c.Writes {
			w := &c.Writes[i]
			for _, v := range w.Sealed {
				if v.Bytes == nil {
					goneBy, goneIn, goneKind = append(goneBy, int32(g)), append(goneIn, w.Workspace), append(goneKind, w.Kind)
					goneOf, gone = append(goneOf, w.ID), append(gone, v.Name)
					continue
				}
				change, workspace, kind = append(change, int32(g)), append(workspace, w.Workspace), append(kind, w.Kind)
				subject, name, bytes = append(subject, w.ID), append(name, v.Name), append(bytes, v.Bytes)
			}
		}
	}
	if len(change) > 0 {
		s.writes = append(s.writes, `sealed_now AS (
INSERT INTO sealed (workspace, kind, subject, name, bytes)
SELECT workspace, kind, subject, name, bytes
FROM `+s.input("v", []string{
			"change int4", "workspace text", "kind text", "subject text", "name text", "bytes bytea",
		}, change, workspace, kind, subject, name, bytes)+`
WHERE `+s.good("change")+` ON CONFLICT (workspace, kind, subject, name) DO UPDATE SET bytes = excluded.bytes)`)
	}
	if len(gone) > 0 {
		s.writes = append(s.writes, `unsealed AS (
DELETE FROM sealed o USING `+s.input("v", []string{
			"change int4", "workspace text", "kind text", "subject text", "name text",
		}, goneBy, goneIn, goneKind, goneOf, gone)+`
WHERE o.workspace = v.workspace AND o.kind = v.kind AND o.subject = v.subject AND o.name = v.name AND `+s.good("v.change")+`)`)
	}
}
