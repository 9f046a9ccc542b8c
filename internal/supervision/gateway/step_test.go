package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/managed"
	"countersign/internal/supervision/model/replay"
	"countersign/internal/supervision/run"
)

// steps are managed attempts with the authored executor.
func steps(t testing.TB, g *gateway.Gateway) *managed.Steps {
	t.Helper()
	executor, err := replay.NewExecutor()
	must(t, err)
	return managed.New(g, map[string]managed.Executor{replay.Provider: executor})
}

// says is one answer of a model.
type says func(context.Context, decide.Briefing) ([]byte, error)

// model stands in for an executor at a provider. It answers in the order of says, the
// last one again and again, and keeps what it was told.
type model struct {
	says   []says
	inside bool // it asks nobody outside

	mu       sync.Mutex
	told     []decide.Briefing
	problems []string // with which repairs were asked for
	left     []time.Duration
}

func (m *model) Outside() bool { return !m.inside }

func (m *model) Propose(ctx context.Context, b decide.Briefing) ([]byte, error) { return m.say(ctx, b) }

func (m *model) Repair(ctx context.Context, b decide.Briefing, malformed []byte, problem string) ([]byte, error) {
	m.mu.Lock()
	m.problems = append(m.problems, string(malformed)+"|"+problem)
	m.mu.Unlock()
	return m.say(ctx, b)
}

func (m *model) say(ctx context.Context, b decide.Briefing) ([]byte, error) {
	m.mu.Lock()
	m.told = append(m.told, b)
	if end, ok := ctx.Deadline(); ok {
		m.left = append(m.left, time.Until(end))
	}
	answer := m.says[min(len(m.told), len(m.says))-1]
	m.mu.Unlock()
	return answer(ctx, b)
}

// asked is how many requests were sent to it.
func (m *model) asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.told)
}

// on are managed attempts that ask the model.
func (m *model) on(g *gateway.Gateway) *managed.Steps {
	return managed.New(g, map[string]managed.Executor{replay.Provider: m})
}

// authored is what the authored executor would say.
func authored(ctx context.Context, b decide.Briefing) ([]byte, error) {
	executor, err := replay.NewExecutor()
	if err != nil {
		return nil, err
	}
	return executor.Propose(ctx, b)
}

// fixed always says the same.
func fixed(raw string) says {
	return func(context.Context, decide.Briefing) ([]byte, error) { return []byte(raw), nil }
}

// reading proposes to read the catalog, whatever the position is.
func reading(ctx context.Context, b decide.Briefing) ([]byte, error) {
	b.Position = "read"
	return authored(ctx, b)
}

func fails(err error) says {
	return func(context.Context, decide.Briefing) ([]byte, error) { return nil, err }
}

const (
	refusal       = `{"version":1,"outcome":{"kind":"refusal","explanation":"I will not."}}`
	clarification = `{"version":1,"outcome":{"kind":"clarification","question":"Which address?"}}`
	authorization = `{"version":1,"outcome":{"kind":"authorization_required","operationId":"merchant.checkout.submit","transactionProposalId":null,"explanation":"It spends."}}`
	malformed     = `{"version":2,"outcome":{}}`
)

// since lists the types of the events behind the first n.
func (h *house) since(id string, n int) (types []string) {
	h.t.Helper()
	for _, e := range h.events(id)[n:] {
		types = append(types, e.Type)
	}
	return types
}

