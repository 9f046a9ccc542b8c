// Package incidentpage is the page of the governed incident workflow: what happened, the
// mitigations, the exact action that waits for an approval, the receipts, and the tools that
// it hands to an agent in the browser.
//
// The page shows a snapshot and decides nothing: every control sends one request to
// the incident's API, which decides it, and then the page is fetched again. What a script
// changed in the page is refused there. Looking at the page creates nothing and leaves no
// receipt.
//
// The nonce of the approval form is on the page and nowhere else (L-9). None of the tools
// approves.
//
// # Tools and their labels
//
// The tools are registered where the browser itself has document.modelContext; a script that
// only defines it does not pass (asset/incident-native.js). Elsewhere a form simulates them,
// through the channel "simulator". Four labels say what was probed in this browser since the
// page was loaded, each by itself: that the API is the browser's, that the tools are
// registered, that a call came through, and that the server refused what it must (H-229).
package incidentpage
