package evidence

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
)

// Options of a verification. The zero value is ready to use.
type Options struct {
	// Head is a head known from elsewhere: the chain must hold this event. The
	// zero value means that none is known.
	Head Link
	// Workers is the number of goroutines that check events; 0 means one for
	// each processor. The report does not depend on it.
	Workers int
	// Batch checks the signatures; nil means the standard library, one at a time.
	Batch *Batch
	// Each is called with every event, in order and from the goroutine that
	// called Verify, whether or not the checks hold so far; a replay of the
	// subject's state machine goes here. It may keep the event. An error ends
	// the verification and is returned as it is.
	Each func(Event) error
}

// Verify reads one export and checks it against keys that were trusted before.
// It reads the export once and keeps neither events nor texts, only about 100
// bytes for each commitment.
//
// The report answers every check, also when others fail. Verify returns an
// error and no report when there is nothing to report on: a *[FormatError] when
// the bytes are not an export, an error of r or of Options.Each, or no key. It
// leaves no goroutine behind.
func Verify(r io.Reader, keys Keys, o Options) (*Report, error) {
	if len(keys) == 0 {
		return nil, errors.New("evidence: want at least one trusted key")
	}
	v := newVerification(keys, o)
	x := newReader(r)
	if _, err := x.count(); err != nil {
		return nil, err
	}
	for e, err := range inSegments(x, v.workers(), v.signatures) {
		if err == nil {
			err = v.event(e)
		}
		if err != nil {
			return nil, err
		}
	}
	m, err := x.manifest()
	if err != nil {
		return nil, err
	}
	v.manifest(&m)
	for t, err := range x.texts() {
		if err != nil {
			return nil, err
		}
		v.text(t)
	}
	return v.end(), nil
}

// verification is what is known after the events read so far.
type verification struct {
	Options
	keys   Keys
	places map[string]int // of keys, by id
	report *Report

	last    *record // nil before the first
	newest  int     // place of the newest key seen, -1 before the first
	runID   string  // of the first event
	stated  Subject // by the first event
	known   commitments
	headMet bool
}

func newVerification(keys Keys, o Options) *verification {
	if o.Batch == nil {
		o.Batch = &oneByOne
	}
	v := &verification{
		Options: o, keys: keys, places: map[string]int{}, newest: -1, known: commitments{},
		report: &Report{SignatureRule: o.Batch.Rule, CannotShow: append([]string(nil), cannotShow...)},
	}
	for i, k := range keys {
		v.places[KeyID(k.Public)] = i
	}
	checks := []Check{
		CheckKeys, CheckHashes, CheckSignatures, CheckOrder, CheckSubject, CheckTimes, CheckKeyOrder,
		CheckHead, CheckManifest, CheckTexts,
	}
	if o.Head != (Link{}) {
		checks = append(checks, CheckKnownHead)
	}
	for _, c := range checks {
		v.report.Results = append(v.report.Results, Result{Check: c, OK: true, Findings: []Finding{}})
	}
	return v
}