// H-031 H-094 H-095 H-155: step and play buy what the terms say, on either target and
// from each service, in the authored order, without one model call.
func TestPlayBuys(t *testing.T) {
	for _, target := range []string{run.TargetLocal, run.TargetHosted} {
		t.Run(target, func(t *testing.T) {
			onEach(t, func(t *testing.T, e engine) {
				h := newHouse(t, e)
				id := h.create(target)
				must(t, steps(t, h.Gateway).Step(t.Context(), id))
				if s := h.state(id); s.Status != run.StatusReady || s.Position() != "prepare" || s.Turns != 1 {
					t.Fatalf("after one step: status %s at %s with %d turns", s.Status, s.Position(), s.Turns)
				}
				played, err := steps(t, h.Gateway).Play(t.Context(), id)
				must(t, err)
				if want := (managed.Played{Steps: 3}); played != want {
					t.Errorf("played %+v, want %+v", played, want)
				}
				s := h.state(id)
				if s.Status != run.StatusCompleted || s.Budget.Spent != 13700 || s.ModelCalls != 0 || h.count(id, "model.called") != 0 {
					t.Errorf("status %s, spent %s, %d model calls; want completed, 13700, none", s.Status, s.Budget.Spent, s.ModelCalls)
				}
				attempts, measured := map[string]bool{}, 0
				for _, x := range h.events(id) {
					switch x.Type {
					case "turn.proposed":
						var d run.Proposed
						must(t, canon.Unmarshal(x.Data, &d))
						if d.AttemptID == nil {
							t.Error("a managed turn without its attempt")
							continue
						}
						attempts[*d.AttemptID] = true
					case "metrics":
						var d run.Metrics
						must(t, canon.Unmarshal(x.Data, &d))
						if d.ExecutorMicros != nil {
							measured++
						}
					}
				}
				if len(attempts) != 4 || measured != 4 {
					t.Errorf("%d attempts, %d of them measured, want 4", len(attempts), measured)
				}
				h.verify(id)
			})
		})
	}
	onEachService(t, func(t *testing.T, h *house, d domain) {
		id := h.createFor(d, d.amount, "")
		played, err := steps(t, h.Gateway).Play(t.Context(), id)
		must(t, err)
		if s := h.state(id); s.Status != run.StatusCompleted || s.Budget.Spent != d.amount || played != (managed.Played{Steps: 3}) {
			t.Errorf("%+v: status %s at %s, stop %+v, spent %s", played, s.Status, s.Position(), s.Stop, s.Budget.Spent)
		}
		h.verify(id)
	})
}

// H-047 H-095: in exact mode play stops where the owner decides, and goes on when it is
// approved.
func TestPlayWaitsForApproval(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		r := createRequest(run.TargetHosted)
		r.Config.Mode = run.ModeExact
		id, err := h.Create(t.Context(), r)
		must(t, err)
		m := steps(t, h.Gateway)
		_, err = m.Play(t.Context(), id)
		must(t, err)
		h.stopped(id, authority.ApprovalRequired, "approve")
		h.refuses(authority.RunNotReady, m.Step(t.Context(), id))
		must(t, h.Approve(t.Context(), id, h.state(id).Proposal.ID, "", session))
		_, err = m.Play(t.Context(), id)
		must(t, err)
		if s := h.state(id); s.Status != run.StatusCompleted || s.Budget.Spent != 13700 {
			t.Errorf("status %s, spent %s, stop %+v", s.Status, s.Budget.Spent, s.Stop)
		}
		h.verify(id)
	})
}

// H-095: a play makes sixteen attempts and no more.
func TestPlayLimit(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		m := &model{says: []says{reading}, inside: true}
		played, err := m.on(h.Gateway).Play(t.Context(), id)
		must(t, err)
		if s := h.state(id); played != (managed.Played{Steps: 16, AtLimit: true}) || s.Status != run.StatusReady || m.asked() != 16 || h.count(id, "execution.dispatched") != 16 {
			t.Errorf("%+v, status %s, asked %d times", played, s.Status, m.asked())
		}
		// When the sixteenth is the last that there is to do, nothing is left over.
		other := h.create(run.TargetLocal)
		m = &model{says: append(slices.Repeat([]says{reading}, 13), authored), inside: true}
		played, err = m.on(h.Gateway).Play(t.Context(), other)
		must(t, err)
		if s := h.state(other); played != (managed.Played{Steps: 16}) || s.Status != run.StatusCompleted {
			t.Errorf("%+v, status %s", played, s.Status)
		}
		h.verify(other)
	})
}

