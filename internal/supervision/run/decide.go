package run

import (
	"encoding/json"
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
)

// Transition is what a decision came to: the next state and everything that
// must be stored together with it.
type Transition struct {
	State     *State
	Drafts    []evidence.Draft
	Texts     []evidence.Text
	Fates     []Fate
	NotAfter  evidence.Time // 0: no limit
	Freezable bool          // issues, claims or dispatches
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
	Recheck       bool    // the authority once more before an effect
	Window        bool    // the time in which bytes begin to leave
}

// Deciding is one decision under way. Its methods emit events, each folded into
// the state at once; [Deciding.Done] hands over the result. A Deciding is used
// once and is not safe for concurrent use.
type Deciding struct {
	s     *State
	now   evidence.Time
	fold  *Fold
	fresh *authority.Fresh
	out   Transition
	doors Doors
}

// Begin starts a decision about s and first settles what time has brought
// about. now is floored by the newest event of s. leaseAlive says whether the
// holder of s's lease is still at work. A nil s starts a new run.
func Begin(s *State, now evidence.Time, seed [32]byte, leaseAlive bool, doors Doors) *Deciding {
	if s == nil {
		s = &State{}
	}
	now = max(now, s.UpdatedAt)
	d := &Deciding{s: s, now: now, fold: NewFold(s, now), fresh: authority.NewFresh(seed, now), doors: doors}
	d.settle(leaseAlive)
	return d
}

// State returns the state as decided so far.
func (d *Deciding) State() *State { return d.s }

// Now returns the time of the decision.
func (d *Deciding) Now() evidence.Time { return d.now }

// NewID returns a fresh identifier of this decision.
func (d *Deciding) NewID() string { return d.fresh.ID() }

// Changed reports whether anything was emitted.
func (d *Deciding) Changed() bool { return len(d.out.Drafts) > 0 }

// Done returns the transition. An error means that a decision broke a rule of
// the machine; nothing may be stored then.
func (d *Deciding) Done() (*Transition, error) {
	if unlawful := d.fold.Unlawful(); len(unlawful) > 0 {
		return nil, &unlawful[0]
	}
	d.out.State = d.s
	return &d.out, nil
}

