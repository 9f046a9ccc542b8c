package tools

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"countersign/internal/contextturn/content"
)

// TestAnswer says whether a compass hands out what is expected. It holds no text of
// any document.
type TestAnswer struct {
	Passed   bool     `json:"passed"`
	Expected []string `json:"expected"`
	Missing  []string `json:"missing"` // of the expected
	Found    int      `json:"found"`   // how many of the expected
}

// Handed is nothing: a test delivers no context.
func (a *TestAnswer) Handed() []Handed { return nil }

// TestCase tests a case of the Build, or is ErrNotFound when there is none of the id that
// expects only what the profile may see.
func (b *Build) TestCase(ctx context.Context, profile, id string) (*TestAnswer, error) {
	cases := b.manifest.Cases
	i := sort.Search(len(cases), func(i int) bool { return cases[i].ID >= id })
	if i == len(cases) || cases[i].ID != id {
		return nil, ErrNotFound
	}
	v := b.view(profile)
	for _, ref := range cases[i].ExpectRefs {
		if _, err := b.seen(v, ref); err != nil {
			return nil, err
		}
	}
	return b.Test(ctx, profile, cases[i].Task, cases[i].ExpectRefs)
}

// Test tells which of 1 to 20 expected refs are among the items of a compass for
// the task. A ref that the profile may not see is missing like one that is not there.
func (b *Build) Test(ctx context.Context, profile, task string, expect []string) (*TestAnswer, error) {
	if len(expect) == 0 || len(expect) > content.MaxExpected {
		return nil, fmt.Errorf("%w: %d expected refs", ErrRequest, len(expect))
	}
	var chosen []choice
	err := b.during(ctx, func(ctx context.Context) (err error) {
		chosen, err = b.choose(ctx, profile, newStemmer().content(task))
		return err
	})
	if err != nil {
		return nil, err
	}
	answer := &TestAnswer{Expected: slices.Clone(expect), Missing: []string{}}
	for _, ref := range expect {
		if slices.ContainsFunc(chosen, func(c choice) bool { return b.docs[c.place].Ref == ref }) {
			answer.Found++
		} else {
			answer.Missing = append(answer.Missing, ref)
		}
	}
	answer.Passed = len(answer.Missing) == 0
	return answer, nil
}
