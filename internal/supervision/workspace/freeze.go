package workspace

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/supervision/freeze"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/records"
)

// Frozen says how the workspace stands with its freeze, and which intents have no
// outcome.
type Frozen struct {
	records.Freeze
	Changed bool // the request that this answers did it, and nothing has changed since
	// Open was read after the rest: in a frozen workspace it holds every intent stored
	// before the freeze that still had no outcome then, and no other.
	Open []records.Open
}

// freezeFor is how long a freeze is tried. It has to get in also where everything else is
// refused for want of room.
const freezeFor = 20 * time.Second

// Freeze freezes the workspace (L-8): from its commit on the ledger stores nothing that
// issues a permit, claims one or dispatches. A workspace that is frozen stays as it is,
// with the standing freeze's reason. Whoever hangs up early changes nothing.
func (w *Workspace) Freeze(ctx context.Context, reason string) (*Frozen, error) {
	return w.turn(ctx, func(d *freeze.Deciding) *authority.Denial { return d.Freeze(reason) })
}

// Unfreeze lifts the standing freeze. With an epoch other than 0 it is denied with
// REVISION_CONFLICT when that is not the newest freeze. A workspace that is not frozen
// stays as it is.
func (w *Workspace) Unfreeze(ctx context.Context, reason string, epoch int64) (*Frozen, error) {
	return w.turn(ctx, func(d *freeze.Deciding) *authority.Denial { return d.Unfreeze(reason, epoch) })
}

// FreezeState reads how the workspace stands.
func (w *Workspace) FreezeState(ctx context.Context) (*Frozen, error) {
	out := &Frozen{}
	var err error
	if out.Freeze, err = w.Runs.Freeze(ctx); err != nil {
		return nil, err
	}
	out.Open, err = w.Runs.Open(ctx)
	return out, err
}

// turn decides and stores, and tries again while the ledger stores nothing or does not
// say whether it did: what is asked for is the same the second time.
func (w *Workspace) turn(ctx context.Context, choose func(*freeze.Deciding) *authority.Denial) (*Frozen, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freezeFor)
	defer cancel()
	heads := []string{} // that a try left, or may have left
	for {
		head, err := w.freeze(ctx, choose)
		if head != "" {
			heads = append(heads, head)
		}
		if err == nil {
			break
		}
		passes := (errors.Is(err, gateway.ErrUnavailable) || errors.Is(err, gateway.ErrUnknown)) && !errors.Is(err, ledger.ErrClosed)
		if !passes || !pause(ctx) {
			return nil, err
		}
	}
	out, err := w.FreezeState(ctx)
	if err != nil {
		return nil, err
	}
	out.Changed = slices.Contains(heads, out.Head)
	return out, nil
}

// pause waits a moment before the next try; false: there is no time left for one.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// freeze is one try. head is that of the chain with what was to be stored, "" when
// nothing was to be changed.
func (w *Workspace) freeze(ctx context.Context, choose func(*freeze.Deciding) *authority.Denial) (head string, err error) {
	err = w.decide(ctx, func() (*ledger.Change, error) {
		head = ""
		key := ledger.Key{Workspace: w.Workspace, Kind: freeze.Kind, ID: w.Workspace}
		subject, at, err := w.Ledger.Load(ctx, key)
		s := &freeze.State{}
		switch {
		case isNotFound(err):
			subject = newSubject(key)
			if at, err = w.Ledger.Now(ctx); err != nil {
				return nil, unavailable(err)
			}
		case err != nil:
			return nil, unavailable(err)
		default:
			if s, err = freeze.DecodeState(subject.State); err != nil {
				return nil, err
			}
		}
		d := freeze.Begin(s, w.subject(w.Workspace), evidence.TimeOf(at), gateway.Seed())
		if denial := choose(d); denial != nil {
			return nil, denial
		}
		t, err := d.Done()
		if err != nil || len(t.Drafts) == 0 {
			return nil, err
		}
		events, err := evidence.Seal(w.Signing, subject.ID, subject.Link(), d.Now().Time(), t.Drafts)
		if err != nil {
			return nil, err
		}
		raw, err := canon.Marshal(s)
		if err != nil {
			return nil, err
		}
		newest := events[len(events)-1]
		head = evidence.Link{Sequence: newest.Sequence, Hash: newest.Hash}.String()
		return &ledger.Change{Workspace: w.Workspace, Writes: []ledger.Write{{
			Key: subject.Key, Revision: subject.Revision, Head: subject.Head, State: raw, Events: events, Texts: t.Texts, Attributes: freezeAttributes(s),
		}}}, nil
	})
	return head, err
}

// freezeAttributes are what the engines look at.
func freezeAttributes(s *freeze.State) []ledger.Attribute {
	list := []ledger.Attribute{{Name: ledger.AttributeFreezes, Value: strconv.FormatInt(s.Epoch, 10)}}
	if s.Frozen != nil {
		list = append(list, ledger.Attribute{Name: ledger.AttributeFrozen, Value: "1"})
	}
	return list
}

// ExportFreezes writes the signed evidence of the workspace's freezes.
func (w *Workspace) ExportFreezes(ctx context.Context, to io.Writer) error {
	return w.export(ctx, ledger.Key{Workspace: w.Workspace, Kind: freeze.Kind, ID: w.Workspace}, "The workspace was never frozen.", to)
}
