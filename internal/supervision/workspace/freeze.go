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
	"countersign/internal/supervision/run"
)

// Frozen says how the workspace stands with its freeze, and which intents have no
// outcome.
type Frozen struct {
	records.Freeze
	Changed bool // the request that this answers did it, and nothing has changed since
	// Intents are those without an outcome, and in a frozen workspace also those that had
	// none when it was frozen and have theirs by now ([freeze.MaxOpen] of them are kept). They
	// were read after the rest, so that every intent from before the freeze that was still
	// open then is among them, and no other.
	Intents []records.Open
}

// freezeFor is how long a freeze is tried. It has to get in also where everything else is
// refused for want of room.
const freezeFor = 20 * time.Second

// Freeze freezes the workspace (L-8): from its commit on the ledger stores nothing that
// issues a permit, claims one or dispatches. A workspace that is frozen stays as it is,
// with the standing freeze's reason. Whoever hangs up early changes nothing. session is
// the hash that names the owner's session, and stands in the evidence.
//
// Right after it another event lists the intents that had no outcome. A freeze whose list
// could not be stored stands all the same, and gets it with the next call.
//
// A try whose answer got lost is not repeated when it is known that it was stored and
// lifted since. Where that cannot be known it freezes again: too much is frozen, not too little.
func (w *Workspace) Freeze(ctx context.Context, reason, session string) (*Frozen, error) {
	var own []evidence.Commitment // reasons of earlier tries, each with a salt of its own
	return w.turn(ctx, func(d *freeze.Deciding) *authority.Denial {
		if l := d.State().Lifted; l != nil && slices.Contains(own, l.Freeze.Reason) && !w.forgets {
			return nil
		}
		standing := d.State().Frozen
		denial := d.Freeze(reason, session)
		if f := d.State().Frozen; f != standing {
			own = append(own, f.Reason)
		}
		return denial
	}, w.list)
}

// Unfreeze lifts the standing freeze, and no other however often it has to be tried: one
// that came after the first look stays, and is in the answer. With an epoch other than 0 it
// is denied with REVISION_CONFLICT when that is not the newest freeze. A workspace that is
// not frozen stays as it is.
func (w *Workspace) Unfreeze(ctx context.Context, reason string, epoch int64, session string) (*Frozen, error) {
	var seen int64 // the freeze that stood at the first look
	return w.turn(ctx, func(d *freeze.Deciding) *authority.Denial {
		switch {
		case seen == 0:
			seen = d.State().Epoch
		case epoch == 0 && d.State().Epoch != seen && !w.forgets:
			return nil
		}
		return d.Unfreeze(reason, epoch, session)
	}, nil)
}

// list stores what was open when the workspace was frozen, unless its freeze has that list.
func (w *Workspace) list(ctx context.Context) error {
	f, err := w.Runs.Freeze(ctx)
	if err != nil || !f.Frozen || f.Listed {
		return err
	}
	open, err := w.Runs.Open(ctx)
	if err != nil {
		return err
	}
	var intents []freeze.Intent
	for _, state := range []string{run.ExecutionDispatched, run.ExecutionUnconfirmed} {
		for _, x := range open {
			if x.State == state {
				intents = append(intents, freeze.Intent{ExecutionID: x.ExecutionID, RunID: x.RunID, State: state})
			}
		}
	}
	_, err = w.freeze(ctx, func(d *freeze.Deciding) *authority.Denial {
		d.List(f.Epoch, intents)
		return nil
	})
	return err
}

// FreezeState reads how the workspace stands.
func (w *Workspace) FreezeState(ctx context.Context) (*Frozen, error) {
	out := &Frozen{}
	var err error
	if out.Freeze, err = w.Runs.Freeze(ctx); err != nil {
		return nil, err
	}
	out.Intents, err = w.Runs.Intents(ctx)
	return out, err
}

// turn decides and stores, and tries again while the ledger stores nothing or does not
// say whether it did. choose is asked at each try and whenever another change came first, and
// has to see to it that all of them together have one effect. then, if not nil, is
// what follows once that is stored, and undoes nothing when it fails.
func (w *Workspace) turn(ctx context.Context, choose func(*freeze.Deciding) *authority.Denial, then func(context.Context) error) (*Frozen, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freezeFor)
	defer cancel()
	turned := []string{} // events that a try left, or may have left
	for {
		id, err := w.freeze(ctx, choose)
		if id != "" {
			turned = append(turned, id)
		}
		if err == nil {
			break
		}
		passes := (errors.Is(err, gateway.ErrUnavailable) || errors.Is(err, gateway.ErrUnknown)) && !errors.Is(err, ledger.ErrClosed)
		if !passes || !pause(ctx) {
			return nil, err
		}
	}
	if then != nil {
		if err := then(ctx); err != nil {
			w.Log.Warn("the workspace is frozen, and the list of what is in flight was not stored; freezing again stores it", "error", err)
		}
	}
	out, err := w.FreezeState(ctx)
	if err != nil {
		return nil, err
	}
	out.Changed = slices.Contains(turned, out.Turned)
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

// freeze is one try. id is that of the newest event that was to be stored, "" when nothing
// was to be changed.
func (w *Workspace) freeze(ctx context.Context, choose func(*freeze.Deciding) *authority.Denial) (id string, err error) {
	err = w.decide(ctx, func() (*ledger.Change, error) {
		id = ""
		key := ledger.Key{Workspace: w.Workspace, Kind: freeze.Kind, ID: w.Workspace}
		subject, at, err := w.Ledger.Load(ctx, key)
		s := &freeze.State{}
		switch {
		case isNotFound(err):
			subject = ledger.NewSubject(key)
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
		d := freeze.Begin(s, w.subject(w.Workspace), evidence.TimeOf(at), ledger.Seed())
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
		id = events[len(events)-1].ID
		return &ledger.Change{Workspace: w.Workspace, Writes: []ledger.Write{{
			Key: subject.Key, Revision: subject.Revision, Head: subject.Head, State: raw, Events: events, Texts: t.Texts, Attributes: freezeAttributes(s),
		}}}, nil
	})
	return id, err
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
