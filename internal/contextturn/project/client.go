package project

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/machine"
)

// Client is everything that deciding about a client needs, and what a token is bound to.
// Only Generation, TokenHash and RevokedAt ever change.
type Client struct {
	machine.Progress
	Project      string         `json:"project"` // its id
	Name         string         `json:"name"`
	Kind         string         `json:"kind"`
	Profile      string         `json:"profile"`
	Environment  string         `json:"environment"`
	TurnProtocol string         `json:"turnProtocol"`
	Generation   int64          `json:"generation"` // of the token, from 1
	TokenHash    string         `json:"tokenHash"`  // lowercase hex SHA-256; the token itself is never kept
	RevokedAt    *evidence.Time `json:"revokedAt"`  // nil: it is not revoked
}

// Revoked reports whether the client's token opens nothing any more, for good.
func (c *Client) Revoked() bool { return c.RevokedAt != nil }

// Shared reports whether the client is the one behind a shared token.
func (c *Client) Shared() bool { return c.Kind == Shared }

// Required reports whether the client takes part in the turn protocol.
func (c *Client) Required() bool { return c.TurnProtocol == Required }

// ClientRequest is a named client to be made.
type ClientRequest struct {
	Name         string
	Kind         string // custom, claude-code, mcp or bridge
	Profile      string
	Environment  string
	TurnProtocol string // required or absent; "" is absent
}

// problem returns the first member that is not one of a named client and what is wrong
// with it, or "".
func (r *ClientRequest) problem() (member, message string) {
	switch {
	case !IsName(r.Name):
		return "name", "want 1 to 100 characters that can be seen"
	case !slices.Contains([]string{Custom, ClaudeCode, MCP, Bridge}, r.Kind):
		return "kind", "want custom, claude-code, mcp or bridge"
	case !IsProfile(r.Profile):
		return "profile", "want 1 to 40 lowercase letters, digits and hyphens"
	case !IsEnvironment(r.Environment):
		return "environment", "want production or staging"
	case r.TurnProtocol != Required && r.TurnProtocol != Absent:
		return "turnProtocol", "want required or absent"
	case r.Kind == Bridge && r.TurnProtocol != Absent:
		// A bridge reports what passed through it and invokes no model, so that it has no
		// turn to report.
		return "turnProtocol", "a bridge opens no turns; want absent"
	}
	return "", ""
}

// Created is client.created, the beginning of the chain.
type Created struct {
	Subject      evidence.Subject `json:"subject"`
	Project      string           `json:"project"`
	Name         string           `json:"name"`
	Kind         string           `json:"kind"`
	Profile      string           `json:"profile"`
	Environment  string           `json:"environment"`
	TurnProtocol string           `json:"turnProtocol"`
	TokenHash    string           `json:"tokenHash"`
	Session      string           `json:"session"` // the hash that names the owner's session
}

// EventType names the event.
func (Created) EventType() string { return "client.created" }

// Apply folds the event.
func (e Created) Apply(f *machine.Fold[Client]) {
	owned(f, e.Session)
	if e.Kind == Shared {
		f.Start(e.Subject, e.Subject.ID == SharedID(e.Project, e.Environment))
		f.Must(e.TurnProtocol == Absent, "shared-protocol", "a shared token names no single invoker and has no turn protocol")
		f.Must(e.Name == Shared && IsProfile(e.Profile) && IsEnvironment(e.Environment), "client", "the members are not those of a shared client")
	} else {
		f.Start(e.Subject, isID(e.Subject.ID, "cli_"))
		r := ClientRequest{e.Name, e.Kind, e.Profile, e.Environment, e.TurnProtocol}
		member, message := r.problem()
		f.Must(member == "", "client", member+": "+message)
	}
	f.Must(IsProjectID(e.Project), "client-project", "a client is one of a project")
	issued(f, 1, e.TokenHash)
	s := f.State()
	s.Project, s.Name, s.Kind, s.Profile = e.Project, e.Name, e.Kind, e.Profile
	s.Environment, s.TurnProtocol, s.RevokedAt = e.Environment, e.TurnProtocol, nil
}

// Rotated is client.rotated: the next token, which takes the place of the one before.
type Rotated struct {
	Generation int64  `json:"generation"`
	TokenHash  string `json:"tokenHash"`
	Session    string `json:"session"` // the hash that names the owner's session
}

// EventType names the event.
func (Rotated) EventType() string { return "client.rotated" }

