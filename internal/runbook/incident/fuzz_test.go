package incident_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/runbook/incident"
)

// FuzzReplay puts whatever is offered in the place of a receipt of a lawful chain, with two
// of its values changed: no chain makes the replay panic, and nothing is executed lawfully
// but where the machine executed.
func FuzzReplay(f *testing.F) {
	w := approved(f)
	w.execute()
	w.execute()
	w.ask("approve", "human", w.approval(), incident.Seen{Form: true})
	w.reset()
	w.stage(shifted)
	w.approve()
	chain := w.events
	for i, e := range chain {
		f.Add(uint8(i), e.Timestamp, []byte(e.Data), uint16(0), uint16(0), []byte("{"), []byte("{"))
		for node := range uint16(12) {
			f.Add(uint8(i), e.Timestamp, []byte(e.Data), node*5, node*7+1, []byte("null"), []byte(`"mitigation.executed"`))
		}
	}
	f.Add(uint8(0), "9999-12-31T23:59:59.999Z", []byte(chain[0].Data), uint16(0), uint16(0), []byte("{"), []byte("{"))
	f.Add(uint8(1), "9999-12-31T23:59:59.999Z", []byte(chain[1].Data), uint16(3), uint16(4), []byte(`"execution.replayed"`), []byte("9007199254740991"))
	f.Add(uint8(1), "yesterday", []byte(chain[1].Data), uint16(0), uint16(0), []byte(`"\ud83d\ude00"`), []byte("-1"))
	f.Add(uint8(2), chain[0].Timestamp, []byte(`{"subject":null}`), uint16(0), uint16(0), []byte("[]"), []byte("{}"))
	f.Fuzz(func(t *testing.T, place uint8, timestamp string, data []byte, first, second uint16, a, b []byte) {
		at := int(place) % len(chain)
		data = replaced(replaced(data, first, a), second, b)
		r := incident.NewReplay()
		for _, e := range chain[:at] {
			r.Apply(e)
		}
		before := r.State().Executions
		r.Apply(evidence.Event{ID: "x", RunID: session, Sequence: int64(at + 1), Type: "incident.receipt", Data: data, Timestamp: timestamp})
		if r.Known() && len(r.Unlawful()) == 0 && (!canon.IsCanonical(data) || r.State().Executions > before && at != 2) {
			t.Errorf("lawful as receipt %d: %s", at+1, data)
		}
		for _, e := range chain[at:] {
			r.Apply(e)
		}
	})
}

// replaced puts a value in the place of the nth of all values that data is made of; what is
// no JSON stays as it is.
func replaced(data []byte, nth uint16, value []byte) []byte {
	var tree, put any
	if json.Unmarshal(data, &tree) != nil || json.Unmarshal(value, &put) != nil {
		return data
	}
	n := int(nth) % 64
	var walk func(any) any
	walk = func(v any) any {
		if n--; n < 0 {
			n = 1 << 30
			return put
		}
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				v[name] = walk(v[name])
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		}
		return v
	}
	raw, err := json.Marshal(walk(tree))
	if err != nil {
		return data
	}
	if canonical, err := canon.Canonical(raw); err == nil {
		return canonical
	}
	return raw
}
