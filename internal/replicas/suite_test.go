package replicas_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"countersign/evidence"
	"countersign/internal/scripted"
)

// flow is one life of a run, or of something else that has a chain, whose every request
// goes to another replica than the one before. It returns the paths of its chains.
type flow struct {
	name string
	live func(h *house) (chains []string)
}

func chain(run string) string { return "/runs/" + run + "/evidence" }

// direct is a run whose agent reports over HTTP.
func direct(service, target, mode string) flow {
	return flow{"direct " + mode + " " + service + " " + target, func(h *house) []string {
		run := h.create(service, target, mode)
		a := h.agent(run)
		for _, id := range steps[service] {
			if h.view(run).text("stopContext", "reasonCode") == "APPROVAL_REQUIRED" {
				h.approve(run)
			}
			a.cycle(id)
		}
		h.completed(run, service)
		return []string{chain(run)}
	}}
}

// approve approves the prepared proposal as the owner is shown it.
func (h *house) approve(run string) {
	h.t.Helper()
	v := h.view(run)
	h.act(run, "approve", map[string]any{"proposalId": v.at("proposal", "proposalId"), "digest": v.at("proposal", "effectDigest")}).is(h.t, "approve", 200, "")
}

// managedRun is a run that goes on with its executor, a step or a play at a time.
func managedRun(service, target, mode, route string) flow {
	return flow{route + " " + mode + " " + service + " " + target, func(h *house) []string {
		run := h.create(service, target, mode)
		for n := 0; h.view(run).text("status") == "ready" && n < 16; n++ {
			h.act(run, route, map[string]any{}).is(h.t, route, 200, "")
			if v := h.view(run); v.text("stopContext", "reasonCode") == "APPROVAL_REQUIRED" {
				h.approve(run)
			}
		}
		h.completed(run, service)
		return []string{chain(run)}
	}}
}

// flows are the whole life of runs.
func flows() []flow {
	var list []flow
	for _, service := range []string{"merchant", "bank", "broker"} {
		list = append(list,
			direct(service, "local", "bounded"), direct(service, "local", "exact"),
			managedRun(service, "local", "bounded", "step"), managedRun(service, "local", "exact", "play"))
	}
	return append(list,
		direct("merchant", "hosted", "exact"), managedRun("merchant", "hosted", "bounded", "step"), managedRun("merchant", "hosted", "exact", "play"),
		flow{"the scripted agent and what it must not do", scriptedPurchase},
		flow{"a guardian policy", guardianPolicy},
		flow{"clarify and retry", clarifyAndRetry},
		flow{"a lost receipt", lostReceipt},
		flow{"revoke", revoked},
	)
}

// scriptedPurchase lets the example agent buy, with everything that it tries beside.
func scriptedPurchase(h *house) (chains []string) {
	for script, want := range map[string]string{"purchase": "completed", "overreach": "paused"} {
		run := h.create("merchant", "hosted", "bounded")
		a := scripted.Agent{Consumer: h.agent(run).Consumer, Record: func(scripted.Entry) {}}
		must(h.t, a.Play(h.t.Context(), script))
		if got := h.view(run).text("status"); got != want {
			h.t.Errorf("%s: the run is %s, want %s", script, got, want)
		}
		chains = append(chains, chain(run))
	}
	return chains
}

// guardianPolicy drafts, verifies and publishes a policy, and binds a run to it. A
// verification asks the replica that does it, whatever stands in front.
func guardianPolicy(h *house) []string {
	policy := map[string]any{
		"name": "Look and prepare", "service": "merchant", "environment": "local", "mode": "bounded", "budgetCents": "13700", "provider": "replay",
		"operations": []string{"merchant.catalog", "merchant.product"}, "channels": []string{"http"},
	}
	id := h.owner("POST", "/workspace/guardians", policy).is(h.t, "draft", 201, "").text("guardianId")
	path := "/workspace/guardians/" + id
	revision := map[string]any{"revision": 1}
	h.owner("POST", path+"/activate", revision).is(h.t, "activate a draft", 409, "GUARDIAN_NOT_VERIFIED")
	if r := h.owner("POST", path+"/verify", revision).is(h.t, "verify", 200, ""); r.at("verification", "passed") != true {
		h.t.Errorf("the verification: %s", r.body)
	}
	h.owner("POST", path+"/activate", revision).is(h.t, "activate", 200, "")
	run := h.owner("POST", "/runs", map[string]any{"service": "merchant", "channel": "http", "instruction": "Look.", "guardianId": id}).is(h.t, "a bound run", 201, "").text("runId")
	a := h.agent(run)
	a.cycle("merchant.catalog")
	a.cycle("product:fieldwork-keyboard")
	policy["revision"], policy["name"] = 1, "Look"
	h.owner("PUT", path, policy).is(h.t, "edit", 200, "")
	h.owner("PUT", path, policy).is(h.t, "the same edit again", 409, "REVISION_CONFLICT")
	return []string{chain(run), path + "/evidence"}
}

