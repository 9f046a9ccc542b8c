package channel_test

import (
	"encoding/json"
	"testing"
	"time"

	"countersign/internal/canon"
)

// metrics are the durations of one event, in microseconds.
type metrics struct {
	TurnID            *string `json:"turnId"`
	ExecutionID       *string `json:"executionId"`
	ExecutorMicros    *int64  `json:"executorMicros"`
	PolicyMicros      *int64  `json:"policyMicros"`
	GuardianMicros    *int64  `json:"guardianMicros"`
	ExecutionMicros   *int64  `json:"executionMicros"`
	ObservationMicros *int64  `json:"observationMicros"`
}

// meter reads the metrics events of a run from its stream.
type meter struct {
	*stream
	of *consumer
	at int64 // the last event that was read
}

// read returns those behind the last event that was read, up to the run's head.
func (m *meter) read() (list []metrics) {
	m.t.Helper()
	for head := int64(m.of.total(m.of.run)); m.at < head; {
		id, event, data, more := m.frame()
		if !more {
			m.t.Fatal("the stream ended")
		}
		m.at = id
		if event != "metrics" {
			continue
		}
		var signed struct{ Data json.RawMessage }
		must(m.t, json.Unmarshal(data, &signed))
		var one metrics
		must(m.t, canon.Unmarshal(signed.Data, &one))
		list = append(list, one)
	}
	return list
}

// H-155: the metrics that a stream shows are measured. None is longer than the
// request it was measured in, and what waited for a slow store took as long as that.
func TestMetrics(t *testing.T) {
	t.Parallel()
	const slow = 30 * time.Millisecond
	h := newHouse(t, func(c *config) { c.slow = slow })
	for _, target := range []string{"local", "hosted"} {
		c := h.agent(target)
		m := &meter{stream: h.stream(c.run, ""), of: c}
		for _, entry := range purchase {
			report := c.report(entry)
			m.read()
			start := time.Now()
			p := permitOf(c.ask("POST", "/turns", report))
			took := time.Since(start)
			decided := m.read()
			if len(decided) != 1 || decided[0].TurnID == nil || decided[0].PolicyMicros == nil || decided[0].GuardianMicros == nil {
				t.Fatalf("%s %s: metrics of a report %s", target, entry, mustJSON(decided))
			}
			policy, guardian := *decided[0].PolicyMicros, *decided[0].GuardianMicros
			if policy <= 0 || guardian < 0 || micros(policy+guardian) > took {
				t.Errorf("%s %s: policy %d µs and guardian %d µs of a request that took %s", target, entry, policy, guardian, took)
			}
			start = time.Now()
			c.operate(p).is(t, entry, 200, "")
			took = time.Since(start)
			var execution, observation *int64
			for _, one := range m.read() {
				if one.ExecutorMicros != nil {
					t.Errorf("%s %s: the executor, which is elsewhere, took %d µs", target, entry, *one.ExecutorMicros)
				}
				if one.ExecutionMicros != nil {
					execution = one.ExecutionMicros
				}
				if one.ObservationMicros != nil {
					observation = one.ObservationMicros
				}
			}
			if execution == nil {
				t.Fatalf("%s %s: the execution was not measured", target, entry)
			}
			if target == "local" { // it is executed and observed in one step
				if *execution <= 0 || observation == nil || *observation <= 0 || micros(*execution+*observation) > took {
					t.Errorf("%s %s: execution %d µs, observation %s µs of a request that took %s", target, entry, *execution, mustJSON(observation), took)
				}
				continue
			}
			if observation == nil || micros(*execution) < slow || micros(*observation) < slow || micros(*execution+*observation) > took {
				t.Errorf("%s %s: execution %d µs and observation %s µs of a request that took %s, with a store that takes %s",
					target, entry, *execution, mustJSON(observation), took, slow)
			}
		}
	}
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