// H-032 H-037 H-038 G-02: each outcome that is no proposal pauses the run, with no turn, no
// permit and no repair. The executor is told the owner's answer.
func TestOutcomesPause(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, c := range []struct {
			name             string
			answer           says
			reason, recovery string
		}{
			{"clarification", fixed(clarification), authority.ClarificationRequested, "clarify"},
			{"refusal", fixed(refusal), authority.ExecutorRefused, "clarify"},
			{"native refusal", fails(&managed.Refusal{Explanation: strings.Repeat("é", 2000)}), authority.ProviderRefused, "clarify"},
			{"native refusal without a word", fails(&managed.Refusal{}), authority.ProviderRefused, "clarify"},
			{"authorization_required", fixed(authorization), authority.AuthorizationRequired, "none"},
		} {
			id := h.create(run.TargetLocal)
			n := len(h.events(id))
			m := &model{says: []says{c.answer, authored}}
			played, err := m.on(h.Gateway).Play(t.Context(), id)
			must(t, err)
			h.stopped(id, c.reason, c.recovery)
			if want := []string{"model.called", "turn.outcome", "run.paused", "metrics"}; !slices.Equal(h.since(id, n), want) {
				t.Errorf("%s: %v, want %v", c.name, h.since(id, n), want)
			}
			if s := h.state(id); played.Steps != 1 || m.asked() != 1 || len(m.problems) != 0 || s.ModelCalls != 1 || s.Turns != 0 || s.Lease != nil {
				t.Errorf("%s: %+v, asked %d times, %d calls, lease %+v", c.name, played, m.asked(), s.ModelCalls, s.Lease)
			}
			h.refuses(authority.RunNotReady, m.on(h.Gateway).Step(t.Context(), id))
			if c.recovery == "clarify" {
				must(t, h.Clarify(t.Context(), id, "The home address."))
				_, err := m.on(h.Gateway).Play(t.Context(), id)
				must(t, err)
				if s := h.state(id); s.Status != run.StatusCompleted || !slices.Equal(m.told[1].Clarifications, []string{"The home address."}) || len(m.told[0].Clarifications) != 0 {
					t.Errorf("%s: status %s, told %q", c.name, s.Status, m.told[1].Clarifications)
				}
			}
			h.verify(id)
		}
	})
}

// H-035 H-158 H-036 H-177: malformed output is repaired once, with what is wrong; after that the
// run pauses with no valid turn and no permit.
func TestRepair(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		m := &model{says: []says{fixed(malformed), authored}}
		must(t, m.on(h.Gateway).Step(t.Context(), id))
		if s := h.state(id); s.Status != run.StatusReady || s.Position() != "prepare" || s.ModelCalls != 2 || m.asked() != 2 {
			t.Errorf("status %s at %s, %d calls, asked %d times", s.Status, s.Position(), s.ModelCalls, m.asked())
		}
		if len(m.problems) != 1 || !strings.HasPrefix(m.problems[0], malformed+"|/version: want 1") {
			t.Errorf("a repair was asked for with %q", m.problems)
		}
		h.verify(id)

		id = h.create(run.TargetLocal)
		n := len(h.events(id))
		m = &model{says: []says{fixed("no JSON"), fixed(malformed), authored}}
		must(t, m.on(h.Gateway).Step(t.Context(), id))
		h.stopped(id, authority.MalformedModelReport, "retry")
		if want := []string{"model.called", "model.called", "turn.rejected", "run.paused", "metrics"}; !slices.Equal(h.since(id, n), want) {
			t.Errorf("%v, want %v", h.since(id, n), want)
		}
		var rejected run.Rejected
		for _, x := range h.events(id) {
			if x.Type == "turn.rejected" {
				must(t, canon.Unmarshal(x.Data, &rejected))
			}
		}
		raw, err := h.Text(t.Context(), id, rejected.Raw)
		must(t, err)
		if rejected.SHA256 != canon.Hash([]byte(malformed)) || rejected.Bytes != int64(len(malformed)) || raw != malformed || m.asked() != 2 {
			t.Errorf("rejected %+v, raw %q, asked %d times", rejected, raw, m.asked())
		}
		h.verify(id)

		// What a model calls its members is as long as it likes; what is said of it is not.
		id = h.create(run.TargetLocal)
		m = &model{says: []says{fixed(`{"` + strings.Repeat("é", 30000) + `":1}`)}}
		must(t, m.on(h.Gateway).Step(t.Context(), id))
		h.stopped(id, authority.MalformedModelReport, "retry")
		for _, text := range m.problems {
			if _, said, _ := strings.Cut(text, "|"); utf8.RuneCountInString(said) != 2000 {
				t.Errorf("a problem of %d characters", utf8.RuneCountInString(said))
			}
		}
		h.verify(id)

		// A refusal in place of a repair is a refusal; a failure is one of the provider.
		for answer, want := range map[string]string{refusal: authority.ExecutorRefused, "": authority.ProviderError} {
			id := h.create(run.TargetLocal)
			m := &model{says: []says{fixed(malformed), fixed(answer)}}
			if answer == "" {
				m.says[1] = fails(errors.New("broken off"))
			}
			must(t, m.on(h.Gateway).Step(t.Context(), id))
			if s := h.state(id); s.Stop == nil || s.Stop.ReasonCode != want || m.asked() != 2 || s.ModelCalls != 2 {
				t.Errorf("stop %+v, want %s; asked %d times", s.Stop, want, m.asked())
			}
			h.verify(id)
		}

		// An authored executor is repaired as well, and none of it counts as a call.
		id = h.create(run.TargetLocal)
		m = &model{says: []says{fixed(malformed), authored}, inside: true}
		must(t, m.on(h.Gateway).Step(t.Context(), id))
		if s := h.state(id); s.Status != run.StatusReady || s.ModelCalls != 0 || h.count(id, "model.called") != 0 {
			t.Errorf("status %s, %d calls", s.Status, s.ModelCalls)
		}
		h.verify(id)
	})
}

