package chain

import (
	"slices"

	"countersign/internal/supervision/run"
)

// bodies makes an empty body for each type of event, for replay.
var bodies = byType(
	func() run.Event { return &run.Created{} }, func() run.Event { return &run.Granted{} }, func() run.Event { return &run.HostedSessionEvent{} },
	func() run.Event { return &run.Observed{} }, func() run.Event { return &run.Initialized{} }, func() run.Event { return &run.SessionIssued{} },
	func() run.Event { return &run.Proposed{} }, func() run.Event { return &run.Checked{} }, func() run.Event { return &run.Decided{} },
	func() run.Event { return &run.Issued{} }, func() run.Event { return &run.PermitExpired{} }, func() run.Event { return &run.PermitRevoked{} },
	func() run.Event { return &run.Claimed{} }, func() run.Event { return &run.Dispatched{} }, func() run.Event { return &run.HostedReceipt{} },
	func() run.Event { return &run.Receipt{} }, func() run.Event { return &run.Consumed{} }, func() run.Event { return &run.Verified{} },
	func() run.Event { return &run.Mismatched{} }, func() run.Event { return &run.NotApplied{} }, func() run.Event { return &run.Unconfirmed{} },
	func() run.Event { return &run.Voided{} }, func() run.Event { return &run.PermitVoided{} },
	func() run.Event { return &run.Probed{} }, func() run.Event { return &run.Reconciled{} }, func() run.Event { return &run.Contradicted{} },
	func() run.Event { return &run.ProposalPrepared{} }, func() run.Event { return &run.ProposalVoided{} },
	func() run.Event { return &run.Paused{} }, func() run.Event { return &run.Resumed{} }, func() run.Event { return &run.Completed{} },
	func() run.Event { return &run.Revoked{} }, func() run.Event { return &run.Terminated{} }, func() run.Event { return &run.Failed{} },
	func() run.Event { return &run.Approved{} }, func() run.Event { return &run.Clarified{} }, func() run.Event { return &run.RetryAccepted{} }, func() run.Event { return &run.Simulated{} },
	func() run.Event { return &run.Called{} }, func() run.Event { return &run.Concluded{} }, func() run.Event { return &run.Rejected{} },
	func() run.Event { return &run.AttackReported{} },
	func() run.Event { return &run.GrantRevoked{} }, func() run.Event { return &run.Metrics{} }, func() run.Event { return &run.Refused{} },
)

func byType(makers ...func() run.Event) map[string]func() run.Event {
	m := make(map[string]func() run.Event, len(makers))
	for _, maker := range makers {
		m[maker().EventType()] = maker
	}
	return m
}

// newEvent makes the empty data of a type of event, or nil when this machine writes
// no such event.
func newEvent(eventType string) run.Event {
	if make := bodies[eventType]; make != nil {
		return make()
	}
	return nil
}

// EventTypes lists every type of event that this machine writes.
func EventTypes() []string {
	var types []string
	for t := range bodies {
		types = append(types, t)
	}
	slices.Sort(types)
	return types
}
