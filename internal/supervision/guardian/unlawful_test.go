package guardian_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/supervision/guardian"
)

// Every rule of the machine names the chain that breaks it, though every event of it is
// hashed and signed.
func TestUnlawful(t *testing.T) {
	w := published(t)
	first := func(m map[string]any) map[string]any { return m["tests"].([]any)[6].(map[string]any) } // caller.no_token
	for _, c := range []struct {
		name, event, rule string
		change            func(map[string]any)
	}{
		{"a bad policy is drafted", "guardian.drafted", "policy", func(m map[string]any) { m["policy"].(map[string]any)["mode"] = "free" }},
		{"an old revision is verified", "verification.started", "verification-revision", func(m map[string]any) { m["revision"] = 7 }},
		{"a verification without end", "verification.started", "verification-life", func(m map[string]any) { m["until"] = dawn.Add(time.Minute + time.Millisecond) }},
		{"a verification that ends before it begins", "verification.started", "verification-life", func(m map[string]any) { m["until"] = dawn }},
		{"a verification that was not started", "verification.completed", "verification-unknown", func(m map[string]any) { m["verificationId"] = "other" }},
		{"the end of another revision's", "verification.completed", "verification-unknown", func(m map[string]any) { m["revision"] = 2 }},
		{"passed without having passed", "verification.completed", "verification-passed", func(m map[string]any) { first(m)["result"] = "failed" }},
		{"failed though all has passed", "verification.completed", "verification-passed", func(m map[string]any) { m["passed"] = false }},
		{"a test is missing", "verification.completed", "tests", func(m map[string]any) { m["tests"] = m["tests"].([]any)[1:] }},
		{"a test is there twice", "verification.completed", "tests", func(m map[string]any) { m["tests"] = append(m["tests"].([]any), first(m)) }},
		{"another answer was observed", "verification.completed", "test-result", func(m map[string]any) { first(m)["observed"].(map[string]any)["status"] = 200 }},
		{"no answer was observed", "verification.completed", "test-result", func(m map[string]any) { first(m)["observed"] = nil }},
		{"another answer was expected", "verification.completed", "test-result", func(m map[string]any) {
			other := map[string]any{"status": 200, "reasonCode": ""}
			first(m)["expected"], first(m)["observed"] = other, other
		}},
		{"nothing was expected", "verification.completed", "test-result", func(m map[string]any) { first(m)["expected"] = nil }},
		{"a request without a result", "verification.completed", "test-result", func(m map[string]any) { first(m)["result"] = "not_measured" }},
		{"a check that expects an answer", "verification.completed", "test-result", func(m map[string]any) {
			m["tests"].([]any)[0].(map[string]any)["expected"] = map[string]any{"status": 200, "reasonCode": ""}
		}},
		{"a result that is none", "verification.completed", "test-result", func(m map[string]any) { m["tests"].([]any)[0].(map[string]any)["result"] = "fine" }},
		{"a test before the verification", "verification.completed", "test-time", func(m map[string]any) { first(m)["at"] = dawn.Add(-time.Millisecond) }},
		{"a test behind its end", "verification.completed", "test-time", func(m map[string]any) { first(m)["at"] = dawn.Add(time.Millisecond) }},
		{"another revision is published", "guardian.published", "publication-revision", func(m map[string]any) { m["revision"] = 2 }},
		{"another verification is named", "guardian.published", "publication-unverified", func(m map[string]any) { m["verificationId"] = "other" }},
		{"a version is left out", "guardian.published", "version", func(m map[string]any) { m["version"] = 2 }},
		{"another policy is published", "guardian.published", "published-policy", func(m map[string]any) { m["policy"].(map[string]any)["budgetCents"] = "99" }},
		{"a member too many", "guardian.published", "event-data", func(m map[string]any) { m["more"] = 1 }},
		{"a member too few", "guardian.published", "event-data", func(m map[string]any) { delete(m, "version") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := rules(w.tamper(c.event, c.change)); len(got) == 0 || got[0] != c.rule {
				t.Errorf("broken rules %v, want %s first", got, c.rule)
			}
		})
	}
	if got := rules(w.events); len(got) != 0 {
		t.Errorf("control: the chain as it was breaks %v", got)
	}
}

// chained is a chain of hand-made events at their times behind dawn.
func chained(t *testing.T, events ...timed) []evidence.Event {
	t.Helper()
	head := evidence.Link{Hash: evidence.Genesis}
	var out []evidence.Event
	for i, e := range events {
		sealed, err := evidence.Seal(key, policyID, head, dawn.Add(e.after).Time(), []evidence.Draft{{ID: string(rune('a' + i)), Type: e.kind, Data: e.data}})
		must(t, err)
		out, head = append(out, sealed...), evidence.Link{Sequence: sealed[0].Sequence, Hash: sealed[0].Hash}
	}
	return out
}

type timed struct {
	kind  string
	after time.Duration
	data  any
}

func named(kind, id string, machine int64) evidence.Subject {
	s := subject(id)
	s.Kind, s.Machine, s.Format = kind, machine, evidence.Format
	return s
}

func drafted(p guardian.Policy) timed {
	return timed{"guardian.drafted", 0, &guardian.Drafted{Subject: named("guardian", policyID, 1), Policy: p}}
}

func started(id string, revision int64, after time.Duration) timed {
	return timed{"verification.started", after, &guardian.Started{VerificationID: id, Revision: revision, Until: dawn.Add(after + time.Minute)}}
}

