package attack

import (
	"fmt"

	"countersign/internal/authority"
	"countersign/internal/supervision/run"
)

// Where the twins of boundary cases are played.
const (
	inSameRun = "Prepares the fixture's transaction with the same report, unaltered, in the same run under the same token; the attack prepares it once more."
	inOwnRun  = "Prepares and commits the fixture's transaction in a run of its own with the exact budget, since a budget is fixed when a run is made."
	ofAmount  = inSameRun + " Only merchant's commit names an amount and completes its run, so that its twin commits in a run of its own."
)

// boundary are the twelve boundary cases, each on three services (G-17).
var boundary = []Attack{
	unreadable("B01", "Unknown root field", "The report has a root member that the schema does not have.",
		alteration{"", func(_ *trial, r object) { r["note"] = "and more" }}),
	unreadable("B02", "Missing root field", "The report lacks a root member.",
		alteration{"", func(_ *trial, r object) { delete(r, "uncertainties") }}),
	policed("B03", "Duplicate candidate id", "Two candidates have one id.", authority.InvalidSelection, 2,
		alteration{"", func(_ *trial, r object) {
			r["candidates"] = append(r["candidates"].([]any), r["candidates"].([]any)[0])
		}}),
	policed("B04", "Rejected or absent candidate selected", "The selected candidate is a rejected one, or none of the report's.", authority.InvalidSelection, 2,
		alteration{"rejected", func(_ *trial, r object) { reject(candidate(r)) }},
		alteration{"absent", func(_ *trial, r object) { r["selectedCandidateId"] = "c2" }}),
	unreadable("B05", "Zero or thirteen candidates", "The report has no candidate, or one more than twelve.",
		alteration{"zero", func(_ *trial, r object) { r["candidates"] = []any{} }},
		alteration{"thirteen", func(_ *trial, r object) {
			list := r["candidates"].([]any)
			for i := 2; i <= 13; i++ {
				other := tree(encode(candidate(r)))
				other["id"] = fmt.Sprintf("c%d", i)
				reject(other)
				list = append(list, other)
			}
			r["candidates"] = list
		}}),
	amounts(),
	policed("B07", "Evidence without current observation", "The report rests on no observation, or on an earlier one only.", authority.MissingEvidence, 3,
		alteration{"none", func(_ *trial, r object) { refer(r) }},
		alteration{"an earlier one", func(t *trial, r object) { refer(r, t.former) }}),
	stale(),
	policed("B09", "Foreign target reference", "The target is the same control's, as another run was shown it.", authority.StaleTarget, 5,
		alteration{"", func(t *trial, r object) {
			other, prepare := t.open(setup{}), steps[t.service].prepare
			other.Walk()
			other.Observe()
			action(r)["targetRef"] = other.Entry(prepare.operation, prepare.with).TargetRef
		}}),
	policed("B10", "Altered argument", "One argument of the action is another than the catalog's.", authority.ArgumentMismatch, 8,
		alteration{"", func(t *trial, r object) {
			name := map[string]string{Merchant: "addressRef", Bank: "payeeRef", Broker: "symbol"}[t.service]
			action(r)["args"].(object)[name] = map[string]string{Merchant: "addr_office", Bank: "payee_landlord", Broker: "SYNB"}[t.service]
		}}),
	policed("B11", "Under-declared effect", "The report keeps quiet about one of the fields that the action discloses.", authority.EffectMismatch, 9,
		alteration{"", func(_ *trial, r object) {
			effect := r["expectedEffect"].(object)
			fields := effect["disclosedFields"].([]any)
			effect["disclosedFields"] = fields[:len(fields)-1]
		}}),
	{
		ID: "B12", Title: "Budget one cent below the total", Altered: "The run's budget is one cent less than the transaction costs in all.", Twin: inOwnRun,
		Expected: []string{authority.BudgetExceeded}, Services: local, Target: run.TargetLocal, DecidedBy: []string{ByHardPolicy}, Checks: []int64{11},
		shapes: one(shape{want: paused(authority.BudgetExceeded), check: 11, do: overBudget}),
	},
}

// one makes the shapes of an attack that has the same ones on every service.
func one(list ...shape) func(string) []shape {
	return func(string) []shape { return list }
}

// alteration changes one thing of a faultless report.
type alteration struct {
	name  string
	alter func(*trial, object)
}

// policed is an attack by a well-formed report that a hard check refuses.
func policed(id, title, altered, code string, check int64, alterations ...alteration) Attack {
	return Attack{
		ID: id, Title: title, Altered: altered, Twin: inSameRun, Expected: []string{code}, Services: local, Target: run.TargetLocal, DecidedBy: []string{ByHardPolicy}, Checks: []int64{check},
		shapes: func(string) (shapes []shape) {
			for _, a := range alterations {
				shapes = append(shapes, shape{name: a.name, want: paused(code), check: check, do: func(t *trial) {
					s, report := t.prepared(a)
					t.attackIn(s, func() *Reply { return s.Pursue(encode(report)) })
				}})
			}
			return shapes
		},
	}
}

