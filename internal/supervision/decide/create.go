package decide

import (
	"encoding/json"
	"maps"
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
	"countersign/internal/supervision/stopcontext"
)

// CreateRequest is what an owner asks for, resolved against the service.
type CreateRequest struct {
	Workspace   string
	Issuer      string
	RunID       string
	Config      run.Config
	Instruction string
	Terms       json.RawMessage   // canonical
	TermTexts   map[string]string // members of the terms that are free text
	Constraints []authority.Constraint
	Operations  []string
	MaxUses     map[string]int64 // of every commit operation, and of no other
	Workflow    []run.Step
	Budget      authority.Budget
	Currency    string
	StoreOrigin *string
	StoreKeys   []string
	Binding     *run.Binding // nil: none
}

// Create emits run.created and its one bounded grant. In exact mode that grant leaves
// every commit operation to the owner's approval (G-07).
func (d *Deciding) Create(r CreateRequest) {
	instruction, terms := d.text(r.Instruction), d.termsWith(r.Terms, r.TermTexts)
	d.emit(&run.Created{
		Subject:     evidence.Subject{Format: evidence.Format, Kind: "run", ID: r.RunID, Workspace: r.Workspace, Issuer: r.Issuer, Machine: run.Machine},
		Config:      r.Config,
		Instruction: instruction,
		Terms:       terms, TermsDigest: authority.Digest(authority.DomainTerms, terms), GoalDigest: state.GoalDigest(instruction, terms),
		Workflow: r.Workflow, BudgetCents: r.Budget.Limit, Currency: r.Currency,
		StoreOrigin: r.StoreOrigin, StoreKeys: append([]string{}, r.StoreKeys...), Binding: r.Binding,
	})
	operations := slices.DeleteFunc(slices.Clone(r.Operations), func(operation string) bool { return !r.Binding.Allows(operation) })
	uses, onApproval := r.MaxUses, []string{}
	if r.Config.Mode == run.ModeExact {
		commits := func(operation string) bool { _, commit := r.MaxUses[operation]; return commit }
		onApproval = slices.DeleteFunc(slices.Clone(operations), func(operation string) bool { return !commits(operation) })
		operations = slices.DeleteFunc(operations, commits)
		uses = map[string]int64{}
	}
	d.emit(&run.Granted{Grant: authority.Grant{
		ID: d.fresh.ID(), Kind: authority.KindBounded, Operations: operations, OnApproval: onApproval, Constraints: r.Constraints, Currency: r.Currency,
		MaxTotalCents: r.Budget.Limit, MaxUses: uses, ExpiresAt: d.now.Add(authority.MaxGrantMinutes * 60e9),
	}, CreatedBy: "owner"})
}

// termsWith adds to terms what stands for each of their free texts: event data and
// digests hold commitments only.
func (d *Deciding) termsWith(terms json.RawMessage, texts map[string]string) json.RawMessage {
	var members map[string]json.RawMessage
	if err := canon.Unmarshal(terms, &members); err != nil {
		panic(err) // the program wrote them itself
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		members[name] = canon.MustMarshal(d.text(texts[name]))
	}
	return canon.MustMarshal(members)
}

// DispatchSession emits the intent to open the hosted session.
func (d *Deciding) DispatchSession(executionID, sessionID, effectDigest string, dispatch run.Dispatch, holder string, freezeEpoch int64) {
	d.emit(&run.HostedSessionEvent{
		Phase: run.SessionDispatched, ExecutionID: executionID, SessionID: sessionID, EffectDigest: effectDigest,
		Dispatch: &dispatch, Lease: &run.Lease{Holder: holder, Until: d.now.Add(run.LeaseLife)}, FreezeEpoch: &freezeEpoch,
	})
}

// OpenSession emits the store's receipt for the hosted session, also when the
// run has ended meanwhile.
func (d *Deciding) OpenSession(receipt string) *authority.Denial {
	h := d.s.Hosted
	if h == nil || h.Phase == run.SessionOpened {
		return notReady(d.s)
	}
	d.emit(&run.HostedSessionEvent{Phase: run.SessionOpened, ExecutionID: h.ExecutionID, SessionID: h.ID, EffectDigest: h.EffectHash, Receipt: &receipt})
	return nil
}

// Fail emits the end of a run that could not be initialized.
func (d *Deciding) Fail(reason string) {
	if d.s.Status != run.StatusCreated {
		return
	}
	if h := d.s.Hosted; h != nil && h.Phase == run.SessionDispatched {
		d.emit(&run.HostedSessionEvent{Phase: run.SessionFailed, ExecutionID: h.ExecutionID, SessionID: h.ID, EffectDigest: h.EffectHash, ReasonCode: &reason})
	}
	d.emit(&run.Failed{Stop: *d.s.NewStop(reason, stopcontext.SourceRuntime, d.fresh.ID())})
}

// Initialize emits run.initialized.
func (d *Deciding) Initialize() { d.emit(&run.Initialized{}) }
