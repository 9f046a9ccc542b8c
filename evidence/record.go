package evidence

import (
	"crypto/ed25519"
	"crypto/sha256"
	"slices"
	"strconv"

	"countersign/internal/canon"
)

// A record is an event as it stands in an export, with what its bytes tell.
type record struct {
	Event
	at          Time
	signature   []byte
	digest      [sha256.Size]byte // of the members that the hash covers
	commitments []Commitment
	key         int  // place in the trusted keys, -1 when it is not there
	signed      bool // the signature over hash verifies under that key
}

// A parser reads events in canonical form. The zero value is ready to use; it
// keeps its buffers from one event to the next.
type parser struct {
	fields fields
	hashed []byte
}

// event reads the event at this place of the list, from 1. Its data aliases
// raw. Errors are *FormatError.
func (p *parser) event(raw []byte, place int64) (*record, error) {
	f := &p.fields
	f.open(raw)
	r := &record{}
	r.Data = f.raw("data")
	r.Hash = f.text("hash", asHash, canon.IsHash)
	r.ID = f.text("id", asID, isUUIDv7)
	r.KeyID = f.text("keyId", asKeyID, isKeyID)
	r.PreviousHash = f.text("previousHash", asHash, canon.IsHash)
	r.RunID = f.text("runId", asName, isName)
	r.Sequence = f.integer("sequence", 1)
	r.Signature, r.signature = f.base64("signature", ed25519.SignatureSize)
	r.Timestamp, r.at = f.time("timestamp")
	r.Type = f.text("type", asName, isName)
	if f.close(); f.want != "" {
		return nil, &FormatError{eventAt(place), f.want}
	}
	r.digest = p.digest(f.members)
	r.commitments = slices.Collect(Commitments(r.Data))
	return r, nil
}

// digest is [Event.Digest] from the members of a whole event in canonical
// form: what the hash covers stands there already.
func (p *parser) digest(members []canon.Member) [sha256.Size]byte {
	b := p.hashed[:0]
	for _, m := range members {
		switch string(m.Name) {
		case `"hash"`, `"keyId"`, `"signature"`:
			continue
		}
		b = append(append(append(append(b, ','), m.Name...), ':'), m.Value...)
	}
	b[0] = '{'
	p.hashed = append(b, '}')
	return sha256.Sum256(p.hashed)
}

func eventAt(place int64) string { return "event " + strconv.FormatInt(place, 10) }

// encodeEvent writes what [parser.event] reads.
func encodeEvent(e Event) ([]byte, error) {
	o := object{b: make([]byte, 0, len(e.Data)+768)}
	o.raw("data", e.Data)
	o.text("hash", e.Hash)
	o.text("id", e.ID)
	o.text("keyId", e.KeyID)
	o.text("previousHash", e.PreviousHash)
	o.text("runId", e.RunID)
	o.integer("sequence", e.Sequence)
	o.text("signature", e.Signature)
	o.text("timestamp", e.Timestamp)
	o.text("type", e.Type)
	return o.end()
}
