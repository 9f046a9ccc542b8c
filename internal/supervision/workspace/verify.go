package workspace

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
)

// How long a verification may ask, and how long clearing up after it and storing what
// it found may take. Together they stay below [guardian.VerificationLife].
const (
	askingFor  = 20 * time.Second
	requestFor = 5 * time.Second
	endingFor  = 10 * time.Second
)

// Verify tests a revision of a policy through the installed HTTP gateway (H-203 to
// H-206) and stores what it found. Only reads are done and no model is called (H-205).
// That the verification failed is no error: the policy's view says it.
//
// Three things follow each other and none is inside a transaction: verification.started,
// the requests, verification.completed. What happens between the two leaves nothing that
// counts. ctx only says whether the caller is there at the beginning.
func (w *Workspace) Verify(ctx context.Context, id string, revision int64) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	ctx = context.WithoutCancel(ctx)
	var verification string
	var policy guardian.Policy
	err := w.decide(ctx, func() (*ledger.Change, error) {
		subject, s, now, err := w.policy(ctx, id)
		if err != nil {
			return nil, err
		}
		d := guardian.Begin(s, now, ledger.Seed())
		var denial *authority.Denial
		if verification, denial = d.Start(revision); denial != nil {
			return nil, denial
		}
		if policy = s.Draft; w.adapter(policy.Service) == nil {
			return nil, &authority.Denial{Reason: authority.NotImplemented, Detail: `Not built: service "` + policy.Service + `"; the policy stays a draft.`}
		}
		return w.one(subject, s, d)
	})
	if err != nil {
		return err
	}
	w.sweep(ctx)
	tests, runs := w.test(ctx, id, &policy)
	ending, cancel := context.WithTimeout(ctx, endingFor)
	defer cancel()
	return w.decide(ending, func() (*ledger.Change, error) {
		subject, s, now, err := w.policy(ending, id)
		if err != nil {
			return nil, err
		}
		d := guardian.Begin(s, now, ledger.Seed())
		if denial := d.Complete(verification, runs, tests); denial != nil {
			return nil, denial
		}
		return w.one(subject, s, d)
	})
}

// adapter returns the built-in adapter of a service, or nil.
func (w *Workspace) adapter(service string) gateway.Service {
	i := slices.IndexFunc(w.Services, func(s gateway.Service) bool { return s.Name() == service })
	if i < 0 {
		return nil
	}
	return w.Services[i]
}

// test does everything that a verification tests, in the order of guardian.Names.
func (w *Workspace) test(ctx context.Context, id string, p *guardian.Policy) (tests []guardian.Test, runs []string) {
	asking, cancel := context.WithTimeout(ctx, askingFor)
	defer cancel()
	o := &observer{w: w, ctx: asking}
	w.configuration(o, p)
	probing := &probes{observer: o, policy: p, binding: p.Binding(id, 0)}
	probing.run()
	ending, cancel := context.WithTimeout(ctx, endingFor)
	defer cancel()
	o.ctx = ending
	o.outcome(guardian.TestRevoked, probing.end(ending))
	return o.tests, probing.runs()
}

// observer collects tests.
type observer struct {
	w     *Workspace
	ctx   context.Context
	tests []guardian.Test
}

// add notes a test with its time.
func (o *observer) add(t guardian.Test) {
	now, err := o.w.Ledger.Now(o.ctx)
	if err != nil {
		t.Result, t.Note = guardian.Failed, "the ledger did not tell the time"
	}
	t.At = evidence.TimeOf(now)
	o.tests = append(o.tests, t)
}

// say notes a test of the configuration.
func (o *observer) say(name, result, note string) {
	o.add(guardian.Test{Name: name, Result: result, Note: note})
}

// outcome notes a test that passes when nothing went wrong.
func (o *observer) outcome(name string, err error) {
	if err == nil {
		o.say(name, guardian.Passed, "")
		return
	}
	note := "the installation could not do it"
	if denial, ok := errors.AsType[*authority.Denial](err); ok {
		note = denial.Reason + ": " + denial.Detail
	}
	o.say(name, guardian.Failed, note)
}

// configuration holds what the policy says against what there is (H-206).
func (w *Workspace) configuration(o *observer, p *guardian.Policy) {
	_, inventory, _, err := w.inventory(o.ctx)
	var registered *guardian.Service
	if err == nil && p.ServiceID != nil {
		registered = inventory.Service(*p.ServiceID)
	}
	adapter := w.adapter(p.Service)
	switch {
	case err != nil:
		o.say(guardian.TestService, guardian.Failed, "the inventory could not be read")
	case p.ServiceID != nil && (registered == nil || registered.Kind != p.Service):
		o.say(guardian.TestService, guardian.Failed, "the inventory has no such service of this kind")
	default:
		o.say(guardian.TestService, guardian.Passed, "a built-in local adapter")
	}
	switch {
	case err != nil:
		o.say(guardian.TestEnvironment, guardian.Failed, "the inventory could not be read")
	case registered != nil && registered.Environment != p.Environment:
		o.say(guardian.TestEnvironment, guardian.Failed, "the service is registered for another environment")
	default:
		o.say(guardian.TestEnvironment, guardian.Passed, "")
	}
	known := adapter.Operations()
	if i := slices.IndexFunc(p.Operations, func(operation string) bool { return !slices.Contains(known, operation) }); i >= 0 {
		o.say(guardian.TestOperations, guardian.Failed, "the service has no operation of the name at place "+strconv.Itoa(i+1))
	} else {
		o.say(guardian.TestOperations, guardian.Passed, "")
	}
	for _, channel := range p.Channels {
		if slices.Contains(w.Channels, channel) {
			o.say(guardian.TestChannel+channel, guardian.Passed, "")
		} else {
			o.say(guardian.TestChannel+channel, guardian.NotBuilt, "this installation does not answer on it")
		}
	}
	o.say(guardian.TestWebMCP, guardian.NotMeasured, "no browser takes part in a verification")
}

// sweep revokes synthetic runs that a verification has left behind because its process
// ended. Their tokens died with it.
func (w *Workspace) sweep(ctx context.Context) {
	var left []ledger.Subject
	for _, status := range []string{run.StatusReady, run.StatusRunning, run.StatusPaused} {
		found, err := w.Ledger.Find(ctx, ledger.Query{
			Workspace: w.Workspace, Kind: ledger.KindRun, Limit: 100,
			Where: []ledger.Attribute{{Name: "status", Value: status}, {Name: records.AttributePurpose, Value: records.PurposeVerification}},
		})
		if err != nil {
			w.Log.Warn("a verification cannot look for runs that were left behind", "error", err)
			return
		}
		left = append(left, found...)
	}
	now, err := w.Ledger.Now(ctx)
	for _, s := range left {
		if err == nil && now.Sub(s.UpdatedAt) > guardian.VerificationLife {
			if err := w.Runs.Revoke(ctx, s.ID); err != nil {
				w.Log.Warn("a run that a verification left behind could not be revoked", "run", s.ID, "error", err)
			}
		}
	}
}
