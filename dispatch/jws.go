package dispatch

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"strings"

	"countersign/internal/canon"
	"countersign/internal/money"
)

// Types of token.
const (
	permitType  = "countersign-dispatch+jwt"
	receiptType = "countersign-receipt+jwt"
)

// maxToken bounds a token in bytes, far above what the bounds of the members
// allow and below common header limits.
const maxToken = 8 << 10

var (
	errForm       = errors.New("dispatch: not a token of the one accepted form")
	errUnknownKey = errors.New("dispatch: signed with a key that is not trusted")
	errSignature  = errors.New("dispatch: the signature does not hold")
)

// header is the whole JOSE header. The algorithm is not chosen by the token: a
// header that is not these bytes for some kid is refused.
type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	Type      string `json:"typ"`
}

func seal(typ string, key ed25519.PrivateKey, payload []byte) string {
	kid := KeyID(key.Public().(ed25519.PublicKey))
	head := canon.MustMarshal(header{"EdDSA", kid, typ})
	input := canon.EncodeBase64(head) + "." + canon.EncodeBase64(payload)
	return input + "." + canon.EncodeBase64(ed25519.Sign(key, []byte(input)))
}

// open returns the payload bytes of a token and the key that signed it. Tests leave
// one check out; the product's without is empty.
func open(typ, token string, keys []TrustedKey, without Reason) ([]byte, TrustedKey, error) {
	parts := strings.Split(token, ".")
	if len(token) > maxToken || len(parts) != 3 {
		return nil, TrustedKey{}, errForm
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = canon.DecodeBase64(part); err != nil {
			return nil, TrustedKey{}, errForm
		}
	}
	var h header
	if decodeExact(decoded[0], &h) != nil || h.Algorithm != "EdDSA" || len(decoded[2]) != ed25519.SignatureSize {
		return nil, TrustedKey{}, errForm
	}
	if h.Type != typ && without != Malformed {
		return nil, TrustedKey{}, errForm
	}
	input := []byte(token[:len(parts[0])+1+len(parts[1])])
	for _, key := range keys {
		if key.ID() != h.KeyID {
			continue
		}
		if !ed25519.Verify(key.Public, input, decoded[2]) && without != BadSignature {
			return nil, TrustedKey{}, errSignature
		}
		return decoded[1], key, nil
	}
	if without == UnknownKey {
		return decoded[1], TrustedKey{}, nil
	}
	return nil, TrustedKey{}, errUnknownKey
}

// decodeExact decodes raw into v and refuses every text but the one canonical
// encoding of v: a missing, null, unknown or duplicate member, another order, a
// space or an escape that need not be.
func decodeExact[T any](raw []byte, v *T) error {
	if err := canon.Unmarshal(raw, v); err != nil {
		return err
	}
	again, err := canon.Marshal(*v)
	if err != nil {
		return err
	}
	if !bytes.Equal(raw, again) {
		return errForm
	}
	return nil
}

// HashBody returns the bh or rh of a body: base64url of its SHA-256.
func HashBody(body []byte) string {
	sum := sha256.Sum256(body)
	return canon.EncodeBase64(sum[:])
}

func isBodyHash(s string) bool {
	raw, err := canon.DecodeBase64(s)
	return err == nil && len(raw) == sha256.Size
}

// isID bounds jti, sid, pid and order ids: 1 to 128 unreserved characters of
// RFC 3986, so that they stand in a path, a log and a header as they are.
func isID(s string) bool { return len(s) >= 1 && len(s) <= 128 && strings.Trim(s, unreserved) == "" }

const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

// isName bounds iss, aud, htu and operation: 1 to 512 visible ASCII characters
// and single spaces.
func isName(s string) bool {
	if len(s) < 1 || len(s) > 512 {
		return false
	}
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// isCents reports whether s is cents as a decimal string, 0|[1-9][0-9]{0,11}.
func isCents(s string) bool {
	_, err := money.Parse(s)
	return err == nil
}
