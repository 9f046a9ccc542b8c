package run_test

import (
	"errors"
	"flag"
	"slices"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"

	"pgregory.net/rapid"
)

// TestMain keeps rapid from leaving files of failed draws in the tree, where later
// runs would pick them up; a failure prints its draws and its seed. The number of
// histories fits the race detector; -rapid.checks asks for more.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.checks": "60"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// errand is a request that may come at any time, lawful or not.
type errand struct {
	name string
	do   func(*world, *rapid.T, *decide.Deciding)
}

var errands = []errand{
	{"nothing", func(*world, *rapid.T, *decide.Deciding) {}},
	{"observe", func(w *world, _ *rapid.T, d *decide.Deciding) {
		if d.CanObserve() == nil {
			w.observed(d)
		}
	}},
	{"report", func(w *world, t *rapid.T, d *decide.Deciding) {
		e := rapid.SampledFrom(w.catalog).Draw(t, "entry")
		r := reportOn(&e, d.State().Observation)
		x := &reviewed{s: d.State(), catalog: w.catalog, r: r, now: d.Now()}
		if n := rapid.Int64Range(0, 40).Draw(t, "break"); slices.Contains([]int64{2, 3, 5, 8, 9, 10}, n) {
			breaks[n].with(x)
		}
		review, denial := d.Propose(r, w.offered(d))
		if denial != nil || review.Reason != "" {
			return
		}
		d.Judge(review, rapid.SampledFrom([]decide.Verdict{
			allow, allow, allow, allow, allow, allow, allow, allow, allow, allow, allow, allow,
			pauseFor(authority.ProviderError), pauseFor(authority.ProviderError), pauseFor(authority.GoalDrift), {}, terminate,
		}).Draw(t, "verdict"))
	}},
	{"claim", func(w *world, t *rapid.T, d *decide.Deciding) {
		p := d.State().Permit
		if old := w.permits(); len(old) > 0 && rapid.IntRange(0, 9).Draw(t, "old permit") == 7 {
			p = &run.Permit{Permit: authority.Permit{ID: rapid.SampledFrom(old).Draw(t, "permit")}, EntryID: "item"}
		}
		if p == nil {
			return
		}
		r := w.use(d, p)
		if rapid.IntRange(0, 9).Draw(t, "swap") == 7 {
			r.Action.TargetRef = "tgt_other"
		}
		if _, denial := d.Claim(r); denial == nil && w.local() && rapid.Bool().Draw(t, "at once") {
			w.received(d, run.ResultApplied)
		}
	}},
	{"receive", func(w *world, t *rapid.T, d *decide.Deciding) {
		if d.State().Unresolved() {
			w.received(d, rapid.SampledFrom([]string{run.ResultApplied, run.ResultApplied, run.ResultApplied, run.ResultRefused}).Draw(t, "result"))
		}
	}},
	{"not applied", func(w *world, _ *rapid.T, d *decide.Deciding) {
		if x := d.State().Execution; x != nil {
			d.NotApplied(x.ID, "read_failed")
		}
	}},
	{"unconfirmed", func(w *world, _ *rapid.T, d *decide.Deciding) {
		if x := d.State().Execution; x != nil {
			d.Unconfirmed(x.ID, "timeout")
		}
	}},
	{"void", func(w *world, _ *rapid.T, d *decide.Deciding) {
		if x := d.State().Execution; x != nil {
			d.Void(x.ID, "late", authority.HostedUnreachable)
		}
	}},
	{"refuse", func(_ *world, _ *rapid.T, d *decide.Deciding) { d.Refuse("", authority.PermitRequired, elsewhere) }},
	{"session", func(_ *world, _ *rapid.T, d *decide.Deciding) { d.IssueSession(issuer) }},
	{"measure", func(_ *world, _ *rapid.T, d *decide.Deciding) { d.Measure(run.Metrics{}) }},
	{"initialize again", func(_ *world, _ *rapid.T, d *decide.Deciding) { d.Initialize() }},
	{"fail", func(_ *world, _ *rapid.T, d *decide.Deciding) { d.Fail(authority.HostedUnreachable) }},
	{"revoke", func(_ *world, t *rapid.T, d *decide.Deciding) {
		if rapid.IntRange(0, 5).Draw(t, "really") == 5 {
			d.Revoke()
		}
	}},
}

// permits lists the ids of all permits that have a fate.
func (w *world) permits() []string {
	var ids []string
	for id := range w.fates {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// TestAnyHistory: whatever is asked in whatever order, at whatever time, what
// was stored replays as lawful and amounts to the state that was decided.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := begun(t, rapid.SampledFrom([]string{run.TargetLocal, run.TargetHosted}).Draw(t, "target"))
		pauses := []time.Duration{0, 0, 0, 0, time.Millisecond, time.Second, 9999 * time.Millisecond, 10 * time.Second, 29 * time.Second, 30 * time.Second, time.Minute, 10 * time.Minute, 59 * time.Minute}
		w.history(t, rapid.IntRange(1, 60).Draw(t, "length"), pauses, slices.Concat(errands, ownerErrands), []int{1, 2, 2, 3, 3, 4, 4, 1, 2, 3, 4})
	})
}

