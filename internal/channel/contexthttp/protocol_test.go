package contexthttp_test

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
)

// S-031 S-033 S-034 S-035 S-036: a start answers 201 with an id of the server's, OPEN and
// an expiry 15 minutes later; the same request with the same key 200 with the same turn,
// as it is by now, and never another one. Bodies are the same when their redacted forms are.
func TestStart(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		token := h.required()
		const key = "the-key-of-one-start"
		secret := "Bearer " + token
		body := map[string]any{"clientRef": "job-7 " + secret}
		a := h.ask(token, "/turns/start", body, "Idempotency-Key", key).is(t, "start", "201")
		id := a.text("turn", "id")
		opened, err := evidence.ParseTime(a.text("turn", "openedAt"))
		must(t, err)
		expires, err := evidence.ParseTime(a.text("turn", "expiresAt"))
		must(t, err)
		if !regexp.MustCompile(`^trn_[0-9a-f]{32}$`).MatchString(id) || a.text("turn", "status") != "OPEN" || expires.Sub(opened) != 15*time.Minute || a.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s", a.body)
		}
		same := map[string]any{"clientRef": "job-7 Bearer " + h.required()}
		rows := h.rows()
		for _, again := range []any{body, same} {
			b := h.ask(token, "/turns/start", again, "Idempotency-Key", key).is(t, "the same start", "200")
			if b.text("turn", "id") != id || b.header.Get("Idempotency-Replayed") != "true" || b.text("turn", "status") != "OPEN" {
				t.Errorf("the same start: %s", b.body)
			}
		}
		if after := h.rows(); after != rows {
			t.Errorf("the ledger has %s, before %s", after, rows)
		}
		h.ask(token, "/turns/start", map[string]any{"clientRef": "job-8"}, "Idempotency-Key", key).is(t, "another body", "409 idempotency_conflict")
		h.ask(token, "/turns/start", map[string]any{}, "Idempotency-Key", key).is(t, "no clientRef", "409 idempotency_conflict")
		if other := h.open(token); other == id {
			t.Error("two starts have one id")
		}
		h.ask(token, "/turns/"+id+"/complete", completed).is(t, "complete", "200")
		b := h.ask(token, "/turns/start", body, "Idempotency-Key", key).is(t, "the same start after completion", "200")
		if b.text("turn", "id") != id || b.text("turn", "status") != turn.WithoutDelivery || b.text("turn", "completedAt") == "" {
			t.Errorf("the same start after completion: %s", b.body)
		}
		d, err := h.p.Turn(t.Context(), h.project, id)
		must(t, err)
		if d.ClientRef == nil || strings.Contains(*d.ClientRef, "seif_") || !strings.HasPrefix(*d.ClientRef, "job-7 [redacted:") {
			t.Errorf("clientRef is kept as %v", d.ClientRef)
		}
	})
}

