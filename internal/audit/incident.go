package audit

import (
	"fmt"

	"countersign/internal/runbook/incident"
)

// chooseIncident is choose for the session of an incident. It reports whether the kind is
// that.
func (m *machine) chooseIncident(kind string) bool {
	if kind != incident.Kind {
		return false
	}
	r := incident.NewReplay()
	m.replay, m.status = r, func() string { return r.State().Status }
	m.says = func() string { return incidentSays(r.State()) }
	m.boundary = []string{incident.HonestySynthetic, incident.HonestyClick, incident.HonestyApproval, incident.HonestyArrival, incident.HonestyChannel, incident.HonestySegment}
	return true
}

// incidentSays leaves out whether an approval lives: only time tells.
func incidentSays(s *incident.Session) string {
	return fmt.Sprintf("the incident is %s at version %d after %s, %s and %s", s.Status, s.Version,
		count(s.Approvals, "approval", "approvals"), count(s.Executions, "execution", "executions"), count(s.Events, "receipt", "receipts"))
}