// H-175 G-04: forty calls are sent and the forty-first is not, be it the first of an
// attempt or a repair. With the bound switched off it is sent, and an auditor sees it.
func TestModelCallLimit(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		use := func(g *gateway.Gateway, m *model, calls int) string {
			id := h.create(run.TargetLocal)
			for m.asked() < calls {
				must(t, m.on(g).Step(t.Context(), id))
			}
			return id
		}
		m := &model{says: []says{reading}}
		id := use(h.Gateway, m, 40)
		must(t, m.on(h.Gateway).Step(t.Context(), id))
		h.stopped(id, authority.ModelCallLimit, "none")
		if s := h.state(id); m.asked() != 40 || s.ModelCalls != 40 || s.Stop.Category != "limit" || h.count(id, "model.called") != 40 {
			t.Errorf("sent %d, counted %d, stop %+v", m.asked(), s.ModelCalls, s.Stop)
		}
		h.refuses(authority.RunNotReady, m.on(h.Gateway).Step(t.Context(), id))
		h.verify(id)

		m = &model{says: append(slices.Repeat([]says{reading}, 39), fixed(malformed), authored)}
		id = use(h.Gateway, m, 40)
		h.stopped(id, authority.ModelCallLimit, "none")
		if m.asked() != 40 || len(m.problems) != 0 || h.count(id, "turn.rejected") != 1 {
			t.Errorf("sent %d, %d repairs, %d rejected", m.asked(), len(m.problems), h.count(id, "turn.rejected"))
		}
		h.verify(id)

		open := h.another(func(c *gateway.Config) { c.Doors.Calls, c.Doors.Machine = true, true })
		m = &model{says: []says{reading}}
		id = use(open, m, 41)
		if m.asked() != 41 || !h.breaks(id, "call-limit") {
			t.Errorf("with the bound off %d calls were sent, and the auditor sees %t", m.asked(), h.breaks(id, "call-limit"))
		}
	})
}

// H-160 H-176: a request has sixty seconds. What takes longer, fails or panics, or does not
// end at all, stops the run for another try; nothing was dispatched.
func TestProviderFails(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		hang := make(chan struct{})
		t.Cleanup(func() { close(hang) })
		for name, c := range map[string]struct {
			answer   says
			patience time.Duration
			want     string
		}{
			"error":                       {fails(errors.New("502")), 0, authority.ProviderError},
			"its own time is up":          {fails(context.DeadlineExceeded), 0, authority.ProviderTimeout},
			"panic":                       {func(context.Context, decide.Briefing) ([]byte, error) { panic("nil map") }, 0, authority.ProviderError},
			"gives up when its time ends": {func(ctx context.Context, _ decide.Briefing) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }, time.Millisecond, authority.ProviderTimeout},
			"answers too late":            {func(ctx context.Context, b decide.Briefing) ([]byte, error) { <-ctx.Done(); return authored(ctx, b) }, time.Millisecond, authority.ProviderTimeout},
			"hangs":                       {func(context.Context, decide.Briefing) ([]byte, error) { <-hang; return nil, nil }, time.Millisecond, authority.ProviderTimeout},
		} {
			id := h.create(run.TargetLocal)
			m := &model{says: []says{c.answer, authored}}
			s := m.on(h.Gateway)
			if c.patience > 0 {
				s = s.Impatient(c.patience)
			}
			must(t, s.Step(t.Context(), id))
			h.stopped(id, c.want, "retry")
			if st := h.state(id); st.Stop.Source != "provider" || st.ModelCalls != 1 || st.Lease != nil || st.Turns != 0 || h.count(id, "execution.dispatched") != 0 {
				t.Errorf("%s: stop %+v, %d calls, lease %+v", name, st.Stop, st.ModelCalls, st.Lease)
			}
			if c.patience == 0 && (len(m.left) != 1 || m.left[0] > time.Minute || m.left[0] < 55*time.Second) {
				t.Errorf("%s: the request had %v", name, m.left)
			}
			must(t, h.Retry(t.Context(), id))
			must(t, m.on(h.Gateway).Step(t.Context(), id))
			if st := h.state(id); st.Status != run.StatusReady || st.ModelCalls != 2 {
				t.Errorf("%s: after a retry %s with %d calls", name, st.Status, st.ModelCalls)
			}
			h.verify(id)
		}
	})
}

