package tools

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// calls are the calls that read the file of a Build of one document a about opals.
func calls(b *Build) map[string]func(ctx context.Context) (Answer, error) {
	return map[string]func(ctx context.Context) (Answer, error){
		"compass": func(ctx context.Context) (Answer, error) { return answer(b.Compass(ctx, "", "opal")) },
		"find":    func(ctx context.Context) (Answer, error) { return answer(b.Find(ctx, "", "opal", 1)) },
		"test":    func(ctx context.Context) (Answer, error) { return answer(b.Test(ctx, "", "opal", []string{"a"})) },
		"resolve": func(ctx context.Context) (Answer, error) { return answer(b.Resolve(ctx, "", "a")) },
	}
}

func TestACallThatWorksTooLongIsGivenUp(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{document("a", "Opal", "A stone.")})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(b) {
		b.limit = time.Nanosecond
		if a, err := call(t.Context()); a != nil || !errors.Is(err, ErrTooLong) {
			t.Errorf("%s: %v, %v", name, a, err)
		}
		if a, err := call(gone); a != nil || !errors.Is(err, context.Canceled) || errors.Is(err, ErrTooLong) {
			t.Errorf("%s, and the caller left: %v, %v", name, a, err)
		}
		b.limit = maxWork
		if a, err := call(gone); a != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%s, the caller left: %v, %v", name, a, err)
		}
		if a, err := call(t.Context()); a == nil || err != nil { // the control
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoMoreCallsAtOnceThanProcessors(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{document("a", "Opal", "A stone.")})
	if cap(b.running) != runtime.GOMAXPROCS(0) {
		t.Errorf("%d at once", cap(b.running))
	}
	for range cap(b.running) {
		b.running <- struct{}{}
	}
	for name, call := range calls(b) {
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := call(ctx)
			done <- err
		}()
		leave()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s did not wait: %v", name, err)
		}
	}
	<-b.running
	for name, call := range calls(b) { // one after the other they go through one place
		if _, err := call(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for len(b.running) > 0 {
		<-b.running
	}
}

// A hundred times as many words of a task must not cost a hundred times as much of a
// document. The best of some runs is what the machine's other work disturbs least.
func TestWordsOfATaskAreFoundInOnePass(t *testing.T) {
	document := stems(strings.ReplaceAll(strings.TrimSpace(words("opal", 30_000)), " ", "\n"))
	cost := func(n int) time.Duration {
		asked := newStemmer().content(words("topaz", n))
		least := time.Hour
		for range 5 {
			begin := time.Now()
			if has := common(asked, document); has != nil {
				t.Fatal(has)
			}
			least = min(least, time.Since(begin))
		}
		return least
	}
	if few, many := cost(5), cost(500); many > 20*few {
		t.Errorf("5 words take %v, 500 take %v", few, many)
	}
	if has := common(newStemmer().content("opal29999x opal0 opal2 opal29999"), document); len(has) != 3 || has[0].stem != "opal0" || has[2].stem != "opal29999" {
		t.Errorf("%v", has)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{document("a", "Opal", strings.Repeat("A stone. ", 10_000))})
	info, err := os.Stat(filepath.Join(b.folder.path, "index"))
	if err != nil || info.Size() < 90_000 {
		t.Fatal(info.Size(), err)
	}
	if got, want := b.Size(), info.Size()+b.Manifest().Bytes(); got != want {
		t.Errorf("%d, want %d", got, want)
	}
}

// An index of one part and one of many answer alike.
func TestPartsOfTheIndexDoNotShow(t *testing.T) {
	t.Parallel()
	folder, blobs := readHandbook(t)
	one := openManifest(t, folder.Manifest, blobs)
	many, err := openBuild(t.Context(), folder.Manifest, blobs.load, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	defer many.Close()
	if one.segments != 1 || many.segments < 3 {
		t.Fatal(one.segments, many.segments)
	}
	texts := []string{"refund gift card paid order", strings.Join(strings.Fields(folder.Documents[7].Text), " ")}
	for _, profile := range []string{"support", "staff"} {
		if x, y := answers(t, one, profile, texts, []string{"refunds/window"}, nil), answers(t, many, profile, texts, []string{"refunds/window"}, nil); !slices.Equal(x, y) {
			t.Errorf("%s: %v\n%v", profile, x, y)
		}
	}
}
