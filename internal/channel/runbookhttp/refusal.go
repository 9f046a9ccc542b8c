package runbookhttp

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

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
			With("Retry-After", "60")
	case errors.Is(err, errExports):
		return tooManyExports()
	case errors.Is(err, control.ErrUnknown):
		return edge.Refuse(incident.ControlPlaneDown, "It is not known whether the request was stored. Read the incident before sending another; an execution that is sent again with the same key is not applied twice.").Because(err)
	case errors.Is(err, control.ErrUnavailable):
		return edge.Refuse(incident.ControlPlaneDown, "").Because(err)
	}
	return err
}

// refusal is the refusal of what was not decided. That there is no room is expected, and
// anybody can bring it about: the operator is told seldom, and of no failure.
func (s *service) refusal(ctx context.Context, err error) error {
	if (errors.Is(err, control.ErrFull) || errors.Is(err, errExports)) && s.crowded.Now(time.Now()) {
		s.api.Log().WarnContext(ctx, "an incident request found no room", "cause", err.Error())
	}
	return refusal(err)
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
