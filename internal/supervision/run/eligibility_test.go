package run_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"countersign/internal/authority"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/state"
	"countersign/internal/supervision/stopcontext"
)

// What the table of eligibility ranges over. Only a paused or ended run has a stop, so
// only there categories differ.
var (
	eligibilityStops = [][2]string{
		{"created", "-"}, {"ready", "-"}, {"running", "-"}, {"completed", "-"},
		{"paused", "approval"}, {"paused", "clarification"}, {"paused", "refusal"}, {"paused", "retry"}, {"paused", "configuration"},
		{"paused", "authority"}, {"paused", "limit"}, {"paused", "reconciliation"},
		{"revoked", "terminal"}, {"terminated", "terminal"}, {"failed", "configuration"}, {"failed", "reconciliation"},
	}
	eligibilityDispatches = []string{"none", "permitted", "claimed", "dispatched", "unconfirmed", "receipted"}
	eligibilityRoutes     = []string{"step", "play", "revoke", "retry", "clarify", "approve", "simulate", "reconcile", "probe"}
)

// sampleReasons has one reason of each category.
var sampleReasons = map[string]string{
	"approval": authority.ApprovalRequired, "clarification": authority.GoalDrift, "refusal": authority.ExecutorRefused, "retry": authority.StaleState,
	"configuration": authority.HostedUnreachable, "authority": authority.GrantExpired, "limit": authority.TurnLimit,
	"reconciliation": authority.DispatchUnconfirmed, "terminal": authority.OwnerRevoked,
}

// readEligibility reads the table: what is expected by status, category, dispatch and
// route. Two expectations for the same are a failure.
func readEligibility(t *testing.T) map[[4]string]string {
	t.Helper()
	file, err := os.Open("testdata/eligibility.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	table := map[[4]string]string{}
	var routes []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		cells := strings.Split(lines.Text(), "\t")
		if routes == nil {
			routes = cells[3:]
			continue
		}
		for i, route := range routes {
			place := [4]string{cells[0], cells[1], cells[2], route}
			if _, twice := table[place]; twice {
				t.Errorf("%v stands in the table twice", place)
			}
			table[place] = cells[3+i]
		}
	}
	return table
}

// crafted is a run that is so. Some are unlawful, and then have to be refused all the
// more.
func crafted(t *testing.T, target, status, category, sent string) (*world, *run.State) {
	t.Helper()
	w := permitted(target, "prepare")(t)
	permit := w.read().Permit
	w = dispatched(target, "prepare")(t)
	s := w.read()
	x := s.Execution
	s.Status, s.Stage, s.Stop, s.Lease, s.Permit, s.Execution = status, "idle", nil, nil, nil, nil
	if category != "-" {
		s.Stop = s.NewStop(sampleReasons[category], stopcontext.SourceRuntime, w.id())
		if s.Stop.Category != category {
			t.Fatalf("%s is of the category %s", sampleReasons[category], s.Stop.Category)
		}
	}
	if status == run.StatusRunning {
		s.Lease = &run.Lease{Holder: holder, Until: w.now.Add(run.LeaseLife)}
	}
	switch sent {
	case "permitted":
		s.Permit = permit
	case "claimed", "dispatched", "unconfirmed":
		s.Execution = x
		if x.State = sent; sent == "claimed" {
			x.DispatchedAt = 0
		}
	case "receipted":
		s.Execution = x
		x.State, x.Owed = run.ExecutionVerified, false
	}
	s.Proposal = &run.Proposal{ID: w.id(), ExpiresAt: w.now.Add(run.ProposalLife), StateRevision: s.StateRevision, DocumentEpoch: s.DocumentEpoch}
	return w, s
}

// tries asks for each route. Steps are the same question twice: play begins as step does.
var tries = map[string]func(*decide.Deciding, string) *authority.Denial{
	"step":     func(d *decide.Deciding, _ string) *authority.Denial { _, denial := d.CanStep(); return denial },
	"play":     func(d *decide.Deciding, _ string) *authority.Denial { _, denial := d.CanStep(); return denial },
	"revoke":   func(d *decide.Deciding, _ string) *authority.Denial { return d.Revoke() },
	"retry":    func(d *decide.Deciding, _ string) *authority.Denial { return d.Retry() },
	"clarify":  func(d *decide.Deciding, _ string) *authority.Denial { return d.Clarify("the blue one") },
	"approve":  func(d *decide.Deciding, _ string) *authority.Denial { return d.CanApprove() },
	"simulate": func(d *decide.Deciding, _ string) *authority.Denial { return d.Simulate(run.SimulateNavigate) },
	"probe":    func(d *decide.Deciding, id string) *authority.Denial { _, denial := d.InDoubt(id); return denial },
	"reconcile": func(d *decide.Deciding, id string) *authority.Denial {
		return d.Reconcile(decide.Statement{ExecutionID: id, Finding: state.FindingUnknown})
	},
}

// G-03: every pair of a run's situation and a route is in the table, and is decided so.
// What is refused leaves no trace; what a person is shown as possible is the same.
func TestEligibility(t *testing.T) {
	table := readEligibility(t)
	asked := 0
	for _, stop := range eligibilityStops {
		for _, sent := range eligibilityDispatches {
			for _, route := range eligibilityRoutes {
				want, ok := table[[4]string{stop[0], stop[1], sent, route}]
				if !ok {
					t.Errorf("the table does not say what %s is for %v %s", route, stop, sent)
					continue
				}
				asked++
				target := run.TargetHosted
				if route == "simulate" {
					target = run.TargetLocal
				}
				w, s := crafted(t, target, stop[0], stop[1], sent)
				eligible := slices.Contains(decide.Eligible(s, w.now, false), strings.Replace(route, "play", "step", 1))
				id := w.id()
				if s.Execution != nil {
					id = s.Execution.ID
				}
				d := decide.Begin(s, w.now, w.fresh(), true, decide.Doors{})
				got := "ok"
				if denial := tries[route](d, id); denial != nil {
					got = denial.Reason
				}
				what := fmt.Sprintf("%s of %s/%s, %s", route, stop[0], stop[1], sent)
				if got != want {
					t.Errorf("%s: %s, want %s", what, got, want)
				}
				if got != "ok" && d.Changed() {
					t.Errorf("%s: refused and not without a trace", what)
				}
				if again := stop[0] == run.StatusRevoked && route == "revoke"; eligible != (want == "ok") && !again {
					t.Errorf("%s: shown as possible is %t", what, eligible)
				}
				if s.Permit != nil && d.Changed() && route != "simulate" {
					t.Errorf("%s: the unused permit is still live", what)
				}
			}
		}
	}
	if len(table) != asked {
		t.Errorf("%d expectations, of which %d were asked for", len(table), asked)
	}
}

// H-187: nothing is recovered from a stop of an unknown version.
func TestUnknownStopVersion(t *testing.T) {
	for category := range sampleReasons {
		for _, route := range []string{"retry", "clarify", "approve"} {
			w, s := crafted(t, run.TargetHosted, run.StatusPaused, category, "none")
			s.Stop.Version = 2
			d := decide.Begin(s, w.now, w.fresh(), true, decide.Doors{})
			if denial := tries[route](d, ""); denial == nil || denial.Reason != authority.StopVersionUnknown || d.Changed() {
				t.Errorf("%s of a %s stop of version 2: %v", route, category, denial)
			}
			if possible := decide.Eligible(s, w.now, false); slices.Contains(possible, route) {
				t.Errorf("%s of a %s stop of version 2 is shown as possible", route, category)
			}
		}
	}
}