// S-038 S-039 S-040 S-041 S-044: each of the seven tools answers in an open turn with its
// interaction and the turn's id, and is recorded in the turn; which of them are deliveries
// is G-32's.
func TestTools(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		token := h.required()
		id := h.open(token)
		deliveries, calls := 0, 0
		var compass string
		for _, c := range []struct {
			tool     string
			body     any
			want     string
			delivers bool
			has      []string
		}{
			{"compass", task, "200", true, []string{"verdict", "text", "items"}},
			{"compass", map[string]any{"task": "zebra quagga"}, "200", false, []string{"verdict", "text", "items"}},
			{"resolve", map[string]any{"ref": "refunds"}, "200", true, []string{"item"}},
			{"resolve", map[string]any{"ref": "nothing"}, "404 item_not_found", false, nil},
			{"find", map[string]any{"query": "parcels", "limit": 1}, "200", true, []string{"items"}},
			{"find", map[string]any{"query": "quagga"}, "200", false, []string{"items"}},
			{"why", map[string]any{"ref": "refunds"}, "200", true, []string{"provenance"}},
			{"report-gap", map[string]any{"task": "Refunds abroad"}, "201", false, []string{"gapId"}},
			{"report-gap", map[string]any{"task": "Refunds abroad"}, "201", false, []string{"gapId"}},
			{"test", map[string]any{"caseId": "money-back"}, "200", false, []string{"passed", "expected", "missing", "found"}},
			{"test", map[string]any{"task": "parcels", "expectRefs": []string{"shipping", "refunds"}}, "200", false, []string{"passed", "missing"}},
			{"doctor", map[string]any{}, "200", false, []string{"client", "profile", "environment", "protocol", "build", "clock"}},
			{"why", "interaction", "200", true, []string{"selection"}},
		} {
			if c.body == "interaction" {
				c.body = map[string]any{"interactionId": compass}
			}
			a := h.ask(token, "/"+c.tool, c.body, "X-SEIF-Turn-Id", id).is(t, c.tool, c.want)
			if a.status >= 300 {
				continue
			}
			calls++
			if c.delivers {
				deliveries++
			}
			if a.text("turnId") != id || a.text("interaction", "tool") != c.tool || !strings.HasPrefix(a.text("interaction", "id"), "int_") {
				t.Errorf("%s: %s", c.tool, a.body)
			}
			for _, name := range c.has {
				if _, there := a.value[name]; !there {
					t.Errorf("%s: no %s in %s", c.tool, name, a.body)
				}
			}
			if compass == "" {
				compass = a.text("interaction", "id")
			}
			i, err := h.p.Interaction(t.Context(), h.project, a.text("interaction", "id"))
			must(t, err)
			if i.Delivered != c.delivers || i.Turn == nil || *i.Turn != id {
				t.Errorf("%s: recorded as %+v", c.tool, i.InteractionView)
			}
			if handsText := strings.Contains(string(a.body), marker); handsText != slices.Contains([]string{"compass", "resolve", "find"}, c.tool) && c.delivers {
				t.Errorf("%s: text %v", c.tool, handsText)
			}
		}
		receipt := h.ask(token, "/turns/"+id+"/complete", completed).is(t, "complete", "200")
		if receipt.text("receipt", "status") != turn.WithDelivery || fmt.Sprint(receipt.value["receipt"].(map[string]any)["deliveries"]) != fmt.Sprint(deliveries) {
			t.Errorf("%d deliveries: %s", deliveries, receipt.body)
		}
		if n := h.recorded(id); n != calls {
			t.Errorf("%d calls are recorded, want %d", n, calls)
		}
		h.events(id)
	})
}

// S-059 S-060 S-063 S-069 S-072: what can be reported, and the state that it makes.
// The same completion with the same key gets the same receipt, whatever its note was
// redacted from; another one finds the turn closed.
func TestCompletion(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		token := h.required()
		for _, c := range []struct {
			status  string
			context bool
			want    string
		}{
			{"completed", true, turn.WithDelivery}, {"completed", false, turn.WithoutDelivery},
			{"cancelled", true, turn.ReportedCanceled}, {"cancelled", false, turn.ReportedCanceled}, {"failed", true, turn.ReportedFailed}, {"failed", false, turn.ReportedFailed},
		} {
			id := h.open(token)
			if c.context {
				h.ask(token, "/compass", task, "X-SEIF-Turn-Id", id).is(t, "compass", "200")
			}
			path, key := "/turns/"+id+"/complete", "the-key-of-"+id
			body := map[string]any{"status": c.status, "note": "mail to a@example.com"}
			first := h.ask(token, path, body, "Idempotency-Key", key).is(t, c.status, "200")
			if first.text("receipt", "status") != c.want || first.text("receipt", "reported") != c.status || first.text("receipt", "evidenceClass") != "reported" || first.header.Get("Idempotency-Replayed") != "" {
				t.Errorf("%+v: %s", c, first.body)
			}
			for _, note := range []string{"mail to a@example.com", "mail to b@example.org"} {
				again := h.ask(token, path, map[string]any{"status": c.status, "note": note}, "Idempotency-Key", key).is(t, "again", "200")
				if string(again.body) != string(first.body) || again.header.Get("Idempotency-Replayed") != "true" {
					t.Errorf("%+v again: %s\nfirst: %s", c, again.body, first.body)
				}
			}
			h.ask(token, path, map[string]any{"status": c.status}, "Idempotency-Key", key).is(t, "another note", "409 idempotency_conflict")
			h.ask(token, path, body).is(t, "a second completion", "409 turn_closed")
			h.ask(token, "/compass", task, "X-SEIF-Turn-Id", id).is(t, "context afterwards", "409 turn_closed")
			h.ask(token, "/turns/"+id+"/observations", observation).is(t, "an observation afterwards", "409 turn_closed")
			want := []string{"contextturn.opened", "contextturn.completed"}
			if c.context {
				want = slices.Insert(want, 1, "context.delivered")
			}
			if got := h.events(id); !slices.Equal(got, want) {
				t.Errorf("%+v: events %v", c, got)
			}
		}
	})
}

