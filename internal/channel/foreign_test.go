package channel_test

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"countersign/internal/ledger"
)

// belongings are what names things of one run, by kind. Whoever does not hold the run's
// own token, or asks for another kind of thing, finds nothing under them.
type belongings struct {
	*consumer
	permit *permit
	named  map[string]string
	key    string // taken
	target string // of an entry
}

// belongings makes a run that has one of everything, with a live permit.
func (h *house) belongings() *belongings {
	h.t.Helper()
	c, approval := h.prepared()
	h.owner("POST", "/runs/"+c.run+"/approve", approval).is(h.t, "approve", 200, "")
	b := &belongings{consumer: c, permit: c.allow(purchase[4])}
	_, entry := c.entry(purchase[4])
	v := h.view(c.run)
	executions := v["executions"].([]any)
	last := executions[len(executions)-1].(map[string]any)
	timeline := v["timeline"].([]any)
	b.target, b.key = entry["targetRef"].(string), "key-of-"+last["permitId"].(string)
	b.named = map[string]string{
		"run": c.run, "observation": c.ask("GET", "/observation", nil).text("observationId"), "turn": c.ask("GET", "/decision", nil).text("turnId"),
		"permit": b.permit.id, "proposal": approval["proposalId"].(string), "execution": last["executionId"].(string),
		"event":  timeline[0].(map[string]any)["id"].(string),
		"policy": h.policy(),
	}
	for kind, id := range b.named {
		if _, err := uuid.Parse(id); err != nil {
			h.t.Fatalf("the run has no %s: %v", kind, err)
		}
	}
	if _, err := h.ledger.Record(h.t.Context(), ledger.DefaultWorkspace, "run:"+c.run, b.key); err != nil {
		h.t.Fatalf("the key is not taken: %v", err)
	}
	return b
}

func policyBody() map[string]any {
	return map[string]any{
		"name": "Look and prepare", "service": "merchant", "environment": "local", "mode": "bounded", "budgetCents": "13700", "provider": "replay",
		"operations": []string{"merchant.catalog", "merchant.product"}, "channels": []string{"http"},
	}
}

func (h *house) policy() string {
	h.t.Helper()
	a := h.owner("POST", "/workspace/guardians", policyBody())
	a.is(h.t, "draft", 201, "")
	return a.text("guardianId")
}

// foreign is one thing of another run's, sent where only one's own would be found.
type foreign struct {
	what string
	send func(id string) answer
	id   string // the other run's; its counterpart is one that nobody has
	none string
}

// probe of an operation: what of another run's can be sent to it. Rows of operations that
// take nothing that could name another's say so.
type probe func(h *house, a *belongings) []foreign

func nothing(why string) probe {
	return func(*house, *belongings) []foreign { return nil }
}

var (
	takesNothing = nothing("no parameter and no member names anything")
	byName       = nothing("what it names is published, not made by a run")
	inPath       = nothing("its path alone names something, see pathProbes")
	ofProject    = nothing("it is about a project, see TestForeignProjects")
)

