package records

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// View is everything about a run that an owner may see (H-126). It holds no
// credential and no permit token.
type View struct {
	State       *run.State
	Outcome     string
	Instruction string
	TermTexts   map[string]string // members of the terms that are free text
	Synthetic   *string           // says that the run, or the data it acts on, is made up, nil when neither is
	Workspace   string
	Head        string
	Now         evidence.Time // when this was read, by the ledger's clock
	Observation *Observation
	Decision    *Decision
	Answer      *Answer // of the managed executor, in the attempt that stopped the run; nil: it gave no such one
	Prepared    *Prepared
	// Clarifications are the owner's words, oldest first.
	Clarifications []string
	Frozen         bool // the workspace is
	// Eligible names what an owner could do now, see [decide.Eligible].
	Eligible   []string
	Executions []Execution
	Timeline   []Line
	Binding    string // how the policy that the run is bound to stands now, "": it is bound to none
}

// Answer is what a managed executor said instead of proposing an action: its question,
// or why it proposed nothing.
type Answer struct {
	Kind   string // clarification, authorization_required or refusal
	Source string // executor, or provider for its native refusal
	Text   string
}

// Prepared is the prepared proposal together with the whole effect that an approval
// would name: the catalog entry that commits it and its digest.
type Prepared struct {
	run.Proposal
	Entry        propose.Entry
	EffectDigest string
	Approved     bool // the newest approval is of exactly this effect
}

// prepared returns the proposal that stands with its effect, or nil when none stands or
// the newest catalog does not offer it.
func prepared(s *run.State, seen *Observation) *Prepared {
	if s.Proposal == nil || seen == nil {
		return nil
	}
	entry := propose.Committing(seen.Catalog, s.Proposal.ID)
	if entry == nil {
		return nil
	}
	digest := entry.EffectDigest(s.Config.Service, s.StateRevision)
	approved := s.Approval != nil && s.Approval.ProposalID == s.Proposal.ID && s.Approval.EffectDigest == digest
	return &Prepared{*s.Proposal, *entry, digest, approved}
}

// Execution is one execution of a run, newest last.
type Execution struct {
	ExecutionID  string
	PermitID     string
	TurnID       string
	OperationID  string
	EffectDigest string
	AmountCents  string
	DispatchedAt string
	Operation
}

// Line is one event as a timeline shows it.
type Line struct {
	Sequence  int64
	EventID   string
	Type      string
	Timestamp string
	Data      json.RawMessage
}

// Settled reads a run and settles it as a decision would, without storing that.
func (r *Reader) Settled(ctx context.Context, id string) (*Current, error) {
	c, err := r.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	c.State = decide.Begin(c.State, c.Now, [32]byte{}, c.Alive, decide.Doors{}).State()
	return c, nil
}

// View returns the current view of a run.
func (r *Reader) View(ctx context.Context, id string) (*View, error) {
	frozen, err := r.IsFrozen(ctx)
	if err != nil {
		return nil, err
	}
	return r.view(ctx, id, frozen)
}

func (r *Reader) view(ctx context.Context, id string, frozen bool) (*View, error) {
	c, err := r.Settled(ctx, id)
	if err != nil {
		return nil, err
	}
	s := c.State
	v := &View{State: s, Outcome: s.Outcome(), Workspace: r.workspace, Head: c.Subject.Link().String(), Now: c.Now, Frozen: frozen, Eligible: decide.Eligible(s, c.Now, frozen)}
	if v.Instruction, err = r.Text(ctx, id, s.Instruction); err != nil {
		return nil, err
	}
	if v.Clarifications, err = r.texts(ctx, id, s.Clarifications); err != nil {
		return nil, err
	}
	if v.TermTexts, err = r.termTexts(ctx, id, s.Terms); err != nil {
		return nil, err
	}
	v.Synthetic = r.synthetic(s.Config)
	if v.Binding, err = r.binding(ctx, s); err != nil {
		return nil, err
	}
	if s.Observation != nil {
		seen, err := r.Catalog(ctx, s)
		if err != nil {
			return nil, err
		}
		if v.Observation, err = r.Observation(ctx, id, seen); err != nil {
			return nil, err
		}
	}
	v.Prepared = prepared(s, v.Observation)
	if s.Decision != nil {
		if v.Decision, err = r.Explain(ctx, s, nil); err != nil {
			return nil, err
		}
	}
	err = r.each(ctx, id, 0, func(e evidence.Event) (bool, error) {
		if e.Sequence > c.Subject.Sequence {
			return false, nil // it came after what is shown
		}
		return true, v.fold(e)
	})
	if err != nil {
		return nil, err
	}
	if n := len(v.Executions); n > 0 && s.Execution != nil && v.Executions[n-1].ExecutionID == s.Execution.ID && v.Executions[n-1].State == run.ExecutionDispatched {
		v.Executions[n-1].State = s.Execution.State // its lease may be over, and that not stored yet
	}
	v.Answer, err = r.answer(ctx, v)
	return v, err
}

