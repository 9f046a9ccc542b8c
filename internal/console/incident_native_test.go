package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/webmcp"
	"github.com/chromedp/chromedp"
)

// nativeBrowser starts a Chromium that has the API, which is behind a flag.
func nativeBrowser(t *testing.T) context.Context {
	t.Helper()
	home, err := os.MkdirTemp("", "countersign-chromium-")
	must(t, err)
	browser, stop, err := startBrowser(home, chromedp.Flag("enable-features", "WebMCP"))
	must(t, err)
	t.Cleanup(func() {
		stop()
		os.RemoveAll(home) // what it still writes while it ends is no matter
	})
	return browser
}

// The tools where the browser has the API (R-007, R-011, H-228, H-229). What runs below is
// required by the gate of make test: a browser without the API fails it.
func TestIncidentNative(t *testing.T) {
	t.Parallel()
	h, browser := newHouse(t), nativeBrowser(t)
	beside := func(test func(*testing.T, *house, *tab)) func(*testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			test(t, h, newTabIn(t, browser, chromedp.WithNewBrowserContext()))
		}
	}
	t.Run("page", beside(nativeInPage))
	t.Run("protocol", beside(nativeByProtocol))
	// H-229: each label by a probe of its own.
	t.Run("probes", beside(nativeProbes))
	// no argument and no annotation approves.
	t.Run("rejected", beside(nativeRejected))
}

// called is what a tool came to.
type called struct {
	Status     int    `json:"status"`
	ReasonCode string `json:"reasonCode"`
	Replayed   bool   `json:"replayed"`
	Result     struct {
		Compared  []string        `json:"compared"`
		Staged    *staged         `json:"staged"`
		Execution json.RawMessage `json:"execution"`
	} `json:"result"`
	Receipt *struct {
		Sequence int64 `json:"sequence"`
		Data     struct {
			Channel string  `json:"channel"`
			Tool    *string `json:"tool"`
		} `json:"data"`
	} `json:"receipt"`
	Snapshot struct {
		Status          string  `json:"status"`
		ResourceVersion int     `json:"resourceVersion"`
		Staged          *staged `json:"staged"`
	} `json:"snapshot"`
}

type staged struct {
	ActionDigest    string `json:"actionDigest"`
	ResourceVersion int    `json:"resourceVersion"`
	IdempotencyKey  string `json:"idempotencyKey"`
}

// tool calls a tool through the page's own document.modelContext.
func (b *tab) tool(name string, input any) (c called) {
	b.t.Helper()
	raw, err := json.Marshal(input)
	must(b.t, err)
	out := eval[string](b, fmt.Sprintf(`document.modelContext.getTools().then((all) => document.modelContext.executeTool(all.find((t) => t.name === %q), %s))`, name, raw))
	must(b.t, json.Unmarshal([]byte(out), &c))
	return c
}

// The whole workflow by an agent's calls in the page, and the person's one press between them.
func nativeInPage(t *testing.T, h *house, b *tab) {
	b.expect("403")
	b.expect("409")
	b.visit(h)
	b.wantLabels("yes", "yes", "unknown", "unknown")
	if eval[bool](b, `document.querySelector("#simulator").checkVisibility()`) {
		t.Error("there is a simulator beside the API")
	}
	nativeWorkflow(t, b, b.tool)
}

