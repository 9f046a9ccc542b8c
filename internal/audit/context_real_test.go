package audit_test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/supervision/records"
)

// hall is a real context perimeter with everything in it once.
type hall struct {
	t      *testing.T
	desk   desk
	ledger *sqlite.Ledger
	folder string
	tokens []string
	chains map[string]string // kind to id
	*perimeter.Perimeter
	project string
}

func newHall(t *testing.T) *hall {
	t.Helper()
	ctx, d := t.Context(), newDesk(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "countersign.db")
	must(t, sqlite.Create(ctx, path))
	l := got(sqlite.Open(ctx, path, sqlite.Options{}))(t)
	t.Cleanup(func() { l.Close() })
	p := perimeter.New(perimeter.Config{
		Ledger: l, Chains: records.New(l, ledger.DefaultWorkspace, d.key), Signing: d.key, Issuer: "http://localhost:8420", Workspace: ledger.DefaultWorkspace,
		MAC: func(parts ...string) []byte {
			mac := []byte(canon.Hash([]byte(strings.Join(parts, "\x00"))))
			return mac[:32]
		},
	})
	t.Cleanup(func() { p.Close() })
	g := &hall{t: t, desk: d, ledger: l, folder: folder, Perimeter: p, chains: map[string]string{}}

	g.project = got(p.CreateProject(ctx, "acme", "help", someHash))(t).ID
	file := "---\nid: refunds\ntitle: Refund policy\n---\nRefunds are paid within five days.\n"
	got(p.PutDocuments(ctx, g.project, []string{file}))(t)
	document, faults := content.ParseDocument([]byte(file))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	got(p.Publish(ctx, g.project, "production", false, content.NewManifest([]*content.Document{document}, nil), someHash))(t)

	named := g.client(project.Custom, project.Required)
	started := got(p.Start(ctx, named, rand.Text(), nil))(t)
	task, missing := "When are refunds paid?", "How are zebras trained?"
	got(p.Call(ctx, named, started.Turn.ID, tools.Request{Tool: turn.Compass, Task: &task}))(t)
	got(p.Call(ctx, named, started.Turn.ID, tools.Request{Tool: turn.Compass, Task: &missing}))(t)
	got(p.Observe(ctx, named, started.Turn.ID, rand.Text(), turn.Observation{Event: "pre_tool_use", Tool: "mcp__seif__compass", ToolUseID: "t"}))(t)
	gap := got(p.Call(ctx, named, started.Turn.ID, tools.Request{Tool: turn.ReportGap, Task: &missing}))(t)
	got(p.Complete(ctx, named, started.Turn.ID, rand.Text(), "completed", nil))(t)

	_, token, err := p.SharedToken(ctx, g.project, "production", "support", someHash)
	must(t, err)
	shared := got(p.Authenticate(ctx, token))(t)
	outside := got(p.Call(ctx, shared, "", tools.Request{Tool: turn.Compass, Task: &task}))(t)
	receipt := got(p.RecordBridge(ctx, g.client(project.Bridge, project.Absent), rand.Text(), "file.write", someHash))(t)
	_, next, err := p.RotateClient(ctx, g.project, named.Client.ID, someHash)
	must(t, err)
	got(p.RevokeClient(ctx, g.project, named.Client.ID, someHash))(t)
	g.tokens = append(g.tokens, token, next)
	g.chains = map[string]string{
		"project": g.project, "contextclient": named.Client.ID, "contextturn": started.Turn.ID, "interaction": outside.Interaction.ID, "bridge": receipt.ID, "gap": gap.Result.(*perimeter.GapResult).GapID,
	}
	return g
}

// client makes a named client and lets it in.
func (g *hall) client(kind, protocol string) *perimeter.Caller {
	g.t.Helper()
	_, token, err := g.CreateClient(g.t.Context(), g.project, project.ClientRequest{Name: "gateway", Kind: kind, Profile: "support", Environment: "production", TurnProtocol: protocol}, someHash)
	must(g.t, err)
	g.tokens = append(g.tokens, token)
	return got(g.Authenticate(g.t.Context(), token))(g.t)
}

func (g *hall) export(kind, id string) []byte {
	g.t.Helper()
	var b bytes.Buffer
	must(g.t, g.Export(g.t.Context(), g.project, kind, id, &b))
	return b.Bytes()
}

