package evidence

import (
	"bufio"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"countersign/internal/canon"
)

// ExportFormat is the format that an export states.
const ExportFormat = "countersign-export/1"

// Manifest is an export without its events and texts.
type Manifest struct {
	Subject    Subject
	Count      int64  // number of events
	Head       string // hash of the newest event
	KeyID      string
	PublicKey  ed25519.PublicKey // of the key that signed; informational, trust comes from elsewhere
	ExportedAt Time
	Signature  []byte // over all members above
}

// digest returns what the signature of an export signs: the SHA-256 of the
// canonical object with the members count, exportedAt, format, head, keyId,
// publicKey and subject.
func (m *Manifest) digest() ([sha256.Size]byte, error) {
	subject, err := m.Subject.encode()
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	var o object
	o.integer("count", m.Count)
	o.text("exportedAt", m.ExportedAt.String())
	o.text("format", ExportFormat)
	o.text("head", m.Head)
	o.text("keyId", m.KeyID)
	o.text("publicKey", canon.EncodeBase64(m.PublicKey))
	o.raw("subject", subject)
	b, err := o.end()
	return sha256.Sum256(b), err
}

// Source is a chain to export, read while it is written.
type Source struct {
	Subject Subject
	Head    Link                    // the newest event to export, known before the first is read
	Events  iter.Seq2[Event, error] // from sequence 1 to Head
	Texts   iter.Seq2[Text, error]  // those that still exist, by ascending commitment; nil when none does
}

// WriteExport writes the export of a chain, signed with key, which must be the
// issuer's newest, as exported at this time. It keeps one event or text at a
// time, and about 100 bytes for each commitment.
//
// It signs no chain that a reader would refuse: events that are malformed, out
// of order, of another subject, do not hash to their hash or do not end in
// Head, and texts that no event refers to are errors. Then, and when reading or
// writing fails, what has been written so far is not an export.
func WriteExport(w io.Writer, key SigningKey, exportedAt time.Time, s Source) error {
	m := Manifest{
		Subject: s.Subject, Count: s.Head.Sequence, Head: s.Head.Hash,
		KeyID: key.ID, PublicKey: key.Public(), ExportedAt: TimeOf(exportedAt),
	}
	digest, err := m.digest()
	if err != nil {
		return err
	}
	m.Signature = ed25519.Sign(key.Private, digest[:])
	return encodeExport(w, m, checkedEvents(s), s.Texts)
}

// checkedEvents yields the source's events and ends with an error when they
// are not the chain that the source announces.
func checkedEvents(s Source) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		at := Link{0, Genesis}
		for e, err := range s.Events {
			if err == nil {
				err = follows(e, at, s)
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
			at = Link{e.Sequence, e.Hash}
		}
		if at != s.Head || at.Sequence == 0 {
			yield(Event{}, fmt.Errorf("evidence: the events end in %s, want %s", at, s.Head))
		}
	}
}

func follows(e Event, at Link, s Source) error {
	switch digest, err := e.Digest(); {
	case err != nil:
		return err
	case e.Hash != fmt.Sprintf("%x", digest):
		return fmt.Errorf("evidence: event %d does not hash to its hash", e.Sequence)
	case e.Sequence != at.Sequence+1 || e.PreviousHash != at.Hash:
		return fmt.Errorf("evidence: event %d does not follow %s", e.Sequence, at)
	case e.RunID != s.Subject.ID:
		return fmt.Errorf("evidence: event %d is of another subject", e.Sequence)
	}
	if e.Sequence == 1 {
		if subject, err := e.Subject(); err != nil || subject != s.Subject {
			return errors.New("evidence: the first event does not state the subject of the export")
		}
	}
	return nil
}

// Export is an export in memory.
type Export struct {
	Manifest
	Events []Event
	Texts  []Text // by ascending commitment
}