// Apply folds the event.
func (e Rotated) Apply(f *machine.Fold[Client]) {
	owned(f, e.Session)
	f.Must(!f.State().Revoked(), "rotated-revoked", "a revoked client gets no token")
	f.Must(e.Generation == f.State().Generation+1, "generation", "a rotation makes the next generation")
	f.Must(e.TokenHash != f.State().TokenHash, "token-again", "a rotation makes another token")
	issued(f, e.Generation, e.TokenHash)
}

// issued sets the token that counts.
func issued(f *machine.Fold[Client], generation int64, hash string) {
	f.Must(canon.IsHash(hash), "token-hash", "of a token only its SHA-256 is kept")
	s := f.State()
	s.Generation, s.TokenHash = generation, hash
}

// RevokedEvent is client.revoked, the end of the chain.
type RevokedEvent struct {
	Session string `json:"session"` // the hash that names the owner's session
}

// EventType names the event.
func (RevokedEvent) EventType() string { return "client.revoked" }

// Apply folds the event.
func (e RevokedEvent) Apply(f *machine.Fold[Client]) {
	owned(f, e.Session)
	f.Must(!f.State().Revoked(), "revoked-twice", "the client is revoked already")
	now := f.Now()
	f.State().RevokedAt = &now
}

var clients = machine.Definition[Client]{
	Kind: KindClient, Version: Machine, Limit: MaxEvents,
	Progress: func(c *Client) *machine.Progress { return &c.Progress },
	Events: func() []machine.Event[Client] {
		return []machine.Event[Client]{&Created{}, &Rotated{}, &RevokedEvent{}}
	},
}

// DecidingClient is a decision about a client.
type DecidingClient struct{ *machine.Deciding[Client] }

// BeginClient starts a decision about c, which it changes; the zero Client is one that was
// never made.
func BeginClient(c *Client, now evidence.Time, seed [32]byte) *DecidingClient {
	return &DecidingClient{machine.Begin(&clients, c, now, seed)}
}

// Create makes a named client of the project with a fresh id, which its state has then.
// subject names workspace and issuer; tokenHash is the lowercase hex SHA-256 of the
// token; session is the hash that names the owner's session. That the project exists is
// for the caller to know.
func (d *DecidingClient) Create(subject evidence.Subject, project string, r ClientRequest, tokenHash, session string) *authority.Denial {
	if r.TurnProtocol == "" {
		r.TurnProtocol = Absent
	}
	if member, message := r.problem(); member != "" {
		return invalid(member, message)
	}
	d.Emit(&Created{d.Subject(subject, FreshClientID(d.Fresh())), project, r.Name, r.Kind, r.Profile, r.Environment, r.TurnProtocol, tokenHash, session})
	return nil
}

// Share makes the shared token of an environment of the project; its client has the id
// [SharedID]. When there is one it is rotated. The binding of a client never changes, so
// that another profile is denied.
func (d *DecidingClient) Share(subject evidence.Subject, project, environment, profile, tokenHash, session string) *authority.Denial {
	switch s := d.State(); {
	case !IsEnvironment(environment):
		return invalid("environment", "want production or staging")
	case !IsProfile(profile):
		return invalid("profile", "want 1 to 40 lowercase letters, digits and hyphens")
	case s.Machine == 0:
		d.Emit(&Created{d.Subject(subject, SharedID(project, environment)), project, Shared, Shared, profile, environment, Absent, tokenHash, session})
		return nil
	case s.Profile != profile:
		return &authority.Denial{Reason: authority.AlreadyExists, Detail: "The shared token of this environment is there and bound to another profile, for good; create a named client."}
	}
	return d.Rotate(tokenHash, session)
}

// Rotate gives the client its next token; the one before opens nothing from then on.
func (d *DecidingClient) Rotate(tokenHash, session string) *authority.Denial {
	if denial := there(&d.State().Progress, KindClient); denial != nil {
		return denial
	}
	if d.State().Revoked() {
		return &authority.Denial{Reason: authority.ClientRevoked, Detail: "The client is revoked, for good; create a named client."}
	}
	if denial := full(&d.State().Progress); denial != nil {
		return denial
	}
	d.Emit(&Rotated{d.State().Generation + 1, tokenHash, session})
	return nil
}

// Revoke ends the client; once it is revoked this changes nothing.
func (d *DecidingClient) Revoke(session string) *authority.Denial {
	if denial := there(&d.State().Progress, KindClient); denial != nil {
		return denial
	}
	if !d.State().Revoked() {
		d.Emit(&RevokedEvent{session})
	}
	return nil
}