func (d *Deciding) emit(b body) {
	id := d.fresh.ID()
	d.fold.Apply(id, b)
	d.out.Drafts = append(d.out.Drafts, evidence.Draft{ID: id, Type: b.eventType(), Data: b})
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
func (d *Deciding) Observed() *Observed {
	for _, draft := range slices.Backward(d.out.Drafts) {
		if o, ok := draft.Data.(*Observed); ok {
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
	d.emit(&Paused{*d.s.newStop(reason, source, d.fresh.ID())})
}

func (d *Deciding) revokePermit(cause string) {
	if p := d.s.Permit; p != nil {
		d.emit(&PermitRevoked{p.ID, cause})
		d.fate(Fate{PermitID: p.ID, Fate: FateRevoked, Cause: cause})
	}
}

// settle writes what time alone has brought about: dead leases and expiries.
// Authority never depends on it, since every rule compares with now.
func (d *Deciding) settle(leaseAlive bool) {
	s := d.s
	if s.Lease != nil && (d.now >= s.Lease.Until || !leaseAlive) {
		d.endLease()
	}
	if p := s.Permit; p != nil && !p.Live(d.now) {
		d.emit(&PermitExpired{p.ID})
		d.fate(Fate{PermitID: p.ID, Fate: FateExpired})
	}
	if p := s.Proposal; p != nil && !p.Live(d.now) && !s.Terminal() && s.Lease == nil {
		d.emit(&ProposalVoided{p.ID, "expired"})
	}
	if s.Status == StatusReady && d.now >= s.grantsEnd() {
		d.pause(authority.GrantExpired, SourceRuntime)
	}
}

// endLease turns an attempt whose holder is gone into its honest end.
func (d *Deciding) endLease() {
	s := d.s
	if s.Status == StatusCreated {
		reason := authority.HostedUnreachable
		if s.Hosted.Phase == SessionDispatched {
			reason = authority.DispatchUnconfirmed
			d.emit(&HostedSessionEvent{Phase: SessionFailed, ExecutionID: s.Hosted.ExecutionID, SessionID: s.Hosted.ID, EffectDigest: s.Hosted.EffectHash, ReasonCode: &reason})
		}
		d.emit(&Failed{*s.newStop(reason, SourceRuntime, d.fresh.ID())})
		return
	}
	switch x := s.Execution; {
	case x.State == ExecutionDispatched && x.Dispatch != nil:
		d.unconfirmed("lease_expired")
	case x.State == ExecutionDispatched:
		d.notApplied("lease_expired")
	case s.Status == StatusRunning:
		d.emit(&Resumed{"lease_expired"})
	}
}

// CreateRequest is what an owner asks for, resolved against the service.
type CreateRequest struct {
	Workspace   string
	Issuer      string
	RunID       string
	Config      Config
	Instruction string
	Terms       json.RawMessage // canonical
	Constraints []authority.Constraint
	Operations  []string
	MaxUses     map[string]int64
	Workflow    []Step
	Budget      authority.Budget
	Currency    string
	StoreOrigin *string
	StoreKeys   []string
}

// Create emits run.created and its one bounded grant.
func (d *Deciding) Create(r CreateRequest) {
	instruction := d.text(r.Instruction)
	d.emit(&Created{
		Subject:     evidence.Subject{Format: evidence.Format, Kind: "run", ID: r.RunID, Workspace: r.Workspace, Issuer: r.Issuer, Machine: Machine},
		Config:      r.Config,
		Instruction: instruction,
		Terms:       r.Terms, TermsDigest: authority.Digest(authority.DomainTerms, r.Terms), GoalDigest: GoalDigest(instruction, r.Terms),
		Workflow: r.Workflow, BudgetCents: r.Budget.Limit, Currency: r.Currency,
		StoreOrigin: r.StoreOrigin, StoreKeys: append([]string{}, r.StoreKeys...),
	})
	d.emit(&Granted{authority.Grant{
		ID: d.fresh.ID(), Kind: "bounded", Operations: r.Operations, Constraints: r.Constraints, Currency: r.Currency,
		MaxTotalCents: r.Budget.Limit, MaxUses: r.MaxUses, ExpiresAt: d.now.Add(authority.MaxGrantMinutes * 60e9),
	}, "owner"})
}

// DispatchSession emits the intent to open the hosted session.
func (d *Deciding) DispatchSession(executionID, sessionID, effectDigest string, dispatch Dispatch, holder string) {
	d.emit(&HostedSessionEvent{
		Phase: SessionDispatched, ExecutionID: executionID, SessionID: sessionID, EffectDigest: effectDigest,
		Dispatch: &dispatch, Lease: &Lease{holder, d.now.Add(LeaseLife)},
	})
	d.out.Freezable = true
}

// OpenSession emits the store's receipt for the hosted session, also when the
// run has ended meanwhile.
func (d *Deciding) OpenSession(receipt string) *authority.Denial {
	h := d.s.Hosted
	if h == nil || h.Phase != SessionDispatched {
		return notReady(d.s)
	}
	d.emit(&HostedSessionEvent{Phase: SessionOpened, ExecutionID: h.ExecutionID, SessionID: h.ID, EffectDigest: h.EffectHash, Receipt: &receipt})
	return nil
}

// Fail emits the end of a run that could not be initialized.
func (d *Deciding) Fail(reason string) {
	if d.s.Status != StatusCreated {
		return
	}
	if h := d.s.Hosted; h != nil && h.Phase == SessionDispatched {
		d.emit(&HostedSessionEvent{Phase: SessionFailed, ExecutionID: h.ExecutionID, SessionID: h.ID, EffectDigest: h.EffectHash, ReasonCode: &reason})
	}
	d.emit(&Failed{*d.s.newStop(reason, SourceRuntime, d.fresh.ID())})
}

// Initialize emits run.initialized.
func (d *Deciding) Initialize() { d.emit(&Initialized{}) }

// IssueSession emits the next restricted session. It ends with the grant.
func (d *Deciding) IssueSession(origin string) *authority.Denial {
	if d.s.Terminal() || d.s.Status == StatusCreated {
		return notReady(d.s)
	}
	if d.now >= d.s.grantsEnd() {
		return &authority.Denial{Reason: authority.GrantExpired, Detail: "The grant has expired; a new run is needed."}
	}
	d.emit(&SessionIssued{d.s.Session.Generation + 1, d.s.grantsEnd(), origin})
	return nil
}

// Revoke ends a run that has not ended. Revoking a revoked run changes nothing;
// what was dispatched already stays as it is (H-148).
func (d *Deciding) Revoke() *authority.Denial {
	if d.s.Status == StatusRevoked {
		return nil
	}
	if d.s.Terminal() {
		return notReady(d.s)
	}
	stop := d.s.newStop(authority.OwnerRevoked, SourceOwner, d.fresh.ID())
	d.revokePermit(CauseOwner)
	d.revokeGrants(CauseOwner)
	d.emit(&Revoked{"owner", *stop})
	return nil
}

// Misuse ends a run whose credential turned up where it does not belong (L-6).
func (d *Deciding) Misuse() {
	if d.s.Terminal() {
		return
	}
	stop := d.s.newStop(authority.CredentialMisuse, SourceRuntime, d.fresh.ID())
	d.revokePermit(CauseTerminate)
	d.revokeGrants(CauseTerminate)
	d.emit(&Terminated{*stop})
}

func (d *Deciding) revokeGrants(cause string) {
	for _, g := range slices.Clone(d.s.Grants) {
		if g.Live(d.now) {
			d.emit(&GrantRevoked{g.ID, cause})
		}
	}
}

func notReady(s *State) *authority.Denial {
	return &authority.Denial{Reason: authority.RunNotReady, Detail: "The run is " + s.Status + "."}
}
