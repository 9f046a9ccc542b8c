package perimeter_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"countersign/internal/authority"
	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/traces"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
)

// A Build never changes: what is published later is the next one, the same content again
// is none, and a draft is handed out until something is published over it.
func TestPublish(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		if b := h.publish(project.Staging, false, refunds[:2]...); b.Number != 1 || b.Unchanged || !b.Selected || b.Documents != 2 || b.Cases != 1 {
			t.Errorf("%+v", b)
		}
		first := h.publish(project.Staging, false, refunds[:2]...)
		if first.Number != 1 || !first.Unchanged {
			t.Errorf("%+v", first)
		}
		draft := h.publish(project.Staging, true, refunds...)
		if draft.Number != 0 || !draft.Draft || !draft.Selected {
			t.Errorf("%+v", draft)
		}
		_, token, err := h.SharedToken(t.Context(), h.project, project.Staging, "support", session)
		must(t, err)
		by := h.enter(token)
		a, err := h.compass(by, "", "invoices by mail")
		must(t, err)
		if b := a.Interaction.Build; !b.Draft || b.Number != 0 || b.Digest != draft.Digest {
			t.Errorf("%+v", b)
		}
		again := h.publish(project.Staging, false, refunds[:2]...)
		if again.Number != first.Number+1 || again.Digest != first.Digest {
			t.Errorf("%+v after %+v", again, first)
		}
		a, err = h.compass(by, "", "invoices by mail")
		must(t, err)
		if b := a.Interaction.Build; b.Draft || b.Number != again.Number || len(a.Result.(*tools.CompassAnswer).Items) != 0 {
			t.Errorf("%+v", a)
		}
		_, err = h.Publish(t.Context(), h.project, project.Production, true, manifest(t, refunds...), session)
		is(t, err, authority.InvalidRequest)
		h.lawful(project.Kind, h.project)
		builds, err := h.Builds(t.Context(), h.project)
		must(t, err)
		if len(builds) != 2 || !builds[0].Selected || builds[1].Selected {
			t.Errorf("%+v", builds)
		}
	})
}

// What is not stored, or not what the manifest says, is not published, and the environment
// stays as it is.
func TestNotPublished(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		try := func(m content.Manifest) {
			t.Helper()
			_, err := h.Publish(t.Context(), h.project, project.Production, false, m, session)
			is(t, err, authority.InvalidRequest)
		}
		try(manifest(t, refunds...)) // no document was sent
		_, err := h.PutDocuments(t.Context(), h.project, refunds[:2])
		must(t, err)
		try(manifest(t, refunds...))
		m := manifest(t, refunds[:2]...)
		m.Documents[0].Title = "Another"
		try(m)
		m = manifest(t, refunds[:2]...)
		m.Documents[0].Ref = "another"
		try(m)
		_, err = h.PutDocuments(t.Context(), h.project, []string{refunds[2], "no front matter"})
		is(t, err, authority.InvalidRequest)
		missing, err := h.MissingDocuments(t.Context(), h.project, hashes(t, refunds))
		must(t, err)
		if !slices.Equal(missing, hashes(t, refunds)[2:]) {
			t.Errorf("missing: %q", missing)
		}
		v, err := h.Project(t.Context(), h.project)
		must(t, err)
		if v.Environments.Production.Selected != "" {
			t.Errorf("%+v", v)
		}
		by, _ := h.client(project.Absent)
		_, err = h.compass(by, "", "refunds")
		is(t, err, turn.BuildMissing)
		a, err := h.Call(t.Context(), by, "", tools.Request{Tool: turn.Doctor})
		must(t, err)
		if d := a.Result.(*perimeter.DoctorResult); d.Build != nil || d.Protocol != "none" || d.Client.ID != by.Client.ID {
			t.Errorf("%+v", d)
		}
	})
}

func hashes(t *testing.T, files []string) (list []string) {
	for _, file := range files {
		d, faults := content.ParseDocument([]byte(file))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		list = append(list, d.SHA256)
	}
	return list
}

// Sixteen publications at once are numbered without a gap, and each is whole.
func TestPublishedAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		var mu sync.Mutex
		numbers := map[int64]string{}
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				file := document("one", "One", fmt.Sprintf("Edition %d.", i))
				if _, err := h.PutDocuments(t.Context(), h.project, []string{file}); err != nil {
					t.Error(err)
					return
				}
				b, err := h.Publish(t.Context(), h.project, project.Production, false, manifest(t, file), session)
				mu.Lock()
				defer mu.Unlock()
				if err != nil || numbers[b.Number] != "" {
					t.Errorf("%+v, %v", b, err)
				}
				numbers[b.Number] = b.Digest
			})
		}
		wg.Wait()
		for n := int64(1); n <= 16; n++ {
			if numbers[n] == "" {
				t.Errorf("no Build %d", n)
			}
		}
		h.lawful(project.Kind, h.project)
	})
}

