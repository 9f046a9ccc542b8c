package incident_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"countersign/internal/runbook/incident"
)

// the incident, its mitigations, statuses and tools are those of G-24; approve has
// no tool.
func TestFixture(t *testing.T) {
	i := incident.TheIncident
	if got := fmt.Sprint(i.ID, i.Service, i.Severity, i.Change.ID, i.Change.Setting, i.Change.From, i.Change.To); got != fmt.Sprint("INC-2841", "checkout-api", "SEV-2", "db-pool-842", "max connections", int64(120), int64(40)) {
		t.Errorf("the incident is %s", got)
	}
	// 4.8 s, 8.7 %, 94 %; below 1.5 s, 1 %, 75 %.
	if i.Baseline != (incident.Metrics{LatencyMillis: 4800, ErrorsPerMille: 87, PoolPercent: 94}) || i.Targets != (incident.Metrics{LatencyMillis: 1500, ErrorsPerMille: 10, PoolPercent: 75}) {
		t.Errorf("baseline %+v, targets %+v", i.Baseline, i.Targets)
	}
	want := []struct {
		id, risk        string
		latency, errors int64
		status          string
	}{{"restore-pool", "low", 1200, 6, "mitigated"}, {"shift-traffic", "medium", 1800, 11, "monitoring"}, {"scale-workers", "medium", 3900, 64, "monitoring"}}
	for n, m := range incident.Catalog {
		if w := want[n]; m.ID != w.id || m.Risk != w.risk || m.Projected.LatencyMillis != w.latency || m.Projected.ErrorsPerMille != w.errors || m.Title == "" || m.Summary == "" {
			t.Errorf("mitigation %d is %+v, want %+v", n, m, w)
		}
		w := begun(t)
		w.stage(m.ID)
		w.approve()
		if x := w.execute().Result.Execution; x.Status != want[n].status || x.After != m.Projected || x.Before != i.Baseline || w.state().Status != want[n].status || w.state().Metrics != m.Projected {
			t.Errorf("%s comes to %+v", m.ID, x)
		}
	}
	if len(incident.Catalog) != 3 {
		t.Errorf("%d mitigations", len(incident.Catalog))
	}
	if _, known := incident.MitigationOf("restore-pools"); known {
		t.Error("a mitigation that is not there is found")
	}
	var tools []string
	for _, o := range incident.Operations {
		tools = append(tools, incident.ToolOf(o))
	}
	if got := strings.Join(tools, " "); got != "get_incident_snapshot compare_mitigations stage_mitigation  execute_approved_mitigation reset_incident_simulation" {
		t.Errorf("tools %q", got)
	}
	if got := strings.Join(incident.Channels, " "); got != "human webmcp simulator api" {
		t.Errorf("channels %q", got)
	}
	if got := incident.EventTypes(); !slices.Equal(got, []string{"incident.receipt"}) {
		t.Errorf("events %v", got)
	}
	if len(incident.Boundary) != 7 || slices.Contains(incident.Boundary, "") {
		t.Errorf("%d sentences", len(incident.Boundary))
	}
}

// A target is met below its value, not at it, and all three count (G-24).
func TestMeet(t *testing.T) {
	targets := incident.Metrics{LatencyMillis: 1500, ErrorsPerMille: 10, PoolPercent: 75}
	for _, c := range []struct {
		is   incident.Metrics
		want bool
	}{
		{incident.Metrics{LatencyMillis: 1499, ErrorsPerMille: 9, PoolPercent: 74}, true},
		{incident.Metrics{LatencyMillis: 1500, ErrorsPerMille: 9, PoolPercent: 74}, false},
		{incident.Metrics{LatencyMillis: 1499, ErrorsPerMille: 10, PoolPercent: 74}, false},
		{incident.Metrics{LatencyMillis: 1499, ErrorsPerMille: 9, PoolPercent: 75}, false},
	} {
		if got := c.is.Meet(targets); got != c.want {
			t.Errorf("%+v: %t", c.is, got)
		}
	}
}
