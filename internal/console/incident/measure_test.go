package incidentpage

import (
	"testing"

	"countersign/internal/runbook/incident"
)

// G-24: the measures are spelled with their units, and a target is met below it, not at it.
func TestMeasures(t *testing.T) {
	at := func(latency, errors, pool int64) [3]string {
		var got [3]string
		for i, m := range measured(incident.Metrics{LatencyMillis: latency, ErrorsPerMille: errors, PoolPercent: pool}, incident.TheIncident.Baseline, incident.TheIncident) {
			got[i] = m.Now + map[bool]string{true: " meets ", false: " misses "}[m.Meets] + m.Target
			if m.Bar < 0 || m.Bar > chartWidth || m.Mark <= 0 || m.Mark >= chartWidth {
				t.Errorf("%s: the bar ends at %d, the target at %d of %d", m.Name, m.Bar, m.Mark, chartWidth)
			}
			if (m.Bar < m.Mark) != m.Meets && m.Bar != m.Mark {
				t.Errorf("%s: the chart says otherwise than the words: %+v", m.Name, m)
			}
		}
		return got
	}
	for _, c := range []struct {
		latency, errors, pool int64
		want                  [3]string
	}{
		{4800, 87, 94, [3]string{"4.8 s misses 1.5 s", "8.7 % misses 1 %", "94 % misses 75 %"}},
		{1200, 6, 31, [3]string{"1.2 s meets 1.5 s", "0.6 % meets 1 %", "31 % meets 75 %"}},
		{1500, 10, 75, [3]string{"1.5 s misses 1.5 s", "1 % misses 1 %", "75 % misses 75 %"}},
		{99_000, 1000, 100, [3]string{"99 s misses 1.5 s", "100 % misses 1 %", "100 % misses 75 %"}},
	} {
		if got := at(c.latency, c.errors, c.pool); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// a projection is compared with the measures as they are now, so that what it would make
// worse after an execution is told, though it is better than the incident as it was found.
func TestMeasuresAgainstNow(t *testing.T) {
	mitigated := incident.Metrics{LatencyMillis: 1200, ErrorsPerMille: 6, PoolPercent: 31}
	o := optionOf(incident.Mitigation{ID: "shift-traffic", Projected: incident.Metrics{LatencyMillis: 1800, ErrorsPerMille: 5, PoolPercent: 31}}, mitigated, incident.TheIncident)
	if o.Missed != "p95 latency" || o.Worse != "p95 latency" {
		t.Errorf("misses %q, makes worse %q", o.Missed, o.Worse)
	}
	for i, want := range []string{"1.2 s -> 1.8 s worse", "0.6 % -> 0.5 % better", "31 % -> 31 % the same"} {
		if m := o.Measured[i]; m.Was+" -> "+m.Now+" "+m.Versus() != want {
			t.Errorf("%+v, want %s", m, want)
		}
	}
}
