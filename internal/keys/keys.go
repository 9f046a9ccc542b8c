package keys

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"countersign/evidence"
	"countersign/internal/canon"
)

// ErrSealed is returned by Open for bytes that were not sealed with this key for
// this subject.
var ErrSealed = errors.New("keys: the sealed value does not open")

// Keys are the secrets of one installation, see [Load]. They never change once
// loaded, and all methods are safe for concurrent use.
type Keys struct {
	evidence, dispatch         evidence.SigningKey
	evidenceList, dispatchList []Public
	mac                        []byte
	seal                       cipher.AEAD
	sealKey                    []byte
	secret                     string
}

func (k *Keys) setSeal(key []byte) {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the length was checked on reading
	}
	if k.seal, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		panic(err)
	}
	k.sealKey = key
}

// Evidence returns the key that signs events and exports.
func (k *Keys) Evidence() evidence.SigningKey { return k.evidence }

// EvidenceList returns every evidence key there has been, oldest first.
func (k *Keys) EvidenceList() []Public { return slices.Clone(k.evidenceList) }

// Dispatch returns the key that signs dispatch permits.
func (k *Keys) Dispatch() evidence.SigningKey { return k.dispatch }

// DispatchList returns every dispatch key there has been, oldest first.
func (k *Keys) DispatchList() []Public { return slices.Clone(k.dispatchList) }

// Secret returns the owner secret as it is typed.
func (k *Keys) Secret() string { return k.secret }

// Fingerprints names the keys without giving them away: for evidence and
// dispatch the key id of the key in use, for mac and seal 16 hex digits of a
// domain-separated SHA-256. Replicas that differ in one must not share a ledger.
func (k *Keys) Fingerprints() map[string]string {
	return map[string]string{
		"evidence": k.evidence.ID,
		"dispatch": k.dispatch.ID,
		"mac":      fingerprint("mac", k.mac),
		"seal":     fingerprint("seal", k.sealKey),
	}
}

func fingerprint(name string, key []byte) string {
	sum := sha256.Sum256(slices.Concat([]byte("countersign-fingerprint\x00"+name+"\x00"), key))
	return hex.EncodeToString(sum[:8])
}

// MAC returns HMAC-SHA-256 (RFC 2104) under the mac key over the parts with a
// zero byte between each two. The first part names the use, so that a MAC made
// for one use is worthless for another. A part that holds a zero byte could be
// read in two ways: MAC panics.
func (k *Keys) MAC(parts ...string) []byte {
	h := hmac.New(sha256.New, k.mac)
	for i, part := range parts {
		if strings.IndexByte(part, 0) >= 0 {
			panic("keys: a part of a MAC holds a zero byte")
		}
		if i > 0 {
			h.Write([]byte{0})
		}
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// stepPermit is the use of the MAC in a step permit token.
const stepPermit = "step-permit"

// StepPermitToken returns the token of a step permit (G-12, L-19): the permit
// id, a dot, and base64url of MAC("step-permit", run id, permit id). It can be
// computed again at any time, so nothing secret is stored.
func (k *Keys) StepPermitToken(runID, permitID string) string {
	return permitID + "." + canon.EncodeBase64(k.MAC(stepPermit, runID, permitID))
}

// StepPermitID returns the permit id of a token that [Keys.StepPermitToken] made
// for this run, and false for every other text. The comparison takes the same
// time whichever byte differs.
func (k *Keys) StepPermitID(runID, token string) (string, bool) {
	permitID, encoded, found := strings.Cut(token, ".")
	given, err := canon.DecodeBase64(encoded)
	if !found || err != nil || strings.IndexByte(permitID, 0) >= 0 {
		return "", false
	}
	if !hmac.Equal(given, k.MAC(stepPermit, runID, permitID)) {
		return "", false
	}
	return permitID, true
}

// Seal encrypts a value with AES-256-GCM (NIST SP 800-38D) under a random nonce,
// which stands before the ciphertext. The subject names what the value belongs
// to; it is not stored, and [Keys.Open] needs the same one. One key is good for
// 2^32 values.
func (k *Keys) Seal(subject string, value []byte) []byte {
	return k.seal.Seal(nil, nil, value, sealedFor(subject))
}

// Open decrypts what [Keys.Seal] made for the same subject, or returns [ErrSealed].
func (k *Keys) Open(subject string, sealed []byte) ([]byte, error) {
	value, err := k.seal.Open(nil, nil, sealed, sealedFor(subject))
	if err != nil {
		return nil, ErrSealed
	}
	return value, nil
}

func sealedFor(subject string) []byte { return []byte("countersign-seal/1\x00" + subject) }
