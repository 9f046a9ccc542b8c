package ledgertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"countersign/internal/ledger"
)

func newBlob(workspace, text string) ledger.Blob {
	sum := sha256.Sum256([]byte(text))
	return ledger.Blob{Workspace: workspace, Hash: hex.EncodeToString(sum[:]), Type: "text/markdown", Bytes: []byte(text)}
}

func newBlobs(workspace string, n int) (blobs []ledger.Blob, hashes []string) {
	for number := range n {
		b := newBlob(workspace, fmt.Sprintf("document %d of %s\x00\xff", number, newID()))
		blobs, hashes = append(blobs, b), append(hashes, b.Hash)
	}
	return blobs, hashes
}

// What was put is read as it was, in the order asked, on every replica and after
// a restart; a second time changes nothing. Other workspaces do not have it.
func testBlobs(t testing.TB, b Backend) {
	i := start(t, b, Options{})
	ctx := t.Context()
	blobs, hashes := newBlobs(ledger.DefaultWorkspace, ledger.MaxBlobs)
	there, _ := newBlobs("elsewhere", 1)
	large := newBlob(ledger.DefaultWorkspace, strings.Repeat("x", ledger.MaxBlobBytes-len(blobs[1].Bytes)))
	before := i.rows()["blobs"]
	for n, call := range [][]ledger.Blob{nil, blobs[:1], blobs, {blobs[0], blobs[0]}, {large, blobs[1]}, there} {
		if err := i.PutBlobs(ctx, call); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
	}
	other := blobs[0]
	other.Type = "text/plain"
	if err := i.PutBlobs(ctx, []ledger.Blob{other}); err != nil {
		t.Fatal(err)
	}
	if n := i.rows()["blobs"] - before; n != ledger.MaxBlobs+2 {
		t.Errorf("%d rows, want %d", n, ledger.MaxBlobs+2)
	}
	asked := slices.Clone(hashes)
	slices.Reverse(asked)
	want := slices.Clone(blobs)
	slices.Reverse(want)
	nobody := newBlob(ledger.DefaultWorkspace, newID()).Hash
	asked[500] = nobody
	want = slices.Delete(want, 500, 501)
	check := func(e Engine) {
		t.Helper()
		if got, err := e.Blobs(ctx, ledger.DefaultWorkspace, asked); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d blobs, %v, want those that were put in the order asked", len(got), err)
		}
		if got, err := e.Missing(ctx, ledger.DefaultWorkspace, asked); err != nil || !slices.Equal(got, []string{nobody}) {
			t.Errorf("missing %q, %v, want %q", got, err, nobody)
		}
		if got, err := e.Blobs(ctx, ledger.DefaultWorkspace, []string{large.Hash}); err != nil || len(got) != 1 || string(got[0].Bytes) != string(large.Bytes) {
			t.Errorf("the large one: %d blobs, %v", len(got), err)
		}
		if got, err := e.Blobs(ctx, "elsewhere", []string{hashes[0], there[0].Hash}); err != nil || !reflect.DeepEqual(got, there) {
			t.Errorf("elsewhere: %d blobs, %v", len(got), err)
		}
		if got, err := e.Missing(ctx, "elsewhere", []string{hashes[0], there[0].Hash}); err != nil || !slices.Equal(got, hashes[:1]) {
			t.Errorf("missing elsewhere: %q, %v", got, err)
		}
		if got, err := e.Blobs(ctx, ledger.DefaultWorkspace, nil); err != nil || len(got) != 0 {
			t.Errorf("nothing asked: %v, %v", got, err)
		}
	}
	for _, e := range i.replicas() {
		check(e)
	}
	if b.Replicas == 1 {
		i.restart()
		check(i)
	}
}