// S-049 S-057 S-058 S-064 S-070: a key that has completed one turn completes no other, and no key of
// one route is one of another.
func TestKeysOfOneRequest(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		token := h.required()
		one, other := h.open(token), h.open(token)
		key := func(name string) []string { return []string{"Idempotency-Key", "the-one-key-of-" + name} }
		routes := map[string]struct {
			path string
			body any
		}{
			"start": {"/turns/start", map[string]any{"clientRef": "x"}}, "observe": {"/turns/" + one + "/observations", observation}, "complete": {"/turns/" + one + "/complete", completed},
		}
		for _, name := range []string{"start", "observe", "complete"} {
			if a := h.ask(token, routes[name].path, routes[name].body, key(name)...); a.status >= 300 {
				t.Fatalf("%s: %s", name, a)
			}
		}
		before := h.rows()
		for _, used := range []string{"start", "observe", "complete"} {
			for name, r := range routes {
				if name != used {
					h.ask(token, r.path, r.body, key(used)...).is(t, name+" with the key of "+used, "409 idempotency_conflict")
				}
			}
		}
		h.ask(token, "/turns/"+other+"/complete", completed, key("complete")...).is(t, "the key of another turn", "409 idempotency_conflict")
		h.ask(token, "/turns/"+other+"/observations", observation, key("observe")...).is(t, "the key of another turn", "409 idempotency_conflict")
		h.ask(token, "/turns/"+one+"/complete", map[string]any{"status": "failed"}, key("complete")...).is(t, "another status", "409 idempotency_conflict")
		if after := h.rows(); after != before {
			t.Errorf("the ledger has %s, before %s", after, before)
		}
		if a := h.ask(token, "/turns/"+other+"/complete", completed).is(t, "a key of its own", "200"); a.text("receipt", "status") != "COMPLETED_WITHOUT_CONTEXT_DELIVERY" {
			t.Errorf("without a delivery: %s", a.body)
		}
		// A key is the client's: another may use the same.
		h.ask(h.required(), "/turns/start", map[string]any{"clientRef": "y"}, key("start")...).is(t, "another client's same key", "201")
	})
}

// S-048 S-056 S-071 S-077 S-078: after 15 minutes a turn takes nothing more. A first completion
// then is refused, counted and changes nothing; one that was accepted before is answered
// again. The client's clock has no part in it.
func TestExpiry(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		token := h.required()
		late, done := h.open(token), h.open(token)
		const key = "the-key-of-the-completion"
		first := h.ask(token, "/turns/"+done+"/complete", completed, "Idempotency-Key", key).is(t, "complete", "200")
		observed := h.ask(token, "/turns/"+late+"/observations", observation, "Idempotency-Key", "the-key-of-the-observation").is(t, "observe", "201")
		h.clock.Move(turn.Life - time.Second)
		h.ask(token, "/compass", task, "X-SEIF-Turn-Id", late).is(t, "a second before", "200")
		h.clock.Move(time.Second)
		h.ask(token, "/compass", task, "X-SEIF-Turn-Id", late).is(t, "context", "410 turn_expired")
		h.ask(token, "/turns/"+late+"/observations", observation).is(t, "an observation", "410 turn_expired")
		for n := range 3 {
			h.ask(token, "/turns/"+late+"/complete", completed, "Idempotency-Key", fmt.Sprintf("the-key-of-late-report-%d", n)).is(t, "a late completion", "410 turn_expired")
		}
		must(t, h.p.Settle(t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: turn.Kind, ID: late}))
		d, err := h.p.Turn(t.Context(), h.project, late)
		must(t, err)
		if d.Status != turn.Expired || d.LateReports != 3 || d.CompletedAt != nil || d.Reported != nil {
			t.Errorf("late: %+v", d.TurnView)
		}
		if got, want := fmt.Sprint(h.events(late)), "[contextturn.opened contextturn.observed context.delivered contextturn.expired contextturn.late contextturn.late contextturn.late]"; got != want {
			t.Errorf("late: %s", got)
		}
		again := h.ask(token, "/turns/"+done+"/complete", completed, "Idempotency-Key", key).is(t, "the completion again", "200")
		if string(again.body) != string(first.body) || again.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("the completion again: %s", again.body)
		}
		seen := h.ask(token, "/turns/"+late+"/observations", observation, "Idempotency-Key", "the-key-of-the-observation").is(t, "the observation again", "200")
		if string(seen.body) != string(observed.body) {
			t.Errorf("the observation again: %s\nfirst: %s", seen.body, observed.body)
		}
		h.ask(token, "/turns/"+done+"/complete", completed).is(t, "another completion of the ended turn", "409 turn_closed")
	})
}