// nativeWorkflow is what an agent does with the tools, however it calls them.
func nativeWorkflow(t *testing.T, b *tab, tool func(name string, input any) called) {
	t.Helper()
	if c := tool("get_incident_snapshot", object{}); c.Status != 200 || c.Receipt.Data.Channel != "webmcp" || *c.Receipt.Data.Tool != "get_incident_snapshot" || c.Snapshot.ResourceVersion != 1 {
		t.Fatalf("get_incident_snapshot: %+v", c)
	}
	if c := tool("compare_mitigations", object{}); !slices.Equal(c.Result.Compared, []string{"restore-pool", "shift-traffic", "scale-workers"}) {
		t.Errorf("compare_mitigations: %+v", c)
	}
	s := tool("stage_mitigation", object{"mitigationId": "restore-pool", "expectedVersion": 1}).Result.Staged
	if s == nil || s.ResourceVersion != 2 {
		t.Fatalf("stage_mitigation: %+v", s)
	}
	b.shows("#digest", s.ActionDigest) // by itself
	if c := tool("stage_mitigation", object{"mitigationId": "shift-traffic", "expectedVersion": 1}); c.Status != 409 || c.ReasonCode != "stale_state" || c.Receipt != nil {
		t.Errorf("an old version: %+v", c)
	}
	action := object{"actionDigest": s.ActionDigest, "resourceVersion": s.ResourceVersion, "idempotencyKey": s.IdempotencyKey}
	if c := tool("execute_approved_mitigation", action); c.Status != 403 || c.ReasonCode != "approval_required" || c.Receipt == nil || c.Snapshot.Status != "awaiting-approval" {
		t.Errorf("without an approval: %+v", c)
	}
	b.click("approve")
	b.shows("#approval", "active")
	first := tool("execute_approved_mitigation", action)
	if first.Status != 200 || first.Replayed || first.Snapshot.Status != "mitigated" || first.Receipt.Data.Channel != "webmcp" {
		t.Errorf("execute_approved_mitigation: %+v", first)
	}
	again := tool("execute_approved_mitigation", action)
	if again.Status != 200 || !again.Replayed || string(again.Result.Execution) != string(first.Result.Execution) {
		t.Errorf("the retry: %+v", again)
	}
	b.reaches("mitigated", 3)
	b.receipts(7)
	b.shows("#receipt-6", "webmcp")
	b.shows("#receipt-5", "human")
	if c := tool("reset_incident_simulation", object{"expectedVersion": 3}); c.Status != 200 || c.Snapshot.Status != "investigating" {
		t.Errorf("reset_incident_simulation: %+v", c)
	}
	b.reaches("investigating", 4)
}

// The same by the browser's own protocol, as a program beside the page calls them.
func nativeByProtocol(t *testing.T, h *house, b *tab) {
	b.expect("403")
	b.expect("409")
	b.visit(h)
	target := chromedp.FromContext(b.ctx).Target
	tree, err := chromedp.Call(b.ctx, page.GetFrameTree, cdp.Empty{})
	must(t, err)
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	responded, stop := iter.Pull2(chromedp.Events(ctx, webmcp.ToolResponded))
	defer stop()
	must(t, target.Call(ctx, "WebMCP.enable", nil, nil))
	nativeWorkflow(t, b, func(name string, input any) (c called) {
		t.Helper()
		var invoked struct {
			InvocationID string `json:"invocationId"`
		}
		// By its name, as this browser wants it: the typed command has another shape.
		must(t, target.Call(ctx, "WebMCP.invokeTool", object{"frameId": tree.FrameTree.Frame.ID, "toolName": name, "input": input}, &invoked))
		for {
			r, err, more := responded()
			if err != nil || !more {
				t.Fatalf("%s: no response: %v", name, err)
			}
			if r.InvocationID != invoked.InvocationID {
				continue
			}
			if r.Status != "Completed" {
				t.Fatalf("%s: %s %s", name, r.Status, r.ErrorText)
			}
			output := []byte(r.Output)
			if text := ""; json.Unmarshal(output, &text) == nil {
				output = []byte(text)
			}
			must(t, json.Unmarshal(output, &c))
			return c
		}
	})
}

