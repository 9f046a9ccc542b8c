package keys

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"countersign/evidence"
	"countersign/internal/canon"
)

const (
	secretFile = "owner.secret"
	keysFolder = "keys"
	// building is where Init writes the keys before their folder gets its name.
	building = "keys.new"
	// lockFile may be in the folder before Init: the caller locks it first.
	lockFile = "lock"
	// nextSuffix marks a key that a rotation has written and not yet put in place.
	nextSuffix = ".next"
)

// files lists what a folder holds, as paths in it.
var files = []string{
	secretFile,
	"keys/dispatch.key", "keys/dispatch.pub", "keys/evidence.key", "keys/evidence.pub", "keys/mac.key", "keys/seal.key",
}

var (
	// ErrExists is returned by Init for a folder that is complete.
	ErrExists = errors.New("keys: the folder is initialized already")
	// ErrNotInitialized is returned by Load for a folder that is absent or empty.
	ErrNotInitialized = errors.New("keys: the folder is not initialized; run countersign init")
	// ErrOtherContent is in the *[PartialError] about a folder that holds something
	// and nothing of an installation.
	ErrOtherContent = errors.New("keys: the folder is not empty and holds no installation")
)

// PartialError reports a folder that holds something but not everything, as
// after an init that was killed, a copy that was cut or a lost file. It has to
// be looked at: new keys in the place of lost ones would not verify old evidence.
type PartialError struct {
	Dir     string
	Present []string // names in the folder
	Missing []string // files that ought to be there
}

func (e *PartialError) Error() string {
	if e.Unwrap() != nil {
		return fmt.Sprintf("keys: %s is not empty and holds no installation; give a new folder to init, and the one that init made to all else", e.Dir)
	}
	return fmt.Sprintf("keys: %s is incomplete: it has %s and lacks %s; restore what is missing from a backup, or give init a new folder",
		e.Dir, strings.Join(e.Present, ", "), strings.Join(e.Missing, ", "))
}

// Unwrap returns [ErrOtherContent] when nothing in the folder is an installation's.
func (e *PartialError) Unwrap() error {
	ours := func(name string) bool {
		return name == secretFile || name == keysFolder || name == building || strings.HasPrefix(name, "countersign.db")
	}
	if slices.ContainsFunc(e.Present, ours) {
		return nil
	}
	return ErrOtherContent
}

// PermissionError reports a secret that group or others can reach.
type PermissionError struct {
	Path string
	Mode fs.FileMode
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("keys: %s has mode %04o; only its owner may have access (chmod go= %s)", e.Path, e.Mode, e.Path)
}

// Init creates dir with new keys and a new owner secret. The folder may exist
// when it is empty or holds only the lock file. It returns [ErrExists] for a
// complete folder and a *[PartialError] for one that holds anything else, and
// changes nothing then. After a crash the folder is either as before, complete,
// or partial.
func Init(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	present, missing, err := survey(dir)
	switch {
	case err != nil:
		return err
	case len(missing) == 0:
		return ErrExists
	case len(present) > 0:
		return &PartialError{dir, present, missing}
	}
	// Mkdir fails when it exists: of two inits at once one gets past this line.
	at := filepath.Join(dir, building)
	if err := os.Mkdir(at, 0o700); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keys: another init is at work: %w", err)
	} else if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if err := writeKeys(at); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, secretFile), []byte(canon.EncodeBase64(fresh())+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.Rename(at, filepath.Join(dir, keysFolder)); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return errors.Join(syncDir(dir), syncDir(filepath.Dir(filepath.Clean(dir))))
}

