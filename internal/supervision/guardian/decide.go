package guardian

import (
	"slices"
	"strings"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/machine"
	"countersign/internal/money"
	"countersign/internal/supervision/run"
)

// full reports whether the chain has no room for more. An event that ends something
// begun still fits.
func full(p *machine.Progress) *authority.Denial {
	if p.Events < MaxEvents-1 {
		return nil
	}
	return &authority.Denial{Reason: authority.WorkspaceLimit, Detail: "Its chain is full; create a new one."}
}

// Registering is a decision about the inventory.
type Registering struct{ *machine.Deciding[Inventory] }

// BeginInventory starts a decision about the inventory, which it changes; the zero
// Inventory is one that does not exist yet.
func BeginInventory(i *Inventory, subject evidence.Subject, now evidence.Time, seed [32]byte) *Registering {
	d := &Registering{machine.Begin(&inventories, i, now, seed)}
	if i.Machine == 0 {
		d.Emit(&Opened{d.Subject(subject, subject.ID)})
	}
	return d
}

// Register adds a service; its id and time are set here. description may be "".
func (d *Registering) Register(s Service, description string) (string, *authority.Denial) {
	if denial := d.room(len(d.State().Services), MaxServices); denial != nil {
		return "", denial
	}
	s.ID, s.CreatedAt = d.Fresh().ID(), d.Now()
	if description != "" {
		s.Description = d.OptionalText(&description)
	}
	if denial := invalid(s.Problem()); denial != nil {
		return "", denial
	}
	d.Emit(&Registered{s})
	return s.ID, nil
}

// List adds a policy.
func (d *Registering) List(guardianID string) *authority.Denial {
	if denial := d.room(len(d.State().Guardians), MaxPolicies); denial != nil {
		return denial
	}
	d.Emit(&Listed{guardianID})
	return nil
}

func (d *Registering) room(n, most int) *authority.Denial {
	if n >= most {
		return &authority.Denial{Reason: authority.WorkspaceLimit, Detail: "The workspace has no room for another one."}
	}
	return full(&d.State().Progress)
}

func invalid(member, message string) *authority.Denial {
	if member == "" {
		return nil
	}
	return &authority.Denial{Reason: authority.InvalidRequest, Detail: "body." + member + ": " + message}
}

// Deciding is a decision about one policy.
type Deciding struct{ *machine.Deciding[State] }

// Begin starts a decision about s, which it changes; the zero State is a policy that
// does not exist yet.
func Begin(s *State, now evidence.Time, seed [32]byte) *Deciding {
	return &Deciding{machine.Begin(&policies, s, now, seed)}
}

// Draft begins a policy.
func (d *Deciding) Draft(subject evidence.Subject, p Policy) *authority.Denial {
	if denial := d.known(&p); denial != nil {
		return denial
	}
	d.Emit(&Drafted{d.Subject(subject, subject.ID), p})
	return nil
}

// known denies what no policy says, and what this build does not do.
func (d *Deciding) known(p *Policy) *authority.Denial {
	if denial := invalid(p.Problem()); denial != nil {
		return denial
	}
	if p.Provider != "replay" {
		return notBuilt(`provider "` + p.Provider + `". Send "provider": "replay".`)
	}
	return nil
}

func notBuilt(what string) *authority.Denial {
	return &authority.Denial{Reason: authority.NotImplemented, Detail: "Not built: " + what}
}

// Edit makes the next revision. revision is the one that the edit was made from; when
// it is not the current one nothing is overwritten (H-201).
func (d *Deciding) Edit(revision int64, p Policy) *authority.Denial {
	if denial := d.current(revision); denial != nil {
		return denial
	}
	if denial := d.known(&p); denial != nil {
		return denial
	}
	if denial := full(&d.State().Progress); denial != nil {
		return denial
	}
	d.Emit(&Edited{revision + 1, p})
	return nil
}

func (d *Deciding) current(revision int64) *authority.Denial {
	if revision == d.State().Revision {
		return nil
	}
	return &authority.Denial{Reason: authority.RevisionConflict, Detail: "The policy has another revision by now; get the workspace and begin from that."}
}

