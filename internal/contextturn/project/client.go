package project

import (
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
)

// Client is everything that deciding about a client needs, and what a token is bound to.
// Only Generation, TokenHash and RevokedAt ever change.
type Client struct {
	progress
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

func (e Created) apply(f *fold[Client]) {
	f.owned(e.Session)
	if e.Kind == Shared {
		f.begin(e.Subject, e.Subject.ID == SharedID(e.Project, e.Environment))
		f.must(e.TurnProtocol == Absent, "shared-protocol", "a shared token names no single invoker and has no turn protocol")
		f.must(e.Name == Shared && IsProfile(e.Profile) && IsEnvironment(e.Environment), "client", "the members are not those of a shared client")
	} else {
		f.begin(e.Subject, isID(e.Subject.ID, "cli_"))
		r := ClientRequest{e.Name, e.Kind, e.Profile, e.Environment, e.TurnProtocol}
		member, message := r.problem()
		f.must(member == "", "client", member+": "+message)
	}
	f.must(IsProjectID(e.Project), "client-project", "a client is one of a project")
	issued(f, 1, e.TokenHash)
	f.s.Project, f.s.Name, f.s.Kind, f.s.Profile = e.Project, e.Name, e.Kind, e.Profile
	f.s.Environment, f.s.TurnProtocol, f.s.RevokedAt = e.Environment, e.TurnProtocol, nil
}

// Rotated is client.rotated: the next token, which takes the place of the one before.
type Rotated struct {
	Generation int64  `json:"generation"`
	TokenHash  string `json:"tokenHash"`
	Session    string `json:"session"` // the hash that names the owner's session
}

// EventType names the event.
func (Rotated) EventType() string { return "client.rotated" }

func (e Rotated) apply(f *fold[Client]) {
	f.owned(e.Session)
	f.must(!f.s.Revoked(), "rotated-revoked", "a revoked client gets no token")
	f.must(e.Generation == f.s.Generation+1, "generation", "a rotation makes the next generation")
	f.must(e.TokenHash != f.s.TokenHash, "token-again", "a rotation makes another token")
	issued(f, e.Generation, e.TokenHash)
}

// issued sets the token that counts.
func issued(f *fold[Client], generation int64, hash string) {
	f.must(canon.IsHash(hash), "token-hash", "of a token only its SHA-256 is kept")
	f.s.Generation, f.s.TokenHash = generation, hash
}

// RevokedEvent is client.revoked, the end of the chain.
type RevokedEvent struct {
	Session string `json:"session"` // the hash that names the owner's session
}

// EventType names the event.
func (RevokedEvent) EventType() string { return "client.revoked" }

func (e RevokedEvent) apply(f *fold[Client]) {
	f.owned(e.Session)
	f.must(!f.s.Revoked(), "revoked-twice", "the client is revoked already")
	now := f.now
	f.s.RevokedAt = &now
}

// clientEvents are empty events of every type of a client.
func clientEvents() []Event[Client] { return []Event[Client]{&Created{}, &Rotated{}, &RevokedEvent{}} }

func clientFold(c *Client) fold[Client] {
	return fold[Client]{s: c, progress: &c.progress, kind: KindClient, first: Created{}.EventType()}
}

// DecidingClient is a decision about a client.
type DecidingClient struct{ deciding[Client] }

// BeginClient starts a decision about c, which it changes; the zero Client is one that was
// never made.
func BeginClient(c *Client, now evidence.Time, seed [32]byte) *DecidingClient {
	return &DecidingClient{begin(clientFold(c), now, seed)}
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
	d.emit(&Created{d.subject(subject, FreshClientID(d.fresh)), project, r.Name, r.Kind, r.Profile, r.Environment, r.TurnProtocol, tokenHash, session})
	return nil
}

// Share makes the shared token of an environment of the project; its client has the id
// [SharedID]. When there is one it is rotated. The binding of a client never changes, so
// that another profile is denied.
func (d *DecidingClient) Share(subject evidence.Subject, project, environment, profile, tokenHash, session string) *authority.Denial {
	switch s := d.fold.s; {
	case !IsEnvironment(environment):
		return invalid("environment", "want production or staging")
	case !IsProfile(profile):
		return invalid("profile", "want 1 to 40 lowercase letters, digits and hyphens")
	case s.Machine == 0:
		d.emit(&Created{d.subject(subject, SharedID(project, environment)), project, Shared, Shared, profile, environment, Absent, tokenHash, session})
		return nil
	case s.Profile != profile:
		return &authority.Denial{Reason: authority.AlreadyExists, Detail: "The shared token of this environment is there and bound to another profile, for good; create a named client."}
	}
	return d.Rotate(tokenHash, session)
}

// Rotate gives the client its next token; the one before opens nothing from then on.
func (d *DecidingClient) Rotate(tokenHash, session string) *authority.Denial {
	if denial := d.there(); denial != nil {
		return denial
	}
	if d.fold.s.Revoked() {
		return &authority.Denial{Reason: authority.ClientRevoked, Detail: "The client is revoked, for good; create a named client."}
	}
	if denial := d.full(); denial != nil {
		return denial
	}
	d.emit(&Rotated{d.fold.s.Generation + 1, tokenHash, session})
	return nil
}

// Revoke ends the client; once it is revoked this changes nothing.
func (d *DecidingClient) Revoke(session string) *authority.Denial {
	if denial := d.there(); denial != nil {
		return denial
	}
	if !d.fold.s.Revoked() {
		d.emit(&RevokedEvent{session})
	}
	return nil
}