// clarifyAndRetry brings a run over two stops.
func clarifyAndRetry(h *house) []string {
	run := h.create("merchant", "local", "bounded")
	a := h.agent(run)
	altered := bytes.Replace(a.report("merchant.catalog"), []byte(`"args":{}`), []byte(`"args":{"altered":"yes"}`), 1)
	a.ask("POST", "/turns", altered).is(h.t, "an altered report", 200, "")
	h.act(run, "retry", map[string]any{}).is(h.t, "retry", 409, "RECOVERY_NOT_ELIGIBLE")
	h.act(run, "clarify", map[string]any{"clarification": "The keyboard is meant."}).is(h.t, "clarify", 200, "")
	a.cycle("merchant.catalog")
	h.act(run, "simulate", map[string]any{"event": "provider_timeout"}).is(h.t, "simulate", 200, "")
	a.ask("POST", "/turns", altered).is(h.t, "a report while it is stopped", 409, "RUN_NOT_READY")
	h.act(run, "retry", map[string]any{}).is(h.t, "retry", 200, "")
	for _, id := range steps["merchant"][1:] {
		a.cycle(id)
	}
	h.completed(run, "merchant")
	return []string{chain(run)}
}

// lostReceipt is an effect that is not known, and what the owner states about it.
func lostReceipt(h *house) []string {
	run := h.create("merchant", "local", "bounded")
	a := h.agent(run)
	a.cycle("merchant.catalog")
	h.act(run, "simulate", map[string]any{"event": "drop_receipt"}).is(h.t, "simulate", 200, "")
	p := a.allow("add:fieldwork-keyboard:1")
	headers := []string{"X-Step-Permit", p.token, "X-Idempotency-Key", "key-of-" + p.id}
	for range 3 { // every replica says the same
		a.ask("POST", "/operation", p.body, headers...).is(h.t, "operate", 502, "DISPATCH_UNCONFIRMED")
	}
	execution := h.view(run).at("executions", 1, "executionId")
	h.act(run, "retry", map[string]any{}).is(h.t, "retry", 409, "UNRESOLVED_EFFECT")
	h.act(run, "probe", map[string]any{"executionId": execution}).is(h.t, "probe", 200, "")
	statement := map[string]any{"executionId": execution, "finding": "not_applied"}
	for range 3 {
		h.act(run, "reconcile", statement).is(h.t, "reconcile", 200, "")
	}
	h.act(run, "retry", map[string]any{}).is(h.t, "retry", 200, "")
	a.cycle("product:fieldwork-keyboard")
	return []string{chain(run)}
}

// revoked ends a run, its permit and its token everywhere.
func revoked(h *house) []string {
	run := h.create("merchant", "local", "bounded")
	a := h.agent(run)
	p := a.allow("merchant.catalog")
	h.act(run, "revoke", map[string]any{}).is(h.t, "revoke", 200, "")
	for i := range 3 {
		a.ask("POST", "/operation", p.body, "X-Step-Permit", p.token, "X-Idempotency-Key", fmt.Sprint("after-the-revoke-", i)).is(h.t, "operate", 403, "PERMIT_REVOKED")
	}
	return []string{chain(run)}
}

// Design 1: three server processes on one database behind a client that goes to each in
// turn: the whole life of runs, every request at another replica, and every chain
// verifies with keys from outside, wherever it is exported.
func TestEveryRequestElsewhere(t *testing.T) {
	h := newHouse(t)
	executions := 0
	for _, f := range flows() {
		for _, path := range f.live(h) {
			events := h.export(path)
			executions += count(events, "execution.verified")
			for place := range h.replicas {
				if there := told(t, h.at(place).exported(path)); !slices.EqualFunc(there, events, func(a, b evidence.Event) bool { return a.Hash == b.Hash && a.Signature == b.Signature }) {
					t.Errorf("%s: %s exports another chain", f.name, h.replicas[place].Name)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("in the flow: %s", f.name)
		}
	}
	h.shares()
	// Each replica counts what it did itself, and together they have counted everything.
	done, answered := 0, 0
	for _, r := range h.replicas {
		n := r.Count("executions_total", `state="verified"`)
		if n == 0 {
			t.Errorf("%s has executed nothing", r.Name)
		}
		done += n
		answered += r.Requests()
	}
	if done != executions {
		t.Errorf("the replicas count %d executions, the chains have %d", done, executions)
	}
	t.Logf("%d executions in %d requests", executions, answered)
	h.orders(4)
}
