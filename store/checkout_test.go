package store

import (
	"strings"
	"testing"
	"time"

	"countersign/dispatch"
)

// A checkout is good for ten minutes, to the millisecond.
func TestCheckoutExpiry(t *testing.T) {
	s := newShop(t)
	start := time.Now()
	var now time.Time
	s.store.now = func() time.Time { return now }
	for name, c := range map[string]struct {
		after time.Duration
		want  dispatch.Result
	}{
		"just before": {10*time.Minute - time.Millisecond, dispatch.Applied},
		"at":          {10 * time.Minute, dispatch.Refused},
		"just after":  {10*time.Minute + time.Millisecond, dispatch.Refused},
	} {
		now = start.Truncate(time.Millisecond)
		h := s.session("sess-" + strings.ReplaceAll(name, " ", "-"))
		order := h.prepared()
		now = now.Add(c.after)
		shown := !strings.Contains(h.get(200, "/api/cart"), `"checkout":null`)
		if shown != (c.want == dispatch.Applied) {
			t.Errorf("%s: the cart shows the checkout: %t", name, shown)
		}
		a, _ := h.do(c.want, "/api/orders", order)
		if c.want == dispatch.Refused && problemOf(t, a).ReasonCode != "CHECKOUT_EXPIRED" {
			t.Errorf("%s: %s", name, a.Body)
		}
	}
}
