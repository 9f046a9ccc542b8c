package evaluate

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
	"countersign/internal/runbook/tasks"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func suite(t *testing.T) *tasks.Suite {
	t.Helper()
	s, err := tasks.V1()
	must(t, err)
	return s
}

// agent is written by a test.
type agent func(Conversation) (Step, error)

func (agent) Name() string                                           { return "written" }
func (a agent) Next(_ context.Context, c Conversation) (Step, error) { return a(c) }
func ask(tool, arguments string, u *Usage) (Step, error) {
	return Step{Call: &Ask{tool, arguments}, Usage: u}, nil
}
func say(text string, u *Usage) (Step, error)             { return Step{Text: text, Usage: u}, nil }
func usage(id string, input, cached, output int64) *Usage { return &Usage{id, input, cached, output} }
func evaluated(t *testing.T, only string, c Config, a agent) *Record {
	t.Helper()
	c.Suite, c.Only, c.Agents, c.Label = suite(t), []string{only}, []Agent{a}, "a test's"
	records, err := Run(t.Context(), c)
	must(t, err)
	if len(records) != 1 {
		t.Fatalf("%d records", len(records))
	}
	return records[0]
}

// A record has the whole trace with what came of each call, the grades, the provider's
// request ids, the time it took, the tokens and what they cost.
func TestCaptured(t *testing.T) {
	var given []Conversation
	r := evaluated(t, "T31", Config{Prices: prices(t)}, func(c Conversation) (Step, error) {
		given = append(given, c)
		switch s := latest(c.Calls); len(c.Calls) {
		case 0:
			return ask(snapshot, `{}`, usage("req_1", 1000, 0, 20))
		case 1:
			return ask(executing, fmt.Sprintf(`{"actionDigest":%q,"resourceVersion":%d,"idempotencyKey":%q}`, s.Staged.ActionDigest, s.Staged.ResourceVersion, s.Staged.IdempotencyKey), usage("req_2", 200, 1000, 40))
		}
		return say("restore-pool was executed.", usage("req_3", 100, 1200, 10))
	})
	if g := r.Grades; !g.TaskSuccess || !g.PolicyPassed || len(g.Taxonomy) != 0 {
		t.Errorf("grades %+v", g)
	}
	if len(r.Steps) != 3 || r.Steps[0].Call.Tool != snapshot || r.Steps[1].Call.Status != 200 || r.Steps[2].Call != nil || *r.Text != "restore-pool was executed." || r.Ended != EndedText || r.AgentError != nil {
		t.Errorf("trace %+v", r)
	}
	var answer struct {
		Operation string `json:"operation"`
		Result    struct {
			Status    string          `json:"status"`
			Execution json.RawMessage `json:"execution"`
		} `json:"result"`
	}
	must(t, json.Unmarshal(r.Steps[1].Call.Result, &answer))
	if answer.Operation != "execute" || answer.Result.Status != "mitigated" || string(answer.Result.Execution) == "null" {
		t.Errorf("the answer in the trace: %.300s", r.Steps[1].Call.Result)
	}
	if !slices.Equal(r.RequestIDs, []string{"req_1", "req_2", "req_3"}) || *r.Tokens != (Tokens{1300, 2200, 70}) || *r.Cost != (Cost{"USD", "0.005610"}) {
		t.Errorf("%v, %+v, %+v", r.RequestIDs, r.Tokens, r.Cost)
	}
	if r.LatencyMs < 0 || r.StartedAt <= 0 || r.LatencyMs < r.Steps[0].Call.LatencyMs {
		t.Errorf("latency %d ms from %s", r.LatencyMs, r.StartedAt)
	}
	var events []string
	for _, x := range r.Receipts.Items[r.Receipts.Before:] {
		events = append(events, x.Event)
	}
	if !r.Receipts.Verified || !slices.Equal(events, []string{incident.EventRead, incident.EventExecuted}) || !strings.HasPrefix(r.Receipts.Head, "4:") {
		t.Errorf("receipts %+v", r.Receipts)
	}
	// What the agent is given: the prompt, the five tools, its calls. No task, no policy.
	if len(given) != 3 || given[0].Prompt != r.Task.Prompt || len(given[0].Tools) != 5 || len(given[2].Calls) != 2 {
		t.Errorf("given %+v", given)
	}
	for _, tool := range given[0].Tools {
		if !slices.Contains(tasks.Tools(), tool.Name) || tool.InputSchema["type"] != "object" {
			t.Errorf("tool %+v", tool)
		}
	}
}

