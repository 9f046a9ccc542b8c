package perimeter_test

import (
	"context"
	"sync/atomic"
	"testing"

	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
)

// watched counts how often content is read.
type watched struct {
	engine
	reads *atomic.Int64
}

func (w watched) Blobs(ctx context.Context, workspace string, hashes []string) ([]ledger.Blob, error) {
	w.reads.Add(1)
	return w.engine.Blobs(ctx, workspace, hashes)
}

// S-043: a call that its turn does not take is refused before any content is looked at. As
// the control, one that it takes looks at the Build.
func TestRefusedFirst(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		h.publish(project.Production, false, refunds...)
		by, _ := h.client(project.Required)
		stranger, _ := h.client(project.Required)
		closed, expired := h.start(by), h.start(by)
		_, err := h.Complete(t.Context(), by, closed, key(), turn.Completed, nil)
		must(t, err)
		h.clock.Move(turn.Life)
		open := h.start(by)
		var reads atomic.Int64
		h.config.Ledger = watched{h.ledger, &reads}
		h.open()
		for _, c := range []struct {
			by     *perimeter.Caller
			turnID string
			reason string
		}{{by, closed, turn.TurnClosed}, {by, expired, turn.TurnExpired}, {stranger, open, turn.TurnNotFound}, {by, "trn_" + open[4:35] + "x", turn.TurnNotFound}} {
			_, err := h.compass(c.by, c.turnID, "refunds")
			is(t, err, c.reason)
		}
		if n := reads.Load(); n != 0 {
			t.Errorf("content was read %d times for calls that were refused", n)
		}
		_, err = h.compass(by, open, "refunds")
		must(t, err)
		if reads.Load() == 0 {
			t.Error("the control: a call that was taken read no content")
		}
	})
}

// S-001: a client that has opted in speaks seif.http-turn.v1, and no other does.
func TestProtocol(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		for protocol, want := range map[string]string{project.Required: "seif.http-turn.v1", project.Absent: "none"} {
			by, _ := h.client(protocol)
			id := ""
			if by.Required() {
				id = h.start(by)
			}
			a, err := h.Call(t.Context(), by, id, tools.Request{Tool: turn.Doctor})
			must(t, err)
			if got := a.Result.(*perimeter.DoctorResult).Protocol; got != want {
				t.Errorf("%s: %q", protocol, got)
			}
		}
	})
}