// local denies what stays a draft (H-212).
func (d *Deciding) local() *authority.Denial {
	switch p := &d.State().Draft; {
	case p.Service == Custom:
		return notBuilt(`service "custom"; it stays a draft.`)
	case p.Environment != Local:
		return notBuilt(`environment "` + p.Environment + `": only local services of the built-in adapters can be verified and published; it stays a draft.`)
	}
	return nil
}

// Start begins a verification of the revision and returns its id.
func (d *Deciding) Start(revision int64) (string, *authority.Denial) {
	if denial := d.current(revision); denial != nil {
		return "", denial
	}
	if denial := d.local(); denial != nil {
		return "", denial
	}
	if d.State().Verifying(d.Now()) {
		return "", &authority.Denial{Reason: authority.InProgress, Detail: "A verification of this policy is under way."}
	}
	if denial := full(&d.State().Progress); denial != nil {
		return "", denial
	}
	id := d.Fresh().ID()
	d.Emit(&Started{id, revision, d.Now().Add(VerificationLife)})
	return id, nil
}

// Complete records what a verification has tested. It is denied when the policy has
// been edited since, and when the verification has been given up.
func (d *Deciding) Complete(id string, runs []string, tests []Test) *authority.Denial {
	r := d.State().Running
	if r == nil || r.ID != id || d.Now() >= r.Until {
		return &authority.Denial{Reason: authority.RevisionConflict, Detail: "The verification counts no more: the policy was edited meanwhile, or it took longer than a minute."}
	}
	// The clocks of a test and of this commit may differ by what a decision is floored to.
	tests = slices.Clone(tests)
	for i := range tests {
		tests[i].At = min(max(tests[i].At, r.StartedAt), d.Now())
	}
	d.Emit(&Completed{id, r.Revision, AllPassed(tests), append([]string{}, runs...), tests})
	d.NotAfter(r.Until)
	return nil
}

// Publish makes the revision the next version (H-208).
func (d *Deciding) Publish(revision int64) *authority.Denial {
	s := d.State()
	if denial := d.current(revision); denial != nil {
		return denial
	}
	if denial := d.local(); denial != nil {
		return denial
	}
	switch v := s.Verification; {
	case v == nil || v.Revision != revision:
		return notVerified("This revision has not been verified; verify it first.")
	case !v.Passed:
		return notVerified("The newest verification of this revision has failed; see what it found.")
	case d.Now() >= v.ExpiresAt():
		return notVerified("The verification was an hour ago or more; verify again.")
	}
	if denial := full(&d.State().Progress); denial != nil {
		return denial
	}
	d.NotAfter(s.Verification.ExpiresAt())
	d.Emit(&PublishedEvent{s.version() + 1, revision, s.Verification.ID, s.Draft})
	return nil
}

func notVerified(detail string) *authority.Denial {
	return &authority.Denial{Reason: authority.GuardianNotVerified, Detail: detail}
}

// Bindable returns the published version that a new run is bound to, or says why there
// is none (H-213, G-22).
func (s *State) Bindable(now evidence.Time) (*Published, *authority.Denial) {
	switch p := s.Published; {
	case p == nil:
		return nil, &authority.Denial{Reason: authority.GuardianNotPublished, Detail: "The policy is a draft; verify and activate it first."}
	case now >= p.DegradedAt():
		return nil, &authority.Denial{Reason: authority.GuardianDegraded, Detail: "The policy was published 24 hours ago or more; verify and activate it again."}
	default:
		return p, nil
	}
}

// DecodeState reads a stored state and refuses another machine's.
func DecodeState(raw []byte) (*State, error) { return policies.Decode(raw) }

// DecodeInventory reads a stored inventory and refuses another machine's.
func DecodeInventory(raw []byte) (*Inventory, error) { return inventories.Decode(raw) }

// Covers denies a run that the policy was not published for and names every member that
// differs (H-214, H-216).
func Covers(b *run.Binding, c run.Config, budget money.Cents) *authority.Denial {
	differs := b.Differs(c, budget)
	if len(differs) == 0 {
		return nil
	}
	return &authority.Denial{Reason: authority.GuardianMismatch, Detail: "The guardian policy says something else about " + strings.Join(differs, ", ") + "."}
}
