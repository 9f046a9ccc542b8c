package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// heard is what one of many who asked at once was told.
type heard struct {
	answer *control.Answer
	reason string
}

// atOnce has everybody ask at once, each once.
func atOnce(t *testing.T, asks []func() (*control.Answer, string, error)) []heard {
	t.Helper()
	all, gate := make([]heard, len(asks)), make(chan struct{})
	var wg sync.WaitGroup
	for i, ask := range asks {
		wg.Go(func() {
			<-gate
			a, reason, err := ask()
			if err != nil {
				t.Errorf("request %d: %v", i, err)
				return
			}
			all[i] = heard{a, reason}
		})
	}
	close(gate)
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// account holds what everybody was told against the receipts that the chain got meanwhile:
// one execution, told alike to all who repeat it, and no receipt but those of the answers.
func account(all []heard, chain []evidence.Event) (wrong []string) {
	left, record, executions := map[string]bool{}, "", 0
	for _, e := range chain {
		left[e.Hash] = true
	}
	for _, h := range all {
		if e := h.answer.Receipt; e != nil {
			if !left[e.Hash] {
				wrong = append(wrong, "an answer has a receipt that the chain does not have")
			}
			delete(left, e.Hash)
		}
		x := h.answer.Result.Execution
		switch {
		case h.reason != "" && x != nil:
			wrong = append(wrong, "a refusal tells an execution")
		case x == nil:
			continue
		case !h.answer.Replayed:
			executions++
		}
		raw, err := json.Marshal(x)
		if err != nil {
			panic(err)
		}
		if record != "" && record != string(raw) {
			wrong = append(wrong, "two records are told")
		}
		record = string(raw)
	}
	if executions != 1 {
		wrong = append(wrong, fmt.Sprintf("%d executions are told that are no replays", executions))
	}
	if len(left) != 0 {
		wrong = append(wrong, fmt.Sprintf("%d receipts nobody was answered with", len(left)))
	}
	return wrong
}

// tally counts reasons, with "ok" and "replayed" for none.
func tally(all []heard) map[string]int {
	n := map[string]int{}
	for _, h := range all {
		switch {
		case h.reason != "":
			n[h.reason]++
		case h.answer.Replayed:
			n["replayed"]++
		default:
			n[ok]++
		}
	}
	return n
}

// only fails when somebody was told something else.
func only(t *testing.T, all []heard, reasons ...string) {
	t.Helper()
	for reason, n := range tally(all) {
		if !slices.Contains(reasons, reason) {
			t.Errorf("%d were told %s", n, reason)
		}
	}
}

const many = 64

// 64 requests to execute one approved action, at two processes: exactly one does, under
// the same key, under other keys, and under the key from other sessions.,
//
func TestExecutedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		// Others have the same action staged and approved, and use this session's key.
		var others []*browser
		for i := range 4 {
			b := &browser{h: h, remote: "192.0.2." + fmt.Sprint(10+i)}
			b.approved("restore-pool")
			others = append(others, b)
		}
		for _, without := range []string{"", "line"} { // with it the requests of a process wait for each other
			config := h.config
			config.Without, config.Keys = without, nil // the chain is verified afterwards, and not in 64 answers
			places := []*control.Plane{control.New(config), control.New(config)}
			for what, ask := range map[string]func(i int, b *browser, s *incident.Staged) (*browser, *incident.Staged){
				"the same key": func(_ int, b *browser, s *incident.Staged) (*browser, *incident.Staged) { return b, s },
				"other keys": func(i int, b *browser, s *incident.Staged) (*browser, *incident.Staged) {
					c := *s
					if i%8 != 0 {
						c.IdempotencyKey = fmt.Sprintf("rr_%032x", i)
					}
					return b, &c
				},
				"other sessions": func(i int, b *browser, s *incident.Staged) (*browser, *incident.Staged) {
					if i%2 != 0 {
						return others[i/2%len(others)], s
					}
					return b, s
				},
			} {
				if without == "" && what != "the same key" {
					continue
				}
				t.Run(what+" without "+without, func(t *testing.T) {
					outer := h.t
					h.t = t
					defer func() { h.t = outer }()
					b := &browser{h: h}
					s := b.approved("restore-pool")
					before, id := len(b.chain()), b.now().Session.ID
					theirs := map[*browser]int64{}
					for _, o := range others {
						theirs[o] = o.now().Receipts.Total
					}
					var asks []func() (*control.Answer, string, error)
					by := make([]*browser, many)
					for i := range many {
						who, in := ask(i, b, s)
						by[i] = who
						asks = append(asks, func() (*control.Answer, string, error) {
							at := *who
							at.on = places[i/8%2]
							return at.ask(incident.Request{Operation: incident.Execute, Channel: incident.API, Input: executing(in)}, "")
						})
					}
					all := atOnce(t, asks)
					t.Log(tally(all))
					own := slices.DeleteFunc(slices.Clone(all), func(x heard) bool { return x.answer.Snapshot.Session.ID != id })
					chain := b.chain()
					for _, w := range account(own, chain[before:]) {
						t.Error(w)
					}
					only(t, own, ok, "replayed", incident.StaleExecution, incident.ApprovalConsumed, incident.ExecutionConflict)
					if n := tally(own); what != "other keys" && n[incident.StaleExecution]+n[incident.ApprovalConsumed] > 0 {
						t.Errorf("an exact retry was refused: %v", n)
					}
					for _, x := range own {
						if silent := x.reason == incident.ExecutionConflict; silent && x.answer.Receipt != nil {
							t.Error("who lost too often left a receipt")
						}
					}
					for o, n := range theirs {
						var its []heard
						for i, who := range by {
							if who == o {
								its = append(its, all[i])
							}
						}
						only(t, its, incident.IdentityMismatch, incident.ExecutionConflict)
						left := int64(0)
						for _, x := range its {
							if x.answer.Receipt != nil {
								left++
							}
						}
						if got := o.now().Receipts.Total - n; got != left {
							t.Errorf("another session has %d new receipts, of %d answers with one", got, left)
						}
					}
					at := b.now()
					if at.Version != 3 || at.Status != incident.Mitigated {
						t.Errorf("%s at %d", at.Status, at.Version)
					}
					if fates, records := h.rows(`SELECT CAST(count(*) AS TEXT) FROM spent_permits WHERE permit = '`+at.Approval.Grant.ID+`' AND fate = 'claimed'`), h.rows(`SELECT CAST(count(*) AS TEXT) FROM idempotency WHERE principal = '`+id+`'`); fates != "1" || records != "1" {
						t.Errorf("%s fates and %s records", fates, records)
					}
					controls(t, own, chain[before:])
				})
			}
		}
	})
}

