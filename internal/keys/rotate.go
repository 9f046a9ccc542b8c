package keys

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"countersign/evidence"
)

// Signing are the names of the keys that can be rotated.
var Signing = []string{"evidence", "dispatch"}

// Rotation replaces a signing key of a folder, in three steps that each survive a
// crash: the next key is written beside the one in use ([Rotation.Prepare]), the list
// is published ([Rotation.Publish]), the next key takes its place ([Rotation.Use]). A
// rotation that was interrupted is found by the next [OpenRotation] and goes on with
// the key it had. Nothing may be signed with the former key later than the time that
// it is published with: no server may use the folder or a copy of it meanwhile, and
// between Prepare and Publish its ledger has to learn the next key, so that no copy
// is ever used again.
type Rotation struct {
	Name         string            // evidence or dispatch
	From         Public            // the key in use, or the former one of an interrupted rotation
	Fingerprints map[string]string // of the folder's keys, From among them

	base   string
	list   []Public // as the *.pub file has it
	seed   []byte   // of the next key; nil before Prepare
	listed bool     // the next key is in the list already
}

// InterruptedError reports a folder in which a rotation was interrupted after the next
// key was published: it has to be finished first.
type InterruptedError struct{ Name string }

func (e *InterruptedError) Error() string {
	return "keys: a rotation of the " + e.Name + " key was interrupted; run countersign key rotate"
}

// OpenRotation looks how far a rotation of the named key is. It writes nothing. It
// refuses a folder that [Load] would not open for another reason.
func OpenRotation(dir, name string) (*Rotation, error) {
	if !slices.Contains(Signing, name) {
		return nil, fmt.Errorf("keys: %s is no key that can be rotated", name)
	}
	k, err := load(dir, name)
	if err != nil {
		return nil, err
	}
	r := &Rotation{Name: name, Fingerprints: k.Fingerprints(), base: filepath.Join(dir, keysFolder, name)}
	key := k.evidence
	if r.list = k.evidenceList; name == "dispatch" {
		key, r.list = k.dispatch, k.dispatchList
	}
	place := slices.IndexFunc(r.list, func(p Public) bool { return p.Key.Equal(key.Public()) })
	r.From, r.listed = r.list[place], place < len(r.list)-1
	if r.seed, err = readKey(r.next(), name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if r.listed && (r.seed == nil || !r.list[place+1].Key.Equal(public(r.seed))) {
		return nil, fmt.Errorf("keys: %s is not the newest key of %s.pub", r.next(), r.base)
	}
	return r, nil
}

func (r *Rotation) next() string { return r.base + ".key" + nextSuffix }

func public(seed []byte) ed25519.PublicKey {
	return ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
}

// To is the next key, once there is one.
func (r *Rotation) To() (p Public, there bool) {
	if r.seed == nil {
		return Public{}, false
	}
	return Public{Key: public(r.seed)}, true
}

// Prepare writes the next key beside the one in use, unless an interrupted rotation
// has.
func (r *Rotation) Prepare() error {
	if r.seed != nil {
		return nil
	}
	seed := fresh()
	if err := write(r.next(), encodeKey(r.Name, seed), 0o600); err != nil {
		return err
	}
	r.seed = seed
	return nil
}

// Publish adds the next key to the list and ends the former one's time with last, cut
// to milliseconds, unless an interrupted rotation has. last must not be before an
// earlier key's end. From here on [Load] refuses the folder until [Rotation.Use].
func (r *Rotation) Publish(last time.Time) error {
	if r.listed {
		return nil
	}
	list := append(slices.Clone(r.list), Public{Key: public(r.seed)})
	list[len(list)-2].NotAfter = evidence.TimeOf(last).Time()
	lines := encodePublic(list)
	if _, err := parsePublic(lines); err != nil {
		return fmt.Errorf("keys: cannot rotate: %w", err)
	}
	if err := write(r.base+".pub", lines, 0o644); err != nil {
		return err
	}
	r.list, r.listed = list, true
	return nil
}

// Use puts the published key in the former one's place.
func (r *Rotation) Use() error {
	if !r.listed {
		return errors.New("keys: the next key is not published")
	}
	if err := os.Rename(r.next(), r.base+".key"); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return syncDir(filepath.Dir(r.base))
}

// Interrupted reports whether a rotation of the named key was begun in dir and not
// finished.
func Interrupted(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, keysFolder, name+".key"+nextSuffix))
	return err == nil
}