// Design 1: an answer that comes after its lease was over does not count; the run was
// stopped for another try meanwhile, and nothing was dispatched.
func TestAnswerAfterTheLease(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, settled := range []bool{false, true} {
			id := h.create(run.TargetLocal)
			m := &model{says: []says{func(ctx context.Context, b decide.Briefing) ([]byte, error) {
				if s := h.state(id); s.Status != run.StatusRunning || s.ModelCalls != 1 {
					t.Errorf("while it is asked the run is %s with %d calls", s.Status, s.ModelCalls)
				}
				h.clock.Move(90 * time.Second)
				if settled {
					h.SettleDue(ctx)
				}
				return authored(ctx, b)
			}}}
			h.refuses(authority.RunNotReady, m.on(h.Gateway).Step(t.Context(), id))
			h.stopped(id, authority.ProviderTimeout, "retry")
			if s := h.state(id); s.Turns != 0 || s.ModelCalls != 1 || h.count(id, "execution.dispatched") != 0 {
				t.Errorf("%d turns, %d calls", s.Turns, s.ModelCalls)
			}
			h.verify(id)
		}
	})
}

// H-030 H-020: the executor is told the owner's instruction and what the last read
// showed, fenced, and the observation that a report may rest on. While it is asked that
// observation stands, for an agent too.
func TestExecutorIsTold(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		m := &model{says: []says{authored, func(ctx context.Context, b decide.Briefing) ([]byte, error) {
			h.clock.Move(40 * time.Second)
			o, err := h.Observe(ctx, id)
			if err != nil || o.ObservationID != b.Observation.ObservationID {
				t.Errorf("while it is asked an agent sees %+v, %v", o, err)
			}
			return authored(ctx, b)
		}}}
		must(t, m.on(h.Gateway).Step(t.Context(), id))
		must(t, m.on(h.Gateway).Step(t.Context(), id))
		b := m.told[1]
		if b.Instruction != createRequest(run.TargetLocal).Instruction || b.Service != "merchant" || b.Position != "prepare" || b.Mode != "bounded" || len(b.Grants) != 1 || len(b.Workflow) != 4 {
			t.Errorf("told %+v", b)
		}
		if m.told[0].View != "" || !strings.Contains(b.View, "Fieldworks Trading") || b.View != decide.Fenced(b.Observation.ObservationID, strings.Split(b.View, "\n")[1]) {
			t.Errorf("told %q, then %q", m.told[0].View, b.View)
		}
		text, err := json.Marshal(b)
		must(t, err)
		token, err := h.IssueSession(t.Context(), id)
		must(t, err)
		for _, secret := range []string{token.Token, "bearer", "Bearer", "permit"} {
			if strings.Contains(string(text), secret) {
				t.Errorf("a briefing holds %q", secret)
			}
		}
		h.verify(id)
	})
}

// stepped are the outcomes of steps that were made at once: how many were refused, and
// whether any came to something else than an end or a refusal for the others' sake.
func stepped(t *testing.T, errs []error) (refused int) {
	t.Helper()
	for _, err := range errs {
		switch reasonOf(t, err) {
		case "":
		case authority.AttemptInProgress, authority.PermitOutstanding, authority.RunNotReady:
			refused++
		default:
			t.Errorf("refused with %v", err)
		}
	}
	return refused
}

