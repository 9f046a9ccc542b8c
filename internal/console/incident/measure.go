package incidentpage

import (
	"strconv"

	"countersign/internal/runbook/incident"
)

// measure is one measure of the service against its target, in words and as a bar chart. The
// chart's width is 200.
type measure struct {
	Name             string
	Now, Was, Target string // spelled with their units
	Meets            bool   // below the target
	Bar, Ghost, Mark int64  // ends of the bars of it and of what it is compared with, place of the target
	Changed, Worse   bool   // than what it is compared with; less is better of every measure
}

// Versus says how the measure compares with Was.
func (m measure) Versus() string {
	switch {
	case m.Worse:
		return "worse"
	case m.Changed:
		return "better"
	}
	return "the same"
}

const chartWidth = 200

// kinds are the measures: what each is called, how it is spelled, where its chart ends.
var kinds = []struct {
	name  string
	spell func(int64) string
	end   int64
	of    func(incident.Metrics) int64
}{
	{"p95 latency", seconds, 6000, func(m incident.Metrics) int64 { return m.LatencyMillis }},
	{"errors", perMille, 100, func(m incident.Metrics) int64 { return m.ErrorsPerMille }},
	{"pool in use", percent, 100, func(m incident.Metrics) int64 { return m.PoolPercent }},
}

// measured holds measures against the targets of the incident, and compares them with others.
func measured(now, was incident.Metrics, of incident.Incident) (list []measure) {
	for _, k := range kinds {
		at := func(m incident.Metrics) int64 { return min(k.of(m), k.end) * chartWidth / k.end }
		list = append(list, measure{
			Name: k.name, Now: k.spell(k.of(now)), Was: k.spell(k.of(was)), Target: k.spell(k.of(of.Targets)),
			Meets: k.of(now) < k.of(of.Targets), Changed: k.of(now) != k.of(was), Worse: k.of(now) > k.of(was), Bar: at(now), Ghost: at(was), Mark: at(of.Targets),
		})
	}
	return list
}

// effect is what an execution did to one measure.
type effect struct{ Name, Before, After string }

func effects(before, after incident.Metrics) (list []effect) {
	for _, k := range kinds {
		list = append(list, effect{k.name, k.spell(k.of(before)), k.spell(k.of(after))})
	}
	return list
}

func seconds(millis int64) string { return decimal(float64(millis)/1000) + " s" }

func perMille(n int64) string { return decimal(float64(n)/10) + " %" }

func percent(n int64) string { return strconv.FormatInt(n, 10) + " %" }

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
