package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/admission"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/hosted"
	"countersign/internal/supervision/proof"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

// CreateRequest asks for a run.
type CreateRequest = admission.Request

// Create creates and initializes a run (H-092) and returns its id. A value that
// is known but not built is denied with NOT_IMPLEMENTED, which names it. A run that is
// bound to a policy is decided again when that policy has changed meanwhile.
func (g *Gateway) Create(ctx context.Context, r CreateRequest) (string, error) {
	for range maxTries {
		admitted, err := admission.Bind(ctx, g.Reader, r)
		if err != nil {
			return "", err
		}
		id, again, err := g.create(ctx, admitted)
		if !again {
			return id, err
		}
	}
	return "", fmt.Errorf("%w: what the run rests on does not stand still", ErrUnavailable)
}

// create is one try; again says that the policy, or how often the workspace was frozen,
// has changed meanwhile and nothing was stored.
func (g *Gateway) create(ctx context.Context, r admission.Admitted) (id string, again bool, err error) {
	if denial := g.built().Deny(r.Config); denial != nil {
		return "", false, denial
	}
	if err := admission.TakesTurns(ctx, g.Reader, r.Config.ContextClient); err != nil {
		return "", false, err
	}
	svc := g.services[r.Config.Service]
	create := decide.CreateRequest{
		Workspace: g.Workspace, Issuer: g.Issuer, Config: r.Config, Instruction: r.Instruction, Binding: r.Binding,
		Operations: svc.Operations(), MaxUses: svc.MaxUses(), Workflow: svc.Workflow(),
		Budget: authority.Budget{Limit: r.Budget}, Currency: svc.Currency(),
	}
	origin := svc.LocalOrigin()
	if r.Config.Target == run.TargetHosted {
		if g.Store == nil {
			return "", false, &authority.Denial{Reason: authority.HostedUnreachable, Detail: "No store is configured; start the server with --store-origin and --store-key."}
		}
		origin = g.Store.Origin
		create.StoreOrigin, create.StoreKeys = &g.Store.Origin, proof.Pin(g.Store.Keys)
	}
	terms, denial := svc.Terms(r.Terms, origin)
	if denial != nil {
		return "", false, denial
	}
	create.Terms, create.TermTexts, create.Constraints = terms.JSON, terms.Texts, terms.Constraints
	if r.Config.Target == run.TargetHosted {
		return g.createHosted(ctx, svc, create) // a bound run is local
	}
	return g.createLocal(ctx, svc, create, r)
}

// built is what runs may name.
func (g *Gateway) built() (b admission.Built) {
	for _, s := range g.Services {
		b.Services = append(b.Services, s.Name())
		if _, ok := s.(Hosted); ok {
			b.Hosted = append(b.Hosted, s.Name())
		}
	}
	return b
}

// fresh begins a new run at the ledger's time.
func (g *Gateway) fresh(ctx context.Context) (*attempt, error) {
	now, err := g.now(ctx)
	if err != nil {
		return nil, err
	}
	return &attempt{epoch: g.epoch.Load(), Deciding: decide.Begin(nil, now, ledger.Seed(), true, g.Doors)}, nil
}

// createLocal stores run, grant, service state, first observation and start in
// one commit. It rests on the policy that the run is bound to.
func (g *Gateway) createLocal(ctx context.Context, svc Service, r decide.CreateRequest, b admission.Admitted) (id string, again bool, err error) {
	a, err := g.fresh(ctx)
	if err != nil {
		return "", false, err
	}
	r.RunID = a.NewID()
	a.Create(r)
	state := svc.NewLocal()
	a.change.Writes = append(a.change.Writes, ledger.Write{Key: g.serviceKey(r.RunID), Head: evidence.Genesis, State: state})
	sighting, err := svc.SeeLocal(state, nil)
	if err != nil {
		return "", false, err
	}
	sighting.CapturedAt = a.Now()
	if err := g.record(a, svc, sighting); err != nil {
		return "", false, err
	}
	a.Initialize()
	if b.Guard == nil {
		return r.RunID, false, g.once(ctx, a)
	}
	a.change.Guards, a.change.NotAfter = append(a.change.Guards, *b.Guard), b.Until
	again, err = g.commit(ctx, a)
	return r.RunID, again, err
}

