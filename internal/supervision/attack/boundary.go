package attack

import (
	"countersign/internal/authority"
)

// inSameRun says where the twin of a boundary case is played.
const inSameRun = "Prepares the fixture's transaction with the same report, unaltered, in the same run under the same token; the attack prepares it once more."

// boundary are the twelve boundary cases, each on three services (G-17).
var boundary = []Attack{
	reported("B10", "Altered argument", "One argument of the action is another than the catalog's.", authority.ArgumentMismatch, 8,
		alteration{"", func(t *trial, r object) {
			args := action(r)["args"].(object)
			name := map[string]string{Merchant: "addressRef", Bank: "payeeRef", Broker: "symbol"}[t.service]
			args[name] = map[string]string{Merchant: "addr_office", Bank: "payee_landlord", Broker: "SYNB"}[t.service]
		}}),
	reported("B11", "Under-declared effect", "The report keeps quiet about one of the fields that the action discloses.", authority.EffectMismatch, 9,
		alteration{"", func(_ *trial, r object) {
			effect := r["expectedEffect"].(object)
			fields := effect["disclosedFields"].([]any)
			effect["disclosedFields"] = fields[:len(fields)-1]
		}}),
}

// alteration changes one thing of a faultless report.
type alteration struct {
	name  string
	alter func(*trial, object)
}

// reported is an attack by a well-formed report that a hard check refuses.
func reported(id, title, altered, code string, check int64, alterations ...alteration) Attack {
	return Attack{
		ID: id, Title: title, Altered: altered, Twin: inSameRun, Expected: []string{code}, Services: local, DecidedBy: ByHardPolicy, Checks: []int64{check},
		shapes: func(string) (shapes []shape) {
			for _, a := range alterations {
				shapes = append(shapes, shape{a.name, paused(code), check, a.play})
			}
			return shapes
		},
	}
}

// play prepares the fixture's transaction, and then again with an altered report.
func (a alteration) play(t *trial) {
	s, prepare := t.open(setup{}), steps[t.service].prepare
	s.Walk()
	t.twin(s, func() *Reply { return s.Act(prepare.operation, prepare.with) })
	s.Observe()
	report := s.Report(s.Entry(prepare.operation, prepare.with))
	if t.err != nil {
		return
	}
	a.alter(t, report)
	t.attackIn(s, func() *Reply { return s.Pursue(report) })
}

// action is the selected candidate's action of a faultless report.
func action(report object) object {
	return report["candidates"].([]any)[0].(object)["action"].(object)
}
