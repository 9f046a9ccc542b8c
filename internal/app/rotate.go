package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
)

// Rotation is which key of an installation is replaced.
type Rotation struct {
	Dir      string
	Database string // PostgreSQL URL; "": SQLite in Dir
	Key      string // evidence or dispatch

	Clock *ledger.Clock      // nil: the system's
	Fault func(point string) // tests only: called behind every step
}

// Points of a rotation, in the order of its steps.
const (
	pointAlone     = "the ledger is held"
	pointPrepared  = "the next key is written"
	pointKnown     = "the ledger knows the next key"
	pointPublished = "the list has the next key"
	pointUsed      = "the next key is in use"
)

// RotationPoints are the points at which Rotation.Fault is called, in order.
var RotationPoints = []string{pointAlone, pointPrepared, pointKnown, pointPublished, pointUsed}

// offline is a ledger that nobody serves meanwhile.
type offline interface {
	Inspect(context.Context) (ledger.Installation, error)
	ReplaceKey(ctx context.Context, name, from, to string) (last time.Time, err error)
	Close() error
}

func openOffline(ctx context.Context, r Rotation) (offline, error) {
	if r.Database != "" {
		return postgres.OpenOffline(ctx, r.Database, r.Clock)
	}
	if err := present(r.Dir); err != nil {
		return nil, err
	}
	return sqlite.OpenOffline(ctx, databaseFile(r.Dir), r.Clock)
}

// Rotate replaces a signing key: in the folder and in the ledger, which refuses
// whoever still has the former one. No server has the ledger open meanwhile
// ([sqlite.ErrLocked], [ledger.ErrServed]). It returns the former key with its last
// instant, and the next one. After a crash at any point the next call goes on with the
// rotation that was begun, and until then either the former key is in use as before or
// nothing is served.
func Rotate(ctx context.Context, r Rotation) (former, next keys.Public, err error) {
	if r.Fault == nil {
		r.Fault = func(string) {}
	}
	if _, err := keys.OpenRotation(r.Dir, r.Key); err != nil {
		return former, next, err // a wrong folder is told before its ledger is missed
	}
	l, err := openOffline(ctx, r)
	if err != nil {
		return former, next, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	r.Fault(pointAlone)
	step, err := keys.OpenRotation(r.Dir, r.Key)
	if err != nil {
		return former, next, err
	}
	known, err := l.Inspect(ctx)
	if err == nil {
		err = r.ours(known, step)
	}
	if err != nil {
		return former, next, err
	}
	if err := step.Prepare(); err != nil {
		return former, next, err
	}
	r.Fault(pointPrepared)
	former = step.From
	next, _ = step.To()
	// The ledger before the list: as soon as the former key's end is published, no copy
	// of the folder can sign with it any more.
	if former.NotAfter, err = l.ReplaceKey(ctx, r.Key, former.ID(), next.ID()); err != nil {
		return former, next, err
	}
	r.Fault(pointKnown)
	if err := step.Publish(former.NotAfter); err != nil {
		return former, next, err
	}
	r.Fault(pointPublished)
	if err := step.Use(); err != nil {
		return former, next, err
	}
	r.Fault(pointUsed)
	return former, next, nil
}

// ours returns nil when the ledger's keys are the folder's, with the one that is being
// replaced or with its successor.
func (r Rotation) ours(known ledger.Installation, step *keys.Rotation) error {
	if len(known.Keys) == 0 {
		return ErrNoLedger
	}
	if next, there := step.To(); there && known.Keys[r.Key] == next.ID() {
		step.Fingerprints[r.Key] = next.ID()
	}
	former, ok := known.Knows(step.Fingerprints)
	switch {
	case !ok:
		return ErrForeign
	case len(former) == 0:
		return nil
	case former[0] == r.Key: // another copy of the folder has rotated it
		return fmt.Errorf("%w: the %s key was replaced", ErrFormerKeys, r.Key)
	}
	return leftBehind(r.Dir, former[0])
}