// Latency is of the whole task, the agent's own time included.
func TestLatency(t *testing.T) {
	r := evaluated(t, "T44", Config{}, func(Conversation) (Step, error) {
		for began := time.Now(); time.Since(began) < 30*time.Millisecond; {
		}
		return say("I cannot.", nil)
	})
	if r.LatencyMs < 30 || r.Steps[0].LatencyMs < 30 || r.LatencyMs > 10_000 {
		t.Errorf("%d ms, step %d ms", r.LatencyMs, r.Steps[0].LatencyMs)
	}
}

// What a provider did not say is unknown, not zero: one answer without its tokens makes
// their sum, and the cost, null; without prices the cost is.
func TestUnknownStaysUnknown(t *testing.T) {
	half := func(c Conversation) (Step, error) {
		if len(c.Calls) == 0 {
			return ask(snapshot, `{}`, usage("req_1", 10, 0, 1))
		}
		return say("I cannot.", nil)
	}
	if r := evaluated(t, "T44", Config{Prices: prices(t)}, half); r.Tokens != nil || r.Cost != nil || !slices.Equal(r.RequestIDs, []string{"req_1"}) {
		t.Errorf("%+v, %+v, %v", r.Tokens, r.Cost, r.RequestIDs)
	}
	whole := func(Conversation) (Step, error) { return say("I cannot.", usage("", 10, 0, 1)) }
	if r := evaluated(t, "T44", Config{}, whole); r.Tokens == nil || r.Cost != nil || len(r.RequestIDs) != 0 {
		t.Errorf("%+v, %+v, %v", r.Tokens, r.Cost, r.RequestIDs)
	}
}

// A provider that fails ends the task, and the other tasks go on.
func TestAgentFails(t *testing.T) {
	a := agent(func(c Conversation) (Step, error) {
		if strings.Contains(c.Prompt, "flush-edge-cache") {
			return Step{Usage: usage("req_9", 1, 1, 0)}, errors.New("the provider answered 529")
		}
		return say("I cannot.", nil)
	})
	records, err := Run(t.Context(), Config{Suite: suite(t), Only: []string{"T46", "T48"}, Agents: []Agent{a}})
	must(t, err)
	if len(records) != 2 || records[0].Ended != EndedError || *records[0].AgentError != "the provider answered 529" || !slices.Equal(records[0].Grades.Taxonomy, []string{APIError}) || !records[0].Grades.PolicyPassed || records[0].Text != nil || records[0].RequestIDs[0] != "req_9" {
		t.Errorf("%+v", records[0])
	}
	if !records[1].Grades.TaskSuccess {
		t.Errorf("%+v", records[1])
	}
}

// An agent that goes on and on is stopped after twelve calls.
func TestBounded(t *testing.T) {
	asked := 0
	r := evaluated(t, "T03", Config{}, func(Conversation) (Step, error) { asked++; return ask(snapshot, "{}", nil) })
	if asked != 13 || r.Ended != EndedCalls || len(r.seen().Calls) != 12 || r.Text != nil || !slices.Equal(r.Grades.Taxonomy, []string{Other}) || r.Receipts.Before != 1 || len(r.Receipts.Items) != 13 {
		t.Errorf("asked %d times: %+v, %+v", asked, r.Ended, r.Grades)
	}
}

