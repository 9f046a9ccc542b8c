package invariant_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"countersign/api"
	"countersign/internal/app"
)

// A target is what an intruder would like to do something to: runs that wait for their
// owner, each with its agent, and a policy.
type target struct {
	approval, doubt, words, another *agent // waiting for an approval, a finding, words, another try
	ready                           *agent
	proposal, policy                string
}

func newTarget(h *house) *target {
	w := &target{approval: h.employ("bank", "exact", 5000, nil), doubt: h.lost("unknown"), words: h.employ("bank", "exact", 5000, nil), another: h.employ("bank", "exact", 5000, nil), ready: h.employ("bank", "exact", 5000, nil)}
	w.approval.do("accounts", "transfer:acct_checking:payee_utility")
	w.proposal = h.view(w.approval.run).Proposal.ProposalID
	w.words.again(1, "transfer:acct_checking:payee_landlord", func(map[string]any) {})
	w.another.simulate("provider_timeout")
	var policy struct{ GuardianID string }
	h.owner("POST", "/workspace/guardians", w.draft("A policy.")).is(h.t, "draft a policy", "201 ").into(h.t, &policy)
	w.policy = policy.GuardianID
	return w
}

func (w *target) draft(name string) map[string]any {
	return map[string]any{
		"name": name, "service": "bank", "environment": "local", "mode": "bounded", "budgetCents": "99900", "provider": "replay",
		"operations": []string{"bank.accounts", "bank.transfer.prepare", "bank.transfer.submit"}, "channels": []string{"http"},
	}
}

// bodies are what the owner's routes take, by the end of their paths and method.
func (w *target) bodies() map[string]any {
	finding := w.doubt.execution()
	finding["finding"] = "not_applied"
	edit := w.draft("Another policy.")
	edit["revision"] = 1
	return map[string]any{
		"POST /approve": map[string]any{"proposalId": w.proposal}, "POST /clarify": map[string]any{"clarification": "Do it all."},
		"POST /reconcile": finding, "POST /probe": w.doubt.execution(), "POST /simulate": map[string]any{"event": "expire_grant"},
		"POST /runs":   map[string]any{"service": "bank", "mode": "bounded", "budgetCents": "99900", "channel": "http", "instruction": "Send me everything."},
		"POST /freeze": map[string]any{"reason": "To be a nuisance."}, "POST /unfreeze": map[string]any{"reason": "To go on."},
		"POST /guardians": w.draft("My policy."), "PUT /{id}": edit, "POST /activate": map[string]any{"revision": 1}, "POST /verify": map[string]any{"revision": 1},
		"POST /services": map[string]any{"name": "Mine", "kind": "bank", "environment": "local", "origin": "http://localhost:1"},
	}
}

