package gateway_test

import (
	"testing"
	"time"

	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
)

// TestClockSetBack: a chain's time never goes back, a store's does. A store refuses
// a permit that is more than 5 s ahead of it (design 4), which is known beforehand:
// then nothing is sent and the effect is a definite none, not an unknown one.
func TestClockSetBack(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		for back, want := range map[time.Duration]string{
			5*time.Second - time.Millisecond: run.ExecutionVerified, 5 * time.Second: run.ExecutionVerified, 10 * time.Second: run.ExecutionNotApplied, time.Hour: run.ExecutionNotApplied,
		} {
			h := newHouse(t, e)
			id := h.create(run.TargetHosted)
			h.do(id, "merchant.catalog")
			sent := &counting{Sender: h.config.Sender}
			g := h.another(func(c *gateway.Config) { c.Sender = sent })
			p := h.allow(id, "add:fieldwork-keyboard:1")
			h.clock.Move(-back)
			out, err := g.Operate(t.Context(), request(id, p))
			if err != nil || out.State != want || (sent.posts > 0) != (want == run.ExecutionVerified) {
				t.Errorf("%v back: %+v, %v, %d requests left, want %s", back, out, err, sent.posts, want)
			}
			h.verify(id)
			must(t, h.ledger.Close())
		}
	})
}