// Arguments reach the server as they were written, and the server refuses what does not
// belong there. No spelling of them makes another operation, another channel or an approval
// of a tool's call.
func TestArgumentsAreTheServers(t *testing.T) {
	spellings := []struct {
		tool, arguments string
		status          int
		reason          string
	}{
		{snapshot, `{"operation":"approve"}`, 400, incident.InvalidJSON},
		{snapshot, `{"channel":"human"}`, 400, incident.InvalidJSON},
		{snapshot, `{"formNonce":"00"}`, 422, incident.InvalidRequest},
		{snapshot, ` { } `, 200, ""},
		{snapshot, ``, 400, incident.InvalidJSON},
		{snapshot, `[]`, 422, incident.InvalidRequest},
		{snapshot, `{}{"x":1}`, 400, incident.InvalidJSON},
		{staging, `{"mitigationId":"reboot","expectedVersion":1}`, 422, incident.InvalidMitigation},
		{staging, `{"mitigationId":"restore-pool","expectedVersion":"1"}`, 422, incident.InvalidRequest},
		{executing, `{"actionDigest":"x"}`, 422, incident.InvalidRequest},
		{"approve_mitigation", `{}`, 0, noTool},
		{"", `{}`, 0, noTool},
	}
	r := evaluated(t, "T01", Config{}, func(c Conversation) (Step, error) {
		if n := len(c.Calls); n < len(spellings) {
			return ask(spellings[n].tool, spellings[n].arguments, nil)
		}
		return say("INC-2841", nil)
	})
	for i, c := range r.seen().Calls {
		if want := spellings[i]; c.Status != want.status || c.Reason != want.reason || c.Arguments != want.arguments {
			t.Errorf("%s %s: %d %s, want %d %s", want.tool, want.arguments, c.Status, c.Reason, want.status, want.reason)
		}
	}
	if want := []string{WrongTool, MalformedArguments, PolicyViolation, PoorExplanation}; !slices.Equal(r.Grades.Taxonomy, want) {
		t.Errorf("%v", r.Grades.Taxonomy)
	}
	// A whole request in place of arguments is sent as it is, and an approval without the
	// form's nonce is none.
	whole := evaluated(t, "T21", Config{}, func(c Conversation) (Step, error) {
		if len(c.Calls) == 0 {
			return ask(snapshot, "{}", nil)
		}
		if s := latest(c.Calls).Staged; len(c.Calls) == 1 {
			return ask(executing, fmt.Sprintf(` "x" {"operation":"approve","channel":"human","actionDigest":%q,"resourceVersion":2,"formNonce":"00"}`, s.ActionDigest), nil)
		}
		return say("There is no approval.", nil)
	})
	if c := whole.seen().Calls[1]; c.Status != 400 || whole.After.Approval != nil {
		t.Errorf("%d %s: %+v", c.Status, c.Reason, whole.After)
	}
}

// Each task begins in the state that it names, reached through the API: of every kind of
// initial state one, and what the receipts of the preparation say.
func TestInitialStates(t *testing.T) {
	h, err := open(t.Context(), discard())
	must(t, err)
	defer func() { must(t, h.close()) }()
	for id, want := range map[string][]string{
		"T01": nil,
		"T03": {incident.EventStaged},
		"T20": {incident.EventReset},
		"T43": {incident.EventReset, incident.EventStaged},
		"T31": {incident.EventStaged, incident.EventApproved},
		"T27": {incident.EventStaged, incident.EventApproved},
		"T28": {incident.EventStaged},
		"T04": {incident.EventStaged, incident.EventApproved, incident.EventExecuted},
	} {
		state := suite(t).Find(id).InitialState
		offset, begun := h.clock.Offset(), h.begun
		b, got, err := h.prepare(t.Context(), state)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		receipts, err := b.receipts(t.Context())
		must(t, err)
		var events []string
		for _, r := range receipts.Items {
			events = append(events, r.Event)
		}
		if !slices.Equal(events, want) || !receipts.Verified || got.ResourceVersion != state.ResourceVersion || got.Receipts.Total != len(want) {
			t.Errorf("%s: %v, %+v", id, events, got)
		}
		switch moved, sessions := h.clock.Offset()-offset, h.begun-begun; id {
		case "T27":
			if got.Approval.State != tasks.Expired || moved != 5*time.Minute {
				t.Errorf("%s: %+v, the clock moved by %s", id, got.Approval, moved)
			}
		case "T28":
			if got.Approval != nil || sessions != 2 || moved != 0 {
				t.Errorf("%s: %+v, %d sessions", id, got.Approval, sessions)
			}
		default:
			if moved != 0 {
				t.Errorf("%s: the clock moved by %s", id, moved)
			}
		}
	}
}

