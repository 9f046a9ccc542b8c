package evidence

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"countersign/internal/canon"
)

// Genesis is the previousHash of a chain's first event and the head of a chain
// without events.
var Genesis = strings.Repeat("0", 64)

// TimeLayout is the one spelling of a time: RFC 3339, UTC, milliseconds.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// FormatTime writes t in [TimeLayout], cutting what is below a millisecond.
func FormatTime(t time.Time) string { return t.UTC().Format(TimeLayout) }

// ParseTime reads [TimeLayout] and accepts no other spelling.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s) // its quick path; the spelling is compared below
	if err != nil || t.Format(TimeLayout) != s {
		return time.Time{}, fmt.Errorf("evidence: want a time as %s", TimeLayout)
	}
	return t, nil
}

// Event is one signed link of a chain.
//
// Hash covers the members id, runId, sequence, type, data, timestamp and
// previousHash; Signature is Ed25519 over the 32 bytes of Hash. RunID is the id
// of the subject whose chain it is, whatever its kind.
type Event struct {
	ID           string          `json:"id"`
	RunID        string          `json:"runId"`
	Sequence     int64           `json:"sequence"`
	Type         string          `json:"type"`
	Data         json.RawMessage `json:"data"`
	Timestamp    string          `json:"timestamp"`
	PreviousHash string          `json:"previousHash"`
	Hash         string          `json:"hash"`
	Signature    string          `json:"signature"`
	KeyID        string          `json:"keyId"`
}

// Digest returns the SHA-256 that the event's Hash spells and its Signature
// signs, computed from the other members. It is an error when Data or another
// member cannot be canonical.
func (e *Event) Digest() ([sha256.Size]byte, error) {
	data := []byte(e.Data)
	if !canon.IsCanonical(data) {
		var err error
		if data, err = canon.Canonical(data); err != nil {
			return [sha256.Size]byte{}, err
		}
	}
	return e.digest(data)
}

// digest is [Event.Digest] for data in canonical form.
func (e *Event) digest(data []byte) ([sha256.Size]byte, error) {
	o := object{b: make([]byte, 0, len(data)+512)}
	o.raw("data", data)
	o.text("id", e.ID)
	o.text("previousHash", e.PreviousHash)
	o.text("runId", e.RunID)
	o.integer("sequence", e.Sequence)
	o.text("timestamp", e.Timestamp)
	o.text("type", e.Type)
	b, err := o.end()
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(b), nil
}

// Draft is an event before it has a place in a chain: what happened, and the
// data that goes with it. Data is any value that encodes inside the grammar of
// RFC 8785 as events.md describes it.
type Draft struct {
	ID   string
	Type string
	Data any
}

// Link is the place behind which the next event of a chain goes.
type Link struct {
	Sequence int64  // of the newest event, 0 when there is none
	Hash     string // of the newest event, [Genesis] when there is none
}

// ParseLink reads SEQ:HASH, the spelling of [Link.String], for a chain that has
// at least one event.
func ParseLink(s string) (Link, error) {
	sequence, hash, _ := strings.Cut(s, ":")
	n, err := strconv.ParseInt(sequence, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != sequence || !canon.IsHash(hash) {
		return Link{}, fmt.Errorf("evidence: want a head as SEQ:HASH, a sequence from 1 and 64 lowercase hex digits")
	}
	return Link{n, hash}, nil
}

func (l Link) String() string { return strconv.FormatInt(l.Sequence, 10) + ":" + l.Hash }

// SigningKey is an Ed25519 key with its key id.
type SigningKey struct {
	ID      string
	Private ed25519.PrivateKey
}

// NewSigningKey wraps a private key and computes its id.
func NewSigningKey(private ed25519.PrivateKey) SigningKey {
	return SigningKey{KeyID(private.Public().(ed25519.PublicKey)), private}
}

// Public returns the public half.
func (k SigningKey) Public() ed25519.PublicKey { return k.Private.Public().(ed25519.PublicKey) }

// KeyID is the first 16 hex characters of the SHA-256 of the raw public key.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// Seal turns drafts into the events that follow after. All get the same time
// and are signed with key, several at once. It is safe for concurrent use.
func Seal(key SigningKey, subjectID string, after Link, now time.Time, drafts []Draft) ([]Event, error) {
	events := make([]Event, len(drafts))
	var signing sync.WaitGroup
	defer signing.Wait()
	for i, d := range drafts {
		data, err := canon.Marshal(d.Data)
		if err != nil {
			return nil, fmt.Errorf("evidence: data of %s: %w", d.Type, err)
		}
		e := &events[i]
		*e = Event{
			ID: d.ID, RunID: subjectID, Sequence: after.Sequence + 1, Type: d.Type, Data: data,
			Timestamp: FormatTime(now), PreviousHash: after.Hash, KeyID: key.ID,
		}
		digest, err := e.digest(data)
		if err != nil {
			return nil, fmt.Errorf("evidence: %s: %w", d.Type, err)
		}
		e.Hash = hex.EncodeToString(digest[:])
		signing.Go(func() { e.Signature = canon.EncodeBase64(ed25519.Sign(key.Private, digest[:])) })
		after = Link{e.Sequence, e.Hash}
	}
	return events, nil
}
