package project_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/contextturn/project"
)

// A project is opened once, under an id that its path makes.
func TestOpen(t *testing.T) {
	d := newDesk(t)
	if reason := d.open("acme", "help"); reason != "" {
		t.Fatal(reason)
	}
	s := d.state()
	if s.ID != projectID || s.Handle != "acme" || s.Slug != "help" || s.CreatedAt != dawn || s.Current("production") != nil || s.Selection("staging") != nil {
		t.Errorf("opened: %+v", s)
	}
	if reason := d.open("acme", "help"); reason != "ALREADY_EXISTS" {
		t.Errorf("opened again: %q", reason)
	}
	if b, reason := newDesk(t).publish("production", hash("a"), false); reason != "NOT_FOUND" {
		t.Errorf("published before it was opened: %+v, %q", b, reason)
	}
	d.lawful()
}

// Handles and slugs follow one pattern; words of the server's own paths are no handles.
func TestPath(t *testing.T) {
	long := strings.Repeat("a", 41)
	for _, s := range []string{"a", "7", "a-b", "acme", "0-0-0", long[1:]} {
		if d := newDesk(t); d.open(s, s) != "" {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{"", "-a", "a-", "a--b", "A", "a_b", "a.b", "a b", "a/b", "\u00e4", "a\n", long} {
		if !strings.HasPrefix(refusal(s, "help"), "body.handle: want ") || !strings.HasPrefix(refusal("acme", s), "body.slug: want ") {
			t.Errorf("%q as handle: %s, as slug: %s", s, refusal(s, "help"), refusal("acme", s))
		}
	}
	for _, s := range []string{"api", "assets", "approvals", "context", "context-turns", "events", "incidents", "login", "mcp", "metrics", "projects", "protocol", "runs", "static", "www"} {
		if got := refusal(s, "help"); got != "body.handle: this word is reserved for the server's own pages" {
			t.Errorf("the handle %q: %q", s, got)
		}
		if got := refusal("acme", s); got != "" {
			t.Errorf("the slug %q: %q", s, got)
		}
	}
	if !slices.IsSorted(project.Reserved) || len(slices.Compact(slices.Clone(project.Reserved))) != len(project.Reserved) {
		t.Error("the reserved words are not sorted, or one is there twice")
	}
}

// refusal is why a path is none.
func refusal(handle, slug string) string {
	d := project.Begin(&project.Project{}, dawn, [32]byte{1})
	if denial := d.Open(subject, handle, slug, session); denial != nil {
		return denial.Detail
	}
	return ""
}

// Builds are numbered in their environment; what was published or saved last is selected,
// and only staging has a draft.
func TestPublish(t *testing.T) {
	d := newDesk(t)
	d.open("acme", "help")
	expect := func(environment string, want *project.Selection) {
		t.Helper()
		got, b := d.state().Selection(environment), d.state().Current(environment)
		if want == nil && (got != nil || b != nil) || want != nil && (got == nil || *got != *want || b.Digest != want.Digest || b.Number != want.Number) {
			t.Errorf("%s has selected %+v, %+v, want %+v", environment, got, b, want)
		}
	}
	publish := func(environment, digest string, draft bool, number int64) {
		t.Helper()
		d.now = d.now.Add(time.Minute)
		b, reason := d.publish(environment, digest, draft)
		if want := (project.BuildRef{number, digest, 3, 2, 4000, d.now}); reason != "" || b != want {
			t.Errorf("published %+v, %q, want %+v", b, reason, want)
		}
	}
	publish("production", hash("a"), false, 1)
	expect("production", &project.Selection{Environment: "production", Number: 1, Digest: hash("a")})
	expect("staging", nil)
	publish("staging", hash("b"), true, 0)
	expect("staging", &project.Selection{Environment: "staging", Digest: hash("b"), Draft: true})
	publish("staging", hash("c"), true, 0)
	expect("staging", &project.Selection{Environment: "staging", Digest: hash("c"), Draft: true})
	publish("staging", hash("d"), false, 1)
	expect("staging", &project.Selection{Environment: "staging", Number: 1, Digest: hash("d")})
	publish("production", hash("e"), false, 2)
	publish("staging", hash("f"), true, 0)
	expect("production", &project.Selection{Environment: "production", Number: 2, Digest: hash("e")})
	if s := d.state().Environments.Staging; s.Build.Digest != hash("d") || s.Draft.Digest != hash("f") {
		t.Errorf("staging: %+v", s)
	}
	expect("elsewhere", nil)
	for _, c := range []struct {
		environment string
		draft       bool
	}{{"", false}, {"Production", false}, {"elsewhere", true}, {"production", true}} {
		if _, reason := d.publish(c.environment, hash("a"), c.draft); reason != "INVALID_REQUEST" {
			t.Errorf("published in %q, draft %t: %q", c.environment, c.draft, reason)
		}
	}
	d.lawful()
	if n := len(d.raw); n > 32<<10 {
		t.Errorf("the state has %d bytes", n)
	}
}

// S-019: a client has a display name of 1 to 100 characters that can be seen.
// S-020: its kind is one of four.
// S-021: its profile is a word of 1 to 40 lowercase letters, digits and hyphens.
// S-022: its environment is production or staging.
// S-023: with turnProtocol "required" it takes part in the turn protocol; left out is absent.
func TestClientRequest(t *testing.T) {
	name := func(s string) func(*project.ClientRequest) { return func(r *project.ClientRequest) { r.Name = s } }
	kind := func(s string) func(*project.ClientRequest) { return func(r *project.ClientRequest) { r.Kind = s } }
	profile := func(s string) func(*project.ClientRequest) { return func(r *project.ClientRequest) { r.Profile = s } }
	environment := func(s string) func(*project.ClientRequest) {
		return func(r *project.ClientRequest) { r.Environment = s }
	}
	protocol := func(s string) func(*project.ClientRequest) {
		return func(r *project.ClientRequest) { r.TurnProtocol = s }
	}
	bridge := func(s string) func(*project.ClientRequest) {
		return func(r *project.ClientRequest) { r.Kind, r.TurnProtocol = "bridge", s }
	}
	for _, c := range []struct {
		member string // that is refused; "" when nothing is
		edits  []func(*project.ClientRequest)
	}{
		{"", nil},
		{"", []func(*project.ClientRequest){name("x"), name(strings.Repeat("\u00fc", 100)), name("Br\u00fccke \u2013 \u65e5\u672c, \U0001f600 #1")}},
		{"name", []func(*project.ClientRequest){
			name(""), name(" "), name("\u00a0"), name(strings.Repeat("\u00fc", 101)), name("a\x00b"), name("a\nb"), name("a\u202eb"), name("\u200b"), name("a\xff"), name("a\u2028b"),
		}},
		{"", []func(*project.ClientRequest){kind("custom"), kind("claude-code"), kind("mcp"), bridge("absent"), bridge("")}},
		{"kind", []func(*project.ClientRequest){kind(""), kind("shared"), kind("Custom"), kind("agent")}},
		{"", []func(*project.ClientRequest){profile("a"), profile("-"), profile("tier-2"), profile(strings.Repeat("9", 40))}},
		{"profile", []func(*project.ClientRequest){profile(""), profile("A"), profile("a b"), profile("a_b"), profile("\u00fc"), profile("a\n"), profile(strings.Repeat("9", 41))}},
		{"", []func(*project.ClientRequest){environment("production"), environment("staging")}},
		{"environment", []func(*project.ClientRequest){environment(""), environment("Production"), environment("test")}},
		{"", []func(*project.ClientRequest){protocol("required"), protocol("absent"), protocol("")}},
		{"turnProtocol", []func(*project.ClientRequest){protocol("optional"), protocol("Required"), protocol("true"), bridge("required")}},
	} {
		if c.edits == nil {
			c.edits = []func(*project.ClientRequest){func(*project.ClientRequest) {}}
		}
		for _, edit := range c.edits {
			r := request(edit)
			var client project.Client
			d := project.BeginClient(&client, dawn, [32]byte{1})
			denial := d.Create(subject, projectID, r, hash("a"), session)
			if c.member != "" {
				if denial == nil || denial.Reason != authority.InvalidRequest || !strings.HasPrefix(denial.Detail, "body."+c.member+": ") || client.Machine != 0 {
					t.Errorf("%+v: %v, want body.%s refused", r, denial, c.member)
				}
				continue
			}
			if r.TurnProtocol == "" {
				r.TurnProtocol = "absent"
			}
			got := project.ClientRequest{client.Name, client.Kind, client.Profile, client.Environment, client.TurnProtocol}
			if denial != nil || got != r || client.Project != projectID || client.Required() != (r.TurnProtocol == "required") || client.Shared() {
				t.Errorf("%+v: %v, becomes %+v", r, denial, client)
			}
			if _, err := d.Done(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Each rotation makes the token another one. A revoked client stays so.
func TestClientLife(t *testing.T) {
	b := newBadge(t)
	if reasons := b.rotate(hash("a")) + b.revoke(); reasons != "NOT_FOUNDNOT_FOUND" {
		t.Errorf("before it was made: %q", reasons)
	}
	if reason := b.create(request()); reason != "" {
		t.Fatal(reason)
	}
	first := b.state()
	if !project.IsClientID(first.ID) || !strings.HasPrefix(first.ID, "cli_") || first.Generation != 1 || first.TokenHash != hash("a") || first.Revoked() {
		t.Errorf("made: %+v", first)
	}
	b.now = b.now.Add(time.Hour)
	if reason := b.rotate(hash("b")); reason != "" {
		t.Fatal(reason)
	}
	if s := b.state(); s.Generation != 2 || s.TokenHash != hash("b") || s.ID != first.ID || s.Name != first.Name || s.Profile != first.Profile {
		t.Errorf("rotated: %+v", s)
	}
	b.now = b.now.Add(time.Hour)
	revoked := b.now
	for range 2 {
		if reason := b.revoke(); reason != "" {
			t.Fatal(reason)
		}
		b.now = b.now.Add(time.Hour)
	}
	if reason := b.rotate(hash("c")); reason != "CLIENT_REVOKED" {
		t.Errorf("rotated after it was revoked: %q", reason)
	}
	if s := b.state(); !s.Revoked() || *s.RevokedAt != revoked || s.Events != 3 || s.TokenHash != hash("b") {
		t.Errorf("revoked twice: %+v", s)
	}
	b.lawful()
	if len(b.texts) != 0 {
		t.Errorf("texts: %+v", b.texts)
	}
}

// The shared token of an environment belongs to one client without the turn protocol.
// Asked for again it is another token of the same client.
func TestShare(t *testing.T) {
	b := newBadge(t)
	if reasons := b.share("elsewhere", "support", hash("a")) + b.share("staging", "Support", hash("a")); reasons != "INVALID_REQUESTINVALID_REQUEST" {
		t.Errorf("refusals: %q", reasons)
	}
	for i, digit := range []string{"a", "b"} {
		if reason := b.share("staging", "support", hash(digit)); reason != "" {
			t.Fatal(reason)
		}
		if s := b.state(); s.ID != project.SharedID(projectID, "staging") || !s.Shared() || s.Required() || s.Kind != "shared" || s.Generation != int64(i+1) || s.TokenHash != hash(digit) || s.Profile != "support" || s.Environment != "staging" {
			t.Errorf("shared: %+v", s)
		}
	}
	if reason := b.share("staging", "sales", hash("c")); reason != "ALREADY_EXISTS" {
		t.Errorf("with another profile: %q", reason)
	}
	b.revoke()
	if reason := b.share("staging", "support", hash("c")); reason != "CLIENT_REVOKED" {
		t.Errorf("after it was revoked: %q", reason)
	}
	b.lawful()
}

// A gap keeps its texts beside the chain; reported again it is the same gap.
func TestGap(t *testing.T) {
	n := newNote(t)
	report := project.GapReport{
		Client: clientID, Environment: "staging", Build: &project.Selection{Environment: "staging", Digest: hash("d"), Draft: true}, Task: text("How do refunds work?"), Detail: text("Nothing about them."),
	}
	id, reason, _ := n.report(report)
	if reason != "" || !project.IsGapID(id) || id[16] != '7' {
		t.Fatal(id, reason)
	}
	s := n.state()
	if s.ID != id || s.Project != projectID || s.Client != clientID || *s.Build != *report.Build || s.Ref != nil || s.Task.Length != 20 || len(n.texts) != 2 || n.texts[0].Commit() != *s.Task || n.texts[1].Commit() != *s.Detail {
		t.Errorf("reported: %+v", s)
	}
	if bytes.Contains(n.events[0].Data, []byte("refunds")) || bytes.Contains(n.raw, []byte("refunds")) {
		t.Error("a text stands in the chain")
	}
	if _, reason, _ := n.report(report); reason != "" || n.state().Events != 1 {
		t.Errorf("again: %q, %d events", reason, n.state().Events)
	}
	r := project.NewGapReplay()
	n.lawful(r, r.State)
}

func TestGapReport(t *testing.T) {
	long := func(n int) *string { return text(strings.Repeat("\u00fc", n)) }
	for _, c := range []struct {
		detail string // the refusal; "" when there is none
		report project.GapReport
	}{
		{"", project.GapReport{Task: long(4000), Detail: long(2000)}},
		{"", project.GapReport{Ref: long(200), Detail: text("")}},
		{"body.task: want this or ref, and not both", project.GapReport{}},
		{"body.task: want this or ref, and not both", project.GapReport{Task: text("a"), Ref: text("a")}},
		{"body.task: want 1 to 4000 characters", project.GapReport{Task: long(4001)}},
		{"body.task: want 1 to 4000 characters", project.GapReport{Task: text("")}},
		{"body.ref: want 1 to 200 characters", project.GapReport{Ref: long(201)}},
		{"body.ref: want 1 to 200 characters", project.GapReport{Ref: text("")}},
		{"body.detail: want 0 to 2000 characters", project.GapReport{Ref: text("a"), Detail: long(2001)}},
	} {
		c.report.Client, c.report.Environment = clientID, "production"
		if _, reason, detail := newNote(t).report(c.report); detail != c.detail || (reason == "INVALID_REQUEST") != (detail != "") {
			t.Errorf("%s %q, want %q", reason, detail, c.detail)
		}
	}
}

// Ids are what the architecture says they are, and every member of a gap's report makes
// it another gap.
func TestNames(t *testing.T) {
	if got := project.ProjectID("acme", "help"); got != projectID {
		t.Error(got)
	}
	if got := project.SharedID(projectID, "production"); got != "shr_59b3215e28f580bb2b06f41d984e24d8" {
		t.Error(got)
	}
	fresh := authority.NewFresh([32]byte{1}, dawn)
	first, second := project.FreshClientID(fresh), project.FreshClientID(fresh)
	if !project.IsClientID(first) || len(first) != 36 || first >= second || first[16] != '7' {
		t.Errorf("%s, %s", first, second)
	}
	for id, want := range map[string]bool{projectID: true, clientID: false, "prj_": false, projectID[:35]: false, projectID + "0": false, strings.ToUpper(projectID): false, projectID + "\n": false, projectID[4:]: false} {
		if project.IsProjectID(id) != want {
			t.Errorf("%q is the id of a project: %t", id, !want)
		}
	}
	if !project.IsClientID("shr_"+projectID[4:]) || project.IsClientID(projectID) || !project.IsGapID("gap_"+projectID[4:]) || project.IsGapID(projectID) {
		t.Error("ids of one kind pass for another's")
	}
	seen := map[string]bool{}
	reports := []project.GapReport{
		{}, {Environment: "staging"}, {Task: text("a")}, {Ref: text("a")}, {Detail: text("a")}, {Task: text("")}, {Task: text("a"), Detail: text("")},
	}
	for _, r := range reports {
		seen[string(project.GapMaterial(projectID, r))], seen[string(project.GapMaterial("prj_other", r))] = true, true
	}
	if len(seen) != 2*len(reports) {
		t.Errorf("%d reports are %d gaps", 2*len(reports), len(seen))
	}
	same := reports[2]
	same.Client, same.Build = clientID, &project.Selection{Digest: hash("a")}
	if !bytes.Equal(project.GapMaterial(projectID, reports[2]), project.GapMaterial(projectID, same)) {
		t.Error("who reports a gap, and at which Build, makes it another one")
	}
}

// A decision is never before the newest event.
func TestClockBehind(t *testing.T) {
	d := newDesk(t)
	d.open("acme", "help")
	d.now = d.now.Add(-time.Hour)
	if b, reason := d.publish("production", hash("a"), false); reason != "" || b.PublishedAt != dawn {
		t.Errorf("%+v, %q", b, reason)
	}
	d.lawful()
}

// A full chain takes no more, and a client of one can still be revoked.
func TestFull(t *testing.T) {
	d := newDesk(t)
	d.open("acme", "help")
	filled := func(raw []byte, events int64) []byte {
		return bytes.Replace(raw, []byte(`"events":1,`), fmt.Appendf(nil, `"events":%d,`, events), 1)
	}
	first := d.raw
	for events, want := range map[int64]string{project.MaxEvents - 2: "", project.MaxEvents - 1: "WORKSPACE_LIMIT", project.MaxEvents: "WORKSPACE_LIMIT"} {
		d.raw, d.head.Sequence = filled(first, events), events
		if _, reason := d.publish("staging", hash("a"), true); reason != want {
			t.Errorf("with %d events: %q", events, reason)
		}
	}
	b := newBadge(t)
	b.create(request())
	b.raw, b.head.Sequence = filled(b.raw, project.MaxEvents-1), project.MaxEvents-1
	if reason := b.rotate(hash("b")); reason != "WORKSPACE_LIMIT" {
		t.Errorf("rotated: %q", reason)
	}
	if reason := b.revoke(); reason != "" || !b.state().Revoked() {
		t.Errorf("revoked: %q", reason)
	}
}

// A decision that breaks a rule of the machine is not handed out.
func TestBrokenDecision(t *testing.T) {
	p := project.Begin(&project.Project{}, dawn, [32]byte{1})
	if denial := p.Open(subject, "acme", "help", "nobody"); denial != nil {
		t.Fatal(denial)
	}
	c := project.BeginClient(&project.Client{}, dawn, [32]byte{1})
	if denial := c.Create(subject, projectID, request(), "seif_token", session); denial != nil {
		t.Fatal(denial)
	}
	g := project.BeginGap(&project.Gap{}, dawn, [32]byte{1})
	if denial := g.Report(subject, projectID, project.GapReport{Client: clientID, Environment: "nowhere", Ref: text("a")}); denial != nil {
		t.Fatal(denial)
	}
	for _, d := range []deciding{p, c, g} {
		if out, err := d.Done(); err == nil {
			t.Errorf("handed out: %+v", out)
		}
	}
}

// A state of another machine is not read, and neither is one with something unknown.
func TestDecode(t *testing.T) {
	d := newDesk(t)
	d.open("acme", "help")
	for _, raw := range [][]byte{
		bytes.Replace(d.raw, []byte(`"machine":1`), []byte(`"machine":2`), 1), canon.MustMarshal(map[string]any{"machine": 1, "more": 1}), nil,
	} {
		if s, err := project.Decode(raw); err == nil || s != nil {
			t.Errorf("%s is read as %+v", raw, s)
		}
	}
	if _, err := project.Decode(d.raw); err != nil {
		t.Errorf("control: %v", err)
	}
}

func TestEventTypes(t *testing.T) {
	if got := strings.Join(project.EventTypes(), " "); got != "build.published client.created client.revoked client.rotated draft.saved gap.reported project.opened" {
		t.Error(got)
	}
}

// of is evidence that was sealed for a made-up chain.
func of(t *testing.T, drafts []evidence.Draft, times []time.Duration) (out []evidence.Event) {
	t.Helper()
	head := evidence.Link{Hash: evidence.Genesis}
	for i, d := range drafts {
		at := dawn
		if times != nil {
			at = dawn.Add(times[i])
		}
		d.ID = string(rune('a' + i))
		sealed, err := evidence.Seal(key, "subject", head, at.Time(), []evidence.Draft{d})
		must(t, err)
		out, head = append(out, sealed...), evidence.Link{Sequence: sealed[0].Sequence, Hash: sealed[0].Hash}
	}
	return out
}