// history sends a run on random errands, the usual ones more often than others, with
// pauses between them.
func (w *world) history(t *rapid.T, length int, pauses []time.Duration, errands []errand, usual []int) {
	for range length {
		w.after(rapid.SampledFrom(pauses).Draw(t, "pause"))
		w.dead = rapid.IntRange(0, 9).Draw(t, "holder is gone") == 7
		if rapid.IntRange(0, 9).Draw(t, "price moves") == 7 {
			w.shop.Price = rapid.Int64Range(int64(price)-2, int64(price)+1).Draw(t, "price")
		}
		i := rapid.IntRange(0, len(errands)-1).Draw(t, "errand")
		if rapid.SampledFrom([]bool{true, true, false}).Draw(t, "usual") {
			i = rapid.SampledFrom(usual).Draw(t, "usual errand")
		}
		out, err := w.attempt(func(d *decide.Deciding) { errands[i].do(w, t, d) })
		if err != nil {
			var u *run.Unlawful
			if !errors.As(err, &u) || out != nil {
				t.Fatalf("%s: %v, %v", errands[i].name, out, err)
			}
			continue // the machine refused; nothing is stored
		}
		w.store(out)
		w.invariants(out)
	}
	w.verify()
}

// invariants hold after every commit (requirements, section 6).
func (w *world) invariants(out *decide.Transition) {
	w.Helper()
	s := w.read()
	if s.Budget.Spent+s.Budget.Reserved > s.Budget.Limit+s.Overspent { // L-4: the one exception
		w.Fatalf("budget %+v", s.Budget)
	}
	open, live := 0, s.Permit != nil
	for i, e := range w.events {
		if e.Sequence != int64(i+1) {
			w.Fatalf("event %d has sequence %d", i+1, e.Sequence)
		}
		if e.Type == "permit.issued" {
			open++
		}
	}
	if open -= len(w.fates); open > 1 || (open == 1) != live {
		w.Fatalf("%d permits are open, live %v", open, live)
	}
	if live && s.Unresolved() {
		w.Fatal("a permit is live while an effect is unresolved")
	}
	if (s.Stop != nil) != (s.Status == run.StatusPaused || s.Terminal() && s.Status != run.StatusCompleted) {
		w.Fatalf("status %s with stop %+v", s.Status, s.Stop)
	}
	if held := s.Execution != nil && s.Execution.Owed; held != (s.Budget.Reserved > 0) && (s.Execution == nil || s.Execution.AmountCents > 0) {
		w.Fatalf("reserved %s, execution %+v", s.Budget.Reserved, s.Execution)
	}
	if due := s.Due(); !due.IsZero() && evidence.TimeOf(due) <= s.UpdatedAt {
		w.Fatalf("still due at %v after %v", due, s.UpdatedAt)
	}
	last := ""
	for _, draft := range out.Drafts {
		if !authority.IsID(draft.ID) || draft.ID <= last {
			w.Fatalf("event id %s after %s", draft.ID, last)
		}
		last = draft.ID
	}
	for _, text := range out.Texts {
		if !canon.IsHash(text.Commitment) || len(text.Salt) != evidence.SaltSize {
			w.Fatalf("text %+v", text)
		}
	}
	if again, err := s.Encode(); err != nil || string(again) != string(w.state) {
		w.Fatalf("the state changes when it is read and written: %v", err)
	}
}

// TestDecidingIsDeterministic: the same state, request, time and seed give the
// same transition.
func TestDecidingIsDeterministic(t *testing.T) {
	a, b := before(run.TargetHosted, "done")(t), before(run.TargetHosted, "done")(t)
	if a.events[len(a.events)-1].Hash != b.events[len(b.events)-1].Hash || string(a.state) != string(b.state) {
		t.Error("two equal purchases differ")
	}
}

// FuzzReplay: replay says what it thinks of any data of any event, and never
// panics.
func FuzzReplay(f *testing.F) {
	w := approved(run.TargetHosted)(f)
	w.claim(w.permit("submit"))
	w.receive(run.ResultRefused)
	for i, e := range w.events {
		f.Add(uint8(i), e.Type, []byte(e.Data))
	}
	for _, c := range unlawfulCases {
		if c.rule == "event-data" || c.rule == "first-event" {
			e := c.chain(f)
			last := e[len(e)-1]
			f.Add(uint8(4), last.Type, []byte(last.Data))
		}
	}
	f.Fuzz(func(t *testing.T, place uint8, eventType string, data []byte) {
		i := int(place) % len(w.events)
		end := min(i+4, len(w.events)) // what follows at once is enough,
		for end < len(w.events) && w.events[end].Timestamp == w.events[end-1].Timestamp {
			end++ // to the end of its commit
		}
		events := slices.Clone(w.events[:end])
		events[i].Type, events[i].Data = eventType, data
		r := replayed(events)
		_ = r.State().Outcome()
		for _, u := range r.Unlawful() {
			if u.Rule == "" || u.Sequence < int64(i+1) {
				t.Fatalf("%+v before the change at event %d", u, i+1)
			}
		}
		if eventType == w.events[i].Type && string(data) == string(w.events[i].Data) && len(r.Unlawful()) > 0 {
			t.Fatalf("the chain itself is unlawful: %v", r.Unlawful())
		}
	})
}