// Remove takes back what [Init] has just made in dir, for a caller whose next step
// failed before anything was signed or sealed. The folder goes too when nothing
// else is in it.
func Remove(dir string) error {
	errs := []error{os.RemoveAll(filepath.Join(dir, keysFolder)), os.Remove(filepath.Join(dir, secretFile))}
	if present, _, err := survey(dir); err == nil && len(present) == 0 {
		errs = append(errs, os.RemoveAll(dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}

func writeKeys(at string) error {
	for _, name := range []string{"evidence", "dispatch", "mac", "seal"} {
		key := fresh()
		if err := write(filepath.Join(at, name+".key"), encodeKey(name, key), 0o600); err != nil {
			return err
		}
		if name == "mac" || name == "seal" {
			continue
		}
		public := ed25519.NewKeyFromSeed(key).Public().(ed25519.PublicKey)
		if err := write(filepath.Join(at, name+".pub"), encodePublic([]Public{{Key: public}}), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// survey returns the names in dir, without the lock file, and which of the
// folder's files are missing.
func survey(dir string) (present, missing []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("keys: %w", err)
	}
	for _, e := range entries {
		if e.Name() != lockFile {
			present = append(present, e.Name())
		}
	}
	for _, name := range files {
		switch _, err := os.Stat(filepath.Join(dir, name)); {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, name)
		case err != nil:
			return nil, nil, fmt.Errorf("keys: %w", err)
		}
	}
	return present, missing, nil
}

// Load opens the folder dir. It refuses a folder that is absent
// ([ErrNotInitialized]) or incomplete (*[PartialError]), secrets that others can
// reach (*[PermissionError]), files that are not what their name says, and a
// *.key that is not the newest key of its *.pub (*[InterruptedError] when a rotation
// left it so).
func Load(dir string) (*Keys, error) { return load(dir, "") }

// load opens the folder. The key that is named may be the former one of a rotation
// that was interrupted.
func load(dir, rotating string) (*Keys, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotInitialized
	}
	present, missing, err := survey(dir)
	switch {
	case err != nil:
		return nil, err
	case len(present) == 0:
		return nil, ErrNotInitialized
	case len(missing) > 0:
		return nil, &PartialError{dir, present, missing}
	}
	for _, folder := range []string{dir, filepath.Join(dir, keysFolder)} {
		if err := privateFolder(folder); err != nil {
			return nil, err
		}
	}
	k := &Keys{}
	if k.evidence, k.evidenceList, err = loadSigning(dir, "evidence", rotating); err != nil {
		return nil, err
	}
	if k.dispatch, k.dispatchList, err = loadSigning(dir, "dispatch", rotating); err != nil {
		return nil, err
	}
	if k.mac, err = readKey(filepath.Join(dir, keysFolder, "mac.key"), "mac"); err != nil {
		return nil, err
	}
	seal, err := readKey(filepath.Join(dir, keysFolder, "seal.key"), "seal")
	if err != nil {
		return nil, err
	}
	k.setSeal(seal)
	if k.secret, err = ReadSecret(filepath.Join(dir, secretFile)); err != nil {
		return nil, err
	}
	return k, nil
}

func privateFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	defer f.Close()
	return private(f, path)
}

func loadSigning(dir, name, rotating string) (evidence.SigningKey, []Public, error) {
	base := filepath.Join(dir, keysFolder, name)
	seed, err := readKey(base+".key", name)
	if err != nil {
		return evidence.SigningKey{}, nil, err
	}
	list, err := ReadPublic(base + ".pub")
	if err != nil {
		return evidence.SigningKey{}, nil, err
	}
	key := evidence.NewSigningKey(ed25519.NewKeyFromSeed(seed))
	_, err = os.Stat(base + ".key" + nextSuffix)
	switch newest := len(list) - 1; {
	case list[newest].Key.Equal(key.Public()):
		return key, slices.Clip(list), nil
	case newest == 0 || !list[newest-1].Key.Equal(key.Public()) || err != nil:
		return evidence.SigningKey{}, nil, fmt.Errorf("keys: %s.key is not the newest key of %s.pub", base, base)
	case name != rotating:
		return evidence.SigningKey{}, nil, &InterruptedError{name}
	}
	return key, slices.Clip(list), nil
}