// G-32: the same gap is one gap, whoever reports it, and its texts can be erased.
func TestGaps(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		by, _ := h.client(project.Absent)
		other, _ := h.client(project.Absent)
		task, another := "How do I return a parcel?", "How do I cancel?"
		report := func(by *perimeter.Caller, task string) string {
			t.Helper()
			a, err := h.Call(t.Context(), by, "", tools.Request{Tool: turn.ReportGap, Task: &task})
			must(t, err)
			return a.Result.(*perimeter.GapResult).GapID
		}
		id := report(by, task)
		if report(other, task) != id || report(by, another) == id {
			t.Error("one gap has two ids, or two have one")
		}
		list, _, err := h.Gaps(t.Context(), h.project, "", 0)
		must(t, err)
		i := slices.IndexFunc(list, func(g traces.GapView) bool { return g.ID == id })
		if len(list) != 2 || i < 0 || list[i].Client != by.Client.ID || *list[i].Task != task {
			t.Errorf("%+v", list)
		}
		if strings.Contains(id, "parcel") {
			t.Error(id)
		}
		h.lawful(project.KindGap, id)
	})
}

// What is asked for with the id of another project is not there.
func TestForeignProjects(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		h.publish(project.Production, false, refunds...)
		by, _ := h.client(project.Required)
		id := h.start(by)
		a, err := h.compass(by, id, "refunds")
		must(t, err)
		other, err := h.CreateProject(t.Context(), "acme", "sales", session)
		must(t, err)
		_, err = h.CreateProject(t.Context(), "acme", "sales", session)
		is(t, err, authority.AlreadyExists)
		_, err = h.Turn(t.Context(), other.ID, id)
		is(t, err, authority.NotFound)
		_, err = h.Interaction(t.Context(), other.ID, a.Interaction.ID)
		is(t, err, authority.NotFound)
		_, err = h.Client(t.Context(), other.ID, by.Client.ID)
		is(t, err, authority.NotFound)
		_, err = h.RevokeClient(t.Context(), other.ID, by.Client.ID, session)
		is(t, err, authority.NotFound)
		_, _, err = h.RotateClient(t.Context(), other.ID, by.Client.ID, session)
		is(t, err, authority.NotFound)
		for kind, id := range map[string]string{turn.Kind: id, project.KindClient: by.Client.ID, project.Kind: h.project, ledger.KindRun: id} {
			is(t, h.Export(t.Context(), other.ID, kind, id, &strings.Builder{}), authority.NotFound)
		}
		for _, q := range []traces.TurnQuery{{Project: other.ID}, {Project: other.ID, Client: by.Client.ID}} {
			list, _, err := h.Turns(t.Context(), q)
			must(t, err)
			if len(list) != 0 {
				t.Errorf("%+v", list)
			}
		}
		list, _, err := h.Interactions(t.Context(), traces.InteractionQuery{Project: other.ID, Turn: id})
		must(t, err)
		if len(list) != 0 {
			t.Errorf("%+v", list)
		}
	})
}

// Pages of 7 show each of 23 turns and interactions once, newest first.
func TestPages(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		by, _ := h.client(project.Required)
		var turns []string
		for range 23 {
			turns = append(turns, h.start(by))
		}
		for _, id := range turns {
			_, err := h.Call(t.Context(), by, id, tools.Request{Tool: turn.Doctor})
			must(t, err)
		}
		var seen []string
		for before := ""; ; {
			list, next, err := h.Turns(t.Context(), traces.TurnQuery{Project: h.project, Client: by.Client.ID, Status: turn.Open, Before: before, Limit: 7})
			must(t, err)
			for _, v := range list {
				seen = append(seen, v.ID)
			}
			if before = next; next == "" {
				break
			}
		}
		slices.Sort(turns)
		slices.Reverse(turns)
		if !slices.Equal(seen, turns) {
			t.Errorf("%d of %d turns", len(seen), len(turns))
		}
		var calls []string
		for before := ""; ; {
			list, next, err := h.Interactions(t.Context(), traces.InteractionQuery{Project: h.project, Before: before, Limit: 7})
			must(t, err)
			for _, v := range list {
				calls = append(calls, v.ID)
			}
			if before = next; next == "" {
				break
			}
		}
		if len(calls) != 23 || len(slices.Compact(slices.Clone(calls))) != 23 || !slices.IsSortedFunc(calls, func(a, b string) int { return strings.Compare(b, a) }) {
			t.Errorf("%d interactions: %q", len(calls), calls)
		}
	})
}

// Bounds of G-34: at most 100 open turns of a client, 100 context calls and 200 observations of a turn.
func TestLimits(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		by, _ := h.client(project.Required)
		var id string
		for range 100 {
			id = h.start(by)
		}
		_, err := h.Start(t.Context(), by, key(), nil)
		is(t, err, turn.LimitReached)
		for range 100 {
			_, err := h.Call(t.Context(), by, id, tools.Request{Tool: turn.Doctor})
			must(t, err)
		}
		_, err = h.Call(t.Context(), by, id, tools.Request{Tool: turn.Doctor})
		is(t, err, turn.LimitReached)
		for range 200 {
			_, err := h.Observe(t.Context(), by, id, key(), turn.Observation{Event: turn.PreToolUse, Tool: "mcp__seif__x", ToolUseID: "1"})
			must(t, err)
		}
		_, err = h.Observe(t.Context(), by, id, key(), turn.Observation{Event: turn.PreToolUse, Tool: "mcp__seif__x", ToolUseID: "1"})
		is(t, err, turn.LimitReached)
		_, err = h.Complete(t.Context(), by, id, key(), turn.Completed, nil)
		must(t, err)
		_, err = h.Start(t.Context(), by, key(), nil)
		must(t, err)
		h.clock.Move(turn.Life)
		_, err = h.Start(t.Context(), by, key(), nil)
		must(t, err)
	})
}
