package app_test

import (
	"testing"
)

// incidents lets the ledger fail under the incident workflow. Nothing is executed twice,
// nothing of the inside is told, and the same request sent again afterwards gets the one
// record that there is.
func incidents(t *testing.T) {
	b := openBooth(t, []string{"app.engine"}, withIncident)
	for _, where := range []string{"credential", "read", "commit"} {
		for _, how := range ways {
			what := where + ", " + how
			v := b.visitor()
			staged := v.approved()
			before := v.sees("").at("receipts", "total").(float64)
			own := v.cookie
			b.f.set(how, where)
			r := v.asks(executing(staged))
			if hits := b.f.mend(); hits == 0 {
				t.Errorf("%s: was not met", what)
			}
			reasons := []string{"control_plane_unavailable", "INTERNAL"}
			if how == garbles { // who is not recognized is somebody else, and a record of another request is a conflict
				reasons = append(reasons, "nothing_staged", "idempotency_conflict")
			}
			b.complain(what, b.refusal(r, reasons...))
			v.cookie = own
			stored := how == late && where == "commit"
			if got := v.sees("").at("receipts", "total").(float64) - before; got != map[bool]float64{true: 1}[stored] {
				t.Errorf("%s: %v receipts", what, got)
			}
			again := v.asks(executing(staged)).is(t, what+", again", 200, "")
			if again.at("replayed") != stored || again.at("snapshot", "status") != "mitigated" {
				t.Errorf("%s, again: %s", what, again.body)
			}
			v.verifies("/evidence", v.sees("/evidence"))
			// Reading fails as closed.
			b.f.set(how, where)
			r = v.sees("")
			hits := b.f.mend()
			if r.status == 200 && where != "commit" && (how != garbles || hits == 0) {
				t.Errorf("%s: reading: %d %.300s", what, r.status, r.body)
			} else if r.status != 200 {
				b.complain(what+", reading", b.refusal(r, "control_plane_unavailable", "INTERNAL"))
			}
		}
	}
}
