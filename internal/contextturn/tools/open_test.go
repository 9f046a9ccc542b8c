package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"countersign/internal/canon"
	"countersign/internal/contextturn/content"
)

// stored is documents by hash, as the ledger's blobs would give them.
type stored map[string][]byte

func (s stored) load(_ context.Context, hashes []string) ([][]byte, error) {
	found := make([][]byte, 0, len(hashes))
	for _, hash := range hashes {
		raw, ok := s[hash]
		if !ok {
			return nil, fmt.Errorf("there is no %s", hash)
		}
		found = append(found, raw)
	}
	return found, nil
}

// openDocuments opens the Build of some documents and cases.
func openDocuments(t testing.TB, raw []string, cases ...content.Case) *Build {
	t.Helper()
	blobs := stored{}
	docs := make([]*content.Document, len(raw))
	for i, text := range raw {
		d, faults := content.ParseDocument([]byte(text))
		if err := content.Error(faults); err != nil {
			t.Fatal(err)
		}
		docs[i], blobs[d.SHA256] = d, []byte(text)
	}
	return openManifest(t, content.NewManifest(docs, cases), blobs)
}

func openManifest(t testing.TB, m content.Manifest, blobs stored) *Build {
	t.Helper()
	b, err := Open(t.Context(), m, blobs.load)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// document is a document of few words.
func document(id, title, text string, matter ...string) string {
	return fmt.Sprintf("---\nid: %s\ntitle: %s\n%s---\n%s\n", id, title, strings.Join(append(matter, ""), "\n"), text)
}

func TestOpenRefusesWhatIsNotTheManifests(t *testing.T) {
	// TMPDIR shows that nothing is left behind.
	t.Setenv("TMPDIR", t.TempDir())
	folder, blobs := readHandbook(t)
	first, last := folder.Documents[0], folder.Documents[len(folder.Documents)-1]
	other := []byte(strings.Replace(last.Raw, "\ntitle: ", "\ntitle: Not ", 1))
	broken := []byte("no front matter")
	named := func(hash string, size int) content.Manifest {
		m := folder.Manifest
		m.Documents = slices.Clone(m.Documents)
		m.Documents[len(m.Documents)-1].SHA256 = hash
		m.Documents[len(m.Documents)-1].Bytes = size
		return m
	}
	with := func(hash string, raw []byte) stored {
		s := maps.Clone(blobs)
		s[hash] = raw
		return s
	}
	without := maps.Clone(blobs)
	delete(without, last.SHA256)
	partOf := named(last.SHA256, last.Bytes)
	partOf.Documents = slices.DeleteFunc(partOf.Documents, func(e content.Entry) bool { return e.Ref == "refunds/window-2023" })
	partOf.Cases = nil
	twice := folder.Manifest
	twice.Documents = append(slices.Clone(twice.Documents), twice.Documents[0])
	stop := errors.New("the ledger is away")
	for _, c := range []struct {
		name     string
		manifest content.Manifest
		load     Load
		want     error
	}{
		{"a byte differs", folder.Manifest, with(last.SHA256, append([]byte(last.Raw), ' ')).load, ErrDamaged},
		{"another document", folder.Manifest, with(last.SHA256, []byte(first.Raw)).load, ErrDamaged},
		{"another title", named(canon.Hash(other), len(other)), with(canon.Hash(other), other).load, ErrDamaged},
		{"another size", named(last.SHA256, last.Bytes+1), blobs.load, ErrDamaged},
		{"not a document", named(canon.Hash(broken), len(broken)), with(canon.Hash(broken), broken).load, ErrDamaged},
		{"supersedes what is not there", partOf, blobs.load, ErrDamaged},
		{"not a manifest", twice, blobs.load, content.ErrManifest},
		{"too few documents", folder.Manifest, func(ctx context.Context, hashes []string) ([][]byte, error) {
			return blobs.load(ctx, hashes[:len(hashes)-1])
		}, ErrDamaged},
		{"the store panics", folder.Manifest, func(context.Context, []string) ([][]byte, error) { panic("a fault of the program") }, ErrDamaged},
		{"the store fails", folder.Manifest, func(context.Context, []string) ([][]byte, error) { return nil, stop }, stop},
	} {
		b, err := Open(t.Context(), c.manifest, c.load)
		if b != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if b, err := Open(t.Context(), folder.Manifest, without.load); b != nil || err == nil {
		t.Errorf("a document is missing: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if b, err := Open(ended, folder.Manifest, blobs.load); b != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("the call was given up: %v", err)
	}
	b, err := Open(t.Context(), folder.Manifest, blobs.load) // the control
	if err != nil {
		t.Fatal(err)
	}
	if n := len(temporary(t)); n != 1 {
		t.Errorf("%d folders while a Build is open", n)
	}
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if left := temporary(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func temporary(t *testing.T) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestCallsDuringAndAfterClose(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{document("a", "Alpha", "The first letter.")})
	calls := map[string]func() error{
		"compass": func() error { _, err := b.Compass(t.Context(), "", "alpha"); return err },
		"find":    func() error { _, err := b.Find(t.Context(), "", "alpha", 1); return err },
		"resolve": func() error { _, err := b.Resolve(t.Context(), "", "a"); return err },
		"why":     func() error { _, err := b.Why(t.Context(), "", "a"); return err },
		"test":    func() error { _, err := b.Test(t.Context(), "", "alpha", []string{"a"}); return err },
	}
	var wg sync.WaitGroup
	first := make(chan struct{}, len(calls))
	for name, call := range calls {
		if err := call(); err != nil {
			t.Fatal(name, err)
		}
		wg.Go(func() {
			for n := 0; ; n++ {
				err := call()
				if n == 0 {
					first <- struct{}{}
				}
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(name, err)
					return
				}
			}
		})
	}
	for range calls {
		<-first
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// Two Builds of the same manifest, opened from differently timed loads, answer every
// question with the same bytes, also when they are asked at once.
func TestAnswersAreRepeatable(t *testing.T) {
	t.Parallel()
	folder, blobs := readHandbook(t)
	one := openManifest(t, folder.Manifest, blobs)
	slices.Reverse(folder.Documents)
	slices.Reverse(folder.Cases)
	two := openManifest(t, content.NewManifest(folder.Documents, folder.Cases), blobs)
	ask := func(b *Build, profile, text string) []byte {
		compass, err := b.Compass(t.Context(), profile, text)
		if err != nil {
			t.Error(err)
		}
		find, err := b.Find(t.Context(), profile, text, MaxLimit)
		if err != nil {
			t.Error(err)
		}
		return slices.Concat(canon.MustMarshal(compass), canon.MustMarshal(find), canon.MustMarshal(find.Handed()))
	}
	var wg sync.WaitGroup
	for _, c := range tasks {
		wg.Go(func() {
			for range 3 {
				if x, y := ask(one, c.profile, c.task), ask(two, c.profile, c.task); !bytes.Equal(x, y) {
					t.Errorf("%q:\n%s\n%s", c.task, x, y)
				}
			}
		})
	}
	wg.Wait()
}