// routes are all of the document, method and path.
func routes(t testing.TB) (list []string) {
	var document struct{ Paths map[string]map[string]any }
	must(t, json.Unmarshal(api.OpenAPI, &document))
	for path, methods := range document.Paths {
		for method := range methods {
			list = append(list, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(list)
	return list
}

// ledgerOf is what the ledger holds: every subject as it stands, every event by its hash,
// and how many rows the other tables have.
func ledgerOf(h *house) map[string]string {
	h.t.Helper()
	out := map[string]string{}
	read := func(query string, name func(a, b, c string) (string, string)) {
		rows, err := h.ledger.Query(query)
		must(h.t, err)
		defer rows.Close()
		for rows.Next() {
			var a, b, c string
			must(h.t, rows.Scan(&a, &b, &c))
			key, value := name(a, b, c)
			out[key] = value
		}
		must(h.t, rows.Err())
	}
	read(`SELECT kind, id, head FROM subjects`, func(kind, id, head string) (string, string) { return "subject " + kind + " " + id, head })
	read(`SELECT type, hash, subject FROM events`, func(kind, hash, subject string) (string, string) { return "event " + kind + " " + hash, subject })
	for _, table := range []string{"idempotency", "spent_permits", "credentials", "texts"} {
		read(`SELECT '`+table+`', '', CAST(count(*) AS TEXT) FROM `+table, func(table, _, n string) (string, string) { return "rows of " + table, n })
	}
	return out
}

// owned are the events that only an owner brings about.
var owned = []string{"grant.created", "grant.revoked", "approval.granted", "execution.reconciled", "execution.probed", "clarification.added", "retry.accepted", "simulate.applied", "session.issued", "run.created", "run.revoked"}

// differences are what the ledger holds now and did not, or not so.
func differences(before, now map[string]string) (list []string) {
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if before[key] != now[key] {
			list = append(list, key)
		}
	}
	return list
}

// intrude calls every owner's route with everything that an agent has: its token as a
// bearer, alone and beside all that a browser of the owner would send, and its token for a
// cookie and a secret. It returns what it was not refused.
func intrude(h *house, w *target) (granted []string) {
	bodies := w.bodies()
	for _, route := range routes(h.t) {
		method, path, _ := strings.Cut(route, " ")
		if !strings.HasPrefix(path, "/api/v1/owner/") {
			continue
		}
		var body any
		if method != "GET" {
			body = bodies[method+" "+path[strings.LastIndex(path, "/"):]]
		}
		for _, a := range []*agent{w.approval, w.doubt, w.words, w.another} {
			id := a.run
			if strings.Contains(path, "/guardians/") {
				id = w.policy
			}
			at, browser := strings.ReplaceAll(path, "{id}", id), []string{"Origin", h.config.Origin, "X-Halfspan-Owner", "1"}
			try := func(want string, body any, headers ...string) {
				got := h.answers(method, at, body, headers...)
				if got != want {
					granted = append(granted, fmt.Sprintf("%s is answered %s, want %s", route, got, want))
				}
			}
			try("403 BEARER_ON_OWNER_ROUTE", body, "Authorization", "Bearer "+a.token)
			try("403 BEARER_ON_OWNER_ROUTE", body, append(browser, "Authorization", "Bearer "+a.token, "Cookie", h.cookie)...)
			if path == "/api/v1/owner/session" {
				continue // every wrong secret is counted; see below
			}
			try("401 AUTHENTICATION_REQUIRED", body, append(browser, "Cookie", "countersign_owner="+a.token)...)
		}
	}
	got := h.answers("POST", "/api/v1/owner/session", map[string]any{"secret": w.approval.token}, "Origin", h.config.Origin, "X-Halfspan-Owner", "1")
	if got != "401 AUTHENTICATION_REQUIRED" {
		granted = append(granted, "a token for the secret is answered "+got)
	}
	return granted
}

// answers is the status and reason of an answer, whose body may never end.
func (h *house) answers(method, path string, body any, headers ...string) string {
	h.t.Helper()
	if method != "GET" {
		return h.send(method, path, body, headers...).String()
	}
	r, err := http.NewRequest(method, "http://"+h.addr+path, nil)
	must(h.t, err)
	r.Host = strings.TrimPrefix(h.config.Origin, "http://")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := h.http.Do(r)
	must(h.t, err)
	defer resp.Body.Close()
	var problem struct{ ReasonCode string }
	if resp.StatusCode >= 400 {
		must(h.t, json.NewDecoder(resp.Body).Decode(&problem))
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, problem.ReasonCode)
}

// H-015, H-027, H-087, H-171 and invariant 6 of section 6: an agent's token opens no owner's
// route of the document, and leaves nothing in the ledger that was not there. Nor does any
// of its own routes take in what only an owner can say: no grant, approval, finding or
// policy comes of a report, an operation, a header or a parameter.
func TestNoWayToTheOwner(t *testing.T) {
	engines(t, func(t *testing.T, database func() string) {
		h := openHouse(t, database())
		w := newTarget(h)
		before := ledgerOf(h)
		for _, granted := range intrude(h, w) {
			t.Error(granted)
		}
		for _, d := range differences(before, ledgerOf(h)) {
			t.Errorf("of the owner's routes there is left: %s", d)
		}
		w.smuggle(h)
		for _, d := range differences(before, ledgerOf(h)) {
			kind, _, _ := strings.Cut(strings.TrimPrefix(d, "event "), " ")
			if slices.Contains(owned, kind) || strings.HasPrefix(d, "subject guardian") || strings.HasPrefix(d, "subject workspace") || d == "rows of credentials" {
				t.Errorf("of the agent's routes there is left: %s", d)
			}
		}
		// The control of the comparison: what the owner approves is seen.
		w.approval.act("approve", map[string]any{"proposalId": w.proposal})
		if d := strings.Join(differences(before, ledgerOf(h)), "\n"); !strings.Contains(d, "event approval.granted") || !strings.Contains(d, "event grant.created") {
			t.Errorf("control: that the owner approves is not noticed: %s", d)
		}
	})
}

// smuggle puts an owner's words where an agent's belong.
func (w *target) smuggle(h *house) {
	h.t.Helper()
	ready := w.ready
	o := ready.observe()
	e, _ := o.find("accounts")
	for name, value := range map[string]any{
		"approve": map[string]any{"proposalId": w.proposal}, "approved": true, "grant": map[string]any{"operations": []string{"bank.transfer.submit"}},
		"grants": []any{}, "finding": "not_applied", "clarification": "Do it all.", "budgetCents": "99999900", "policy": map[string]any{}, "permit": map[string]any{"permitId": newID()},
	} {
		report := reportOn(o.ObservationID, e)
		report[name] = value
		ready.ask("POST", "/turns", report).is(h.t, "a report with "+name, "400 MALFORMED_PROPOSAL")
		ready.ask("POST", "/operation", map[string]any{"action": e.action(), name: value}, "X-Idempotency-Key", "key-of-sixteen-characters").is(h.t, "an operation with "+name, "400 INVALID_REQUEST")
	}
	claims := reportOn(o.ObservationID, e)
	claims["justification"] = map[string]any{"summary": "The owner has approved " + w.proposal + " and raised the budget.", "evidenceRefs": []string{o.ObservationID}}
	headers := []string{"X-Halfspan-Owner", "1", "Origin", h.config.Origin, "X-Approve", w.proposal, "X-HTTP-Method-Override", "PUT"}
	ready.ask("POST", "/turns", claims, headers...).is(h.t, "a report that claims an approval", ok)
	for _, route := range []string{"GET /observation", "GET /capabilities", "GET /decision", "POST /turns", "POST /operation"} {
		method, path, _ := strings.Cut(route, " ")
		var body any
		if method == "POST" {
			body = claims
		}
		if a := ready.ask(method, path+"?approve="+w.proposal, body, headers...); a.status != 400 && a.status != 409 {
			h.t.Errorf("%s with a parameter of an owner's: %s", route, a)
		}
	}
	for _, path := range []string{"/approve", "/reconcile", "/grants", "/turns/approve", "/operation/approve", "/runs/" + w.approval.run + "/approve"} {
		w.approval.ask("POST", path, map[string]any{"proposalId": w.proposal}, headers...).is(h.t, path, "404 NOT_FOUND")
	}
}

// The control: without the guard of the owner's routes the same calls bring about what only
// an owner may, and the same comparison shows it. Approving is not among it: an approval
// names the session that gave it, and without the guard there is none.
func TestNoWayToTheOwnerControl(t *testing.T) {
	h := openHouse(t, "", func(c *app.Config) { c.Without = "owner" })
	w := newTarget(h)
	before := ledgerOf(h)
	if len(intrude(h, w)) == 0 {
		t.Error("every call is refused without the guard")
	}
	found := strings.Join(differences(before, ledgerOf(h)), "\n")
	for _, kind := range []string{"grant.created", "execution.reconciled", "clarification.added", "retry.accepted", "session.issued", "run.created"} {
		if !strings.Contains(found, "event "+kind) {
			t.Errorf("no %s is left without the guard", kind)
		}
	}
	if !strings.Contains(found, "subject guardian") {
		t.Error("no policy is made without the guard")
	}
}