// S-001 S-014: without the opt-in there are records of deliveries and no turn; the shared token
// reads and opens nothing. A bridge records what it saw, and nobody else does.
func TestOutsideATurn(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		_, shared, err := h.p.SharedToken(t.Context(), h.project, project.Production, "support", session)
		must(t, err)
		plain, bridge := h.client(project.Custom, project.Production, project.Absent), h.client(project.Bridge, project.Production, project.Absent)
		for what, token := range map[string]string{"a client without the opt-in": plain, "the shared token": shared} {
			a := h.ask(token, "/compass", task).is(t, what, "200")
			if v, there := a.value["turnId"]; v != nil || !there || !strings.Contains(string(a.body), marker) {
				t.Errorf("%s: %s", what, a.body)
			}
			i, err := h.p.Interaction(t.Context(), h.project, a.text("interaction", "id"))
			must(t, err)
			if i.Turn != nil || !i.Delivered {
				t.Errorf("%s: recorded as %+v", what, i.InteractionView)
			}
		}
		required := h.required()
		for token, want := range map[string]string{plain: "none", shared: "none", bridge: "none", required: "seif.http-turn.v1"} {
			headers := []string{}
			if token == required {
				headers = []string{"X-SEIF-Turn-Id", h.open(required)}
			}
			if a := h.ask(token, "/doctor", map[string]any{}, headers...).is(t, "doctor", "200"); a.text("protocol") != want {
				t.Errorf("the protocol is %s, want %s", a.text("protocol"), want)
			}
		}
		seen := map[string]any{"kind": "file.read", "digest": strings.Repeat("0a", 32)}
		first := h.ask(bridge, "/bridge/receipts", seen, "Idempotency-Key", "the-key-of-a-receipt").is(t, "a receipt", "201")
		if first.text("receipt", "evidenceClass") != "bridge-observed" {
			t.Errorf("%s", first.body)
		}
		again := h.ask(bridge, "/bridge/receipts", seen, "Idempotency-Key", "the-key-of-a-receipt").is(t, "the same receipt", "200")
		if string(again.body) != string(first.body) {
			t.Errorf("the same receipt: %s\nfirst: %s", again.body, first.body)
		}
		h.ask(plain, "/bridge/receipts", seen).is(t, "a receipt of a client that is no bridge", "403 bridge_client_required")
		if list, _, err := h.p.Turns(t.Context(), turnsOf(h)); err != nil || len(list) != 1 {
			t.Errorf("turns: %v, %v, want the one of the client that opted in", list, err)
		}
	})
}

// A client that hangs up as soon as it has sent its request: what was committed stays and
// is whole, and the same key finds it.
func TestHangUp(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		token := h.required()
		id := h.open(token)
		for n := range 20 {
			for path, body := range map[string]any{"/turns/start": map[string]any{}, "/turns/" + id + "/observations": observation, "/compass": task} {
				r := h.request(token, base+path, body, "X-SEIF-Turn-Id", id, "Idempotency-Key", fmt.Sprintf("the-key-of-a-hang-up-%d", n)+strings.ReplaceAll(path, "/", "-"))
				conn, err := net.Dial("tcp", h.addr)
				must(t, err)
				must(t, r.Write(conn))
				if n%2 == 0 {
					_, err := io.ReadFull(conn, make([]byte, 1))
					must(t, err)
				}
				must(t, conn.Close())
			}
		}
		keys := func(n int) []string {
			return []string{"Idempotency-Key", fmt.Sprintf("the-key-of-a-hang-up-%d", n) + "-turns-start"}
		}
		started := map[string]bool{}
		for n := range 20 {
			a := h.ask(token, "/turns/start", map[string]any{}, keys(n)...)
			if a.status != 200 && (n%2 == 0 || a.status != 201) {
				t.Errorf("start %d again: %s", n, a)
			}
			started[a.text("turn", "id")] = true
		}
		if len(started) != 20 {
			t.Errorf("%d turns of 20 starts", len(started))
		}
		receipt := h.ask(token, "/turns/"+id+"/complete", completed).is(t, "complete", "200")
		events := h.events(id)
		count := func(name string) (n int) {
			for _, e := range events {
				if e == name {
					n++
				}
			}
			return n
		}
		got := receipt.value["receipt"].(map[string]any)
		if n := count("context.delivered"); n < 10 || fmt.Sprint(got["deliveries"]) != fmt.Sprint(n) || fmt.Sprint(got["observations"]) != fmt.Sprint(count("contextturn.observed")) {
			t.Errorf("%v, receipt %s", events, receipt.body)
		}
	})
}