// probes are by operation of the document.
var probes = map[string]probe{
	"get-capabilities": takesNothing, "get-decision": takesNothing, "get-observation": takesNothing,
	"submit-report": func(h *house, a *belongings) []foreign {
		reports := func(what, id, none string, change func(r map[string]any, id string)) foreign {
			return foreign{what: what, id: id, none: none, send: func(id string) answer {
				b := h.in(nil)
				r := b.report(purchase[0])
				change(r, id)
				return b.ask("POST", "/turns", r)
			}}
		}
		return []foreign{
			reports("an observation", a.named["observation"], newID(), func(r map[string]any, id string) {
				r["justification"].(map[string]any)["evidenceRefs"] = []any{id}
			}),
			reports("a target", a.target, "tgt_"+strings.Repeat("A", len(a.target)-4), func(r map[string]any, id string) {
				r["candidates"].([]any)[0].(map[string]any)["action"].(map[string]any)["targetRef"] = id
			}),
			reports("a proposal", a.named["proposal"], newID(), func(r map[string]any, id string) {
				r["expectedEffect"].(map[string]any)["transactionProposalId"] = id
			}),
		}
	},
	"execute-operation": func(h *house, a *belongings) []foreign {
		mac := a.permit.token[strings.IndexByte(a.permit.token, '.'):]
		return []foreign{
			{what: "a permit", id: a.permit.token, none: newID() + mac, send: func(id string) answer {
				b := h.in(nil)
				p := b.allow(purchase[0])
				p.token = id
				return b.operate(p)
			}},
			{what: "a permit with its own action", id: a.permit.token, none: newID() + mac, send: func(id string) answer {
				b := h.in(nil)
				return b.operate(&permit{a.permit.id, id, a.permit.action})
			}},
			{what: "a taken key without a permit", id: a.key, none: "key-of-" + newID(), send: func(id string) answer {
				b := h.in(nil)
				p := b.allow(purchase[0])
				return b.ask("POST", "/operation", p.body(), set("X-Idempotency-Key", id))
			}},
			{what: "a taken key", id: a.key, none: "key-of-" + newID(), send: func(id string) answer {
				b := h.in(nil)
				return b.operate(b.allow(purchase[0]), set("X-Idempotency-Key", id))
			}},
			{what: "a target", id: a.target, none: "tgt_" + strings.Repeat("A", len(a.target)-4), send: func(id string) answer {
				b := h.in(nil)
				p := b.allow(purchase[0])
				p.action.(map[string]any)["targetRef"] = id
				return b.operate(p)
			}},
		}
	},
	"list-attacks": takesNothing, "run-attack": byName, "get-freeze": takesNothing, "freeze": takesNothing, "unfreeze": byName, "get-freeze-evidence": takesNothing,
	"get-hosting": takesNothing, "get-limits": takesNothing, "get-public-key": takesNothing, "get-specification": takesNothing, "get-status": takesNothing,
	"sign-in": takesNothing, "sign-out": takesNothing, "get-workspace": takesNothing, "get-inventory-evidence": takesNothing, "create-service": byName,
	"list-runs": func(h *house, a *belongings) []foreign {
		var list []foreign
		for _, kind := range []string{"observation", "execution", "policy"} {
			list = append(list, foreign{"the cursor " + kind, func(id string) answer { return h.owner("GET", "/runs?limit=1&cursor="+id, nil) }, older(a.named[kind]), older(newID())})
		}
		return list
	},
	"create-run": func(h *house, a *belongings) []foreign {
		var list []foreign
		for kind, id := range a.named {
			if kind != "policy" {
				list = append(list, foreign{"a " + kind + " as its policy", func(id string) answer {
					return h.owner("POST", "/runs", map[string]any{"service": "merchant", "channel": "http", "instruction": "Buy.", "guardianId": id})
				}, id, newID()})
			}
		}
		return list
	},
	"create-guardian": func(h *house, a *belongings) []foreign {
		return []foreign{{"a run as its service", func(id string) answer {
			body := policyBody()
			body["serviceId"] = id
			return h.owner("POST", "/workspace/guardians", body)
		}, a.run, newID()}}
	},
	"edit-guardian": inPath, "get-guardian": inPath, "get-guardian-evidence": inPath, "activate-guardian": inPath, "verify-guardian": inPath, "get-run": inPath, "get-evidence": inPath,
	"clarify-run": inPath, "simulate-run": inPath, "issue-session": inPath, "play-run": inPath, "step-run": inPath, "retry-run": inPath, "revoke-run": inPath,
	"approve-run": func(h *house, a *belongings) []foreign {
		b, _ := h.prepared()
		return []foreign{{"a proposal", func(id string) answer { return b.act("approve", map[string]any{"proposalId": id}) }, a.named["proposal"], newID()}}
	},
	"probe-run": func(h *house, a *belongings) []foreign {
		b := h.lost()
		return []foreign{{"an execution", func(id string) answer { return b.act("probe", map[string]any{"executionId": id}) }, a.named["execution"], newID()}}
	},
	"reconcile-run": func(h *house, a *belongings) []foreign {
		b := h.lost()
		return []foreign{{"an execution", func(id string) answer { return b.act("reconcile", stating(id)) }, a.named["execution"], newID()}}
	},
	"list-projects": takesNothing, "create-project": byName, "get-project": ofProject, "list-builds": ofProject, "get-project-evidence": ofProject, "list-gaps": ofProject, "list-clients": ofProject,
	"store-documents": ofProject, "missing-documents": ofProject, "publish-build": ofProject, "issue-shared-token": ofProject, "create-client": ofProject,
	"get-turn": ofProject, "get-turn-evidence": ofProject, "get-gap-evidence": ofProject, "get-interaction": ofProject, "get-interaction-evidence": ofProject,
	"get-client-evidence": ofProject, "rotate-client": ofProject, "revoke-client": ofProject,
	"list-turns": ofProject, "list-interactions": ofProject,
	"get-incident": sessionAsCookie("GET", ""), "get-incident-evidence": sessionAsCookie("GET", "/evidence"), "ask-incident": sessionAsCookie("POST", ""),
	"stream-events": func(h *house, a *belongings) []foreign {
		b := h.in(nil)
		return []foreign{{"the Last-Event-ID of an event", func(id string) answer {
			return h.owner("GET", "/runs/"+b.run+"/events", nil, set("Last-Event-ID", id))
		}, a.named["event"], newID()}}
	},
}

func stating(execution string) map[string]any {
	return map[string]any{"executionId": execution, "finding": "unknown", "note": "Nobody knows."}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// older is an id that is as old as no run of the test.
func older(id string) string { return "00000000" + id[8:] }

// likened is an answer without what differs between two of the same kind.
func likened(a answer, id string) string {
	text := strings.ReplaceAll(string(a.body), id, "ID")
	for pattern, name := range map[string]string{
		`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`: "UUID", `[0-9a-f]{64}`: "HASH", `tgt_[A-Za-z0-9_-]+`: "TARGET",
		`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`: "TIME", `(prj|cli|shr|trn|int|brg|gap|ses|rr)_[0-9a-f]{32}`: "${1}_ID", `browser session [0-9a-f]{12}`: "browser session ID", `"[A-Za-z0-9_.-]{80,}"`: `"TOKEN"`, `Micros":[0-9]+`: "Micros",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, name)
	}
	return fmt.Sprint(a.status, " ", a.header.Get("Content-Type"), " ", text)
}