func (v *verification) workers() int {
	if v.Workers > 0 {
		return v.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// signatures is the part of the work that needs no other event. It is safe for
// concurrent use.
func (v *verification) signatures(records []*record) {
	list, of := make([]Signature, 0, len(records)), make([]*record, 0, len(records))
	for _, r := range records {
		r.key = -1
		if i, trusted := v.places[r.KeyID]; trusted {
			r.key = i
			hash := rawHash(r.Hash)
			list, of = append(list, Signature{v.keys[i].Public, hash[:], r.signature}), append(of, r)
		}
	}
	v.Batch.signed(list, of)
}

// event checks one event behind the last.
func (v *verification) event(r *record) error {
	before := Link{0, Genesis}
	if v.last == nil {
		v.runID = r.RunID
		var err error
		if v.stated, err = r.Subject(); err != nil {
			v.failed(r, CheckSubject, "its data states no readable subject")
		}
	} else {
		before = Link{v.last.Sequence, v.last.Hash}
		if r.at < v.last.at {
			v.failed(r, CheckTimes, "its timestamp is before that of the event before it")
		}
	}
	if r.Hash != hex.EncodeToString(r.digest[:]) {
		v.failed(r, CheckHashes, "its members do not hash to its hash")
	}
	if r.Sequence != before.Sequence+1 {
		v.failed(r, CheckOrder, fmt.Sprintf("its sequence does not follow %d", before.Sequence))
	}
	if r.PreviousHash != before.Hash {
		v.failed(r, CheckOrder, "its previousHash is not the hash of the event before it")
	}
	if r.RunID != v.runID {
		v.failed(r, CheckSubject, "its runId is another than that of the first event")
	}
	v.key(r)
	for _, c := range r.commitments {
		if !v.known.add(c) {
			v.failed(r, CheckTexts, "it gives a text another length than an earlier event")
		}
	}
	if r.Sequence == v.Head.Sequence {
		v.headMet = true
		if r.Hash != v.Head.Hash {
			v.failed(r, CheckKnownHead, "its hash is not that of the known head: the two histories part here or earlier")
		}
	}
	v.last = r
	v.report.Count++
	if v.Each != nil {
		return v.Each(r.Event)
	}
	return nil
}

func (v *verification) key(r *record) {
	if r.key < 0 {
		v.failed(r, CheckKeys, "it names a key that is not trusted")
		v.failed(r, CheckSignatures, "its signature was not checked, for want of a trusted key")
		return
	}
	if !r.signed {
		v.failed(r, CheckSignatures, "its signature does not verify")
	}
	if r.key < v.newest {
		v.failed(r, CheckKeyOrder, "it returns to an older key")
	}
	v.newest = max(v.newest, r.key)
	if v.keys[r.key].ended(r.at.Time()) {
		v.failed(r, CheckKeyOrder, "it is later than the notAfter of its key")
	}
}

// manifest checks what the export says of itself.
func (v *verification) manifest(m *Manifest) {
	v.report.Subject, v.report.KeyID, v.report.ExportedAt, v.report.Head = m.Subject, m.KeyID, m.ExportedAt, v.last.Hash
	if m.Count != v.report.Count {
		v.fault(CheckHead, fmt.Sprintf("count is %d, the export holds %d events", m.Count, v.report.Count))
	}
	if m.Head != v.last.Hash {
		v.fault(CheckHead, "head is not the hash of the last event")
	}
	if m.Subject != v.stated || m.Subject.ID != v.runID {
		v.fault(CheckSubject, "the subject of the export is not the one that the first event states")
	}
	place, trusted := v.places[m.KeyID]
	if !trusted || !v.keys[place].Public.Equal(m.PublicKey) {
		v.fault(CheckKeys, "the export names a key that is not trusted")
		v.fault(CheckManifest, "the signature was not checked, for want of a trusted key")
		return
	}
	if digest, err := m.digest(); err != nil || !v.Batch.Valid([]Signature{{v.keys[place].Public, digest[:], m.Signature}}) {
		v.fault(CheckManifest, "the signature of the export does not verify")
	}
	if place != len(v.keys)-1 {
		v.fault(CheckKeyOrder, "the export is not signed with the newest trusted key; an export made now would be")
	}
	if v.keys[place].ended(m.ExportedAt.Time()) {
		v.fault(CheckKeyOrder, "exportedAt is later than the notAfter of the key that signed the export")
	}
}

func (v *verification) text(t Text) {
	if wrong := v.known.match(t); wrong != "" {
		v.fault(CheckTexts, "text "+t.Commitment+": "+wrong)
	}
}

func (v *verification) end() *Report {
	for _, c := range v.known {
		if c.present {
			v.report.Texts.Present++
		} else {
			v.report.Texts.Erased++
		}
	}
	if v.Head != (Link{}) && !v.headMet {
		v.fault(CheckKnownHead, fmt.Sprintf("the export holds no event %d", v.Head.Sequence))
	}
	return v.report
}

func (v *verification) failed(r *record, c Check, problem string) {
	v.report.fail(c, Finding{r.Sequence, r.ID, problem})
}

func (v *verification) fault(c Check, problem string) { v.report.fail(c, Finding{Problem: problem}) }
