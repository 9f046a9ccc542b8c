package tools

import (
	"os"
	"slices"
	"testing"

	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/turn"
)

// handbook opens the handbook of testdata: what a support desk of a software
// company may have written down.
func handbook(t testing.TB) *Build {
	t.Helper()
	folder, blobs := readHandbook(t)
	return openManifest(t, folder.Manifest, blobs)
}

func readHandbook(t testing.TB) (*content.Folder, stored) {
	t.Helper()
	folder, faults, err := content.ReadFolder(os.DirFS("testdata/handbook"), nil)
	if err != nil || len(faults) > 0 {
		t.Fatal(err, content.Error(faults))
	}
	if len(folder.Documents) < 200 {
		t.Fatalf("the handbook has %d documents", len(folder.Documents))
	}
	blobs := stored{}
	for _, d := range folder.Documents {
		blobs[d.SHA256] = []byte(d.Raw)
	}
	return folder, blobs
}

// tasks have verdicts that were judged on paper by the rule of the package comment,
// with the words behind each as they were counted.
var tasks = []struct{ profile, task, verdict string }{
	// The first named document has at least four of five words.
	{"support", "How long does a refund take to arrive on the bank statement?", turn.Covered},               // refunds/timing: all 6
	{"support", "A buyer forgot their password and the reset link does not arrive", turn.Covered},           // accounts/reset-password: 5 of 6, not buyer
	{"support", "The label printer prints blank labels", turn.Covered},                                      // devices/label-printer: all 4
	{"support", "Answer 429 and the Retry-After header", turn.Covered},                                      // api/rate-limits: all 4
	{"support", "Set up single sign-on with SAML for our identity provider", turn.Covered},                  // accounts/sso-setup: all 6
	{"support", "Can a customer cancel the subscription, and when does it end?", turn.Covered},              // billing/cancel and refunds/subscription: all 4
	{"support", "Transfer the ownership of a workspace when the owner has left the company", turn.Covered},  // accounts/transfer-ownership: all 6
	{"support", "Import a CSV file with a million lines", turn.Covered},                                     // api/bulk-import: all 5
	{"support", "The invitation does not arrive, the delivery log of the mail says deferred", turn.Covered}, // accounts/invite: 6 of 7, not mail
	{"staff", "Book a meeting room with a projector and chairs", turn.Covered},                              // staff/meeting-rooms: all 5

	// The words in brackets stand nowhere in the handbook, or nowhere for the profile.
	{"support", "Print a return label for a giraffe in Antarctica", turn.Partial},        // 3 of 5 (giraffe, Antarctica)
	{"support", "Set up single sign-on with Kerberos on a mainframe", turn.Partial},      // 3 of 5 (Kerberos, mainframe)
	{"support", "Export the audit log to a Parquet file on a floppy disk", turn.Partial}, // 4 of 7 (Parquet, floppy, disk)
	{"support", "A chargeback letter in Klingon from a hologram bank", turn.Partial},     // 3 of 5 (Klingon, hologram)
	{"support", "Pause the monthly box aboard a submarine near Iceland", turn.Partial},   // 3 of 7 (aboard, submarine, near, Iceland)
	{"support", "Does the app crash on a smart refrigerator?", turn.Partial},             // 2 of 4 (smart, refrigerator)
	{"support", "Customs duties for importing a submarine to Norway", turn.Partial},      // 3 of 5 (submarine, Norway)
	{"staff", "Which yoga classes does the training budget cover?", turn.Partial},        // staff/training-budget, staff/expenses: 3 of 5 (yoga; cover by itself is too little)

	// Nothing has enough of the words.
	{"support", "What is the recipe for sourdough bread?", turn.Gap},
	{"support", "Who won the football final yesterday evening?", turn.Gap},    // evening alone of 5
	{"support", "Where can I park a caravan in Vienna?", turn.Gap},            // the parking queue is not for support
	{"support", "The best telescope to watch the moons of Jupiter", turn.Gap}, // watches alone of 5
	{"support", "Book a meeting room with a projector and chairs", turn.Gap},  // the page is for staff
	{"support", "What is it, and how should we?", turn.Gap},                   // no content word
	{"support", "Zurück zur Übersicht der Gehälter", turn.Gap},

	// Both pages of a pair that names a conflict have more than half of the words, or a
	// quarter and a rare one.
	{"support", "Refund an order that was paid with a gift card", turn.Conflict},
	{"support", "Can the annual discount be combined with the spring campaign discount?", turn.Conflict},
	{"support", "A person asks to be erased: delete the account for good", turn.Conflict},
	{"support", "Tracking says delivered, but the parcel is lost", turn.Conflict},
	{"operations", "Workers are busy and database connections run out, double the workers?", turn.Conflict},
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	b := handbook(t)
	if len(tasks) != 30 {
		t.Fatalf("%d tasks", len(tasks))
	}
	for _, c := range tasks {
		a, err := b.Compass(t.Context(), c.profile, c.task)
		if err != nil {
			t.Fatal(err)
		}
		if a.Verdict != c.verdict {
			t.Errorf("%s: %q is %s, want %s:", c.profile, c.task, a.Verdict, c.verdict)
			for _, item := range a.Items {
				t.Logf("  %s: %s", item.Ref, item.Reason)
			}
		}
	}
}

