package evidence

import (
	"crypto/sha256"
	"encoding/hex"
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
