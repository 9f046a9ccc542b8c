package api_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/api"
	"countersign/internal/canon"
	"countersign/internal/channel/edge"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
	"countersign/internal/runbook/incident"
	"countersign/internal/supervision/chain"
	"countersign/internal/supervision/freeze"
	"countersign/internal/supervision/guardian"
)

// The table of reasons in the document is the table of the code, line by line.
func TestReasonsInStep(t *testing.T) {
	var want []string
	for _, r := range edge.Reasons() {
		want = append(want, fmt.Sprintf("| `%s` | %d | %s | %s |", r.Code, r.Status, r.Title, r.Next))
	}
	var got []string
	for line := range strings.Lines(string(api.Reasons)) {
		if strings.HasPrefix(line, "| `") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("reasons.md has\n\t%s\nthe code has\n\t%s", g, w)
		}
	}
	if len(want) == 0 {
		t.Error("the code has no reasons")
	}
}

// Every type of event that the machines write has a line in the document, and no
// other has.
func TestEventsInStep(t *testing.T) {
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+\\.?[a-z_]*)` \\|").FindAllStringSubmatch(string(api.Events), -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(documented)
	if want := slices.Sorted(slices.Values(slices.Concat(chain.EventTypes(), guardian.EventTypes(), freeze.EventTypes(), turn.EventTypes(), project.EventTypes(), incident.EventTypes()))); !slices.Equal(documented, want) || len(want) == 0 {
		t.Errorf("events.md documents\n\t%v\nthe machine writes\n\t%v", documented, want)
	}
}

// The line of every event of the context perimeter names each member of its data, and no
// other.
func TestContextEventMembers(t *testing.T) {
	events := []interface{ EventType() string }{
		turn.Opened{}, turn.Delivered{}, turn.Observed{}, turn.Complete{}, turn.Expiry{}, turn.Late{}, turn.Recorded{}, turn.Bridged{},
		project.Opened{}, project.Published{}, project.Saved{}, project.Created{}, project.Rotated{}, project.RevokedEvent{}, project.Reported{},
	}
	if want := len(turn.EventTypes()) + len(project.EventTypes()) - 1; len(events) != want { // a call that handed out nothing has the members of one that did
		t.Errorf("%d types of events are looked at, want %d", len(events), want)
	}
	for _, e := range events {
		var data map[string]any
		if err := canon.Unmarshal(canon.MustMarshal(e), &data); err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(api.Events), "\n| `"+e.EventType()+"` | ")
		line, _, found := strings.Cut(rest, "\n")
		var named []string
		for _, m := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(line, -1) {
			named = append(named, m[1])
		}
		slices.Sort(named)
		if want := slices.Sorted(maps.Keys(data)); !found || !slices.Equal(named, want) {
			t.Errorf("the line of %s names %v, its data has %v", e.EventType(), named, want)
		}
	}
}

// Whoever reads the contract has no list of numbered requirements: it does not cite them.
// What GET /limits lists has ids of that form, which are its data.
func TestNoRequirementNumbers(t *testing.T) {
	cited := regexp.MustCompile(`"id": "[GHL]-[0-9]+"|\b[GHL]-[0-9]+`)
	seen := 0
	for name, text := range map[string][]byte{"openapi.json": api.OpenAPI, "protocol.md": api.Protocol, "context-turns.md": api.ContextTurns, "events.md": api.Events, "reasons.md": api.Reasons} {
		for _, m := range cited.FindAllIndex(text, -1) {
			if found := string(text[m[0]:m[1]]); strings.HasPrefix(found, `"id"`) {
				seen++
			} else {
				t.Errorf("%s cites %s: %s", name, found, text[max(0, m[0]-60):m[1]])
			}
		}
	}
	if seen == 0 {
		t.Error("control: not even the ids of the limits were found")
	}
}