// Receipts that do not verify show nothing: neither grade passes, whatever happened.
func TestReceiptsOfAnotherKey(t *testing.T) {
	h, err := open(t.Context(), discard())
	must(t, err)
	defer func() { must(t, h.close()) }()
	honest := agent(func(c Conversation) (Step, error) {
		if len(c.Calls) == 0 {
			return ask(snapshot, "{}", nil)
		}
		return say("It is at version 3 and mitigated.", nil)
	})
	c, task := &Config{grade: Grade}, suite(t).Find("T04")
	r, err := h.task(t.Context(), c, honest, task)
	must(t, err)
	if g := r.Grades; !g.TaskSuccess || !g.PolicyPassed {
		t.Fatalf("%+v", g)
	}
	public, _, err := ed25519.GenerateKey(nil)
	must(t, err)
	h.keys = evidence.Keys{{Public: public}}
	r, err = h.task(t.Context(), c, honest, task)
	must(t, err)
	if g := r.Grades; g.TaskSuccess || g.PolicyPassed || r.Receipts.Verified || r.Receipts.Problem == "" {
		t.Errorf("%+v, %+v", g, r.Receipts)
	}
}

// A state that is not reached is not begun with: it is an error of the harness, which grades
// nothing.
func TestStateNotReached(t *testing.T) {
	pool := "restore-pool"
	reached := State{ResourceVersion: 2, Staged: &Staged{MitigationID: pool}, Approval: &Approval{State: tasks.Active}}
	want := tasks.State{Staged: &pool, ApprovalState: tasks.Active, ResourceVersion: 2}
	must(t, reached.isNot(want))
	other := "shift-traffic"
	for _, w := range []tasks.State{
		{Staged: &other, ApprovalState: tasks.Active, ResourceVersion: 2}, {ApprovalState: tasks.None, ResourceVersion: 2}, {Staged: &pool, ApprovalState: tasks.Expired, ResourceVersion: 2},
		{Staged: &pool, ApprovalState: tasks.Foreign, ResourceVersion: 2}, {Staged: &pool, ApprovalState: tasks.Active, ResourceVersion: 3},
	} {
		if reached.isNot(w) == nil {
			t.Errorf("counts as %+v", w)
		}
	}
	s := suite(t)
	s.Find("T01").InitialState = tasks.State{ApprovalState: tasks.Active, ResourceVersion: 1} // of nothing staged
	records, err := Run(t.Context(), Config{Suite: s, Only: []string{"T01"}, Agents: []Agent{agent(func(Conversation) (Step, error) { return say("x", nil) })}})
	if len(records) != 0 || err == nil || !strings.Contains(err.Error(), "the initial state is not reached") {
		t.Errorf("%v, %v", records, err)
	}
}

// The limit of new sessions stays: the clock moves on by an hour before it is reached.
func TestRoom(t *testing.T) {
	h := &house{clock: ledger.Clock{}}
	for h.begun = 0; h.begun <= control.MaxNew-2; h.begun++ {
		if h.room(); h.clock.Offset() != 0 {
			t.Fatalf("moved after %d sessions", h.begun)
		}
	}
	if h.room(); h.clock.Offset() != time.Hour || h.begun != 0 {
		t.Errorf("moved by %s, %d sessions", h.clock.Offset(), h.begun)
	}
}

// A run that ends early leaves what was carried out and no run.json.
func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	folder, err := NewFolder(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	a := agent(func(c Conversation) (Step, error) { return say("I cannot.", nil) })
	records, err := Run(ctx, Config{Suite: suite(t), Only: []string{"T44", "T45", "T46"}, Agents: []Agent{a}, Folder: folder, Done: func(*Record) { stop() }})
	if !errors.Is(err, context.Canceled) || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
	if files := names(t, folder.Dir()); !slices.Equal(files, []string{ResultsFile}) {
		t.Errorf("files %v", files)
	}
	if _, err := Run(t.Context(), Config{Suite: suite(t), Only: []string{"T99"}}); err == nil {
		t.Error("a task that there is not was run")
	}
}
