package incident

// What the workflow shows and what it does not, in fixed sentences: the same on the page,
// in documents, in answers and by the verifier.
const (
	// HonestySynthetic is R-084.
	HonestySynthetic = "The incident and its mitigations are a simulation; no production system is changed."
	// HonestyClick is R-065.
	HonestyClick = "The cookie keeps browser sessions apart; it authenticates no employee and does not prove that a human clicked."
	// HonestyApproval is R-066.
	HonestyApproval = "Human approval names the intended interaction and that no approval tool exists; an agent with general control of the page could still press the button."
	// HonestyArrival is L-9.
	HonestyArrival = "An approval arrives with the one-time nonce of the page's approval form: whoever approved had that page as it was shown for this action."
	// HonestyChannel is G-26.
	HonestyChannel = "The channel of a receipt is what the caller says it is."
	// HonestySegment is R-056, G-27.
	HonestySegment = "Verification detects modification inside the returned receipts, which are signed by this server's key; it is not independently anchored and no transparency log."
	// HonestyTool is.
	HonestyTool = "A tool's name, description, schema or annotation grants nothing; the server decides each request."
)

// Boundary are all of them, in the order in which they are shown.
var Boundary = []string{HonestySynthetic, HonestyClick, HonestyApproval, HonestyArrival, HonestyChannel, HonestySegment, HonestyTool}
