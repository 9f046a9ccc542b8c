package incident

import "slices"

// Incident is what happened, as it is shown. It is a fixture (G-24).
type Incident struct {
	ID       string  `json:"id"`
	Service  string  `json:"service"`
	Severity string  `json:"severity"`
	Title    string  `json:"title"`
	Change   Change  `json:"change"`
	Baseline Metrics `json:"baseline" doc:"As the incident was found."`
	Targets  Metrics `json:"targets" doc:"Met below these values, not at them."`
}

// Change is the change that is suspected.
type Change struct {
	ID      string `json:"id"`
	Summary string `json:"summary"`
	Setting string `json:"setting"`
	From    int64  `json:"from"`
	To      int64  `json:"to"`
}

// Metrics are three measures of the service, in whole units.
type Metrics struct {
	LatencyMillis  int64 `json:"p95LatencyMs" doc:"95th percentile of latency, milliseconds."`
	ErrorsPerMille int64 `json:"errorsPerMille" doc:"Failed requests of 1,000."`
	PoolPercent    int64 `json:"poolUsePercent" doc:"Connections in use, percent of the pool."`
}

// Meet reports whether every measure is below its target.
func (m Metrics) Meet(targets Metrics) bool {
	return m.LatencyMillis < targets.LatencyMillis && m.ErrorsPerMille < targets.ErrorsPerMille && m.PoolPercent < targets.PoolPercent
}

// Mitigation is one predefined mitigation with its projected effect.
type Mitigation struct {
	ID        string  `json:"id"`
	Title     string  `json:"title"`
	Summary   string  `json:"summary"`
	Risk      string  `json:"risk" enum:"low,medium"`
	Projected Metrics `json:"projected"`
}

// TheIncident is the one incident of every session.
var TheIncident = Incident{
	ID: "INC-2841", Service: "checkout-api", Severity: "SEV-2", Title: "Checkout is slow and failing",
	Change:   Change{ID: "db-pool-842", Summary: "A change cut the database connection pool.", Setting: "max connections", From: 120, To: 40},
	Baseline: Metrics{LatencyMillis: 4800, ErrorsPerMille: 87, PoolPercent: 94},
	Targets:  Metrics{LatencyMillis: 1500, ErrorsPerMille: 10, PoolPercent: 75},
}

// Catalog are the mitigations, in the order of risk. Latency and errors are those of G-24.
// Only restore-pool changes the pool: 94 % of 40 connections are 31 % of 120, cut.
var Catalog = []Mitigation{
	{"restore-pool", "Restore the connection pool", "Set max connections back from 40 to 120.", "low", Metrics{1200, 6, 31}},
	{"shift-traffic", "Shift traffic", "Send part of the traffic to another region.", "medium", Metrics{1800, 11, 94}},
	{"scale-workers", "Scale workers", "Start more checkout workers on the same pool.", "medium", Metrics{3900, 64, 94}},
}

// MitigationOf returns a mitigation of the catalog by its id.
func MitigationOf(id string) (Mitigation, bool) {
	i := slices.IndexFunc(Catalog, func(m Mitigation) bool { return m.ID == id })
	if i < 0 {
		return Mitigation{}, false
	}
	return Catalog[i], true
}