// ReadExport reads a whole export into memory. It refuses every byte sequence
// that is not the one spelling of an export, and texts that no event refers to
// or that do not hash to their name. It checks no hash, no signature and no
// order: that is [Verify]. Errors are *[FormatError] and those of r.
func ReadExport(r io.Reader) (*Export, error) {
	x := newReader(r)
	if _, err := x.count(); err != nil {
		return nil, err
	}
	var out Export
	known := commitments{}
	for e, err := range x.events() {
		if err != nil {
			return nil, err
		}
		out.Events = append(out.Events, e.Event)
		for _, c := range e.commitments {
			known.add(c)
		}
	}
	var err error
	if out.Manifest, err = x.manifest(); err != nil {
		return nil, err
	}
	for t, err := range x.texts() {
		if err != nil {
			return nil, err
		}
		if wrong := known.match(t); wrong != "" {
			return nil, &FormatError{"text " + t.Commitment, wrong}
		}
		out.Texts = append(out.Texts, t)
	}
	return &out, nil
}

// Write writes the export as it is, without signing or checking it anew.
func (x *Export) Write(w io.Writer) error {
	events := func(yield func(Event, error) bool) {
		for _, e := range x.Events {
			if !yield(e, nil) {
				return
			}
		}
	}
	texts := func(yield func(Text, error) bool) {
		for _, t := range x.Texts {
			if !yield(t, nil) {
				return
			}
		}
	}
	return encodeExport(w, x.Manifest, events, texts)
}

// encodeExport writes the canonical object and the newline. Nothing is written
// that the reader would refuse.
func encodeExport(w io.Writer, m Manifest, events iter.Seq2[Event, error], texts iter.Seq2[Text, error]) error {
	subject, err := m.Subject.encode()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w) // keeps its first error, which Flush returns
	known := commitments{}
	var p parser
	fmt.Fprintf(out, `{"count":%d,"events":[`, m.Count)
	separator := ""
	for e, err := range events {
		if err != nil {
			return err
		}
		b, err := encodeEvent(e)
		if err != nil {
			return fmt.Errorf("evidence: event %d: %w", e.Sequence, err)
		}
		r, err := p.event(b, e.Sequence)
		if err != nil {
			return err
		}
		for _, c := range r.commitments {
			known.add(c)
		}
		out.WriteString(separator)
		out.Write(b)
		separator = ","
	}
	fmt.Fprintf(out, `],"exportedAt":"%s","format":"%s","head":"%s","keyId":"%s","publicKey":"%s","signature":"%s","subject":%s,"texts":{`,
		m.ExportedAt, ExportFormat, m.Head, m.KeyID, canon.EncodeBase64(m.PublicKey), canon.EncodeBase64(m.Signature), subject)
	before := ""
	for t, err := range orNone(texts) {
		if err != nil {
			return err
		}
		b, err := encodeText(t, before, known)
		if err != nil {
			return err
		}
		out.Write(b)
		before = t.Commitment
	}
	out.WriteString("}}\n")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("evidence: writing an export: %w", err)
	}
	return nil
}

// encodeText returns the member of texts behind the one named before.
func encodeText(t Text, before string, known commitments) ([]byte, error) {
	where := "text " + t.Commitment
	if t.Commitment <= before || !canon.IsHash(t.Commitment) {
		return nil, &FormatError{where, "want texts by ascending commitment"}
	}
	if wrong := known.match(t); wrong != "" {
		return nil, &FormatError{where, wrong}
	}
	var o object
	o.text("salt", canon.EncodeBase64(t.Salt))
	o.text("text", t.Text)
	value, err := o.end()
	if err != nil {
		return nil, err
	}
	separator := ","
	if before == "" {
		separator = ""
	}
	return slices.Concat([]byte(separator+`"`+t.Commitment+`":`), value), nil
}

func orNone(texts iter.Seq2[Text, error]) iter.Seq2[Text, error] {
	if texts == nil {
		return func(func(Text, error) bool) {}
	}
	return texts
}