// oracle says how the answers to another's id and to nobody's differ, or what the first
// tells of the other's things, "" when there is neither.
func (a *belongings) oracle(f foreign) string { return oracle(a.named, f) }

func oracle(named map[string]string, f foreign) string {
	theirs, nobodys := f.send(f.id), f.send(f.none)
	for kind, id := range named {
		if id != f.id && strings.Contains(string(theirs.body), id) {
			return fmt.Sprintf("%s is answered with the other's %s:\n%.700s", f.what, kind, theirs.body)
		}
	}
	if x, y := likened(theirs, f.id), likened(nobodys, f.none); x != y {
		return fmt.Sprintf("%s is told from one that is not there:\n%.700s\n%.700s", f.what, x, y)
	}
	return ""
}

// What belongs to one run, or is of another kind, is not found under any operation by
// whoever has no right to it: the answer is that to something which does not exist, byte
// for byte but for ids, times and digests of the asker's own. Nothing happens to whose it
// was.
func TestForeignIDs(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a := h.belongings()
	before := h.total(a.run)
	b := h.in(nil)
	tried := 0
	for _, o := range document().operations {
		if family(o.Path) == "context" {
			continue // see TestForeignClients
		}
		list := probes[o.ID]
		if list == nil {
			t.Errorf("%s has no row of what could be another's", o.ID)
			continue
		}
		var sent []foreign
		if strings.Contains(o.Path, "{id}") && family(o.Path) != "project" {
			sent = pathProbes(h, a, b, o)
		}
		sent = append(sent, list(h, a)...)
		for _, f := range sent {
			tried++
			if told := a.oracle(f); told != "" {
				t.Errorf("%s: %s", o.ID, told)
			}
		}
	}
	if tried < 150 {
		t.Errorf("%d probes", tried)
	}
	if n := h.total(a.run); n != before {
		t.Errorf("the other run has %d events, before %d", n, before)
	}
	a.operate(a.permit).is(t, "the other run's own permit afterwards", 200, "")
	// Control: the owner, who may see the run, is told it from one that is not there.
	if a.oracle(foreign{"a run", func(id string) answer { return h.owner("GET", "/runs/"+id, nil) }, a.run, newID()}) == "" {
		t.Error("control: a run that is shown is not told from one that is not there")
	}
	// Control: an answer with the other's things in it is found.
	if a.oracle(foreign{"a run", func(string) answer { return h.owner("GET", "/runs/"+a.run, nil) }, newID(), newID()}) == "" {
		t.Error("control: the other's things are not recognized")
	}
	for id := range probes {
		if !slices.ContainsFunc(document().operations, func(o *operation) bool { return o.ID == id }) {
			t.Errorf("%s has a row and is no operation", id)
		}
	}
}

// bodies are good bodies of the operations that name their subject in the path.
var bodies = map[string]func() any{
	"edit-guardian":     func() any { body := policyBody(); body["revision"] = 1; return body },
	"activate-guardian": func() any { return map[string]any{"revision": 1} },
	"verify-guardian":   func() any { return map[string]any{"revision": 1} },
	"approve-run":       func() any { return map[string]any{"proposalId": newID()} },
	"clarify-run":       func() any { return map[string]any{"clarification": "Go on."} },
	"simulate-run":      func() any { return map[string]any{"event": "provider_timeout"} },
	"probe-run":         func() any { return map[string]any{"executionId": newID()} },
	"reconcile-run":     func() any { return stating(newID()) },
}

// pathProbes are those of an operation whose path names its subject: to the owner, ids of
// every other kind; to the bearer of another run, and to those with no session or one that
// nobody has, every id.
func pathProbes(h *house, a *belongings, b *consumer, o *operation) (list []foreign) {
	own := "run"
	if strings.Contains(o.Path, "/guardians/") {
		own = "policy"
	}
	as := map[string][]edit{
		"the owner":        {h.asOwner(h.cookie)},
		"another's bearer": {h.asOwner(""), set("Authorization", "Bearer "+b.token)},
		"nobody":           {h.asOwner("")},
		"no session":       {h.asOwner(strings.Repeat("A", 43))},
	}
	for who, edits := range as {
		for kind, id := range a.named {
			if who == "the owner" && kind == own {
				continue
			}
			list = append(list, foreign{who + ", " + kind, func(id string) answer {
				var body any
				if f := bodies[o.ID]; f != nil {
					body = f()
				}
				response, err := h.client.Do(h.request(o.Method, strings.ReplaceAll(o.Path, "{id}", id), body, edits...))
				must(h.t, err)
				defer response.Body.Close()
				content, err := io.ReadAll(response.Body)
				must(h.t, err)
				return answer{response.StatusCode, response.Header, content}
			}, id, newID()})
		}
	}
	return list
}