// controls: the account notices a second execution, a loser's receipt and a lost receipt.
func controls(t *testing.T, all []heard, chain []evidence.Event) {
	t.Helper()
	i := slices.IndexFunc(all, func(h heard) bool { return h.reason == "" })
	second := *all[i].answer
	second.Replayed, second.Receipt = false, nil
	other := clone(t, *second.Result.Execution)
	other.ID = "another"
	differs := second
	differs.Replayed, differs.Result.Execution = true, &other
	for what, wrong := range map[string][]string{
		"executions":         account(append([]heard{{&second, ""}, {&second, ""}}, all...), chain),
		"two records":        account(append([]heard{{&differs, ""}}, all...), chain),
		"nobody":             account(all, append([]evidence.Event{{Hash: "a loser's"}}, chain...)),
		"does not have":      account(all, chain[1:]),
		"tells an execution": account(append([]heard{{&differs, incident.StaleExecution}}, all...), chain),
	} {
		if !strings.Contains(strings.Join(wrong, "\n"), what) {
			t.Errorf("control: %q is not noticed: %v", what, wrong)
		}
	}
}

func clone[T any](t *testing.T, v T) (c T) {
	t.Helper()
	raw, err := json.Marshal(v)
	must(t, err)
	must(t, json.Unmarshal(raw, &c))
	return c
}