// G-04: of two steps at once one wins; the other is refused, asks nobody and executes
// nothing. With the lease switched off both ask.
func TestStepsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		try := func(options ...option) (asked int, id string, err error) {
			id = h.create(run.TargetLocal)
			gateways := []*gateway.Gateway{h.another(options...), h.another(options...)}
			entered, release := make(chan struct{}, 2), make(chan struct{})
			m := &model{says: []says{func(ctx context.Context, b decide.Briefing) ([]byte, error) {
				entered <- struct{}{}
				<-release
				return authored(ctx, b)
			}}}
			first := make(chan error, 1)
			go func() { first <- m.on(gateways[0]).Step(t.Context(), id) }()
			<-entered
			second := make(chan error, 1)
			go func() { second <- m.on(gateways[1]).Step(t.Context(), id) }()
			select {
			case err = <-second:
			case <-entered: // it asks, too
			}
			asked = m.asked()
			close(release)
			if firstErr := <-first; asked == 1 && firstErr != nil {
				t.Errorf("the first: %v", firstErr)
			}
			return asked, id, err
		}
		asked, id, err := try()
		if asked != 1 || reasonOf(t, err) != authority.AttemptInProgress || h.count(id, "execution.dispatched") != 1 {
			t.Errorf("asked %d times, the second %v, %d executions", asked, err, h.count(id, "execution.dispatched"))
		}
		h.verify(id)
		if asked, _, _ := try(func(c *gateway.Config) { c.Doors.Lease, c.Doors.Machine = true, true }); asked != 2 {
			t.Errorf("with the lease off asked %d times, want twice", asked)
		}

		// An authored executor takes no lease: the guards of the commits order the steps.
		for range 5 {
			id := h.create(run.TargetLocal)
			replicas := h.replicas(2)
			errs := together(8, func(i int) error { return steps(t, replicas[i%2]).Step(t.Context(), id) })
			refused, executed := stepped(t, errs), h.count(id, "execution.dispatched")
			if executed != 8-refused || executed == 0 || h.count(id, "run.paused") != 0 || h.count(id, "execution.verified") != executed {
				t.Errorf("%d refused, %d executed, %d verified, status %s", refused, executed, h.count(id, "execution.verified"), h.state(id).Status)
			}
			h.verify(id)
		}
	})
}

// H-096: a revoke ends an attempt, wherever it is: nothing is dispatched after it.
func TestRevokeDuringAStep(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		m := &model{says: []says{func(ctx context.Context, b decide.Briefing) ([]byte, error) {
			if err := h.Revoke(ctx, id); err != nil {
				t.Error(err)
			}
			return authored(ctx, b)
		}}}
		h.refuses(authority.RunNotReady, m.on(h.Gateway).Step(t.Context(), id))
		if s := h.state(id); s.Status != run.StatusRevoked || s.Turns != 0 || s.ModelCalls != 1 || s.Lease != nil || h.count(id, "execution.dispatched") != 0 {
			t.Errorf("status %s, %d turns, %d calls, lease %+v", s.Status, s.Turns, s.ModelCalls, s.Lease)
		}
		h.verify(id)
		for range 8 {
			id := h.create(run.TargetLocal)
			errs := together(3, func(i int) error {
				if i == 0 {
					return h.Revoke(t.Context(), id)
				}
				_, err := steps(t, h.Gateway).Play(t.Context(), id)
				return err
			})
			if s := h.state(id); s.Status != run.StatusRevoked && s.Status != run.StatusCompleted || reasonOf(t, errs[0]) != "" && s.Status != run.StatusCompleted {
				t.Errorf("status %s, %v", s.Status, errs)
			}
			stepped(t, errs[1:])
			h.verify(id) // the auditor names a dispatch after the revoke
		}
	})
}

// Design 1: an attempt outlives its caller; a play begins no further one for a caller
// that is gone, and who is gone before begins none.
func TestCallerOfAStepHangsUp(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, play := range []bool{false, true} {
			id := h.create(run.TargetHosted)
			ctx, hangUp := context.WithCancel(t.Context())
			m := &model{says: []says{func(ctx context.Context, b decide.Briefing) ([]byte, error) {
				hangUp()
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return authored(ctx, b)
			}}}
			if play {
				_, _ = m.on(h.Gateway).Play(ctx, id) // nobody hears what it answers
			} else {
				must(t, m.on(h.Gateway).Step(ctx, id))
			}
			if s := h.state(id); s.Status != run.StatusReady || s.Position() != "prepare" || m.asked() != 1 || h.count(id, "execution.verified") != 1 {
				t.Errorf("play %t: status %s at %s, asked %d times", play, s.Status, s.Position(), m.asked())
			}
			if err := m.on(h.Gateway).Step(ctx, id); !errors.Is(err, gateway.ErrUnavailable) || m.asked() != 1 {
				t.Errorf("a caller that is gone: %v, asked %d times", err, m.asked())
			}
			h.verify(id)
		}
	})
}

