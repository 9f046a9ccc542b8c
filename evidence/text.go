package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strconv"

	"countersign/internal/canon"
)

// SaltSize is the length of a text's salt in bytes.
const SaltSize = 16

// Commitment stands for a free text inside event data. Text is the lowercase
// hex SHA-256 over the salt followed by the UTF-8 text; Length is the text's
// length in bytes. Whoever holds salt and text can show that they belong; once
// both are erased, the chain still verifies and the text is gone.
type Commitment struct {
	Text   string `json:"text"`
	Length int    `json:"length"`
}

// Text is a free text with its salt, kept beside the chain and erasable.
type Text struct {
	Commitment string
	Salt       []byte
	Text       string
}

// NewText salts a text. The salt must be [SaltSize] fresh random bytes.
func NewText(salt [SaltSize]byte, text string) Text {
	h := sha256.New()
	h.Write(salt[:])
	h.Write([]byte(text))
	return Text{hex.EncodeToString(h.Sum(nil)), salt[:], text}
}

// Commit returns what stands for t in event data.
func (t Text) Commit() Commitment { return Commitment{t.Commitment, len(t.Text)} }

// belongs reports whether salt and text are what the commitment stands for.
func (t Text) belongs() bool {
	return len(t.Salt) == SaltSize && NewText([SaltSize]byte(t.Salt), t.Text).Commitment == t.Commitment
}

// Commitments yields every commitment in data, in the order of the bytes. A
// commitment is an object with exactly the members length, an integer from 0,
// and text, 64 lowercase hex digits. Data must be canonical, as that of a
// sealed event is.
func Commitments(data []byte) iter.Seq[Commitment] {
	return func(yield func(Commitment) bool) {
		// In canonical form such an object has one spelling, and inside a string
		// its quotes would be escaped: searching the bytes finds exactly these.
		for {
			_, rest, found := bytes.Cut(data, []byte(`{"length":`))
			if !found {
				return
			}
			data = rest
			digits, rest, _ := bytes.Cut(rest, []byte(`,"text":"`))
			length, err := strconv.Atoi(string(digits[:min(len(digits), 20)]))
			if err != nil || length < 0 || len(rest) < 66 || !canon.IsHash(string(rest[:64])) || string(rest[64:66]) != `"}` {
				continue
			}
			if !yield(Commitment{string(rest[:64]), length}) {
				return
			}
		}
	}
}

// commitments collects those of a chain with their lengths, and which of their
// texts still exist.
type commitments map[[sha256.Size]byte]*commitment

type commitment struct {
	length  int
	present bool
}

// add reports whether c has the length that it had before.
func (cs commitments) add(c Commitment) bool {
	key := rawHash(c.Text)
	if old := cs[key]; old != nil {
		return old.length == c.Length
	}
	cs[key] = &commitment{length: c.Length}
	return true
}

// match says what is wrong with a text that travels with the chain, or "".
func (cs commitments) match(t Text) string {
	c := cs[rawHash(t.Commitment)]
	switch {
	case c == nil:
		return "no event refers to it"
	case !t.belongs():
		return "salt and text do not hash to its name"
	case c.length != len(t.Text):
		return "its length is not the one in the event"
	}
	c.present = true
	return ""
}

// rawHash returns the bytes that 64 hex digits spell.
func rawHash(digits string) (sum [sha256.Size]byte) {
	hex.Decode(sum[:], []byte(digits))
	return sum
}
