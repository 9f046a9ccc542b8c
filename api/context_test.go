package api_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/api"
	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/contextturn/turn"
)

// S-003 S-004 S-009 S-012 S-013: the contract says of every state and of every kind of
// record, in the fixed sentences, what it means and what must not be concluded from it.
func TestContextSentences(t *testing.T) {
	text := strings.Join(strings.Fields(string(api.ContextTurns)), " ")
	for _, state := range []string{turn.Open, turn.WithDelivery, turn.WithoutDelivery, turn.Expired, turn.ReportedCanceled, turn.ReportedFailed} {
		if row := fmt.Sprintf("| `%s` | %s |", state, turn.Sentence(state)); !strings.Contains(text, row) || turn.Sentence(state) == "" {
			t.Errorf("context-turns.md has no row %s", row)
		}
	}
	for _, sentence := range []string{turn.HonestyPerimeter, turn.HonestyDelivery, turn.HonestyObservation, turn.HonestyBridge} {
		if !strings.Contains(text, sentence) {
			t.Errorf("context-turns.md does not say %q", sentence)
		}
	}
	if !strings.Contains(text, "Protocol `"+turn.Protocol+"`") {
		t.Error("context-turns.md does not name its protocol")
	}
}

// S-061 S-067 S-074 S-075 S-076: the classes of evidence are told, with what belongs to
// each, and so is where the protocol ends.
func TestContextClasses(t *testing.T) {
	text := strings.Join(strings.Fields(string(api.ContextTurns)), " ")
	for _, sentence := range []string{
		"| observed | a start, a delivery that was handed to the HTTP response, an accepted pre-tool observation |",
		"| reported | completed, cancelled, failed, as the client says |",
		"| not observed | " + strings.TrimSuffix(strings.TrimPrefix(turn.HonestyNotObserved, "Not observed: "), ".") + " |",
		"An application that fetches its context elsewhere is outside, and nothing is said about it.",
	} {
		if !strings.Contains(text, sentence) {
			t.Errorf("context-turns.md does not say %q", sentence)
		}
	}
}

// Every code of the perimeter stands in the list of refusals, with its status, in the
// order of checking, and no other does.
func TestContextRefusalsInStep(t *testing.T) {
	_, list, found := strings.Cut(string(api.ContextTurns), "\n## Refusals, in this order\n")
	list, _, _ = strings.Cut(list, "\nA client has at most")
	var got []string
	status := ""
	for _, m := range regexp.MustCompile("(?:([0-9]{3}) )?`([a-z]+(?:_[a-z]+)+)`").FindAllStringSubmatch(list, -1) {
		if m[1] != "" {
			status = m[1]
		}
		got = append(got, status+" "+m[2])
	}
	var want []string
	after := false // the perimeter's codes stand together
	for _, r := range edge.Reasons() {
		after = after || r.Code == authority.AlreadyExists
		if !after && r.Code == strings.ToLower(r.Code) && r.Code != turn.IdempotencyInProgress { // of which the text above the list tells
			want = append(want, fmt.Sprint(r.Status, " ", r.Code))
		}
	}
	if !found || !slices.Equal(got, want) {
		t.Errorf("context-turns.md lists\n\t%s\nthe code has\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
	if !strings.Contains(string(api.ContextTurns), "`idempotency_in_progress` (409) with `Retry-After`") {
		t.Error("context-turns.md does not tell of idempotency_in_progress")
	}
}