// Each label is true only after its own probe, and what is registered is five bounded tools
// with their hints, none of which approves.
func nativeProbes(t *testing.T, h *house, b *tab) {
	b.expect("412")
	b.expect("422")
	b.visit(h)
	b.wantLabels("yes", "yes", "unknown", "unknown")
	if checks := eval[[]string](b, `[...document.querySelectorAll("#checks li")].map((l) => l.className)`); len(checks) < 8 || slices.Contains(checks, "no") {
		t.Errorf("checked: %v", checks)
	}
	b.click("probe-invoke")
	b.shows("#label-invoked", "yes")
	b.shows("#label-invoked", "with an object; receipt 1")
	b.wantLabels("yes", "yes", "yes", "unknown")
	b.click("probe-enforce")
	b.shows("#label-enforced", "One execution was refused: nothing_staged, probed by a call through the browser")
	b.wantLabels("yes", "yes", "yes", "unshown")
	b.receipts(2)
	b.shows("#receipt-2", "webmcp")
	b.accessible("incident-native")
	// Anew: what was probed before is forgotten. With something staged the reason is another.
	b.click("stage-restore-pool")
	b.reaches("awaiting-approval", 2)
	b.visit(h)
	b.wantLabels("yes", "yes", "unknown", "unknown")
	b.click("probe-enforce")
	b.shows("#label-enforced", "stale_execution")
	b.wantLabels("yes", "yes", "unknown", "yes")
	b.reaches("awaiting-approval", 2)

	type registered struct {
		Name        string `json:"name"`
		InputSchema struct {
			AdditionalProperties *bool          `json:"additionalProperties"`
			Properties           map[string]any `json:"properties"`
			Required             []string       `json:"required"`
		} `json:"inputSchema"`
		Annotations struct {
			ReadOnly      bool `json:"readOnlyHint"`
			Consequential bool `json:"consequentialHint"`
		} `json:"annotations"`
	}
	tools := map[string]registered{}
	for _, one := range eval[[]registered](b, `document.modelContext.getTools().then((all) => all.map(({name, inputSchema, annotations}) => ({name, inputSchema: typeof inputSchema === "string" ? JSON.parse(inputSchema) : inputSchema, annotations: annotations ?? {}})))`) {
		tools[one.Name] = one
		if one.InputSchema.AdditionalProperties == nil || *one.InputSchema.AdditionalProperties {
			t.Errorf("%s takes any argument", one.Name)
		}
		if strings.HasPrefix(one.Name, "approve") {
			t.Errorf("%s", one.Name)
		}
	}
	for name, want := range map[string]struct {
		takes               []string
		reads, consequences bool
	}{
		"get_incident_snapshot": {nil, true, false}, "compare_mitigations": {[]string{"mitigationId"}, true, false},
		"stage_mitigation":            {[]string{"expectedVersion", "mitigationId"}, false, false},
		"execute_approved_mitigation": {[]string{"actionDigest", "idempotencyKey", "resourceVersion"}, false, true},
		"reset_incident_simulation":   {[]string{"expectedVersion"}, false, false},
	} {
		got, found := tools[name]
		var takes []string
		for property := range got.InputSchema.Properties {
			takes = append(takes, property)
		}
		slices.Sort(takes)
		if !found || !slices.Equal(takes, want.takes) || got.Annotations.ReadOnly != want.reads || got.Annotations.Consequential != want.consequences {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if len(tools) != 5 {
		t.Errorf("%d tools", len(tools))
	}
}

// The browser checks no argument against the schema; the server does. No argument makes a
// tool approve.
func nativeRejected(t *testing.T, h *house, b *tab) {
	b.expect("403")
	b.expect("422")
	b.visit(h)
	s := b.tool("stage_mitigation", object{"mitigationId": "restore-pool", "expectedVersion": 1}).Result.Staged
	b.shows("#digest", s.ActionDigest)
	nonce := eval[string](b, `document.querySelector("[name=formNonce]").value`)
	for name, input := range map[string]object{
		"another type":         {"actionDigest": 1, "resourceVersion": "two", "idempotencyKey": nil},
		"another operation":    {"operation": "approve", "channel": "human", "actionDigest": s.ActionDigest, "resourceVersion": 2, "formNonce": nonce},
		"the nonce beside it":  {"actionDigest": s.ActionDigest, "resourceVersion": 2, "idempotencyKey": s.IdempotencyKey, "formNonce": nonce},
		"a claim":              {"actionDigest": s.ActionDigest, "resourceVersion": 2, "idempotencyKey": s.IdempotencyKey, "approved": true},
		"a member that is not": {"zz": 1},
	} {
		if c := b.tool("execute_approved_mitigation", input); c.Status == 200 || c.Status < 400 || c.Receipt != nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if got := b.asked(`{operation: "approve", channel: "webmcp", actionDigest: "` + s.ActionDigest + `", resourceVersion: 2, formNonce: "` + nonce + `"}`); got != "403 approval_required" {
		t.Errorf("an approval through the tools' channel: %s", got)
	}
	b.reaches("awaiting-approval", 2)
	if b.has("#approval") {
		t.Error("something is approved")
	}
}