// queries name the page that whoever wrote the handbook would look for.
var queries = []struct{ profile, query, first string }{
	{"support", "gift card refund", "refunds/gift-cards"},
	{"support", "refund window", "refunds/window"},
	{"support", "charged twice", "refunds/duplicate"},
	{"support", "lost parcel", "refunds/lost-parcel"},
	{"support", "return label", "refunds/return-label"},
	{"support", "chargeback", "refunds/chargeback"},
	{"finance", "credit note", "billing/credit-note"},
	{"support", "vat reverse charge", "billing/vat"},
	{"support", "purchase order", "billing/purchase-order"},
	{"support", "spending cap", "billing/spend-cap"},
	{"support", "free trial", "billing/trial"},
	{"support", "reseller", "billing/reseller"},
	{"support", "reset password", "accounts/reset-password"},
	{"support", "two-factor lost phone", "accounts/lost-second-factor"},
	{"support", "merge accounts", "accounts/merge"},
	{"support", "SAML", "accounts/sso-setup"},
	{"support", "SCIM provisioning", "accounts/scim"},
	{"support", "delete account", "accounts/delete"},
	{"support", "roles and permissions", "accounts/roles"},
	{"support", "leaked token", "security/leaked-token"},
	{"support", "phishing", "security/phishing"},
	{"support", "penetration test", "security/pentest"},
	{"support", "audit log export", "security/audit-log"},
	{"support", "encryption at rest", "security/encryption"},
	{"support", "report a vulnerability", "security/report-vulnerability"},
	{"support", "severity levels", "incidents/severity"},
	{"support", "post-mortem", "incidents/postmortem"},
	{"support", "status page update", "incidents/status-page"},
	{"operations", "database failover", "incidents/database-failover"},
	{"operations", "certificate expired", "incidents/certificate-expired"},
	{"operations", "disk full", "incidents/disk-full"},
	{"support", "customs duties", "shipping/customs"},
	{"support", "lithium batteries", "shipping/dangerous-goods"},
	{"support", "parcel shop pickup", "shipping/pickup"},
	{"support", "rate limit", "api/rate-limits"},
	{"support", "idempotency key", "api/idempotency"},
	{"support", "webhook signature", "api/webhook-signature"},
	{"support", "pagination cursor", "api/pagination"},
	{"support", "graphql", "api/graphql"},
	{"support", "csv import", "api/bulk-import"},
	{"support", "cookie banner", "privacy/cookies"},
	{"support", "police request", "privacy/law-enforcement"},
	{"support", "newsletter consent", "privacy/marketing-consent"},
	{"support", "escalate a case", "support/escalation"},
	{"support", "screen sharing", "support/screen-share"},
	{"support", "slack", "integrations/slack"},
	{"support", "github pull request", "integrations/github"},
	{"support", "push notifications", "mobile/push"},
	{"support", "seller payout", "marketplace/payout"},
	{"support", "coupon not accepted", "checkout/coupon"},
}

func TestFirstHits(t *testing.T) {
	t.Parallel()
	b := handbook(t)
	if len(queries) != 50 {
		t.Fatalf("%d queries", len(queries))
	}
	for _, q := range queries {
		a, err := b.Find(t.Context(), q.profile, q.query, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Items) == 0 || a.Items[0].Ref != q.first {
			t.Errorf("%s: %q finds %v first, want %s", q.profile, q.query, refsOf(a), q.first)
		}
	}
}

func TestCasesOfTheHandbook(t *testing.T) {
	t.Parallel()
	b := handbook(t)
	for _, c := range b.Manifest().Cases {
		a, err := b.TestCase(t.Context(), "support", c.ID)
		if err != nil || !a.Passed || a.Found != len(c.ExpectRefs) || !slices.Equal(a.Expected, c.ExpectRefs) {
			t.Errorf("%s: %+v, %v", c.ID, a, err)
		}
	}
}

func refsOf(a Answer) []string {
	refs := []string{}
	for _, h := range a.Handed() {
		refs = append(refs, h.Ref)
	}
	return refs
}