func completed(id string, after time.Duration, p guardian.Policy) timed {
	return timed{"verification.completed", after, &guardian.Completed{VerificationID: id, Revision: 1, Passed: true, Runs: []string{}, Tests: passed(p, dawn)}}
}

func TestUnlawfulOrder(t *testing.T) {
	publication := func(p guardian.Policy, after time.Duration) timed {
		return timed{"guardian.published", after, &guardian.PublishedEvent{Version: 1, Revision: 1, VerificationID: "v", Policy: p}}
	}
	custom := policy(func(p *guardian.Policy) { p.Service = "custom" })
	remote := policy(func(p *guardian.Policy) { p.Environment = "staging" })
	for _, c := range []struct {
		name, rule string
		events     []timed
	}{
		{"an hour behind the verification", "publication-late", []timed{drafted(policy()), started("v", 1, 0), completed("v", 0, policy()), publication(policy(), time.Hour)}},
		{"never verified", "publication-unverified", []timed{drafted(policy()), publication(policy(), 0)}},
		{"a custom service is verified", "not-built", []timed{drafted(custom), started("v", 1, 0)}},
		{"a remote service is verified", "not-built", []timed{drafted(remote), started("v", 1, 0)}},
		{"two at a time", "verification-twice", []timed{drafted(policy()), started("v", 1, 0), started("w", 1, time.Minute-time.Millisecond)}},
		{"one identifier twice", "twice", []timed{drafted(policy()), started("v", 1, 0), started("v", 1, time.Minute)}},
		{"the end after it was given up", "verification-late", []timed{drafted(policy()), started("v", 1, 0), completed("v", time.Minute, policy())}},
		{"an edit skips a revision", "revision", []timed{drafted(policy()), {"guardian.edited", 0, &guardian.Edited{Revision: 3, Policy: policy()}}}},
		{"a bad edit", "policy", []timed{drafted(policy()), {"guardian.edited", 0, &guardian.Edited{Revision: 2, Policy: policy(badPolicies["mode"])}}}},
		{"drafted twice", "first-event", []timed{drafted(policy()), drafted(policy())}},
		{"time goes back", "time-order", []timed{drafted(policy()), {"guardian.edited", -time.Millisecond, &guardian.Edited{Revision: 2, Policy: policy()}}}},
		{"an unknown event", "event-type", []timed{drafted(policy()), {"guardian.painted", 0, struct{}{}}}},
		{"an event of the inventory", "event-type", []timed{drafted(policy()), {"guardian.listed", 0, &guardian.Listed{GuardianID: policyID}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := rules(chained(t, c.events...)); len(got) == 0 || got[0] != c.rule {
				t.Errorf("broken rules %v, want %s first", got, c.rule)
			}
		})
	}
	t.Run("a remote service is published", func(t *testing.T) {
		got := rules(chained(t, drafted(remote), started("v", 1, 0), completed("v", 0, remote), publication(remote, 0)))
		if want := []string{"not-built", "test-result", "not-built"}; !slices.Equal(got, want) { // its environment cannot have passed
			t.Errorf("broken rules %v, want %v", got, want)
		}
	})
	t.Run("longer than a chain may be", func(t *testing.T) {
		events := []timed{drafted(policy())}
		for i := range guardian.MaxEvents {
			events = append(events, timed{"guardian.edited", 0, &guardian.Edited{Revision: int64(i) + 2, Policy: policy()}})
		}
		if got := rules(chained(t, events...)); !slices.Equal(got, []string{"event-limit"}) {
			t.Errorf("broken rules %v, want event-limit alone, at the last event", got)
		}
	})
	t.Run("no time", func(t *testing.T) {
		events := chained(t, drafted(policy()))
		events[0].Timestamp = "yesterday"
		if got := rules(events); !slices.Equal(got, []string{"timestamp"}) {
			t.Errorf("broken rules %v", got)
		}
	})
}

// A chain of another kind or machine is not replayed: its lawfulness is not proved.
func TestForeign(t *testing.T) {
	known := func(e timed) bool {
		r := guardian.NewReplay()
		for _, event := range chained(t, e, timed{"guardian.edited", 0, &guardian.Edited{Revision: 2, Policy: policy()}}) {
			r.Apply(event)
		}
		return r.Known()
	}
	if !known(drafted(policy())) {
		t.Error("control: a policy of this machine is not known")
	}
	for name, e := range map[string]timed{
		"another machine":     {"guardian.drafted", 0, &guardian.Drafted{Subject: named("guardian", policyID, 2), Policy: policy()}},
		"another kind":        {"guardian.drafted", 0, &guardian.Drafted{Subject: named("run", policyID, 1), Policy: policy()}},
		"another first event": {"guardian.edited", 0, map[string]any{"subject": named("guardian", policyID, 1)}},
		"no subject":          {"guardian.drafted", 0, map[string]any{}},
	} {
		if known(e) {
			t.Errorf("%s is known", name)
		}
	}
	if guardian.NewReplay().Known() {
		t.Error("an empty chain is known")
	}
	// The first event is folded by its own rules too.
	odd := named("guardian", policyID, 1)
	odd.Format = "other/1"
	raw, err := json.Marshal(map[string]any{"subject": odd, "policy": policy()})
	must(t, err)
	if got := rules(chained(t, timed{"guardian.drafted", 0, json.RawMessage(raw)})); len(got) != 0 {
		t.Errorf("a subject of another format breaks %v; it is foreign", got)
	}
}
