package runbookhttp

import (
	"errors"
	"math"
	"strconv"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// refusal gives an error of the control plane its place in the table of reasons. What was
// decided says what happened and what to do next.
func refusal(err error) error {
	denial, denied := errors.AsType[*authority.Denial](err)
	limit, limited := errors.AsType[*control.LimitError](err)
	switch {
	case denied && denial.Reason == authority.Frozen:
		return edge.Refuse(denial.Reason, denial.Detail+" Ask again when the owner has lifted the freeze; reading, comparing, staging and resetting work meanwhile.")
	case denied && denial.Detail != "":
		return edge.Refuse(denial.Reason, denial.Detail+" "+next(denial.Reason))
	case limited:
		return edge.Refuse(edge.RateLimited, "This address has begun "+strconv.Itoa(control.MaxNew)+" sessions within an hour. Go on in one of them with its cookie, or begin another after Retry-After.").
			With("Retry-After", strconv.Itoa(int(math.Ceil(limit.RetryAfter.Seconds()))))
	case errors.Is(err, control.ErrFull):
		return edge.Refuse(incident.ControlPlaneDown, "As many sessions are open as this installation keeps, "+strconv.Itoa(control.MaxOpen)+". Those that are open go on; begin another after Retry-After.").
			With("Retry-After", "60").Because(err)
	case errors.Is(err, control.ErrUnknown):
		return edge.Refuse(incident.ControlPlaneDown, "It is not known whether the request was stored. Read the incident before sending another; an execution that is sent again with the same key is not applied twice.").Because(err)
	case errors.Is(err, control.ErrUnavailable):
		return edge.Refuse(incident.ControlPlaneDown, "").Because(err)
	}
	return err
}

// next is the table's advice for a reason.
func next(reason string) string {
	for _, r := range edge.Reasons() {
		if r.Code == reason {
			return r.Next
		}
	}
	return ""
}