// 64 requests to stage at one version: one does, and 63 are stale and leave no receipt.
//
func TestStagedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		for _, without := range []string{"", "line"} {
			h.config.Without = without
			h.open()
			b := &browser{h: h}
			b.read()
			var asks []func() (*control.Answer, string, error)
			for i := range many {
				asks = append(asks, func() (*control.Answer, string, error) {
					return b.ask(incident.Request{Operation: incident.Stage, Channel: incident.API, Input: staging(incident.Catalog[i%3].ID, 1)}, "")
				})
			}
			all := atOnce(t, asks)
			if n := tally(all); n[ok] != 1 || n[incident.StaleState] != many-1 {
				t.Errorf("without %q: %v, want 1 and %d stale", without, n, many-1)
			}
			for _, x := range all {
				if x.reason != "" && x.answer.Receipt != nil {
					t.Error("a stale request left a receipt")
				}
			}
			if n := len(b.chain()); n != 2 || b.now().Version != 2 {
				t.Errorf("%d receipts, want 2, at version %d", n, b.now().Version)
			}
		}
	})
}

// before lets something happen at another process before each of the next so many commits
// of the house, when they were decided already.
func (h *house) before(times int, happens func()) (commits *int) {
	commits = new(int)
	h.ledger.commit = func(ctx context.Context, c ledger.Change, commit func(context.Context, ledger.Change) ledger.Result) ledger.Result {
		if *commits++; *commits <= times {
			happens()
		}
		return commit(ctx, c)
	}
	return commits
}

// What loses its race to a receipt alone is decided again, at most 8 times, and reads at
// most 3: so reads never starve an approval (L-14, G-26)..
func TestDecidedAgain(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		for what, c := range map[string]struct {
			tries  int // that may be lost
			reason string
			do     func(*browser) (*control.Answer, string)
		}{
			"approve": {8, incident.ReceiptConflict, func(b *browser) (*control.Answer, string) { return b.approve() }},
			"stage": {8, incident.ReceiptConflict, func(b *browser) (*control.Answer, string) {
				return b.do(incident.Stage, incident.API, staging("shift-traffic", 2), "")
			}},
			"reset": {8, incident.ReceiptConflict, func(b *browser) (*control.Answer, string) {
				return b.do(incident.Reset, incident.API, resetting(2), "")
			}},
			"execute": {8, incident.ExecutionConflict, func(b *browser) (*control.Answer, string) { return b.execute(b.now().Staged) }},
			"read":    {3, incident.ReceiptConflict, (*browser).read},
			"compare": {3, incident.ReceiptConflict, func(b *browser) (*control.Answer, string) {
				return b.do(incident.Compare, incident.API, incident.Input{}, "")
			}},
		} {
			for _, lost := range []int{c.tries, c.tries + 1} {
				b := &browser{h: h}
				b.stage("restore-pool")
				elsewhere := &browser{h: h, on: h.replica(), cookie: b.cookie}
				if what == "execute" {
					b.approve()
				}
				commits := h.before(lost, func() { elsewhere.read() })
				a, reason := c.do(b)
				h.ledger.commit = nil
				if lost == c.tries {
					is(t, what+", decided again until it is stored", a, reason, "", ok)
				} else {
					is(t, what+", lost too often", a, reason, c.reason, "")
				}
				if *commits != c.tries+1 {
					t.Errorf("%s: %d commits, want %d", what, *commits, c.tries+1)
				}
				b.chain()
			}
		}
	})
}

