package decide

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/supervision/run"
)

// Transition is what a decision came to: the next state and everything that
// must be stored together with it.
type Transition struct {
	State     *run.State
	Drafts    []evidence.Draft
	Texts     []evidence.Text
	Fates     []Fate
	NotAfter  evidence.Time // 0: no limit
	Freezable bool          // issues, claims or dispatches, see freezable
}

// Fate is the one end of an issued permit.
type Fate struct{ PermitID, Fate, Cause, ExecutionID string }

// Fates of a permit.
const (
	FateClaimed = "claimed"
	FateExpired = "expired"
	FateRevoked = "revoked"
)

// Doors switch single guards off. They exist for negative controls in tests;
// the product leaves the zero value.
type Doors struct {
	Checks        []int64 // hard checks by number
	Outstanding   bool    // a report under a live permit
	PermitBinding bool    // the action of an operation against its permit
	PermitState   bool    // the fate of the permit
	Ready         bool    // the status of the run
	Authority     bool    // the authority once more at the claim
	Settle        bool    // what time alone has brought about
	Machine       bool    // what the machine calls unlawful
	Recheck       bool    // the authority once more before an effect
	Window        bool    // the time in which bytes begin to leave
	Caller        bool    // an attempt that outlives its caller
	Generation    bool    // of a token, against the run's
	Receipt       bool    // what a store's receipt is about, against the permit
	Answer        bool    // the body of a store's answer, against its receipt
	Amount        bool    // of a store's receipt, against the permit
	Statement     bool    // of an owner that nothing happened, while the store could still act
	Calls         bool    // the bound of model calls
	Lease         bool    // one attempt at a time
	Approval      bool    // of an approval, against the proposal and the service as they are now
	Asked         bool    // the bound around a guardian and a store
}

// Deciding is one decision under way. Its methods emit events, each folded into
// the state at once; [Deciding.Done] hands over the result. A Deciding is used
// once and is not safe for concurrent use.
type Deciding struct {
	s     *run.State
	now   evidence.Time
	fold  *run.Fold
	fresh *authority.Fresh
	out   Transition
	doors Doors

	attempt string           // the managed attempt that is decided about; "" when there is none
	context *run.ContextTurn // that the next report was made in
}

// Begin starts a decision about s and first settles what time has brought
// about. now is floored by the newest event of s. leaseAlive says whether the
// holder of s's lease is still at work. A nil s starts a new run.
func Begin(s *run.State, now evidence.Time, seed [32]byte, leaseAlive bool, doors Doors) *Deciding {
	if s == nil {
		s = &run.State{}
	}
	now = max(now, s.UpdatedAt)
	d := &Deciding{s: s, now: now, fold: run.NewFold(s, now), fresh: authority.NewFresh(seed, now), doors: doors}
	if !doors.Settle {
		d.settle(leaseAlive)
	}
	return d
}

// InContext says which context turn the next report was made in; nil: none. Until is
// when an observed one ends: what is decided says that it is open, and is not stored
// any later.
func (d *Deciding) InContext(t *run.ContextTurn, until evidence.Time) {
	d.context = t
	if t != nil && t.Class == run.ClassObserved {
		d.notAfter(until)
	}
}

// State returns the state as decided so far.
func (d *Deciding) State() *run.State { return d.s }

// Now returns the time of the decision.
func (d *Deciding) Now() evidence.Time { return d.now }

// NewID returns a fresh identifier of this decision.
func (d *Deciding) NewID() string { return d.fresh.ID() }

// full reports whether all that is left of the run's events is the reserve, so that
// nothing new may begin. What was dispatched is always recorded, and a run can always
// be ended.
func (d *Deciding) full() bool { return full(d.s) }

func full(s *run.State) bool { return s.Events > run.MaxEvents-run.EventReserve }

func atLimit() *authority.Denial {
	return &authority.Denial{Reason: authority.TurnLimit, Detail: "The run has reached its bound of turns or events; create a new run."}
}

// Changed reports whether anything was emitted.
func (d *Deciding) Changed() bool { return len(d.out.Drafts) > 0 }

// Done returns the transition. An error means that a decision broke a rule of
// the machine; nothing may be stored then.
func (d *Deciding) Done() (*Transition, error) {
	if unlawful := d.fold.Unlawful(); len(unlawful) > 0 && !d.doors.Machine {
		return nil, &unlawful[0]
	}
	d.out.State = d.s
	return &d.out, nil
}

func (d *Deciding) emit(b run.Event) {
	id := d.fresh.ID()
	d.fold.Apply(id, b)
	d.out.Freezable = d.out.Freezable || freezable(b)
	d.out.Drafts = append(d.out.Drafts, evidence.Draft{ID: id, Type: b.EventType(), Data: b})
}

// text salts a free text, keeps it beside the chain and returns what stands for
// it in event data.
func (d *Deciding) text(s string) evidence.Commitment {
	t := evidence.NewText(d.fresh.Salt(), s)
	d.out.Texts = append(d.out.Texts, t)
	return t.Commit()
}

// Text returns a free text that this decision has kept.
func (d *Deciding) Text(c evidence.Commitment) (string, bool) {
	i := slices.IndexFunc(d.out.Texts, func(t evidence.Text) bool { return t.Commitment == c.Text })
	if i < 0 {
		return "", false
	}
	return d.out.Texts[i].Text, true
}

// Observed returns the newest observation that this decision has recorded, or nil.
func (d *Deciding) Observed() *run.Observed {
	for _, draft := range slices.Backward(d.out.Drafts) {
		if o, ok := draft.Data.(*run.Observed); ok {
			return o
		}
	}
	return nil
}

func (d *Deciding) notAfter(t evidence.Time) {
	if d.out.NotAfter != 0 {
		t = min(t, d.out.NotAfter)
	}
	d.out.NotAfter = t
}

func (d *Deciding) fate(f Fate) { d.out.Fates = append(d.out.Fates, f) }

// fateOf returns the fate that this very decision gave a permit.
func (d *Deciding) fateOf(permitID string) *Fate {
	i := slices.IndexFunc(d.out.Fates, func(f Fate) bool { return f.PermitID == permitID })
	if i < 0 {
		return nil
	}
	return &d.out.Fates[i]
}

func (d *Deciding) pause(reason, source string) {
	attempt := d.attempt
	if attempt == "" {
		attempt = d.fresh.ID()
	}
	d.emit(&run.Paused{Stop: *d.s.NewStop(reason, source, attempt)})
}

func (d *Deciding) revokePermit(cause string) {
	if p := d.s.Permit; p != nil {
		d.emit(&run.PermitRevoked{PermitID: p.ID, Cause: cause})
		d.fate(Fate{PermitID: p.ID, Fate: FateRevoked, Cause: cause})
	}
}

func notReady(s *run.State) *authority.Denial {
	detail := "The run is " + s.Status + "."
	if s.Status == run.StatusPaused && s.Stop != nil {
		detail = "The run is paused: " + s.Stop.Message
	}
	return &authority.Denial{Reason: authority.RunNotReady, Detail: detail}
}
