package api_test

import (
	"strings"
	"testing"

	"countersign/api"
)

// TestBoundaries: the contract says what must not be concluded from what it describes.
func TestBoundaries(t *testing.T) {
	protocol := strings.Join(strings.Fields(string(api.Protocol)), " ")
	said := func(sentences ...string) func(*testing.T) {
		return func(t *testing.T) {
			for _, sentence := range sentences {
				if !strings.Contains(protocol, sentence) {
					t.Errorf("protocol.md does not say %q", sentence)
				}
			}
		}
	}
	// H-007 H-010 H-154 H-156
	t.Run("records", said(
		"What happened is told by receipts and later observations, never by a proposal, a verdict or a permit.",
		"The justification is a reported rationale, not private reasoning and no proof of intent.",
		"Recorded times are times of recording.",
		"A signature proves integrity against a key you trust; it proves neither that an explanation is true nor that authority still stands.",
	))
	// H-145 H-146 H-148 H-166
	t.Run("effects", said(
		"Ledger and store are two databases and no common transaction.",
		"Only a receipt signed by the pinned store key decides what happened. Anything else, whatever its status, is an *unknown outcome*",
		"Revoking cannot undo what was dispatched.",
	))
	// H-002 H-024 H-025 H-169 H-178
	t.Run("scope", said(
		"Integrating through an API of one's own, or a guardian as a proxy, is no part of it.",
		"This is what exists in this build of countersign. What it does not name does not exist; a request for it fails and says so.",
		"records of one installation share one workspace and are not isolated from each other.",
		"No model is called, and nothing here measures one.",
	))
}
