package gateway

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

// Observe returns the run's current trusted observation and takes a new one when
// there is none that still stands (H-131).
func (g *Gateway) Observe(ctx context.Context, id string) (*records.Observation, error) {
	var seen *run.Observed
	err := g.looking(ctx, id, nil, func(a *attempt, look func() error) error {
		seen = nil
		if x := a.State().Execution; a.State().Status == run.StatusRunning && x != nil && x.State == run.ExecutionDispatched {
			return &authority.Denial{Reason: authority.InProgress, Detail: "An execution is under way; observe again in a moment."}
		}
		if a.State().Terminal() || !a.NeedsObservation() {
			var err error
			seen, err = g.Catalog(ctx, a.State())
			return err
		}
		if denial := a.CanObserve(); denial != nil {
			return denial
		}
		if err := look(); err != nil {
			return err
		}
		seen = a.Observed()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return g.Observation(ctx, id, seen)
}

// glimpse is what was seen of a hosted service, or why nothing was, and which
// moment of the run it belongs to.
type glimpse struct {
	of       moment
	sighting decide.Sighting
	err      error
}

// moment is what makes a sighting of the service out of date for a run. Refusals
// and other notes do not.
type moment struct{ status, observation, execution, state string }

func momentOf(s *run.State) moment {
	m := moment{status: s.Status}
	if s.Observation != nil {
		m.observation = s.Observation.ID
	}
	if s.Execution != nil {
		m.execution, m.state = s.Execution.ID, s.Execution.State
	}
	return m
}

// errLookFirst makes seeing ask the service and decide again.
var errLookFirst = errors.New("gateway: the service has to be seen first")

// looking decides f, which may call look once to record how the service is now,
// together with the verification of an execution that waits for it. view is the
// body that a read has just returned. f returns look's error.
func (g *Gateway) looking(ctx context.Context, id string, view *string, f func(a *attempt, look func() error) error) error {
	return g.seeing(ctx, id, view, func(a *attempt, see func() (decide.Sighting, error)) error {
		return f(a, func() error {
			sighting, err := see()
			if err != nil {
				return err
			}
			return g.record(a, g.services[a.State().Config.Service], sighting)
		})
	})
}

// seeing decides f, which may call see once to see how the service is now. A hosted
// service is asked between two decisions and never inside one; f returns see's error.
func (g *Gateway) seeing(ctx context.Context, id string, view *string, f func(a *attempt, see func() (decide.Sighting, error)) error) error {
	var last glimpse
	for range maxTries {
		var wanted *run.State
		err := g.decide(ctx, id, func(a *attempt) error {
			wanted = nil
			return f(a, func() (decide.Sighting, error) {
				s := a.State()
				switch {
				case s.Config.Target != run.TargetHosted:
					return g.seeLocal(ctx, a, g.services[s.Config.Service], view)
				case last.of != momentOf(s):
					wanted = s
					return decide.Sighting{}, errLookFirst
				}
				return last.sighting, last.err
			})
		})
		if wanted == nil {
			return err
		}
		last.of = momentOf(wanted)
		last.sighting, last.err = g.seeHosted(ctx, wanted, g.services[wanted.Config.Service], view)
	}
	return fmt.Errorf("%w: the run does not stand still", ErrUnavailable)
}

func (g *Gateway) seeLocal(ctx context.Context, a *attempt, svc Service, view *string) (decide.Sighting, error) {
	local, err := g.local(ctx, a)
	if err != nil {
		return decide.Sighting{}, err
	}
	a.change.Guards = append(a.change.Guards, ledger.Guard{Key: local.Key, Revision: local.Revision})
	sighting, err := svc.SeeLocal(local.State, view)
	sighting.CapturedAt = a.Now()
	return sighting, err
}

// local returns the state of the run's service.
func (g *Gateway) local(ctx context.Context, a *attempt) (ledger.Subject, error) {
	key := g.serviceKey(a.State().ID)
	if a.recalled {
		if local, ok := g.RecallService(key); ok {
			return local, nil
		}
	}
	local, _, err := g.Ledger.Load(ctx, key)
	if err != nil {
		return local, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	g.Saw(local)
	return local, nil
}

// record plans, makes the catalog and emits the observation.
func (g *Gateway) record(a *attempt, svc Service, sighting decide.Sighting) error {
	s := a.State()
	var seen []run.Postcondition
	if x := s.Execution; x != nil && x.State == run.ExecutionReceipted && !x.Owed {
		var err error
		if seen, err = svc.Holds(sighting, service.Promised(x)); err != nil {
			return err
		}
	}
	plan := a.Plan(sighting)
	catalog, err := svc.Catalog(sighting, service.Plan{Origin: g.origin(s, svc), Terms: s.Terms, ProposalID: plan.ProposalID})
	if err != nil && s.Config.Target == run.TargetHosted {
		g.Log.Warn("a hosted store offers what no catalog holds", "run", s.ID, "error", err)
		return &authority.Denial{Reason: authority.HostedUnreachable, Detail: "The store's answers are not understood."}
	}
	if err != nil {
		return err
	}
	catalog = slices.DeleteFunc(catalog, func(e propose.Entry) bool { return !s.Binding.Allows(e.OperationID) })
	for i := range catalog {
		catalog[i].TargetRef = g.targetRef(s.ID, plan, &catalog[i])
	}
	a.Observe(plan, sighting, catalog, seen)
	return nil
}

func (g *Gateway) origin(s *run.State, svc Service) string {
	if s.StoreOrigin != nil {
		return *s.StoreOrigin
	}
	return svc.LocalOrigin()
}

// targetRef names a control opaquely: a keyed MAC over run, observation, epoch,
// operation and selector (G-05).
func (g *Gateway) targetRef(runID string, p decide.Plan, e *propose.Entry) string {
	mac := g.Keys.MAC("target", runID, p.ObservationID, strconv.FormatInt(p.DocumentEpoch, 10), e.OperationID, e.EntryID)
	return "tgt_" + base64.RawURLEncoding.EncodeToString(mac)
}
