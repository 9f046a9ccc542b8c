package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"countersign/internal/channel/runbookhttp"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

func incidentPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/incident.md")
	must(t, err)
	return string(text)
}

// answersShown are the lines that the page shows as answers, in their order.
func answersShown(page string) (lines []string) {
	for _, part := range strings.Split(page, "\n```text\n")[1:] {
		answer, _, _ := strings.Cut(part, "\n```\n")
		lines = append(lines, strings.Split(answer, "\n")...)
	}
	return lines
}

// missing is the first of some lines that does not stand in a text after the ones before it, "" when none is.
func missing(text string, lines []string) string {
	rest := strings.Split(text, "\n")
	for _, line := range lines {
		for len(rest) > 0 && rest[0] != line {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return line
		}
		rest = rest[1:]
	}
	return ""
}

// What incident.md shows is answered as it shows, from the first command to the verified evidence: without an
// approval nothing is executed, with one exactly once, and a retry is told the same.
// approving sends digest and version.
// executing sends digest, version and key.
// the snapshot tells counts and what verifying came to.
// who makes available, who decides and what shows it.
func TestShownIncident(t *testing.T) {
	t.Parallel()
	page := incidentPage(t)
	session := append([]string{"go build -o countersign ./cmd/countersign"}, indentedBlocks(page)...)
	out, err := pastedShell(t)("set -e\n" + strings.Join(session, "\n"))
	if err != nil {
		t.Errorf("the session ends with %v", err)
	}
	shown := answersShown(page)
	if len(shown) < 20 {
		t.Fatalf("%d answers are shown", len(shown))
	}
	if line := missing(out, shown); line != "" {
		t.Errorf("want %s in\n%s", line, out)
	}
	for _, want := range []string{"VERIFIED  every check holds", "after 1 approval, 1 execution and 11 receipts", `"actionDigest": "`} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	// Negative control: the order counts, and so does every line.
	if missing("a\nc\nb\n", []string{"a", "b", "c"}) != "c" || missing("a\n", []string{"a", "a"}) != "a" {
		t.Error("a missing answer would not be missed")
	}
}

// The page says what is claimed and what is not in the words that the program uses, and its numbers are
// those of the protocol.
func TestIncidentPageSays(t *testing.T) {
	page := incidentPage(t)
	has := func(t *testing.T, sentence string) {
		t.Helper()
		if sentence == "" || !strings.Contains(page, sentence) {
			t.Errorf("the page does not say %q", sentence)
		}
	}
	// what renders is no boundary.
	// what a tool says of itself grants nothing.
	// what verifying a segment shows.
	// it is a simulation.
	t.Run("boundary", func(t *testing.T) {
		for _, sentence := range incident.Boundary {
			has(t, "\n- "+sentence+"\n")
		}
		has(t, "A browser that held this state itself would show the same pattern of interaction, and no control boundary")
	})
	// it is no framework.
	// the claim.
	// the pattern alone.
	t.Run("claim", func(t *testing.T) {
		has(t, "one visible human\ninterface, and behind it a durable control plane that enforces scoped approval, stale-state checks, idempotency, replay protection, concurrency guards and hash-linked receipts")
		has(t, "a compact demonstration, not a framework for transactions")
	})
	// what a test can prove.
	// no run, no result.
	// advice.
	t.Run("evaluation", func(t *testing.T) {
		has(t, "A test can prove that code refuses an expired approval; it cannot prove that a model chooses the right tool")
		has(t, "no live run has taken place and no result of one exists")
		has(t, "`successful_execution` wants exactly one execution, and `blocked_execution` an attempt that the control plane blocked")
		has(t, `That a description says "a person approves", or an annotation "consequential", is advice`)
	})
	// the tools of G-24, and none that approves.
	t.Run("tools", func(t *testing.T) {
		for _, row := range []string{
			"get_incident_snapshot` | `snapshot", "compare_mitigations` | `compare", "stage_mitigation` | `stage", "execute_approved_mitigation` | `execute", "reset_incident_simulation` | `reset",
		} {
			has(t, "\n| `"+row+"` | ")
		}
		has(t, "There is no tool that approves")
	})
	// Codes and statuses as G-24 has them, with those that it leaves to the house.
	t.Run("refusals", func(t *testing.T) {
		for code, status := range map[string]int{
			"nothing_staged": 422, "invalid_mitigation": 422, "stale_state": 409, "stale_approval": 412, "stale_execution": 412, "stale_reset": 412,
			"approval_required": 403, "identity_mismatch": 403, "approval_expired": 403, "approval_consumed": 409, "idempotency_conflict": 409,
			"receipt_conflict": 409, "execution_conflict": 409, "origin_rejected": 403, "content_type_rejected": 415, "invalid_json": 400,
			"invalid_request": 422, "control_plane_unavailable": 503, "recovery_required": 409, "FROZEN": 409, "BODY_TOO_LARGE": 413, "RATE_LIMITED": 429, "NOT_FOUND": 404, "METHOD_NOT_ALLOWED": 405,
		} {
			has(t, fmt.Sprintf("\n| `%s` | %d | ", code, status))
		}
	})
	// five minutes.
	// 100 receipts and an anchor.
	// the cookie.
	t.Run("limits", func(t *testing.T) {
		if incident.ApprovalLife != 5*time.Minute || incident.SessionLife != 24*time.Hour || control.MaxNew != 100 || control.NewWindow != time.Hour ||
			control.MaxOpen != 1000 || control.MaxShown != 100 || incident.MaxReceipts != 10_000 || incident.SparedReceipts != 1_000 || incident.LastReceipts != 100 || runbookhttp.MaxBody != 16*1024 {
			t.Error("the page's limits are not those of the program")
		}
		for _, row := range []string{
			"an approval | 5 minutes, one use", "a session and its cookie | 24 hours", "new sessions from one address, of IPv6 a network of 64 bits | 100 an hour", "open sessions | 1,000",
			"receipts of a session | 10,000; a snapshot has the newest 100 and an anchor", "a request's body | 16 KiB",
			"of these for approvals, executions, exact retries and resets alone | the last 1,000, of which the last 100 not for exact retries and approvals told again",
		} {
			has(t, "\n| "+row+" |\n")
		}
		has(t, "a cookie with 256 random bits, of which the server keeps the SHA-256")
	})
}
