package keys_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/keys"
)

func initialized(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "D")
	if err := keys.Init(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func load(t *testing.T, dir string) *keys.Keys {
	t.Helper()
	k, err := keys.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// contents reads the whole folder: path to mode and bytes.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			found[name] = info.Mode().Perm().String()
			return nil
		}
		raw, err := os.ReadFile(path)
		found[name] = info.Mode().Perm().String() + " " + string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestInitMakesTheFolder(t *testing.T) {
	dir := initialized(t)
	modes := map[string]string{}
	for name, entry := range contents(t, dir) {
		modes[name], _, _ = strings.Cut(entry, " ")
	}
	want := map[string]string{
		".": "-rwx------", "owner.secret": "-rw-------", "keys": "-rwx------",
		"keys/evidence.key": "-rw-------", "keys/dispatch.key": "-rw-------",
		"keys/mac.key": "-rw-------", "keys/seal.key": "-rw-------",
		"keys/evidence.pub": "-rw-r--r--", "keys/dispatch.pub": "-rw-r--r--",
	}
	if !maps.Equal(modes, want) {
		t.Errorf("modes %v, want %v", modes, want)
	}
	secrets := map[string]bool{}
	for _, name := range []string{"owner.secret", "keys/evidence.key", "keys/dispatch.key", "keys/mac.key", "keys/seal.key"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.TrimSuffix(string(raw), "\n")
		if base := filepath.Base(name); base != "owner.secret" {
			tag := "countersign-" + strings.TrimSuffix(base, ".key") + "-key/1 "
			if !strings.HasPrefix(text, tag) {
				t.Errorf("%s does not start with its tag", name)
			}
			text = strings.TrimPrefix(text, tag)
		}
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || len(b) != 32 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		secrets[text] = true
	}
	if len(secrets) != 5 {
		t.Errorf("%d different secrets, want 5", len(secrets))
	}
}

func TestInitTwiceChangesNothing(t *testing.T) {
	dir := initialized(t)
	before := contents(t, dir)
	if err := keys.Init(dir); !errors.Is(err, keys.ErrExists) {
		t.Errorf("second init: %v, want ErrExists", err)
	}
	if after := contents(t, dir); !maps.Equal(before, after) {
		t.Error("the second init changed the folder")
	}
}

func TestInitAcceptsAnEmptyOrLockedFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := keys.Init(dir); err != nil {
		t.Fatal(err)
	}
	load(t, dir)
}

func TestConcurrentInitsMakeOneFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "D")
	var wg sync.WaitGroup
	won := make(chan struct{}, 8)
	for range cap(won) {
		wg.Go(func() {
			if keys.Init(dir) == nil {
				won <- struct{}{}
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("%d inits succeeded, want 1", len(won))
	}
	load(t, dir)
}

func TestPartialFolderIsNamed(t *testing.T) {
	all := []string{"owner.secret", "keys/dispatch.key", "keys/dispatch.pub", "keys/evidence.key", "keys/evidence.pub", "keys/mac.key", "keys/seal.key"}
	for _, name := range all {
		t.Run(name, func(t *testing.T) {
			dir := initialized(t)
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			before := contents(t, dir)
			_, loadErr := keys.Load(dir)
			for _, err := range []error{keys.Init(dir), loadErr} {
				var partial *keys.PartialError
				if !errors.As(err, &partial) || !slices.Equal(partial.Missing, []string{name}) {
					t.Errorf("got %v, want a PartialError that names %s", err, name)
				}
			}
			if !maps.Equal(before, contents(t, dir)) {
				t.Error("the folder changed")
			}
		})
	}
	t.Run("a ledger without keys", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "countersign.db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var partial *keys.PartialError
		if err := keys.Init(dir); !errors.As(err, &partial) || !slices.Equal(partial.Present, []string{"countersign.db"}) || !slices.Equal(partial.Missing, all) {
			t.Errorf("got %v", err)
		}
	})
}

func TestLoadOfNothing(t *testing.T) {
	for _, dir := range []string{filepath.Join(t.TempDir(), "absent"), t.TempDir()} {
		if _, err := keys.Load(dir); !errors.Is(err, keys.ErrNotInitialized) {
			t.Errorf("got %v, want ErrNotInitialized", err)
		}
	}
}

func TestLoadRefusesWhatOthersCanReach(t *testing.T) {
	secret := []string{"owner.secret", "keys/evidence.key", "keys/dispatch.key", "keys/mac.key", "keys/seal.key"}
	for _, name := range secret {
		for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o602, 0o644} {
			dir := initialized(t)
			if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
				t.Fatal(err)
			}
			var denied *keys.PermissionError
			if _, err := keys.Load(dir); !errors.As(err, &denied) || denied.Mode != mode || denied.Path != filepath.Join(dir, name) {
				t.Errorf("%s %o: %v, want a PermissionError", name, mode, err)
			}
		}
	}
	for _, name := range []string{".", "keys"} {
		dir := initialized(t)
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		var denied *keys.PermissionError
		if _, err := keys.Load(dir); !errors.As(err, &denied) {
			t.Errorf("%s 755: %v, want a PermissionError", name, err)
		}
	}
	// The same folder with 0400 files loads: the refusal is about the others.
	dir := initialized(t)
	for _, name := range secret {
		if err := os.Chmod(filepath.Join(dir, name), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	load(t, dir)
}

func TestLoadRefusesAnotherSpelling(t *testing.T) {
	edits := map[string]func(string) string{
		"no line feed":     func(s string) string { return strings.TrimSuffix(s, "\n") },
		"two line feeds":   func(s string) string { return s + "\n" },
		"carriage return":  func(s string) string { return strings.Replace(s, "\n", "\r\n", 1) },
		"padding":          func(s string) string { return strings.Replace(s, "\n", "=\n", 1) },
		"a byte less":      func(s string) string { return s[:len(s)-3] + "\n" },
		"empty":            func(string) string { return "" },
		"trailing space":   func(s string) string { return strings.Replace(s, "\n", " \n", 1) },
		"a huge file":      func(s string) string { return s + strings.Repeat("x", 1<<17) },
		"another key file": func(string) string { return "countersign-other-key/1 " + strings.Repeat("A", 43) + "\n" },
	}
	for _, name := range []string{"owner.secret", "keys/evidence.key", "keys/dispatch.key", "keys/mac.key", "keys/seal.key", "keys/evidence.pub", "keys/dispatch.pub"} {
		for edit, change := range edits {
			dir := initialized(t)
			path := filepath.Join(dir, name)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(change(string(raw))), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := keys.Load(dir); err == nil {
				t.Errorf("%s with %s loads", name, edit)
			}
		}
	}
}

func TestLoadRefusesSwappedFiles(t *testing.T) {
	for _, pair := range [][2]string{
		{"keys/evidence.key", "keys/dispatch.key"}, {"keys/mac.key", "keys/seal.key"}, {"keys/evidence.pub", "keys/dispatch.pub"},
	} {
		dir := initialized(t)
		a, b := filepath.Join(dir, pair[0]), filepath.Join(dir, pair[1])
		if err := errors.Join(os.Rename(a, a+".tmp"), os.Rename(b, a), os.Rename(a+".tmp", b)); err != nil {
			t.Fatal(err)
		}
		if _, err := keys.Load(dir); err == nil {
			t.Errorf("%v swapped and loaded", pair)
		}
	}
	dir, other := initialized(t), initialized(t)
	if err := os.Rename(filepath.Join(other, "keys/evidence.key"), filepath.Join(dir, "keys/evidence.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Load(dir); err == nil {
		t.Error("a key that is not in the list loaded")
	}
}

func TestFingerprints(t *testing.T) {
	dir := initialized(t)
	k, again, other := load(t, dir), load(t, dir), load(t, initialized(t))
	got := k.Fingerprints()
	if !maps.Equal(got, again.Fingerprints()) {
		t.Error("two readings of one folder differ")
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"dispatch", "evidence", "mac", "seal"}) {
		t.Errorf("names %v", names)
	}
	for name, f := range other.Fingerprints() {
		if f == got[name] || len(f) != 16 {
			t.Errorf("%s: %q and %q", name, f, got[name])
		}
	}
	if got["evidence"] != evidence.KeyID(k.Evidence().Public()) {
		t.Error("the fingerprint of the evidence key is not its key id")
	}
}

// macKey reads the mac key as doc.go describes the file.
func macKey(t *testing.T, dir string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "keys/mac.key"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(strings.TrimPrefix(string(raw), "countersign-mac-key/1 ")))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestStepPermitTokenIsTheOneOfL19(t *testing.T) {
	dir := initialized(t)
	k := load(t, dir)
	const run, permit = "0190aaaa-0000-7000-8000-000000000001", "0190aaaa-0000-7000-8000-000000000002"
	h := hmac.New(sha256.New, macKey(t, dir))
	h.Write([]byte("step-permit\x00" + run + "\x00" + permit))
	want := permit + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
	token := k.StepPermitToken(run, permit)
	if token != want {
		t.Fatalf("token %s, want %s", token, want)
	}
	if id, ok := k.StepPermitID(run, token); !ok || id != permit {
		t.Errorf("the token is not recognized: %q %v", id, ok)
	}
	if _, ok := k.StepPermitID("0190aaaa-0000-7000-8000-000000000009", token); ok {
		t.Error("recognized for another run")
	}
	if _, ok := load(t, initialized(t)).StepPermitID(run, token); ok {
		t.Error("recognized under another key")
	}
	for i := range token {
		damaged := []byte(token)
		if damaged[i]++; damaged[i] == '.' {
			damaged[i]++
		}
		if id, ok := k.StepPermitID(run, string(damaged)); ok {
			t.Errorf("recognized with byte %d changed, as %s", i, id)
		}
	}
	for _, text := range []string{"", ".", permit, permit + ".", "." + token, token + ".", token + "=", token + "\n", "\x00." + permit, strings.ToUpper(token)} {
		if _, ok := k.StepPermitID(run, text); ok {
			t.Errorf("%q is recognized", text)
		}
	}
}

func TestMACSeparatesItsParts(t *testing.T) {
	k := load(t, initialized(t))
	seen := map[string][]string{}
	for _, parts := range [][]string{{"target", "a", "bc"}, {"target", "ab", "c"}, {"target", "abc"}, {"target", "abc", ""}, {"step-permit", "a", "bc"}} {
		mac := string(k.MAC(parts...))
		if other, found := seen[mac]; found {
			t.Errorf("%q and %q have one MAC", parts, other)
		}
		seen[mac] = parts
	}
	defer func() {
		if recover() == nil {
			t.Error("a part with a zero byte did not panic")
		}
	}()
	k.MAC("target", "a\x00b")
}

func TestSealedValuesOpenOnlyForTheirSubject(t *testing.T) {
	k := load(t, initialized(t))
	value := []byte("session=1234")
	sealed := k.Seal("default/run/1/session", value)
	if got, err := k.Open("default/run/1/session", sealed); err != nil || !bytes.Equal(got, value) {
		t.Fatalf("%q %v", got, err)
	}
	if bytes.Contains(sealed, value) {
		t.Error("the value is readable")
	}
	if bytes.Equal(sealed, k.Seal("default/run/1/session", value)) {
		t.Error("two seals of one value are equal")
	}
	if _, err := k.Open("default/run/2/session", sealed); !errors.Is(err, keys.ErrSealed) {
		t.Errorf("another subject: %v", err)
	}
	if _, err := load(t, initialized(t)).Open("default/run/1/session", sealed); !errors.Is(err, keys.ErrSealed) {
		t.Errorf("another key: %v", err)
	}
	for i := range sealed {
		damaged := bytes.Clone(sealed)
		damaged[i] ^= 1
		if _, err := k.Open("default/run/1/session", damaged); !errors.Is(err, keys.ErrSealed) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := k.Open("default/run/1/session", sealed[:i]); !errors.Is(err, keys.ErrSealed) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
}

var rotation = time.Date(2026, 11, 30, 12, 0, 0, 123_456_789, time.UTC)

// rotate takes the steps of a rotation that are left.
func rotate(dir, name string, last time.Time) (keys.Public, error) {
	r, err := keys.OpenRotation(dir, name)
	if err != nil {
		return keys.Public{}, err
	}
	if err := r.Prepare(); err != nil {
		return keys.Public{}, err
	}
	if err := r.Publish(last); err != nil {
		return keys.Public{}, err
	}
	next, _ := r.To()
	return next, r.Use()
}

func TestRotateKeepsTheFormerKeyUntilNow(t *testing.T) {
	dir := initialized(t)
	before := load(t, dir)
	next, err := rotate(dir, "evidence", rotation)
	if err != nil {
		t.Fatal(err)
	}
	after := load(t, dir)
	list := after.EvidenceList()
	if len(list) != 2 || !list[0].Key.Equal(before.Evidence().Public()) || !list[1].Key.Equal(next.Key) {
		t.Fatalf("list %v", list)
	}
	if got := evidence.FormatTime(list[0].NotAfter); got != "2026-11-30T12:00:00.123Z" {
		t.Errorf("notAfter %s", got)
	}
	if !list[1].NotAfter.IsZero() || after.Evidence().ID != next.ID() || after.Evidence().ID == before.Evidence().ID {
		t.Error("the new key is not the key in use")
	}
	if !after.Dispatch().Public().Equal(before.Dispatch().Public()) {
		t.Error("the dispatch key changed")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "keys/evidence.pub"))
	if err != nil {
		t.Fatal(err)
	}
	want := base64.RawURLEncoding.EncodeToString(list[0].Key) + " 2026-11-30T12:00:00.123Z\n" + base64.RawURLEncoding.EncodeToString(list[1].Key) + "\n"
	if string(raw) != want {
		t.Errorf("evidence.pub is\n%swant\n%s", raw, want)
	}
	if _, err := rotate(dir, "evidence", rotation.Add(-time.Second)); err == nil {
		t.Error("rotated to before the former rotation")
	}
	load(t, dir)
	if _, err := rotate(dir, "evidence", rotation); err != nil {
		t.Errorf("a second rotation in the same millisecond: %v", err)
	}
	if n := len(load(t, dir).EvidenceList()); n != 3 {
		t.Errorf("%d keys, want 3", n)
	}
}

// The dispatch key is rotated by itself, and no other key can be.
func TestRotateDispatch(t *testing.T) {
	dir := initialized(t)
	before := load(t, dir)
	next, err := rotate(dir, "dispatch", rotation)
	if err != nil {
		t.Fatal(err)
	}
	after := load(t, dir)
	if list := after.DispatchList(); len(list) != 2 || !list[0].NotAfter.Equal(rotation.Truncate(time.Millisecond)) || list[1].ID() != next.ID() || after.Dispatch().ID != next.ID() {
		t.Errorf("list %v", list)
	}
	if after.Evidence().ID != before.Evidence().ID || len(after.EvidenceList()) != 1 {
		t.Error("the evidence key changed")
	}
	for _, name := range []string{"mac", "seal", "", "../evidence"} {
		if _, err := keys.OpenRotation(dir, name); err == nil {
			t.Errorf("%q can be rotated", name)
		}
	}
}

// A rotation that a crash interrupted after any of its steps goes on with the key it
// had; from the published list on the folder is not used with the former key.
func TestInterruptedRotation(t *testing.T) {
	for steps, crash := range []string{"opened", "prepared", "published"} {
		t.Run(crash, func(t *testing.T) {
			dir := initialized(t)
			before := load(t, dir)
			r, err := keys.OpenRotation(dir, "evidence")
			if err != nil {
				t.Fatal(err)
			}
			for i, step := range []func() error{r.Prepare, func() error { return r.Publish(rotation) }} {
				if i < steps {
					if err := step(); err != nil {
						t.Fatal(err)
					}
				}
			}
			begun, there := r.To()
			if there != (steps > 0) || keys.Interrupted(dir, "evidence") != there || keys.Interrupted(dir, "dispatch") {
				t.Errorf("a next key: %v, interrupted: %v", there, keys.Interrupted(dir, "evidence"))
			}
			_, err = keys.Load(dir)
			if interrupted, ok := errors.AsType[*keys.InterruptedError](err); ok != (crash == "published") || ok && interrupted.Name != "evidence" {
				t.Errorf("load says %v", err)
			}
			// The other key waits until this one is there.
			if _, err := keys.OpenRotation(dir, "dispatch"); (err == nil) == (crash == "published") {
				t.Errorf("the other key: %v", err)
			}
			again, err := keys.OpenRotation(dir, "evidence")
			if err != nil {
				t.Fatal(err)
			}
			if again.From.ID() != before.Evidence().ID || again.Fingerprints["evidence"] != before.Evidence().ID {
				t.Errorf("from %s, want %s", again.From.ID(), before.Evidence().ID)
			}
			next, err := rotate(dir, "evidence", rotation.Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			if there && !next.Key.Equal(begun.Key) {
				t.Error("the rotation was not finished with the key it had begun with")
			}
			want := rotation.Add(time.Hour)
			if crash == "published" {
				want = rotation
			}
			list := load(t, dir).EvidenceList()
			if len(list) != 2 || !list[0].NotAfter.Equal(want.Truncate(time.Millisecond)) || list[1].ID() != next.ID() || keys.Interrupted(dir, "evidence") {
				t.Errorf("list %v", list)
			}
		})
	}
}

// The key is not put in place before the list has it.
func TestUseBeforePublish(t *testing.T) {
	dir := initialized(t)
	r, err := keys.OpenRotation(dir, "evidence")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Prepare(); err != nil {
		t.Fatal(err)
	}
	if r.Use() == nil {
		t.Error("the next key is in use and not in the list")
	}
	load(t, dir)
}

func TestRotateNeedsTheKeyOfTheList(t *testing.T) {
	dir, other := initialized(t), initialized(t)
	if err := os.Rename(filepath.Join(other, "keys/evidence.key"), filepath.Join(dir, "keys/evidence.key")); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	if _, err := rotate(dir, "evidence", rotation); err == nil {
		t.Error("rotated away from a key that is not the list's")
	}
	if !maps.Equal(before, contents(t, dir)) {
		t.Error("the folder changed")
	}
}

func TestReadPublic(t *testing.T) {
	encoded := func() string {
		public, _, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(public)
	}
	a, b, c := encoded(), encoded(), encoded()
	const t1, t2 = " 2026-01-01T00:00:00.000Z\n", " 2026-01-01T00:00:00.001Z\n"
	for name, test := range map[string]struct {
		text string
		keys int // 0: refused
	}{
		"one":              {a + "\n", 1},
		"three":            {a + t1 + b + t2 + c + "\n", 3},
		"equal times":      {a + t1 + b + t1 + c + "\n", 3},
		"times decrease":   {a + t2 + b + t1 + c + "\n", 0},
		"nothing":          {"", 0},
		"a line feed":      {"\n", 0},
		"no key in use":    {a + t1, 0},
		"two keys in use":  {a + "\n" + b + "\n", 0},
		"a key twice":      {a + t1 + a + "\n", 0},
		"an empty line":    {a + t1 + "\n" + b + "\n", 0},
		"two spaces":       {a + " " + t1 + b + "\n", 0},
		"another time":     {a + " 2026-01-01T00:00:00Z\n" + b + "\n", 0},
		"cut":              {a, 0},
		"standard base64":  {strings.Repeat("+", 42) + "A\n", 0},
		"a short key":      {a[:42] + "\n", 0},
		"trailing content": {a + "\nx", 0},
	} {
		path := filepath.Join(t.TempDir(), "evidence.pub")
		if err := os.WriteFile(path, []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		list, err := keys.ReadPublic(path)
		if len(list) != test.keys || (err == nil) != (test.keys > 0) {
			t.Errorf("%s: %d keys, %v; want %d", name, len(list), err, test.keys)
		}
	}
}