// Design 1: a server that stops begins no effect that it could not wait for. The attempt
// that is under way leaves nothing behind, or ends with its process; a play says how far
// it came.
func TestStepsEnd(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, inside := range []bool{true, false} {
			id := h.create(run.TargetHosted)
			var ending *managed.Steps
			m := &model{inside: inside, says: []says{authored, func(ctx context.Context, b decide.Briefing) ([]byte, error) {
				ending.End()
				return authored(ctx, b)
			}}}
			ending = m.on(h.Gateway)
			played, err := ending.Play(t.Context(), id)
			if err != nil || played != (managed.Played{Steps: 1}) {
				t.Errorf("play: %+v, %v", played, err)
			}
			if s := h.state(id); s.Position() != "prepare" || s.Turns != 1 || s.Permit != nil || (s.Status == run.StatusReady) != inside || h.count(id, "execution.dispatched") != 1 || m.asked() != 2 {
				t.Errorf("inside %t: status %s at %s, %d turns, asked %d times", inside, s.Status, s.Position(), s.Turns, m.asked())
			}
			for range 2 {
				if err := ending.Step(t.Context(), id); !errors.Is(err, gateway.ErrUnavailable) || m.asked() != 2 {
					t.Errorf("a step afterwards: %v, asked %d times", err, m.asked())
				}
			}
			h.verify(id)
		}
	})
}

// A provider that is not there stops the run before anybody is asked; it goes on when
// it is.
func TestProviderUnconfigured(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		must(t, managed.New(h.Gateway, nil).Step(t.Context(), id))
		h.stopped(id, authority.ProviderUnconfigured, "retry")
		must(t, h.Retry(t.Context(), id))
		must(t, steps(t, h.Gateway).Step(t.Context(), id))
		h.verify(id)
	})
}

// L-8: a freeze stops a managed run: before its permit, and when that is claimed. While
// it lasts the run is not retried (G-03).
func TestFreezeDuringAStep(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		for _, late := range []bool{false, true} {
			id, lift := h.create(run.TargetLocal), func() {}
			freeze := func() { lift = h.freeze() }
			g := h.another(func(c *gateway.Config) {
				if late {
					c.Ledger = afterCommit{c.Ledger, "permit.issued", freeze}
				}
			})
			m := &model{says: []says{func(ctx context.Context, b decide.Briefing) ([]byte, error) {
				if !late {
					freeze()
				}
				return authored(ctx, b)
			}}}
			must(t, m.on(g).Step(t.Context(), id))
			h.stopped(id, authority.Frozen, "retry")
			if s := h.state(id); s.Permit != nil || s.Lease != nil || h.count(id, "execution.dispatched") != 0 || h.count(id, "permit.revoked") != map[bool]int{false: 0, true: 1}[late] {
				t.Errorf("late %t: permit %+v, lease %+v", late, s.Permit, s.Lease)
			}
			for _, e := range h.events(id) {
				if e.Type == "permit.revoked" && !strings.Contains(string(e.Data), `"cause":"freeze"`) {
					t.Errorf("revoked for another cause: %s", e.Data)
				}
			}
			h.refuses(authority.Frozen, h.Retry(t.Context(), id)) // what it lacks is asked for again
			h.stopped(id, authority.Frozen, "retry")
			lift()
			must(t, h.Retry(t.Context(), id))
			must(t, steps(t, h.Gateway).Step(t.Context(), id))
			if s := h.state(id); s.Status != run.StatusReady || s.Position() != "prepare" {
				t.Errorf("late %t: afterwards %s, stop %+v", late, s.Status, s.Stop)
			}
			h.verify(id)
		}
	})
}