// once commits a transition that nobody can race for.
func (g *Gateway) once(ctx context.Context, a *attempt) error {
	again, err := g.commit(ctx, a)
	if again {
		return fmt.Errorf("%w: a new run met a conflict", ErrUnavailable)
	}
	return err
}

// createHosted stores the run with the intent to open its session at the store,
// sends that, stores the receipt, and starts the run with what it then sees. As in
// Operate, a caller that hangs up ends nothing.
func (g *Gateway) createHosted(ctx context.Context, svc Service, r decide.CreateRequest) (id string, again bool, err error) {
	asked := time.Now()
	a, err := g.fresh(ctx)
	if err != nil {
		return "", false, err
	}
	if err := ctx.Err(); err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	ctx = g.outliving(ctx)
	r.RunID = a.NewID()
	a.Create(r)
	executionID, sessionID := a.NewID(), a.NewID()
	request := service.Request{Method: "POST", Path: "/api/sessions", Body: []byte("{}")}
	effect := sessionEntry(svc).EffectDigest(svc.Name(), 0)
	intent := g.link.Dispatch(a.State(), sessionID, request)
	a.DispatchSession(executionID, sessionID, effect, *intent, g.Ledger.Holder(), a.epoch)
	s := a.State()
	permit := g.link.Permit(intent, executionID, r.RunID, effect, a.Now(), s.Grants[0].ExpiresAt)
	got, again, err := g.sendSession(ctx, a, permit, request, asked.Add(g.sendWindow()))
	if again || err != nil {
		return "", again, err
	}
	g.Fault("session-answer")
	if denial, err := g.openSession(ctx, r.RunID, got); denial != nil || err != nil {
		return r.RunID, false, first(err, denied(denial))
	}
	g.Fault("session-receipt")
	ctx, cancel := context.WithTimeout(ctx, run.DispatchLife)
	defer cancel()
	return r.RunID, false, g.looking(ctx, r.RunID, nil, func(a *attempt, look func() error) error {
		if a.State().Status != run.StatusCreated {
			return nil
		}
		if err := look(); err != nil {
			if _, ok := errors.AsType[*authority.Denial](err); ok {
				a.Fail(authority.HostedUnreachable)
			}
			return err
		}
		a.Initialize()
		return nil
	})
}

// sendSession stores the run with its intent and sends that before notAfter.
func (g *Gateway) sendSession(ctx context.Context, a *attempt, p dispatch.Permit, r service.Request, notAfter time.Time) (got hosted.Answer, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, run.DispatchLife)
	defer cancel()
	s := a.State()
	if again, err := g.commit(ctx, a); again || err != nil {
		return got, again, err
	}
	g.Fault("session-intent")
	return g.link.Send(ctx, s, p, r, notAfter), false, nil
}

func first(errs ...error) error {
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i < 0 {
		return nil
	}
	return errs[i]
}

// openSession records what came of opening the session: the receipt together
// with the sealed cookie, or the honest end of the run.
func (g *Gateway) openSession(ctx context.Context, runID string, got hosted.Answer) (*authority.Denial, error) {
	var fate *authority.Denial
	cookie, cookieErr := proof.SessionCookie(got.HTTP)
	switch {
	case got.Unsent:
		fate = &authority.Denial{Reason: authority.HostedUnreachable, Detail: "The store cannot be reached; nothing was sent. The run has failed."}
	case got.Receipt == nil || got.Receipt.Result == dispatch.Applied && cookieErr != nil:
		fate = &authority.Denial{Reason: authority.DispatchUnconfirmed, Detail: "The store's answer to opening a session is missing or does not verify. " +
			"The run has failed, and nothing was ordered; mend what the server's log says about it, then create another."}
	case got.Receipt.Result != dispatch.Applied:
		fate = &authority.Denial{Reason: authority.HostedUnreachable, Detail: "The store refused to open a session. The run has failed."}
	}
	err := g.recordOutcome(ctx, runID, g.begin, func(a *attempt) error {
		if fate != nil {
			a.Fail(fate.Reason)
			return nil
		}
		sealed := g.Keys.Seal(runID+"/"+hosted.SealedSession, []byte(cookie))
		a.change.Writes = append(a.change.Writes, ledger.Write{Key: g.Key(runID), Sealed: []ledger.Sealed{{Name: hosted.SealedSession, Bytes: sealed}}})
		return denied(a.OpenSession(got.JWS))
	})
	return fate, err
}
