package workspace

import (
	"context"
	"net/url"
	"strings"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/machine"
	"countersign/internal/supervision/guardian"
)

// ServiceRequest is a service to be registered.
type ServiceRequest struct {
	Name        string
	Kind        string
	Environment string
	Origin      *string // metadata; nothing is ever sent there (H-202)
	Description string  // free text, erasable
}

// Register adds a service to the inventory (H-200) and returns it.
func (w *Workspace) Register(ctx context.Context, r ServiceRequest) (*Service, error) {
	if r.Origin != nil && !isOrigin(*r.Origin) {
		return nil, invalid("origin", "want scheme://host or scheme://host:port with http or https")
	}
	out := &Service{Text: r.Description}
	err := w.decide(ctx, func() (*ledger.Change, error) {
		subject, inventory, now, err := w.inventory(ctx)
		if err != nil {
			return nil, err
		}
		d := guardian.BeginInventory(inventory, w.subject(w.Workspace), now, ledger.Seed())
		service := guardian.Service{Name: r.Name, Kind: r.Kind, Environment: r.Environment, Origin: r.Origin}
		id, denial := d.Register(service, r.Description)
		if denial != nil {
			return nil, denial
		}
		out.Service = *inventory.Service(id)
		return w.one(subject, inventory, d)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// decision is a decision that has been made.
type decision interface {
	Done() (*machine.Transition, error)
	Now() evidence.Time
}

// one is the Change of a decision about one subject.
func (w *Workspace) one(subject ledger.Subject, state any, d decision) (*ledger.Change, error) {
	t, err := d.Done()
	if err != nil {
		return nil, err
	}
	write, err := w.write(subject, state, d.Now(), t)
	change := &ledger.Change{Workspace: w.Workspace, Writes: []ledger.Write{write}}
	if t.NotAfter != 0 {
		change.NotAfter = t.NotAfter.Time()
	}
	return change, err
}

// isOrigin reports whether s is an http or https origin in lower case and nothing more.
func isOrigin(s string) bool {
	u, err := url.Parse(s)
	strange := func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-:[]", r) }
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && s == u.Scheme+"://"+u.Host && !strings.ContainsFunc(u.Host, strange)
}

func invalid(member, message string) *authority.Denial {
	return &authority.Denial{Reason: authority.InvalidRequest, Detail: "body." + member + ": " + message}
}

// Draft begins a policy (H-200) and returns its id. The policy names a registered
// service, or a built-in one by its kind.
func (w *Workspace) Draft(ctx context.Context, p guardian.Policy) (id string, err error) {
	err = w.decide(ctx, func() (*ledger.Change, error) {
		listed, inventory, now, err := w.inventory(ctx)
		if err != nil {
			return nil, err
		}
		p := p
		if denial := resolve(&p, inventory); denial != nil {
			return nil, denial
		}
		var s guardian.State
		d := guardian.Begin(&s, now, ledger.Seed())
		id = d.Fresh().ID()
		if denial := d.Draft(w.subject(id), p); denial != nil {
			return nil, denial
		}
		list := guardian.BeginInventory(inventory, w.subject(w.Workspace), now, ledger.Seed())
		if denial := list.List(id); denial != nil {
			return nil, denial
		}
		change, err := w.one(ledger.NewSubject(w.Key(id)), &s, d)
		if err != nil {
			return nil, err
		}
		second, err := w.one(listed, inventory, list)
		if err != nil {
			return nil, err
		}
		change.Writes = append(change.Writes, second.Writes...)
		return change, nil
	})
	return id, err
}

// Edit makes the next revision of a policy from the given one. When that is not the
// current one it is denied with REVISION_CONFLICT and nothing is overwritten (H-201).
func (w *Workspace) Edit(ctx context.Context, id string, revision int64, p guardian.Policy) error {
	return w.decide(ctx, func() (*ledger.Change, error) {
		subject, s, now, err := w.policy(ctx, id)
		if err != nil {
			return nil, err
		}
		listed, inventory, _, err := w.inventory(ctx)
		if err != nil {
			return nil, err
		}
		p := p
		if denial := resolve(&p, inventory); denial != nil {
			return nil, denial
		}
		d := guardian.Begin(s, now, ledger.Seed())
		if denial := d.Edit(revision, p); denial != nil {
			return nil, denial
		}
		change, err := w.one(subject, s, d)
		if err != nil {
			return nil, err
		}
		if p.ServiceID != nil {
			change.Guards = []ledger.Guard{{Key: listed.Key, Revision: listed.Revision}}
		}
		return change, nil
	})
}

// resolve takes the service's kind from the inventory when the policy names an entry.
func resolve(p *guardian.Policy, i *guardian.Inventory) *authority.Denial {
	if p.ServiceID == nil {
		return nil
	}
	service := i.Service(*p.ServiceID)
	switch {
	case service == nil:
		return invalid("serviceId", "no such service is registered")
	case p.Service != "" && p.Service != service.Kind:
		return invalid("service", "the registered service is of another kind; leave it out")
	}
	p.Service = service.Kind
	return nil
}

// Activate publishes the revision as the next version (H-208). What this build has no
// adapter for stays a draft (H-212).
func (w *Workspace) Activate(ctx context.Context, id string, revision int64) error {
	return w.decide(ctx, func() (*ledger.Change, error) {
		subject, s, now, err := w.policy(ctx, id)
		if err != nil {
			return nil, err
		}
		d := guardian.Begin(s, now, ledger.Seed())
		if denial := d.Publish(revision); denial != nil {
			return nil, denial
		}
		return w.one(subject, s, d)
	})
}