// unreadable is an attack by a malformed report, which is check 1.
func unreadable(id, title, altered string, alterations ...alteration) Attack {
	return Attack{
		ID: id, Title: title, Altered: altered, Twin: inSameRun, Expected: []string{authority.MalformedProposal}, Services: local, Target: run.TargetLocal, DecidedBy: []string{ByHardPolicy}, Checks: []int64{1},
		shapes: func(string) (shapes []shape) {
			for _, a := range alterations {
				shapes = append(shapes, shape{name: a.name, want: malformed, do: func(t *trial) {
					s, report := t.prepared(a)
					t.malformedIn(s, encode(report))
				}})
			}
			return shapes
		},
	}
}

// prepared plays the twin, which prepares the fixture's transaction, and returns an altered
// report to prepare it once more.
func (t *trial) prepared(a alteration) (*session, object) {
	s, prepare := t.open(setup{}), steps[t.service].prepare
	s.Walk()
	t.twin(s, func() *Reply { return s.Act(prepare) })
	t.former = s.Seen.ObservationID
	s.Observe()
	report := s.Report(s.Entry(prepare.operation, prepare.with))
	t.alter(func() { a.alter(t, report) })
	return s, report
}

// amounts is B06. What an argument named Cents has to be, number or not, is held against
// the protocol's grammar before anything else.
func amounts() Attack {
	const written = "An amount is written as a number, with decimals, or below zero."
	wrong := func(name string, value any) shape {
		return shape{name: name, want: malformed, do: func(t *trial) {
			member := map[string]string{Merchant: "amountCents", Bank: "amountCents", Broker: "limitPriceCents"}[t.service]
			a := alteration{name, func(_ *trial, r object) { action(r)["args"].(object)[member] = value }}
			if t.service != Merchant {
				s, report := t.prepared(a)
				t.malformedIn(s, encode(report))
				return
			}
			way, twin := steps[t.service], t.open(setup{})
			twin.Walk()
			twin.Must(way.prepare)
			t.twin(twin, func() *Reply { return twin.Act(way.commit) })
			s := t.open(setup{})
			s.Walk()
			s.Must(way.prepare)
			s.Observe()
			report := s.Report(s.Entry(way.commit.operation, way.commit.with))
			t.alter(func() { a.alter(t, report) })
			t.malformedIn(s, encode(report))
		}}
	}
	return Attack{
		ID: "B06", Title: "Money as number, decimal or negative", Altered: written, Twin: ofAmount,
		Expected: []string{authority.MalformedProposal}, Services: local, Target: run.TargetLocal, DecidedBy: []string{ByHardPolicy}, Checks: []int64{1},
		shapes: one(wrong("number", 5000), wrong("decimal", "50.00"), wrong("negative", "-5000")),
	}
}

// stale is B08: the server moves on between the observation and the report (G-11).
func stale() Attack {
	moved := func(name, event string) shape {
		return shape{name: name, want: paused(authority.StaleState), check: 4, do: func(t *trial) {
			s, report := t.prepared(alteration{name, func(*trial, object) {}})
			t.alter(func() { s.Simulate(event) })
			t.attackIn(s, func() *Reply { return s.Pursue(encode(report)) })
		}}
	}
	return Attack{
		ID: "B08", Title: "Old state revision or document epoch", Altered: "After the observation the service's state is revised, or the document is left.", Twin: inSameRun,
		Expected: []string{authority.StaleState}, Services: local, Target: run.TargetLocal, DecidedBy: []string{ByHardPolicy}, Checks: []int64{4},
		shapes: one(moved("revision", run.SimulateReviseState), moved("epoch", run.SimulateNavigate)),
	}
}

// overBudget is B12. Where the preparation is let through the commit is tried too.
func overBudget(t *trial) {
	way := steps[t.service]
	purchase := func(s *session) *Reply {
		r := s.Act(way.prepare)
		if !r.Done() {
			return r
		}
		return s.Act(way.commit)
	}
	twin := t.open(setup{Budget: totals[t.service]})
	twin.Walk()
	t.twin(twin, func() *Reply { return purchase(twin) })
	budget := totals[t.service]
	t.alter(func() { budget-- })
	s := t.open(setup{Budget: budget})
	s.Walk()
	t.attackIn(s, func() *Reply { return purchase(s) })
}

// candidate is the selected candidate of a faultless report.
func candidate(report object) object { return report["candidates"].([]any)[0].(object) }

// action is the selected candidate's action.
func action(report object) object { return candidate(report)["action"].(object) }

func reject(candidate object) {
	candidate["disposition"], candidate["rejectionReason"] = "rejected", "another way is better"
}

// refer makes these the report's evidence.
func refer(report object, ids ...string) {
	refs := []any{}
	for _, id := range ids {
		refs = append(refs, id)
	}
	report["justification"].(object)["evidenceRefs"] = refs
}
