package store

import (
	"bytes"
	"crypto/ed25519"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/dispatch"
)

// trusting is a shop that was opened with a trust file, and what it logs.
func trusting(t *testing.T) (*shop, string, *logged) {
	t.Helper()
	s := newShop(t)
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	s.trustFile = filepath.Join(t.TempDir(), "dispatch.pub")
	replace(t, s.trustFile, dispatch.FormatKeys(s.trust))
	s.log = &logged{}
	s.serve()
	return s, s.trustFile, s.log
}

type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// replace puts a file in the place of another in one step.
func replace(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name+".new", content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func dispatchKey(t *testing.T) (ed25519.PrivateKey, dispatch.TrustedKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return private, dispatch.TrustedKey{Public: public}
}

// check sends a change signed with key and returns the check that it failed, or
// nothing when it was done.
func (h *hosted) check(key ed25519.PrivateKey) string {
	h.t.Helper()
	const body = `{"productId":"fieldwork-mouse","quantity":1}`
	token, err := h.permit(h.sid, "POST", "/api/cart/items", body).Sign(key)
	if err != nil {
		h.t.Fatal(err)
	}
	a := h.send(token, "/api/cart/items", body, h.cookie)
	if a.Status == 200 {
		return ""
	}
	p := problemOf(h.t, a)
	return p.ReasonCode + " " + p.Check
}

// The control plane's dispatch key is rotated while the shop runs.
func TestRotatedDispatchKey(t *testing.T) {
	s, file, _ := trusting(t)
	h := s.session("sess-1")
	next, public := dispatchKey(t)
	if got := h.check(next); got != "DISPATCH_PERMIT_INVALID unknown_key" {
		t.Fatalf("the next key before the rotation: %q", got)
	}
	former := s.trust[0]
	former.NotAfter = s.now().Add(time.Minute)
	replace(t, file, dispatch.FormatKeys([]dispatch.TrustedKey{former, public}))
	if got := h.check(next); got != "" {
		t.Errorf("the next key: %q", got)
	}
	if got := h.check(s.key); got != "" {
		t.Errorf("the former key until its end: %q", got)
	}
	former.NotAfter = s.now().Add(-time.Second)
	replace(t, file, dispatch.FormatKeys([]dispatch.TrustedKey{former, public}))
	if got := h.check(s.key); got != "DISPATCH_PERMIT_INVALID key_expired" {
		t.Errorf("the former key after its end: %q", got)
	}
	replace(t, file, dispatch.FormatKeys([]dispatch.TrustedKey{public}))
	if got := h.check(s.key); got != "DISPATCH_PERMIT_INVALID unknown_key" {
		t.Errorf("a key that was taken out: %q", got)
	}
	if got := h.check(next); got != "" {
		t.Errorf("the next key: %q", got)
	}

	// Control: a shop that was given keys and no file does not look.
	fixed := newShop(t)
	if got := fixed.session("sess-1").check(next); got != "DISPATCH_PERMIT_INVALID unknown_key" {
		t.Errorf("control: %q", got)
	}
}

// A file that is replaced in place is seen, also when it has been the same for long.
func TestTrustFileChangesAfterALongTime(t *testing.T) {
	s, file, _ := trusting(t)
	h := s.session("sess-1")
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	if got := h.check(s.key); got != "" {
		t.Fatal(got)
	}
	next, public := dispatchKey(t)
	if err := os.WriteFile(file, dispatch.FormatKeys([]dispatch.TrustedKey{public}), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := h.check(next); got != "" {
		t.Errorf("the next key: %q", got)
	}
	if got := h.check(s.key); got != "DISPATCH_PERMIT_INVALID unknown_key" {
		t.Errorf("the former key: %q", got)
	}
	// Within the same tick of the file's clock, with the same size.
	if err := os.WriteFile(file, dispatch.FormatKeys(s.trust), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := h.check(next); got != "DISPATCH_PERMIT_INVALID unknown_key" {
		t.Errorf("the key of a moment ago: %q", got)
	}
}

// A trust file that is replaced in place and looks the same from outside, with the
// size, time and inode it had, holds other keys all the same: the withdrawn one
// counts no more.
func TestTrustFileThatLooksTheSame(t *testing.T) {
	s, file, _ := trusting(t)
	h := s.session("sess-1")
	hourAgo := time.Now().Add(-time.Hour)
	look := func() os.FileInfo {
		t.Helper()
		if err := os.Chtimes(file, hourAgo, hourAgo); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	before := look()
	if got := h.check(s.key); got != "" {
		t.Fatal(got)
	}
	next, public := dispatchKey(t)
	if err := os.WriteFile(file, dispatch.FormatKeys([]dispatch.TrustedKey{public}), 0o644); err != nil {
		t.Fatal(err)
	}
	after := look()
	if !os.SameFile(before, after) || before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()) {
		t.Fatal("control: the file does not look the same")
	}
	if got := h.check(s.key); got != "DISPATCH_PERMIT_INVALID unknown_key" {
		t.Errorf("the withdrawn key: %q", got)
	}
	if got := h.check(next); got != "" {
		t.Errorf("the next key: %q", got)
	}
}

// While the file is gone or damaged no permit counts: the former keys may just
// have been withdrawn. Nothing changes, and the log says what to mend.
func TestUnreadableTrustFile(t *testing.T) {
	s, file, log := trusting(t)
	h := s.session("sess-1")
	good, before := dispatch.FormatKeys(s.trust), h.dump()
	for name, damage := range map[string]func(){
		"gone":     func() { os.Remove(file) },
		"empty":    func() { replace(t, file, nil) },
		"cut":      func() { replace(t, file, good[:20]) },
		"not keys": func() { replace(t, file, []byte("hello\n")) },
		"too long": func() { replace(t, file, bytes.Repeat([]byte("A"), trustLimit+1)) },
		"a folder": func() { os.Remove(file); os.Mkdir(file, 0o700) },
	} {
		damage()
		if got := h.check(s.key); got != "INTERNAL " {
			t.Errorf("%s: %q", name, got)
		}
		if a := h.send("", "/api/orders", "{}", h.cookie); a.Status != 401 {
			t.Errorf("%s: without a permit: %d", name, a.Status)
		}
		if name == "a folder" {
			os.Remove(file)
		}
		if h.dump() != before {
			t.Fatalf("%s: something changed", name)
		}
		replace(t, file, good)
	}
	if !strings.Contains(log.String(), file) || !strings.Contains(log.String(), "the trust file is the control plane's dispatch.pub") {
		t.Errorf("the log does not say what to mend: %s", log)
	}
	if got := h.check(s.key); got != "" {
		t.Errorf("mended: %q", got)
	}
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	replace(t, file, nil)
	if _, err := Open(s.dir, Options{Origin: s.origin, TrustFile: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("opened with an empty trust file: %v", err)
	}
}
