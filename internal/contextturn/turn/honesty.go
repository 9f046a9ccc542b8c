package turn

// The fixed sentences, after the honesty boundaries of the protocol. Pages, documents and
// the verifier use them word for word.
const (
	// HonestyPerimeter is of the whole protocol (S-003, S-004, S-067).
	HonestyPerimeter = "This is what passed through the HTTP context gateway. It does not control a model, does not show that a model read or used anything, and sees no tool and no source outside the gateway."
	// HonestyDelivery is of every delivery (G-33, S-046).
	HonestyDelivery = "Handed to the HTTP response. Whether the application received it, or a model read or understood it, was not observed."
	// HonestyObservation is of every hook observation (S-009, S-010, S-073).
	HonestyObservation = "A hook reported an intention before a tool was to run. That the tool ran, what it did and what became of its result was not observed, and the id is not matched with any call."
	// HonestyReported is of what a client reports (S-061, S-072).
	HonestyReported = "Reported by the application. It is a technical status, no statement about reasoning or about what a user saw."
	// HonestyNotObserved is of every turn (S-076).
	HonestyNotObserved = "Not observed: whether a tool was invoked or what came of it, requests made after a hook, use of results, the model's reasoning or comprehension, its final answer."
	// HonestyAbsent is of every list of turns (S-087).
	HonestyAbsent = "A turn that did not reach this gateway is absent from this list; nothing is inferred from that."
	// HonestyBridge is of every bridge receipt (S-089).
	HonestyBridge = "Bridge-observed: a local bridge reports a file, process or HTTP transition that it saw. It shows no activity of a model or of a tool."
)

// sentences say what a state means and what it does not (S-012, S-013, S-068 to S-072).
var sentences = map[string]string{
	Open:             "A start was received; no completion was observed yet.",
	WithDelivery:     "The client reported completion, and at least one context delivery was correlated to the turn.",
	WithoutDelivery:  "The client reported completion, and no context delivery was observed through this perimeter during the turn. That says nothing about what the model used, answered or left aside.",
	Expired:          "Fifteen minutes passed before a completion was reported. The outcome is inconclusive.",
	ReportedCanceled: "The client reported that the turn was cancelled: a technical status, no statement about reasoning or about what a user saw.",
	ReportedFailed:   "The client reported that the turn failed: a technical status, no statement about reasoning or about what a user saw.",
}

// Sentence says what a state means and what it does not; empty for what is no state.
func Sentence(status string) string { return sentences[status] }

// Boundary is one of the fixed sentences that apply to a turn, and what it is about.
type Boundary struct{ Of, Sentence string }

// Boundaries returns the fixed sentences that apply to a turn with so many deliveries and
// observations, and with or without a report of its client, in the order of the protocol.
func Boundaries(deliveries, observations int64, reported bool) []Boundary {
	list := []Boundary{{"perimeter", HonestyPerimeter}}
	for _, b := range []struct {
		applies bool
		Boundary
	}{
		{deliveries > 0, Boundary{"delivery", HonestyDelivery}},
		{observations > 0, Boundary{"observation", HonestyObservation}},
		{reported, Boundary{"reported", HonestyReported}},
		{true, Boundary{"not observed", HonestyNotObserved}},
	} {
		if b.applies {
			list = append(list, b.Boundary)
		}
	}
	return list
}
