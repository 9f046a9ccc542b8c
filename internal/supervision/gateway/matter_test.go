package gateway_test

import (
	"reflect"
	"testing"

	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
)

// listening is a guardian that keeps what it was asked.
type listening struct {
	gateway.Guardian
	asked []decide.Matter
	said  []string
}

func (l *listening) Judge(m decide.Matter) decide.Verdict {
	instruction, err := m.Text(m.Instruction)
	if err != nil {
		panic(err)
	}
	l.asked, l.said = append(l.asked, m), append(l.said, instruction)
	if m.Observation.View != nil {
		view, err := m.Text(*m.Observation.View)
		if err != nil {
			panic(err)
		}
		l.said = append(l.said, view)
	}
	return l.Guardian.Judge(m)
}

// TestGuardianHearsTheTrustedContext: the guardian is asked with the report and
// with the same trusted context that the checks used, and only when every check has
// passed (H-074, H-016, H-040, H-004, G-10).
func TestGuardianHearsTheTrustedContext(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		var heard *listening
		h := newHouse(t, e, func(c *gateway.Config) { heard = &listening{Guardian: c.Guardian}; c.Guardian = heard })
		id := h.create(run.TargetLocal)
		h.do(id, "merchant.catalog")
		seen, entry := h.entry(id, "product:fieldwork-keyboard")
		if _, err := h.Propose(t.Context(), id, "", report(seen, entry)); err != nil {
			t.Fatal(err)
		}
		if len(heard.asked) != 2 {
			t.Fatalf("asked %d times, want once a report", len(heard.asked))
		}
		m, s := heard.asked[1], h.state(id)
		if m.Service != "merchant" || m.Position != "prepare" || !reflect.DeepEqual(m.Grants, s.Grants) || string(m.Terms) != string(s.Terms) ||
			!reflect.DeepEqual(m.Workflow, s.Workflow) || m.Report.Candidates[0].Action.TargetRef != entry.TargetRef || m.Review.Entry.EntryID != entry.EntryID {
			t.Errorf("asked about %+v", m)
		}
		if !reflect.DeepEqual(*m.Observation, seen.Observed) {
			t.Errorf("it was shown the observation\n%+v, the agent\n%+v", *m.Observation, seen.Observed)
		}
		for _, f := range m.Review.Findings {
			if f.Result != run.CheckPassed {
				t.Errorf("it was asked although %+v", f)
			}
		}
		if last := heard.said[len(heard.said)-2:]; last[0] != createRequest(run.TargetLocal).Instruction || seen.View == nil || last[1] != *seen.View {
			t.Errorf("it read %q", last)
		}
	})
}