// A managed permit is the run's: its agent may use it first. Then the attempt executes
// nothing, stops nothing and the run goes on.
func TestAgentUsesAManagedPermit(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		g := h.another(func(c *gateway.Config) {
			c.Ledger = afterCommit{c.Ledger, "permit.issued", func() {
				turn, err := h.Decision(t.Context(), id)
				if err != nil || turn.Permit == nil {
					t.Errorf("the agent sees %+v, %v", turn, err)
					return
				}
				if _, err := h.operate(id, turn.Permit, "the-agent-was-faster"); err != nil {
					t.Error(err)
				}
			}}
		})
		must(t, steps(t, g).Step(t.Context(), id))
		if s := h.state(id); s.Status != run.StatusReady || s.Position() != "prepare" || h.count(id, "execution.dispatched") != 1 || h.count(id, "execution.verified") != 1 {
			t.Errorf("status %s at %s, stop %+v, %d executions", s.Status, s.Position(), s.Stop, h.count(id, "execution.dispatched"))
		}
		if got := h.refusals(id); !slices.Equal(got, []string{authority.PermitConsumed}) {
			t.Errorf("refused %q", got)
		}
		h.verify(id)
	})
}

// afterCommit does something once an event of the type is stored.
type afterCommit struct {
	gateway.Ledger
	eventType string
	do        func()
}

func (l afterCommit) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	r := l.Ledger.Commit(ctx, c)
	for _, w := range c.Writes {
		if r.Outcome == ledger.Stored && slices.ContainsFunc(w.Events, func(e evidence.Event) bool { return e.Type == l.eventType }) {
			l.do()
		}
	}
	return r
}

// stepTask is a control plane in a process of its own that makes a run and a step, and
// stops for good at a point of the model call.
type stepTask struct{ Engine, Location, Control, Point string }

// Points of a model call.
const (
	callCounted = "call-counted" // and not made
	callMade    = "call-made"    // and not answered
)

func (c *stepTask) work() error {
	t := &childTB{}
	e, err := engineNamed(c.Engine)
	if err != nil {
		return err
	}
	opened, err := e.open(context.Background(), c.Location, &ledger.Clock{})
	if err != nil {
		return err
	}
	stop := func(point string) {
		say(line{Point: point})
		if point == c.Point {
			select {}
		}
	}
	config := newConfig(t, opened, c.Control)
	config.Ledger = afterCommit{opened, "model.called", func() { stop(callCounted) }}
	g := gateway.New(config)
	id, err := g.Create(context.Background(), createRequest(run.TargetLocal))
	if err != nil {
		return err
	}
	m := &model{says: []says{func(ctx context.Context, b decide.Briefing) ([]byte, error) { stop(callMade); return authored(ctx, b) }}}
	return m.on(g).Step(context.Background(), id)
}

// G-04 design 1: the call is counted before it is made. A process that is killed with
// -9 in between, or before the answer, leaves the count, and a run that is stopped for
// another try as soon as anybody looks; nothing was dispatched.
func TestKilledDuringAModelCall(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		for _, point := range []string{callCounted, callMade} {
			h := emptyHouse(t, e)
			child := startChild(t, task{Step: &stepTask{e.name, h.location, h.control(), point}})
			said := []string{}
			for {
				l, ok := child.next()
				if !ok {
					t.Fatalf("%s was not reached", point)
				}
				if said = append(said, l.Point); l.Point == point {
					break
				}
			}
			if want := []string{callCounted, callMade}[:len(said)]; !slices.Equal(said, want) || said[len(said)-1] != point {
				t.Errorf("passed %q", said)
			}
			child.kill()
			h.engine.gone(t, h.location)
			h.open()
			h.holdersAreDead()
			list, err := h.List(t.Context(), "", 1)
			must(t, err)
			id := list[0].State.ID
			h.clock.Move(91 * time.Second) // PostgreSQL's settling looks at what is due
			h.SettleDue(t.Context())
			h.stopped(id, authority.ProviderTimeout, "retry")
			if s := h.state(id); s.ModelCalls != 1 || s.Turns != 0 || h.count(id, "execution.dispatched") != 0 {
				t.Errorf("%s: %d calls, %d turns", point, s.ModelCalls, s.Turns)
			}
			must(t, h.Retry(t.Context(), id))
			m := &model{says: []says{authored}}
			must(t, m.on(h.Gateway).Step(t.Context(), id))
			if s := h.state(id); s.Status != run.StatusReady || s.ModelCalls != 2 {
				t.Errorf("%s: afterwards %s with %d calls", point, s.Status, s.ModelCalls)
			}
			h.verify(id)
			must(t, h.ledger.Close())
		}
	})
}