// What another process did between a decision and its commit: who lost to another version
// is told so and leaves no receipt; who lost nothing is decided again.,
//
func TestOvertaken(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		approve := func(b *browser) (*control.Answer, string) { return b.approve() }
		execute := func(b *browser) (*control.Answer, string) { return b.execute(b.now().Staged) }
		restage := func(b *browser) { b.stage("shift-traffic") }
		stage := func(b *browser) (*control.Answer, string) {
			return b.do(incident.Stage, incident.API, staging("scale-workers", b.now().Version), "")
		}
		reset := func(b *browser) (*control.Answer, string) {
			return b.do(incident.Reset, incident.API, resetting(b.now().Version), "")
		}
		for _, c := range []struct {
			what     string
			approved bool
			do       func(*browser) (*control.Answer, string)
			overtake func(*browser)
			reason   string
			outcome  string
		}{
			{"approve, and another stages", false, approve, restage, incident.StaleApproval, ""},
			{"approve, and another resets", false, approve, (*browser).reset, incident.StaleApproval, ""},
			{"approve, and another does", false, approve, func(b *browser) { b.approve() }, "", ok},
			{"execute, and another stages", true, execute, restage, incident.StaleExecution, ""},
			{"execute, and another resets", true, execute, (*browser).reset, incident.StaleExecution, ""},
			{"execute, and another does", true, execute, func(b *browser) { execute(b) }, "", ok},
			{"execute, and another reads", true, execute, func(b *browser) { b.read() }, "", ok},
			{"execute unapproved, and another approves", false, execute, func(b *browser) { b.approve() }, "", ok},
			{"stage, and another does", false, stage, restage, incident.StaleState, ""},
			{"stage, and another executes", true, stage, func(b *browser) { execute(b) }, incident.StaleState, ""},
			{"reset, and another stages", false, reset, restage, incident.StaleReset, ""},
			{"reset, and another executes", true, reset, func(b *browser) { execute(b) }, incident.StaleReset, ""},
			{"execute another digest under the key, and another executes", true, func(b *browser) (*control.Answer, string) {
				return b.execute(altered(b.now().Staged, "digest"))
			}, func(b *browser) { execute(b) }, incident.IdempotencyConflict, blocked},
		} {
			b := &browser{h: h}
			b.stage("restore-pool")
			if c.approved {
				b.approve()
			}
			elsewhere := &browser{h: h, on: h.replica(), cookie: b.cookie}
			n := 0
			commits := h.before(1, func() {
				c.overtake(elsewhere)
				n = len(elsewhere.chain())
			})
			a, reason := c.do(b)
			h.ledger.commit = nil
			is(t, c.what, a, reason, c.reason, c.outcome)
			left := map[bool]int{true: 1}[c.outcome != ""]
			if got := len(b.chain()) - n; got != left || *commits != 1+left {
				t.Errorf("%s: %d receipts after %d commits, want %d after %d", c.what, got, *commits, left, 1+left)
			}
			if c.what == "execute, and another does" && !a.Replayed {
				t.Error("it was executed twice")
			}
			if c.what == "approve, and another does" && told(t, a.Receipt).Event != incident.EventRepeated {
				t.Error("it was approved twice")
			}
		}
	})
}

// Approvals while other processes read all the time: each is given (L-14). Sessions have
// nothing to do with each other..
func TestApprovedWhileOthersRead(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b, other := &browser{h: h}, &browser{h: h}
		other.approved("shift-traffic")
		before := other.now()
		elsewhere := h.replica()
		for range 4 {
			b.stage("restore-pool")
			in, nonce := approving(b.now().Staged), b.form()
			asks := []func() (*control.Answer, string, error){func() (*control.Answer, string, error) {
				return b.ask(incident.Request{Operation: incident.Approve, Channel: incident.Human, Input: in}, nonce)
			}}
			for range 8 {
				asks = append(asks, func() (*control.Answer, string, error) {
					reader := &browser{h: h, on: elsewhere, cookie: b.cookie}
					return reader.ask(incident.Request{Operation: incident.Snapshot, Channel: incident.WebMCP}, "")
				})
			}
			all := atOnce(t, asks)
			is(t, "approve among readers", all[0].answer, all[0].reason, "", ok)
		}
		b.executed(b.now().Staged)
		if after := other.now(); after.Version != before.Version || after.Receipts.Head != before.Receipts.Head || after.Approval.Consumed() {
			t.Errorf("the other session went from %s to %s", before.Receipts.Head, after.Receipts.Head)
		}
		b.chain()
	})
}
