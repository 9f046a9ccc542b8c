package perimeter

import (
	"context"

	"countersign/internal/authority"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/traces"
	"countersign/internal/identity"
	"countersign/internal/ledger"
)

// CreateClient makes a named client (S-018). The token is returned once and stored
// nowhere.
func (p *Perimeter) CreateClient(ctx context.Context, projectID string, r project.ClientRequest, session string) (ClientView, string, error) {
	if err := p.Exists(ctx, projectID); err != nil {
		return ClientView{}, "", err
	}
	var out ClientView
	var token string
	err := p.decide(ctx, func() (*ledger.Change, error) {
		now, err := p.Now(ctx)
		if err != nil {
			return nil, err
		}
		var credential ledger.Credential
		token, credential = identity.NewContextToken(p.Workspace, p.Issuer)
		s := &project.Client{}
		d := project.BeginClient(s, now, ledger.Seed())
		if denial := d.Create(p.subject(), projectID, r, credential.Hash, session); denial != nil {
			return nil, denial
		}
		w, err := p.writeClient(ledger.NewSubject(p.Key(project.KindClient, s.ID)), s, d)
		if err != nil {
			return nil, err
		}
		out = viewClient(after(w), s)
		return issue(w, s, credential, ""), nil
	})
	return out, token, err
}

// SharedToken makes the token of an environment that names no single invoker (S-015). The
// one before opens nothing from then on.
func (p *Perimeter) SharedToken(ctx context.Context, projectID, environment, profile, session string) (ClientView, string, error) {
	if err := p.Exists(ctx, projectID); err != nil {
		return ClientView{}, "", err
	}
	return p.next(ctx, projectID, project.SharedID(projectID, environment), func(d *project.DecidingClient, hash string) *authority.Denial {
		return d.Share(p.subject(), projectID, environment, profile, hash, session)
	})
}

// RotateClient gives a client its next token; the one before opens nothing from then on.
func (p *Perimeter) RotateClient(ctx context.Context, projectID, clientID, session string) (ClientView, string, error) {
	if err := p.clientIn(ctx, projectID, clientID); err != nil {
		return ClientView{}, "", err
	}
	return p.next(ctx, projectID, clientID, func(d *project.DecidingClient, hash string) *authority.Denial { return d.Rotate(hash, session) })
}

// next issues the next token of a client.
func (p *Perimeter) next(ctx context.Context, projectID, clientID string, do func(d *project.DecidingClient, hash string) *authority.Denial) (out ClientView, token string, err error) {
	err = p.decide(ctx, func() (*ledger.Change, error) {
		subject, s, now, err := p.ClientState(ctx, clientID)
		if authority.Denied(err, authority.NotFound) {
			subject, s, err = ledger.NewSubject(p.Key(project.KindClient, clientID)), &project.Client{}, nil
		}
		if err != nil {
			return nil, err
		}
		var credential ledger.Credential
		token, credential = identity.NewContextToken(p.Workspace, p.Issuer)
		former := s.TokenHash
		d := project.BeginClient(s, now, ledger.Seed())
		if denial := do(d, credential.Hash); denial != nil {
			return nil, denial
		}
		w, err := p.writeClient(subject, s, d)
		if err != nil {
			return nil, err
		}
		out = viewClient(after(w), s)
		return issue(w, s, credential, former), nil
	})
	return out, token, err
}

// issue is the Change that gives a client a token in place of a former one.
func issue(w ledger.Write, s *project.Client, credential ledger.Credential, former string) *ledger.Change {
	credential.Subject, credential.Generation = s.ID, s.Generation
	c := &ledger.Change{Workspace: w.Workspace, Writes: []ledger.Write{w}, Credentials: []ledger.Credential{credential}}
	if former != "" {
		c.Revoke = []string{former}
	}
	return c
}

// RevokeClient ends a client for good. One that is revoked stays as it is.
func (p *Perimeter) RevokeClient(ctx context.Context, projectID, clientID, session string) (out ClientView, err error) {
	err = p.decide(ctx, func() (*ledger.Change, error) {
		subject, s, now, err := p.ClientState(ctx, clientID)
		if err == nil {
			err = traces.In(projectID, s.Project, "client")
		}
		if err != nil {
			return nil, err
		}
		d := project.BeginClient(s, now, ledger.Seed())
		if denial := d.Revoke(session); denial != nil {
			return nil, denial
		}
		if t, err := d.Done(); err == nil && len(t.Drafts) == 0 {
			out = viewClient(subject, s)
			return nil, nil
		}
		w, err := p.writeClient(subject, s, d)
		if err != nil {
			return nil, err
		}
		out = viewClient(after(w), s)
		return &ledger.Change{Workspace: p.Workspace, Writes: []ledger.Write{w}, Revoke: []string{s.TokenHash}}, nil
	})
	return out, err
}

func (p *Perimeter) writeClient(subject ledger.Subject, s *project.Client, d *project.DecidingClient) (ledger.Write, error) {
	t, err := d.Done()
	if err != nil {
		return ledger.Write{}, err
	}
	return p.write(subject, s, d.Now(), t.Drafts, t.Texts, []ledger.Attribute{{Name: traces.AttributeProject, Value: s.Project}})
}

// Client returns one client of a project.
func (p *Perimeter) Client(ctx context.Context, projectID, clientID string) (ClientView, error) {
	subject, s, _, err := p.ClientState(ctx, clientID)
	if err == nil {
		err = traces.In(projectID, s.Project, "client")
	}
	if err != nil {
		return ClientView{}, err
	}
	return viewClient(subject, s), nil
}

func (p *Perimeter) clientIn(ctx context.Context, projectID, clientID string) error {
	_, err := p.Client(ctx, projectID, clientID)
	return err
}

// Clients returns the clients of a project, newest first, the shared ones in front; next is
// the cursor of the next page, "" at the end.
func (p *Perimeter) Clients(ctx context.Context, projectID, before string, limit int) (list []ClientView, next string, err error) {
	if err := p.Exists(ctx, projectID); err != nil {
		return nil, "", err
	}
	page, next, err := p.Page(ctx, project.KindClient, []ledger.Attribute{{Name: traces.AttributeProject, Value: projectID}}, before, limit)
	list = []ClientView{}
	for _, subject := range page {
		s, err := project.DecodeClient(subject.State)
		if err != nil {
			return nil, "", err
		}
		list = append(list, viewClient(subject, s))
	}
	return list, next, err
}
