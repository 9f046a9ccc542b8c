package channel_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/attack"
)

// attacked stores what one run of an attack, made now, leaves for the count of them.
func (h *house) attacked(seed int) {
	h.t.Helper()
	now, err := h.ledger.Now(h.t.Context())
	must(h.t, err)
	id := authority.NewFresh([32]byte{byte(seed), byte(seed >> 8), 1}, evidence.TimeOf(now)).ID()
	events, err := evidence.Seal(h.keys.Evidence(), id, evidence.Link{Hash: evidence.Genesis}, now, []evidence.Draft{{ID: id, Type: "run.created", Data: struct{}{}}})
	must(h.t, err)
	r := h.ledger.Commit(h.t.Context(), ledger.Change{Workspace: ledger.DefaultWorkspace, Writes: []ledger.Write{{
		Key: ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, ID: id}, Head: evidence.Genesis, State: []byte("{}"), Events: events,
		Attributes: []ledger.Attribute{{Name: "purpose", Value: "attack"}},
	}}})
	if r.Outcome != ledger.Stored {
		h.t.Fatalf("%v: %v", r.Outcome, r.Cause)
	}
}

// Whoever has had the attacks of an hour is told when the next one can begin, and that the
// command has no such bound.
func TestAttacksAreBounded(t *testing.T) {
	h := newHouse(t)
	for i := range attack.MaxRuns {
		h.attacked(i)
	}
	h.clock.Move(20 * time.Minute)
	a := h.owner("POST", "/attacks/run", map[string]any{"attackId": "B10", "service": "bank"})
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	must(t, err)
	if a.status != 429 || !strings.Contains(string(a.body), "RATE_LIMITED") || seconds <= 35*60 || seconds > 40*60 ||
		!strings.Contains(string(a.body), fmt.Sprintf("can begin in %d seconds", seconds)) || !strings.Contains(string(a.body), "`countersign attack`") {
		t.Errorf("%d, %d s: %s", a.status, seconds, a.body)
	}
}