// What a perimeter really wrote verifies, of every kind, also when its texts are erased.
// The same chain without one of its deliveries does not, though all of it is signed anew.
//
// S-017: no token stands in the ledger's files or in evidence, only its SHA-256.
func TestRealContextChains(t *testing.T) {
	g := newHall(t)
	says := map[string]string{
		"project": "the project acme/help has selected Build 1 in production and nothing in staging", "bridge": "a bridge reported one file.write",
		"contextturn":   "the turn is COMPLETED_WITH_CONTEXT_DELIVERY with 1 context delivery, 1 observation and 0 late reports. ",
		"contextclient": "the client is of kind custom in production, its turn protocol required, its token of generation 2; it is revoked since ",
		"interaction":   "the interaction is a call of compass outside a turn, which handed out 1 item of Build 1 in production", "gap": "a client reported a gap for a task of Build 1 in production",
	}
	var written bytes.Buffer
	for kind, id := range g.chains {
		raw := g.export(kind, id)
		written.Write(raw)
		r := g.desk.verify(raw)
		if !r.OK() || !strings.HasPrefix(r.Lawfulness.Reason, "every transition is lawful; "+says[kind]) || says[kind] == "" {
			t.Errorf("%s: %s", kind, printed(t, r))
		}
		// What belongs to runs alone is said of no other chain.
		text := printed(t, r)
		for _, word := range []string{"store", "other run", "permitted action"} {
			if strings.Contains(text, word) {
				t.Errorf("%s: speaks of a %s: %s", kind, word, text)
			}
		}
		name := map[string]string{"contextturn": "context turn", "contextclient": "client", "bridge": "bridge receipt"}
		if called := cmp.Or(name[kind], kind); !strings.Contains(text, "\n  "+called+" "+id+", workspace") || !strings.Contains(text, "That no other "+called+" was left out") || !strings.Contains(text, "That what is recorded was right") {
			t.Errorf("%s: %s", kind, text)
		}
		erased := 0
		for _, text := range got(evidence.ReadExport(bytes.NewReader(raw)))(t).Texts {
			must(t, g.ledger.EraseText(t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: kind, ID: id}, text.Commitment))
			erased++
		}
		if r := g.desk.verify(g.export(kind, id)); !r.OK() || r.Texts.Present != 0 || r.Texts.Erased != erased {
			t.Errorf("%s with %d texts erased: %s", kind, erased, printed(t, r))
		}
	}

	x := got(evidence.ReadExport(bytes.NewReader(g.export("contextturn", g.chains["contextturn"]))))(t)
	var drafts []evidence.Draft
	for _, e := range x.Events {
		if e.Type != "context.delivered" {
			drafts = append(drafts, evidence.Draft{ID: e.ID, Type: e.Type, Data: json.RawMessage(e.Data)})
		}
	}
	// The start fixes when the turn ends, so that the chain has to keep its time.
	opened := got(evidence.ParseTime(x.Events[0].Timestamp))(t)
	events := got(evidence.Seal(g.desk.key, x.Subject.ID, evidence.Link{Hash: evidence.Genesis}, opened, drafts))(t)
	c := chain{export: x, signing: g.desk.key}
	last := events[len(events)-1]
	r := g.desk.verify(c.sealed(t, events, evidence.Link{Sequence: last.Sequence, Hash: last.Hash}))
	if r.OK() || !r.Report.OK() || len(r.Lawfulness.Unlawful) == 0 || r.Lawfulness.Unlawful[0].Rule != "state" {
		t.Errorf("a delivery is left out: %s", printed(t, r))
	}

	must(t, g.ledger.Close())
	for _, entry := range got(os.ReadDir(g.folder))(t) {
		written.Write(got(os.ReadFile(filepath.Join(g.folder, entry.Name())))(t))
	}
	for _, token := range g.tokens {
		if bytes.Contains(written.Bytes(), []byte(token)) {
			t.Errorf("the token %.10s… is stored", token)
		}
		if !bytes.Contains(written.Bytes(), []byte(canon.Hash([]byte(token)))) {
			t.Errorf("control: the hash of %.10s… was not found", token)
		}
	}
	if len(g.tokens) != 4 {
		t.Errorf("%d tokens", len(g.tokens))
	}
}
