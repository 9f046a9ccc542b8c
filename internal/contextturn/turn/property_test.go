package turn_test

import (
	"testing"
	"time"

	"countersign/internal/contextturn/turn"

	"pgregory.net/rapid"
)

// Whatever an application does in whatever order and at whatever time: the state follows
// from a few counts that are kept here apart from the machine, no arrow leaves an end, and
// the chain replays to the stored state.
func TestAnyTurn(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := started(t)
		status, deliveries, calls, observations, late := "OPEN", int64(0), int64(0), int64(0), int64(0)
		for range rapid.IntRange(0, 20).Draw(r, "steps") {
			w.after(rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second, time.Minute, 15*time.Minute - time.Millisecond, -time.Minute}).Draw(r, "later"))
			at := max(w.now, w.state().UpdatedAt)
			if status == "OPEN" && at.Sub(dawn) >= 15*time.Minute {
				status = "EXPIRED_OR_INCOMPLETE"
			}
			want := map[string]string{"OPEN": "", "EXPIRED_OR_INCOMPLETE": "turn_expired"}
			refused, open := want[status]
			if !open {
				refused = "turn_closed"
			}
			reason := ""
			switch rapid.SampledFrom([]string{"call", "call", "observe", "observe", "complete", "settle"}).Draw(r, "do") {
			case "call":
				n := rapid.IntRange(0, 2).Draw(r, "items")
				reason = w.call(compass(n))
				if refused == "" {
					calls++
					deliveries += int64(min(n, 1))
				}
			case "observe":
				reason = w.observe()
				if refused == "" {
					observations++
				}
			case "complete":
				reported := rapid.SampledFrom([]string{"completed", "cancelled", "failed"}).Draw(r, "reported")
				reason = w.complete(reported)
				switch {
				case refused == "turn_expired":
					late++
				case refused == "" && reported == "cancelled":
					status = "REPORTED_CANCELLED"
				case refused == "" && reported == "failed":
					status = "REPORTED_FAILED"
				case refused == "" && deliveries > 0:
					status = "COMPLETED_WITH_CONTEXT_DELIVERY"
				case refused == "":
					status = "COMPLETED_WITHOUT_CONTEXT_DELIVERY"
				}
			case "settle":
				w.settle()
				reason = refused
			}
			if reason != refused {
				r.Fatalf("in %s: %q, want %q", status, reason, refused)
			}
			s := w.state()
			if s.At(at) != status || s.Deliveries != deliveries || s.Calls != calls || s.Observations != observations || s.LateReports != late || (s.CompletedAt != nil) != (status != "OPEN" && status != turn.Expired) {
				r.Fatalf("%s after %d deliveries in %d calls, %d observations, %d late: %+v", status, deliveries, calls, observations, late, s)
			}
		}
		w.lawful()
	})
}