// answer reads what the executor said in the attempt that stopped the run: whoever is
// asked has to see the question.
func (r *Reader) answer(ctx context.Context, v *View) (*Answer, error) {
	if v.State.Stop == nil {
		return nil, nil
	}
	for _, l := range slices.Backward(v.Timeline) {
		if l.Type != (run.Concluded{}).EventType() {
			continue
		}
		var e run.Concluded
		if err := json.Unmarshal(l.Data, &e); err != nil {
			return nil, fmt.Errorf("records: event %s: %w", l.EventID, err)
		}
		if e.AttemptID != v.State.Stop.AttemptID {
			return nil, nil
		}
		text, err := r.Text(ctx, v.State.ID, e.Text)
		return &Answer{e.Kind, e.Source, text}, err
	}
	return nil, nil
}

func (v *View) fold(e evidence.Event) error {
	v.Timeline = append(v.Timeline, Line{e.Sequence, e.ID, e.Type, e.Timestamp, e.Data})
	if e.Type == "execution.dispatched" {
		var d run.Dispatched
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return fmt.Errorf("records: event %s: %w", e.ID, err)
		}
		v.Executions = append(v.Executions, Execution{
			ExecutionID: d.ExecutionID, PermitID: d.PermitID, TurnID: d.TurnID, OperationID: d.OperationID, EffectDigest: d.EffectDigest,
			AmountCents: d.AmountCents.String(), DispatchedAt: e.Timestamp,
			Operation: Operation{ExecutionID: d.ExecutionID, State: run.ExecutionDispatched},
		})
	}
	var voided string
	for i := len(v.Executions) - 1; i >= 0; i-- { // most are about the newest
		if other, err := v.Executions[i].fold(e, &voided); !other || err != nil {
			return err
		}
	}
	return nil
}

// Found is a run and how far its chain goes.
type Found struct {
	ID       string
	Sequence int64
}

// Find returns up to limit runs, at most 100, newest first, older than the run before
// when that is not "". status is one of a run's, or "" for all; what time alone has
// brought about may not be in it yet. Runs of a policy's verification and of
// attacks are not among them (H-207).
func (r *Reader) Find(ctx context.Context, status, before string, limit int) ([]Found, error) {
	q := ledger.Query{
		Workspace: r.workspace, Kind: ledger.KindRun, Before: before, Limit: limit,
		Where: []ledger.Attribute{{Name: AttributePurpose, Value: PurposeOperation}},
	}
	if status != "" {
		q.Where = append(q.Where, ledger.Attribute{Name: "status", Value: status})
	}
	subjects, err := r.ledger.Find(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	found := make([]Found, 0, len(subjects))
	for _, s := range subjects {
		found = append(found, Found{s.ID, s.Sequence})
	}
	return found, nil
}

// List returns the views of the runs that [Reader.Find] finds, whatever their status
// (H-091).
func (r *Reader) List(ctx context.Context, before string, limit int) ([]*View, error) {
	found, err := r.Find(ctx, "", before, limit)
	if err != nil {
		return nil, err
	}
	frozen, err := r.IsFrozen(ctx)
	if err != nil {
		return nil, err
	}
	views := []*View{}
	for _, f := range found {
		v, err := r.view(ctx, f.ID, frozen)
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

// Capabilities is what a consumer is told to do and may do at all (H-030, H-130).
type Capabilities struct {
	State          *run.State
	Instruction    string
	Clarifications []string // the owner's words since, oldest first
	Position       string
	Catalog        []propose.Entry
}

// Capabilities returns instruction, grants, terms, workflow and the newest catalog.
func (r *Reader) Capabilities(ctx context.Context, id string) (*Capabilities, error) {
	c, err := r.Settled(ctx, id)
	if err != nil {
		return nil, err
	}
	seen, err := r.Catalog(ctx, c.State)
	if err != nil {
		return nil, err
	}
	instruction, err := r.Text(ctx, id, c.State.Instruction)
	if err != nil {
		return nil, err
	}
	clarifications, err := r.texts(ctx, id, c.State.Clarifications)
	if err != nil {
		return nil, err
	}
	return &Capabilities{c.State, instruction, clarifications, c.State.Position(), seen.Catalog}, nil
}

// Head returns the highest sequence of a run.
func (r *Reader) Head(ctx context.Context, id string) (int64, error) {
	subject, _, err := r.ledger.Load(ctx, r.Key(id))
	if err != nil {
		return 0, notFound(err)
	}
	return subject.Sequence, nil
}

// Events returns up to a thousand events after a sequence; the highest sequence
// of the run comes with them.
func (r *Reader) Events(ctx context.Context, id string, after int64) ([]evidence.Event, int64, error) {
	subject, _, err := r.ledger.Load(ctx, r.Key(id))
	switch {
	case err != nil:
		return nil, 0, notFound(err)
	case after >= subject.Sequence:
		return nil, subject.Sequence, nil
	}
	events, err := r.ledger.Events(ctx, r.Key(id), after, 1000)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return events, subject.Sequence, nil
}

// Watch wakes its caller when the run has new events.
func (r *Reader) Watch(id string) *ledger.Watcher { return r.ledger.Watch(r.Key(id)) }