// What is not fit to be stored leaves nothing, its neighbours in the call
// included, and what is not fit to be asked is no answer.
func testInvalidBlobs(t testing.TB, b Backend) {
	i := start(t, b, Options{})
	ctx, before := t.Context(), i.rows()
	good := newBlob(ledger.DefaultWorkspace, newID())
	many, hashes := newBlobs(ledger.DefaultWorkspace, ledger.MaxBlobs+1)
	large := newBlob(ledger.DefaultWorkspace, strings.Repeat("x", ledger.MaxBlobBytes-len(good.Bytes)+1))
	spoil := func(f func(*ledger.Blob)) []ledger.Blob {
		bad := newBlob(ledger.DefaultWorkspace, newID())
		f(&bad)
		return []ledger.Blob{good, bad}
	}
	for what, call := range map[string][]ledger.Blob{
		"another's hash":     spoil(func(b *ledger.Blob) { b.Hash = good.Hash }),
		"altered bytes":      spoil(func(b *ledger.Blob) { b.Bytes[0]++ }),
		"a hash in capitals": spoil(func(b *ledger.Blob) { b.Hash = strings.ToUpper(b.Hash) + "A" }),
		"no type":            spoil(func(b *ledger.Blob) { b.Type = "" }),
		"a type with NUL":    spoil(func(b *ledger.Blob) { b.Type = "a\x00" }),
		"no workspace":       spoil(func(b *ledger.Blob) { b.Workspace = "" }),
		"no bytes":           {good, newBlob(ledger.DefaultWorkspace, "")},
		"too many":           many,
		"too large":          {good, large},
	} {
		if err := i.PutBlobs(ctx, call); !errors.Is(err, ledger.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := i.unchanged(before); err != nil {
		t.Error(err)
	}
	for what, ask := range map[string]struct {
		workspace string
		hashes    []string
	}{
		"too many":     {ledger.DefaultWorkspace, hashes},
		"no hash":      {ledger.DefaultWorkspace, []string{good.Hash, "g" + good.Hash[1:]}},
		"NUL":          {ledger.DefaultWorkspace, []string{"\x00" + good.Hash[1:]}},
		"no workspace": {"", []string{good.Hash}},
	} {
		_, found := i.Blobs(ctx, ask.workspace, ask.hashes)
		_, missing := i.Missing(ctx, ask.workspace, ask.hashes)
		if !errors.Is(found, ledger.ErrInvalid) || !errors.Is(missing, ledger.ErrInvalid) {
			t.Errorf("%s: %v and %v", what, found, missing)
		}
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := i.PutBlobs(ended, []ledger.Blob{good}); err == nil {
		t.Error("stored for a caller that had left")
	}
	if err := i.unchanged(before); err != nil {
		t.Error(err)
	}
}

// At every fail point that a call passes it fails there once. Without an error all
// of it is there; with one before the transaction is durable nothing is. The same
// call again stores what was meant.
func testBlobFaults(t testing.TB, b Backend) {
	i := start(t, b, Options{})
	ctx, durable, early := t.Context(), 0, 0
	for _, point := range b.Points {
		blobs, hashes := newBlobs(ledger.DefaultWorkspace, 3)
		var hit atomic.Bool
		i.points.set(func(p string) error {
			if p == point && hit.CompareAndSwap(false, true) {
				return errInjected
			}
			return nil
		})
		put := i.PutBlobs(ctx, blobs)
		missing, err := i.Missing(ctx, ledger.DefaultWorkspace, hashes)
		if err != nil {
			t.Fatal(err)
		}
		switch lies := slices.Contains(b.Durable, point); {
		case put == nil && len(missing) > 0:
			t.Errorf("%s: stored, and %d are not there", point, len(missing))
		case !hit.Load() && put != nil:
			t.Errorf("%s: without a fault: %v", point, put)
		case !hit.Load():
			continue
		case lies:
			durable++
			if len(missing) > 0 {
				t.Errorf("%s: %d are not there", point, len(missing))
			}
		default:
			early++
			if put == nil || len(missing) != len(hashes) {
				t.Errorf("%s: %v, and %d are not there, want all", point, put, len(missing))
			}
		}
		if err := i.PutBlobs(ctx, blobs); err != nil {
			t.Errorf("%s: again: %v", point, err)
		}
		if found, err := i.Blobs(ctx, ledger.DefaultWorkspace, hashes); err != nil || !reflect.DeepEqual(found, blobs) {
			t.Errorf("%s: again: %d blobs, %v", point, len(found), err)
		}
	}
	if durable == 0 || early == 0 {
		t.Errorf("%d durable points were reached and %d before them", durable, early)
	}
}

// unhashed stores what is fit of a call and says nothing of the rest.
type unhashed struct{ Engine }

func (u unhashed) PutBlobs(ctx context.Context, blobs []ledger.Blob) error {
	var fit []ledger.Blob
	for _, one := range blobs {
		if ledger.CheckBlobs([]ledger.Blob{one}) == nil {
			fit = append(fit, one)
		}
	}
	if len(fit) == len(blobs) {
		return u.Engine.PutBlobs(ctx, blobs)
	}
	return u.Engine.PutBlobs(ctx, fit)
}

func unchecked(_ *instance, e Engine) Engine { return unhashed{e} }

// mergedBlobs looks for hashes in the default workspace.
type mergedBlobs struct{ Engine }

func (m mergedBlobs) Missing(ctx context.Context, _ string, hashes []string) ([]string, error) {
	return m.Engine.Missing(ctx, ledger.DefaultWorkspace, hashes)
}

func mergingBlobs(_ *instance, e Engine) Engine { return mergedBlobs{e} }

// hopefulBlobs says that everything is stored.
type hopefulBlobs struct{ Engine }

func (h hopefulBlobs) PutBlobs(ctx context.Context, blobs []ledger.Blob) error {
	_ = h.Engine.PutBlobs(ctx, blobs)
	return nil
}

func hoping(_ *instance, e Engine) Engine { return hopefulBlobs{e} }
