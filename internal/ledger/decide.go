package ledger

import (
	"context"
	"crypto/rand"
	"errors"
)

// ErrContended is the cause of the [Conflict] that [Decide] answers when it lost its race
// too often.
var ErrContended = errors.New("ledger: too many changes of the same subject at once")

// Committer stores a Change.
type Committer interface {
	Commit(context.Context, Change) Result
}

// Decide lets f read and decide, and commits what it made, again and again until no race
// is lost, tries times at most: a failed guard is never patched. A nil Change stores nothing and is [Stored]. An
// error is f's own, of its last try, and comes with a Result that says nothing was stored
// by it.
func Decide(ctx context.Context, l Committer, tries int, f func() (*Change, error)) (Result, error) {
	for range tries {
		c, err := f()
		if err != nil {
			return Result{Outcome: NotStored, Cause: err}, err
		}
		if c == nil {
			return Result{Outcome: Stored}, nil
		}
		if r := l.Commit(ctx, *c); r.Outcome != Conflict {
			return r, nil
		}
	}
	return Result{Outcome: Conflict, Cause: ErrContended}, nil
}

// Seed is the randomness of one decision, from which a pure package makes its names and
// salts. It is used once.
func Seed() (s [32]byte) {
	rand.Read(s[:]) // never fails: crypto/rand ends the process instead
	return s
}
