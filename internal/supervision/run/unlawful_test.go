package run_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// seal puts an event behind the chain, hashed and signed, without asking the
// machine.
func (w *world) seal(at evidence.Time, id, eventType string, data any) {
	w.Helper()
	sealed, err := evidence.Seal(testKey, w.read().ID, link(w.events), at.Time(), []evidence.Draft{{ID: id, Type: eventType, Data: data}})
	if err != nil {
		w.Fatal(err)
	}
	w.events = append(w.events, sealed...)
}

func (w *world) id() string { return authority.NewFresh(w.fresh(), w.now).ID() }

// forge puts events behind the chain that the machine did not decide.
func (w *world) forge(bodies ...run.Event) {
	w.Helper()
	for _, b := range bodies {
		w.seal(w.now, w.id(), b.EventType(), b)
	}
}

// pointerTo is a pointer to the data of one type of event.
type pointerTo[B any] interface {
	*B
	run.Event
}

// place is the index of the newest event of a type.
func (w *world) place(eventType string) int {
	w.Helper()
	for i := len(w.events) - 1; i >= 0; i-- {
		if w.events[i].Type == eventType {
			return i
		}
	}
	w.Fatalf("the chain has no %s", eventType)
	return -1
}

// newest returns a copy of the newest data of one type of event.
func newest[B any, P pointerTo[B]](w *world) P {
	w.Helper()
	b := P(new(B))
	if err := canon.Unmarshal(w.events[w.place(b.EventType())].Data, b); err != nil {
		w.Fatal(err)
	}
	return b
}

// alter changes the newest event of a type and cuts the chain behind it.
func alter[B any, P pointerTo[B]](w *world, change func(P)) {
	w.Helper()
	b := newest[B, P](w)
	change(b)
	i := w.place(b.EventType())
	e := w.events[i]
	w.events = w.events[:i]
	at, err := evidence.ParseTime(e.Timestamp)
	if err != nil {
		w.Fatal(err)
	}
	w.seal(evidence.TimeOf(at), e.ID, e.Type, b)
}

// cut ends the chain before the newest event of a type.
func (w *world) cut(eventType string) *world {
	w.Helper()
	w.events = w.events[:w.place(eventType)]
	return w
}

// resume makes the chain as it stands the state of the world.
func (w *world) resume() *world {
	w.Helper()
	r := w.replay()
	state, err := r.State().Encode()
	if err != nil || len(r.Unlawful()) > 0 {
		w.Fatalf("cannot go on behind %v: %v", r.Unlawful(), err)
	}
	w.state, w.last = state, nil
	return w
}

// Stages at which the cases begin.

func created(target string) stage {
	return kept("created "+target, func(t rapid.TB) *world { w := blank(t, target); w.create(w.request()); return w })
}

// bare has run.created and its grant and nothing else, on either target.
func bare(target string) stage {
	return func(t rapid.TB) *world {
		w := blank(t, target)
		w.do(func(d *decide.Deciding) { d.Create(w.request()) })
		return w
	}
}

func ready(target string) stage { return func(t rapid.TB) *world { return begun(t, target) } }

func permitted(target, entry string) stage {
	return kept("permitted "+target+" "+entry, func(t rapid.TB) *world { w := before(target, entry)(t); w.permit(entry); return w })
}

func dispatched(target, entry string) stage {
	return kept("dispatched "+target+" "+entry, func(t rapid.TB) *world {
		w := permitted(target, entry)(t)
		w.claim(w.read().Permit)
		return w
	})
}

func receipted(target, entry string) stage {
	return kept("receipted "+target+" "+entry, func(t rapid.TB) *world {
		w := permitted(target, entry)(t)
		w.carry(w.read().Permit)
		return w
	})
}

func verified(target, entry string) stage {
	return func(t rapid.TB) *world { return receipted(target, entry)(t).observe() }
}

func refused(target, entry string) stage {
	return func(t rapid.TB) *world { w := dispatched(target, entry)(t); w.receive(run.ResultRefused); return w }
}

// bound is a run that a guardian policy allows to read and to prepare nothing; it has
// its grant and no observation yet.
func bound(t rapid.TB) *world {
	w := blank(t, run.TargetLocal)
	r := w.request()
	r.Binding = &run.Binding{
		GuardianID: w.id(), Service: r.Config.Service, Environment: "test", PolicyVersion: 1, Mode: r.Config.Mode, BudgetCents: r.Budget.Limit,
		Provider: r.Config.Interrogator, Operations: []string{"shop.item"}, Channels: []string{r.Config.Channel},
	}
	w.create(r)
	return w
}

func paused(t rapid.TB) *world {
	w := begun(t, run.TargetLocal)
	w.judged("item", pauseFor(authority.GoalDrift))
	return w
}

func revoked(t rapid.TB) *world {
	w := begun(t, run.TargetLocal)
	w.do(func(d *decide.Deciding) { d.Revoke() })
	return w
}

// nearlyCompleted is a purchase just before run.completed.
func nearlyCompleted(t rapid.TB) *world {
	return before(run.TargetLocal, "done")(t).cut("run.completed").resume()
}

// failed has a report that failed a hard check; its retry leaves the run ready.
func failed(t rapid.TB) *world {
	w := begun(t, run.TargetLocal)
	r := w.report("item")
	breaks[3].with(&reviewed{r: r, s: w.read()})
	w.propose(r)
	return w
}

// proposed is a faultless turn.proposed.
func (w *world) proposed(id string) *run.Proposed {
	w.Helper()
	r := propose.NewReported(reportOn(w.entry(id), w.read().Observation), w.catalog, func(s string) evidence.Commitment { return evidence.NewText([16]byte{}, s).Commit() })
	return &run.Proposed{w.id(), nil, r, authority.Digest(authority.DomainReport, r), nil}
}

func (w *world) stopFor(reason string) stopcontext.Stop {
	return *w.read().NewStop(reason, stopcontext.SourceRuntime, w.id())
}

const (
	contextTurn   = "trn_0190a3c5e7b27f4a8d1c5b9e3f6a2d48"
	contextClient = "cli_0190a3c5e7b27f4a8d1c5b9e3f6a2d49"
)

var elsewhere = canon.Hash([]byte("elsewhere"))

// unlawfulCase is a chain that is perfectly hashed and signed and breaks one
// rule at its last event.
type unlawfulCase struct {
	rule, name string
	stage      stage
	with       func(*world)
	// follow lists rules that the same fault breaks at the same event after the
	// first; cases have none where that can be.
	follow []string
	// unfit chains are not in vectors/chains: package evidence refuses them before
	// their lawfulness is asked, or they are large.
	unfit bool
}

var unlawfulCases = slices.Concat(runCases, approvalCases, recoveryCases, simulateCases)

var runCases = []unlawfulCase{
	// The beginning of a chain.
	{rule: "first-event", name: "created twice", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(newest[run.Created](w)) }},
	{rule: "time-order", name: "older than the event before", stage: ready(run.TargetLocal), unfit: true, with: func(w *world) { w.after(-time.Millisecond).forge(&run.Metrics{}) }},
	{rule: "subject", name: "another format", stage: bare(run.TargetLocal), unfit: true, with: func(w *world) { alter(w, func(e *run.Created) { e.Subject.Format = "countersign-evidence/2" }) }},
	{rule: "terms-digest", name: "of other terms", stage: bare(run.TargetLocal), with: func(w *world) {
		alter(w, func(e *run.Created) { e.TermsDigest = elsewhere })
	}},
	{rule: "goal-digest", name: "of another goal", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Created) { e.GoalDigest = elsewhere }) }},
	{rule: "config", name: "an unknown mode", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Created) { e.Config.Mode = "free" }) }},
	{rule: "config", name: "an unknown channel", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Created) { e.Config.Channel = "fax" }) }},
	{rule: "config", name: "an unknown actor", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Created) { e.Config.TrafficActor = "robot" }) }},
	{rule: "config", name: "an unknown execution mode", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Created) { e.Config.ExecutionMode = "" }) }},
	{rule: "config", name: "an unknown executor", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Created) { e.Config.Executor = "nobody" }) }},
	{rule: "config", name: "an unknown guardian", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Created) { e.Config.Interrogator = "nobody" }) }},
	{rule: "config", name: "a context client that is none", stage: bare(run.TargetLocal), with: func(w *world) {
		alter(w, func(e *run.Created) { e.Config.ContextClient = pointer("shr" + contextClient[3:]) })
	}},
	{rule: "config", name: "an unknown target", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Created) { e.Config.Target = "elsewhere" }) }},
	{rule: "currency", name: "a grant in another", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Granted) { e.Grant.Currency = "EUR" }) }},
	{rule: "currency", name: "an entry in another", stage: ready(run.TargetLocal), with: func(w *world) {
		e := w.again()
		e.Catalog[0].Currency = pointer("EUR")
		e.CatalogDigest = propose.CatalogDigest(e.Catalog)
		w.forge(e)
	}},
	{rule: "binding", name: "another service", stage: bound, with: func(w *world) { alter(w.cut("grant.created"), func(e *run.Created) { e.Binding.Service = "bank" }) }},
	{rule: "binding", name: "another channel", stage: bound, with: func(w *world) {
		alter(w.cut("grant.created"), func(e *run.Created) { e.Binding.Channels = []string{"mcp"} })
	}},
	{rule: "binding", name: "another mode", stage: bound, with: func(w *world) { alter(w.cut("grant.created"), func(e *run.Created) { e.Binding.Mode = "exact" }) }},
	{rule: "binding", name: "another guardian", stage: bound, with: func(w *world) { alter(w.cut("grant.created"), func(e *run.Created) { e.Binding.Provider = "openai" }) }},
	{rule: "binding", name: "a cent more", stage: bound, with: func(w *world) { alter(w.cut("grant.created"), func(e *run.Created) { e.Binding.BudgetCents-- }) }},
	{rule: "binding", name: "a hosted target under the policy of a local service", stage: bound, with: func(w *world) {
		alter(w.cut("grant.created"), func(e *run.Created) {
			e.Binding.Environment, e.Config.Target, e.StoreOrigin, e.StoreKeys = "local", run.TargetHosted, pointer(origin), []string{"k"}
		})
	}},
	{rule: "binding-operation", name: "a grant for another operation", stage: bound, with: func(w *world) {
		alter(w, func(e *run.Granted) { e.Grant.Operations = append(e.Grant.Operations, "shop.submit") })
	}},
	{rule: "binding-operation", name: "a catalog with another operation", stage: bound, with: func(w *world) { w.forge(newest[run.Observed](begun(w, run.TargetLocal))) }},
	{rule: "store-pinned", name: "hosted without a key", stage: bare(run.TargetHosted), with: func(w *world) { alter(w, func(e *run.Created) { e.StoreKeys = nil }) }},
	{rule: "store-pinned", name: "hosted without an origin", stage: bare(run.TargetHosted), with: func(w *world) { alter(w, func(e *run.Created) { e.StoreOrigin = nil }) }},
	{rule: "store-pinned", name: "local with an origin", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Created) { e.StoreOrigin = pointer(origin) }) }},
	{rule: "store-pinned", name: "local with a key", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Created) { e.StoreKeys = []string{"k"} }) }},

	// Grants.
	{rule: "grant-after-start", name: "a second grant in a ready run", stage: ready(run.TargetLocal), with: func(w *world) {
		e := newest[run.Granted](w)
		e.Grant.ID = w.id()
		w.forge(e)
	}},
	{rule: "grant-creator", name: "made by the agent", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Granted) { e.CreatedBy = "agent" }) }},
	{rule: "grant-life", name: "a millisecond over 60 minutes", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Granted) { e.Grant.ExpiresAt++ }) }},
	{rule: "grant-life", name: "ended when created", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Granted) { e.Grant.ExpiresAt = w.now }) }},
	{rule: "grant-total", name: "a cent over the budget", stage: bare(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Granted) { e.Grant.MaxTotalCents++ }) }},
	{rule: "twice", name: "the same grant again", stage: bare(run.TargetLocal), follow: []string{"grant-twice"}, with: func(w *world) { w.forge(newest[run.Granted](w)) }},
	{rule: "grant-revoked", name: "unknown", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.GrantRevoked{w.id(), run.CauseOwner}) }},
	{rule: "grant-revoked", name: "ended already", stage: revoked, with: func(w *world) { w.forge(newest[run.GrantRevoked](w)) }},

	// The hosted session.
	{rule: "session-after-start", name: "dispatched after a revoke", stage: bare(run.TargetHosted), with: func(w *world) {
		intent := newest[run.HostedSessionEvent](created(run.TargetHosted)(w))
		w.do(func(d *decide.Deciding) { d.Revoke() })
		w.forge(intent)
	}},
	{rule: "session-intent", name: "of a local run", stage: bare(run.TargetLocal), with: func(w *world) {
		w.forge(newest[run.HostedSessionEvent](created(run.TargetHosted)(w)))
	}},
	{rule: "session-intent", name: "twice", stage: created(run.TargetHosted), with: func(w *world) { w.forge(newest[run.HostedSessionEvent](w)) }},
	{rule: "session-intent", name: "without a request", stage: created(run.TargetHosted), with: func(w *world) { alter(w, func(e *run.HostedSessionEvent) { e.Dispatch = nil }) }},
	{rule: "session-intent", name: "without a lease", stage: created(run.TargetHosted), with: func(w *world) { alter(w, func(e *run.HostedSessionEvent) { e.Lease = nil }) }},
	{rule: "session-intent", name: "without a grant", stage: created(run.TargetHosted), with: func(w *world) {
		intent := newest[run.HostedSessionEvent](w)
		w.cut("grant.created").forge(intent)
	}},
	{rule: "dispatch-audience", name: "session at another store", stage: created(run.TargetHosted), with: func(w *world) { alter(w, func(e *run.HostedSessionEvent) { e.Dispatch.Audience += ":8443" }) }},
	{rule: "dispatch-audience", name: "another session than named", stage: created(run.TargetHosted), with: func(w *world) { alter(w, func(e *run.HostedSessionEvent) { e.Dispatch.SessionID = w.id() }) }},
	{rule: "lease", name: "session a millisecond over 10 s", stage: created(run.TargetHosted), with: func(w *world) { alter(w, func(e *run.HostedSessionEvent) { e.Lease.Until++ }) }},
	{rule: "session-without-intent", name: "opened without a receipt", stage: ready(run.TargetHosted), with: func(w *world) { alter(w, func(e *run.HostedSessionEvent) { e.Receipt = nil }) }},
	{rule: "session-without-intent", name: "opened and never dispatched", stage: bare(run.TargetHosted), with: func(w *world) {
		w.forge(&run.HostedSessionEvent{Phase: run.SessionOpened, ExecutionID: w.id(), SessionID: w.id(), EffectDigest: elsewhere, Receipt: pointer("x")})
	}},
	{rule: "session-without-intent", name: "of another execution", stage: ready(run.TargetHosted), with: func(w *world) { alter(w, func(e *run.HostedSessionEvent) { e.ExecutionID = w.id() }) }},
	{rule: "session-without-intent", name: "of another session", stage: ready(run.TargetHosted), with: func(w *world) { alter(w, func(e *run.HostedSessionEvent) { e.SessionID = w.id() }) }},
	{rule: "session-without-intent", name: "opened twice", stage: ready(run.TargetHosted), with: func(w *world) { w.forge(newest[run.HostedSessionEvent](w)) }},
	{rule: "session-phase", name: "an unknown phase", stage: created(run.TargetHosted), with: func(w *world) { alter(w, func(e *run.HostedSessionEvent) { e.Phase = "closed" }) }},

	// Observations.
	{rule: "observation-status", name: "in a paused run", stage: paused, with: func(w *world) { w.forge(w.again()) }},
	{rule: "observation-under-permit", name: "under a live permit", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { w.forge(w.again()) }},
	{rule: "observation-unresolved", name: "while an effect is out", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) { w.forge(w.again()) }},
	{rule: "observation-time", name: "captured after it was recorded", stage: ready(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Observed) { e.CapturedAt++ }) }},
	{rule: "state-digest", name: "of another state", stage: ready(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Observed) { e.StateDigest = elsewhere }) }},
	{rule: "catalog-digest", name: "of another catalog", stage: ready(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Observed) { e.CatalogDigest = elsewhere }) }},
	{rule: "catalog-digest", name: "an entry changed", stage: ready(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Observed) { e.Catalog[0].Label += "!" }) }},
	{rule: "catalog-digest", name: "65 entries", stage: ready(run.TargetLocal), unfit: true, with: func(w *world) { alter(w, func(e *run.Observed) { fill(e, 65) }) }},
	{rule: "catalog-twice", name: "one id for two entries", stage: ready(run.TargetLocal), with: func(w *world) {
		alter(w, func(e *run.Observed) {
			e.Catalog[1].EntryID = e.Catalog[0].EntryID
			e.CatalogDigest = propose.CatalogDigest(e.Catalog)
		})
	}},
	{rule: "catalog-twice", name: "one target for two entries", stage: ready(run.TargetLocal), with: func(w *world) {
		alter(w, func(e *run.Observed) {
			e.Catalog[1].TargetRef = e.Catalog[0].TargetRef
			e.CatalogDigest = propose.CatalogDigest(e.Catalog)
		})
	}},
	{rule: "document-epoch", name: "of another document", stage: ready(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Observed) { e.DocumentEpoch++ }) }},
	{rule: "state-revision", name: "two steps at once", stage: ready(run.TargetLocal), with: func(w *world) { alter(w, func(e *run.Observed) { e.StateRevision++ }) }},
	{rule: "state-revision", name: "moved without a change", stage: ready(run.TargetLocal), with: func(w *world) { e := w.again(); e.StateRevision++; w.forge(e) }},
	{rule: "state-revision", name: "still, with a change", stage: ready(run.TargetLocal), with: func(w *world) { e := w.again(); showing(e, `{"checkout":9}`); w.forge(e) }},
	{rule: "proposal-state", name: "a proposal of the former state", stage: before(run.TargetLocal, "submit"), with: func(w *world) {
		e := w.again()
		showing(e, `{"checkout":9}`)
		e.StateRevision++
		w.forge(e)
	}},
	{rule: "twice", name: "the same observation again", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(newest[run.Observed](w)) }},

	// The course of a run.
	{rule: "initialized-twice", name: "initialized twice", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.Initialized{}) }},
	{rule: "initialized-early", name: "without an observation", stage: bare(run.TargetLocal), with: func(w *world) { w.forge(&run.Initialized{}) }},
	{rule: "initialized-early", name: "without a grant", stage: ready(run.TargetLocal), with: func(w *world) {
		e := newest[run.Observed](w)
		w.cut("grant.created").forge(e, &run.Initialized{})
	}},
	{rule: "initialized-early", name: "without a hosted session", stage: bare(run.TargetHosted), with: func(w *world) {
		w.forge(newest[run.Observed](begun(w, run.TargetLocal)), &run.Initialized{})
	}},
	{rule: "initialized-early", name: "before the hosted session is open", stage: created(run.TargetHosted), with: func(w *world) {
		w.forge(newest[run.Observed](begun(w, run.TargetLocal)), &run.Initialized{})
	}},
	{rule: "session-status", name: "before the run is under way", stage: bare(run.TargetLocal), with: func(w *world) { w.forge(&run.SessionIssued{1, w.now, issuer}) }},
	{rule: "session-status", name: "after a revoke", stage: revoked, with: func(w *world) { w.forge(&run.SessionIssued{1, w.now, issuer}) }},
	{rule: "session-generation", name: "skipped", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.SessionIssued{2, w.now, issuer}) }},
	{rule: "session-generation", name: "the same again", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.SessionIssued{1, w.now, issuer}, &run.SessionIssued{1, w.now, issuer}) }},
	{rule: "session-life", name: "a millisecond over the grant", stage: ready(run.TargetLocal), with: func(w *world) {
		w.forge(&run.SessionIssued{1, w.now.Add(60*time.Minute) + 1, issuer})
	}},
	{rule: "paused-status", name: "paused twice", stage: paused, with: func(w *world) { w.forge(newest[run.Paused](w)) }},
	{rule: "paused-with-permit", name: "with a live permit", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { w.forge(&run.Paused{w.stopFor(authority.Frozen)}) }},
	{rule: "stop-table", name: "another recovery", stage: paused, with: func(w *world) { alter(w, func(e *run.Paused) { e.Stop.Recovery = "retry" }) }},
	{rule: "stop-table", name: "another category", stage: paused, with: func(w *world) { alter(w, func(e *run.Paused) { e.Stop.Category = stopcontext.CategoryRetry }) }},
	{rule: "stop-table", name: "another version", stage: paused, with: func(w *world) { alter(w, func(e *run.Paused) { e.Stop.Version = 2 }) }},
	{rule: "stop-table", name: "an unknown reason", stage: paused, with: func(w *world) {
		alter(w, func(e *run.Paused) { e.Stop.ReasonCode, e.Stop.Category, e.Stop.Recovery = "BORED", "", "" })
	}},
	{rule: "stop-table", name: "paused for a reason that ends", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.Paused{w.stopFor(authority.OwnerRevoked)}) }},
	{rule: "stop-table", name: "an end with another recovery", stage: revoked, with: func(w *world) { alter(w, func(e *run.Revoked) { e.Stop.Recovery = "retry" }) }},
	{rule: "resumed-status", name: "of a paused run", stage: paused, with: func(w *world) { w.forge(&run.Resumed{"attempt_ended"}) }},
	{rule: "resumed-unresolved", name: "with an effect out", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) { w.forge(&run.Resumed{"attempt_ended"}) }},
	{rule: "ended-twice", name: "revoked twice", stage: revoked, with: func(w *world) { w.forge(newest[run.Revoked](w)) }},
	{rule: "revoked-by", name: "revoked by the agent", stage: revoked, with: func(w *world) { alter(w, func(e *run.Revoked) { e.By = "agent" }) }},
	{rule: "ended-with-permit", name: "terminated with a live permit", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { w.forge(&run.Terminated{w.stopFor(authority.GuardianTerminated)}) }},
	{rule: "failed-status", name: "a ready run failed", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.Failed{w.stopFor(authority.HostedUnreachable)}) }},
	{rule: "completed-status", name: "completed twice", stage: before(run.TargetLocal, "done"), with: func(w *world) { w.forge(newest[run.Completed](w)) }},
	{rule: "completed-early", name: "a step is open", stage: before(run.TargetLocal, "order"), with: func(w *world) { w.forge(w.completed()) }},
	{rule: "completed-without-receipt", name: "nothing was committed", stage: func(t rapid.TB) *world {
		w := blank(t, run.TargetLocal)
		r := w.request()
		r.Workflow = r.Workflow[:1]
		w.create(r)
		w.start()
		return w.cycle("item")
	}, with: func(w *world) { w.forge(w.completed()) }},
	{rule: "completed-with-permit", name: "a permit is live", stage: nearlyCompleted, with: func(w *world) { w.permit("order"); w.forge(w.completed()) }},
	{rule: "completed-unverified", name: "the last execution is not verified", stage: nearlyCompleted, with: func(w *world) {
		w.carry(w.permit("order"))
		w.forge(w.again(), w.completed())
	}},
	{rule: "execution-unknown", name: "completed by another execution", stage: nearlyCompleted, with: func(w *world) { w.forge(&run.Completed{w.id()}) }},
	{rule: "refusal-limit", name: "the 101st refusal", stage: ready(run.TargetLocal), unfit: true, with: func(w *world) {
		for range 101 {
			w.forge(&run.Refused{nil, authority.PermitMismatch, elsewhere})
		}
	}},

	// Turns.
	{rule: "turn-status", name: "after a revoke", stage: revoked, with: func(w *world) { w.forge(w.proposed("item")) }},
	{rule: "turn-under-permit", name: "under a live permit", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { w.forge(w.proposed("item")) }},
	{rule: "turn-unresolved", name: "after a mismatch", stage: receipted(run.TargetLocal, "prepare"), with: func(w *world) {
		w.shop = shop{Price: int64(price)}
		w.observe().cut("run.paused").forge(w.proposed("item"))
	}},
	{rule: "turn-after-stop", name: "after a PAUSE for clarification", stage: paused, with: func(w *world) { w.cut("run.paused").forge(w.proposed("item")) }},
	{rule: "turn-after-stop", name: "after a TERMINATE", stage: ready(run.TargetLocal), with: func(w *world) {
		w.judged("item", terminate)
		w.cut("grant.revoked").forge(w.proposed("item"))
	}},
	{rule: "turn-after-stop", name: "after ten retries", stage: ready(run.TargetLocal), unfit: true, with: func(w *world) {
		for range 10 {
			w.judged("item", pauseFor(authority.ProviderError))
		}
		w.cut("run.paused").forge(w.proposed("item"))
	}},
	{rule: "context-turn", name: "of a class that there is not", stage: ready(run.TargetLocal), with: func(w *world) {
		e := w.proposed("item")
		e.ContextTurn = &run.ContextTurn{ID: contextTurn, Class: "approved"}
		w.forge(e)
	}},
	{rule: "context-turn", name: "of another kind of id", stage: ready(run.TargetLocal), with: func(w *world) {
		e := w.proposed("item")
		e.ContextTurn = &run.ContextTurn{ID: "int" + contextTurn[3:], Class: run.ClassReported}
		w.forge(e)
	}},
	{rule: "context-turn", name: "of an id in capitals", stage: ready(run.TargetLocal), with: func(w *world) {
		e := w.proposed("item")
		e.ContextTurn = &run.ContextTurn{ID: "trn_" + strings.ToUpper(contextTurn[4:]), Class: run.ClassReported}
		w.forge(e)
	}},
	{rule: "report-digest", name: "of another report", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Proposed) { e.ReportDigest = elsewhere }) }},
	{rule: "twice", name: "the same turn again", stage: failed, with: func(w *world) { w.forge(newest[run.Proposed](w)) }},

	// Hard checks and guardian.
	{rule: "findings", name: "a failed check recorded as passed", stage: failed, with: func(w *world) {
		alter(w, func(e *run.Checked) {
			e.Verdict, e.ReasonCode = run.CheckPassed, nil
			for i := range e.Findings {
				e.Findings[i].Result, e.Findings[i].Code = run.CheckPassed, ""
			}
		})
	}},
	{rule: "findings", name: "one check left out", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Checked) { e.Findings = e.Findings[1:] }) }},
	{rule: "findings", name: "no check applied", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Checked) { e.Findings = nil }) }},
	{rule: "checked", name: "another verdict", stage: failed, with: func(w *world) { alter(w, func(e *run.Checked) { e.Verdict = run.CheckPassed }) }},
	{rule: "checked", name: "no reason", stage: failed, with: func(w *world) { alter(w, func(e *run.Checked) { e.ReasonCode = nil }) }},
	{rule: "checked", name: "another reason", stage: failed, with: func(w *world) { alter(w, func(e *run.Checked) { e.ReasonCode = pointer(authority.StaleState) }) }},
	{rule: "checked", name: "another amount", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Checked) { e.AmountCents = pointer(money.Cents(1)) }) }},
	{rule: "checked", name: "another action", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Checked) { e.ActionDigest = &elsewhere }) }},
	{rule: "checked", name: "no entry", stage: permitted(run.TargetLocal, "item"), follow: []string{"checked-incomplete"}, with: func(w *world) { alter(w, func(e *run.Checked) { e.EntryID = nil }) }},
	{rule: "checked", name: "no grant", stage: permitted(run.TargetLocal, "item"), follow: []string{"checked-incomplete"}, with: func(w *world) { alter(w, func(e *run.Checked) { e.GrantID = nil }) }},
	{rule: "checked", name: "no effect", stage: permitted(run.TargetLocal, "item"), follow: []string{"checked-incomplete"}, with: func(w *world) { alter(w, func(e *run.Checked) { e.EffectDigest = nil }) }},
	{rule: "checked", name: "no action", stage: permitted(run.TargetLocal, "item"), follow: []string{"checked-incomplete"}, with: func(w *world) { alter(w, func(e *run.Checked) { e.ActionDigest = nil }) }},
	{rule: "checked", name: "no amount", stage: permitted(run.TargetLocal, "item"), follow: []string{"checked-incomplete"}, with: func(w *world) { alter(w, func(e *run.Checked) { e.AmountCents = nil }) }},
	{rule: "checked-without-turn", name: "no turn", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(newest[run.Checked](failed(w))) }},
	{rule: "checked-without-turn", name: "another turn", stage: failed, with: func(w *world) { alter(w, func(e *run.Checked) { e.TurnID = w.id() }) }},
	{rule: "checked-without-turn", name: "checked twice", stage: failed, with: func(w *world) { w.forge(newest[run.Checked](w)) }},
	{rule: "guardian-without-checks", name: "after a failed check", stage: failed, with: func(w *world) {
		e := newest[run.Decided](permitted(run.TargetLocal, "item")(w))
		e.TurnID = newest[run.Proposed](w).TurnID
		w.forge(e)
	}},
	{rule: "guardian-without-checks", name: "no turn", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(newest[run.Decided](permitted(run.TargetLocal, "item")(w))) }},
	{rule: "guardian-without-checks", name: "unchecked", stage: permitted(run.TargetLocal, "item"), with: func(w *world) {
		e := newest[run.Decided](w)
		w.cut("policy.checked").forge(e)
	}},
	{rule: "guardian-without-checks", name: "another turn", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Decided) { e.TurnID = w.id() }) }},
	{rule: "guardian-without-checks", name: "decided twice", stage: permitted(run.TargetLocal, "item"), with: func(w *world) {
		e := newest[run.Decided](w)
		w.cut("permit.issued").forge(e)
	}},
	{rule: "guardian-verdict", name: "an unknown verdict", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Decided) { e.Decision = "MAYBE" }) }},
	{rule: "guardian-verdict", name: "ALLOW as unsafe", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Decided) { e.ReasonCode = authority.Unsafe }) }},
	{rule: "guardian-verdict", name: "PAUSE as relevant", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Decided) { e.Decision = run.Pause }) }},

	// Permits.
	{rule: "permit-status", name: "in a paused run", stage: permitted(run.TargetLocal, "item"), with: func(w *world) {
		e := newest[run.Issued](w)
		w.cut("permit.issued").forge(&run.Paused{w.stopFor(authority.Frozen)}, e)
	}},
	{rule: "permit-outstanding", name: "beside a live permit", stage: permitted(run.TargetLocal, "item"), follow: []string{"permit-without-allow"}, with: func(w *world) {
		e := newest[run.Issued](w)
		e.Permit.ID = w.id()
		w.forge(e)
	}},
	{rule: "permit-without-allow", name: "a second one for the same ALLOW", stage: permitted(run.TargetLocal, "item"), with: func(w *world) {
		e := newest[run.Issued](w)
		e.Permit.ID = w.id()
		w.after(30 * time.Second).settle()
		w.forge(e)
	}},
	{rule: "permit-without-allow", name: "after a PAUSE", stage: permitted(run.TargetLocal, "item"), with: func(w *world) {
		e := newest[run.Issued](w)
		alter(w, func(e *run.Decided) { e.Decision, e.ReasonCode = run.Pause, authority.ProviderError })
		w.forge(e)
	}},
	{rule: "permit-without-allow", name: "before the guardian decided", stage: permitted(run.TargetLocal, "item"), with: func(w *world) {
		e := newest[run.Issued](w)
		w.cut("guardian.decided").forge(e)
	}},
	{rule: "permit-without-allow", name: "no turn", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(newest[run.Issued](permitted(run.TargetLocal, "item")(w))) }},
	{rule: "permit-without-allow", name: "for another turn", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.Bindings.TurnID = w.id() }) }},
	{rule: "permit-grant", name: "no such grant", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.Bindings.GrantID = w.id() }) }},
	{rule: "permit-grant", name: "another grant than checked", stage: func(t rapid.TB) *world {
		w := bare(run.TargetLocal)(t)
		e := newest[run.Granted](w)
		e.Grant.ID = w.id()
		w.forge(e)
		w.resume().start()
		w.permit("item")
		return w
	}, with: func(w *world) {
		alter(w, func(e *run.Issued) {
			var first run.Granted
			if err := canon.Unmarshal(w.events[1].Data, &first); err != nil {
				w.Fatal(err)
			}
			e.Permit.Bindings.GrantID = first.Grant.ID
		})
	}},
	{rule: "permit-grant", name: "the grant ended meanwhile", stage: permitted(run.TargetLocal, "item"), follow: []string{"permit-life"}, with: func(w *world) {
		e := newest[run.Issued](w)
		w.cut("permit.issued").forge(&run.GrantRevoked{w.read().Grants[0].ID, run.CauseGrant}, e)
	}},
	{rule: "permit-grant", name: "an operation that is not granted", stage: permitted(run.TargetLocal, "item"), follow: []string{"permit-entry"}, with: func(w *world) {
		alter(w, func(e *run.Issued) { e.Permit.Bindings.OperationID = "shop.gift" })
	}},
	{rule: "permit-life", name: "a millisecond over 30 s", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.ExpiresAt++ }) }},
	{rule: "permit-life", name: "ended when issued", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.ExpiresAt = w.now }) }},
	{rule: "permit-bindings", name: "another observation", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.Bindings.ObservationID = w.id() }) }},
	{rule: "permit-bindings", name: "another document", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.Bindings.DocumentEpoch++ }) }},
	{rule: "permit-bindings", name: "another state", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.Bindings.StateRevision++ }) }},
	{rule: "permit-bindings", name: "another run", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.Bindings.RunID = w.id() }) }},
	{rule: "permit-bindings", name: "another goal", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.Bindings.Goal = elsewhere }) }},
	{rule: "permit-bindings", name: "another action", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.Bindings.ActionDigest = elsewhere }) }},
	{rule: "permit-effect", name: "another effect", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.EffectDigest = elsewhere }) }},
	{rule: "permit-effect", name: "another entry", stage: permitted(run.TargetLocal, "item"), follow: []string{"permit-entry"}, with: func(w *world) { alter(w, func(e *run.Issued) { e.EntryID = "prepare" }) }},
	{rule: "permit-effect", name: "another amount", stage: permitted(run.TargetLocal, "item"), follow: []string{"permit-entry"}, with: func(w *world) { alter(w, func(e *run.Issued) { e.AmountCents = 1 }) }},
	{rule: "permit-proposal", name: "a commit without a proposal", stage: permitted(run.TargetLocal, "submit"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.Bindings.TransactionProposalID = nil }) }},
	{rule: "permit-proposal", name: "another proposal", stage: permitted(run.TargetLocal, "submit"), with: func(w *world) {
		alter(w, func(e *run.Issued) { e.Permit.Bindings.TransactionProposalID = pointer(w.id()) })
	}},
	{rule: "permit-proposal", name: "a read with a proposal", stage: permitted(run.TargetLocal, "item"), follow: []string{"permit-proposal"}, with: func(w *world) {
		alter(w, func(e *run.Issued) { e.Permit.Bindings.TransactionProposalID = pointer(w.id()) })
	}},
	{rule: "permit-entry", name: "another class", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Class = propose.ClassLocal }) }},
	{rule: "permit-entry", name: "another granted operation", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Issued) { e.Permit.Bindings.OperationID = "shop.order" }) }},
	{rule: "permit-expired", name: "a millisecond early", stage: permitted(run.TargetLocal, "item"), with: func(w *world) {
		w.after(30*time.Second - time.Millisecond).forge(&run.PermitExpired{w.read().Permit.ID})
	}},
	{rule: "permit-expired", name: "another permit", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { w.after(30 * time.Second).forge(&run.PermitExpired{w.id()}) }},
	{rule: "permit-expired", name: "no permit", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.PermitExpired{w.id()}) }},
	{rule: "permit-revoked", name: "no permit", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.PermitRevoked{w.id(), run.CauseOwner}) }},
	{rule: "permit-revoked", name: "another permit", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { w.forge(&run.PermitRevoked{w.id(), run.CauseOwner}) }},
	{rule: "twice", name: "a permit issued again", stage: permitted(run.TargetLocal, "item"), with: func(w *world) {
		first := w.read().Permit.ID
		w.after(30 * time.Second).observe()
		w.permit("item")
		alter(w, func(e *run.Issued) { e.Permit.ID = first })
	}},

	// Proposals.
	{rule: "proposal-status", name: "in a paused run", stage: paused, with: func(w *world) {
		w.forge(&run.ProposalPrepared{run.Proposal{ID: w.id(), TermsDigest: w.read().TermsDigest, ExpiresAt: w.now.Add(time.Minute)}})
	}},
	{rule: "proposal-twice", name: "a second one beside the first", stage: before(run.TargetLocal, "submit"), with: func(w *world) {
		e := newest[run.ProposalPrepared](w)
		e.Proposal.ID = w.id()
		w.forge(e)
	}},
	{rule: "proposal-life", name: "a millisecond over 10 minutes", stage: before(run.TargetLocal, "submit"), with: func(w *world) { alter(w, func(e *run.ProposalPrepared) { e.Proposal.ExpiresAt++ }) }},
	{rule: "proposal-life", name: "ended when prepared", stage: before(run.TargetLocal, "submit"), with: func(w *world) { alter(w, func(e *run.ProposalPrepared) { e.Proposal.ExpiresAt = w.now }) }},
	{rule: "proposal-terms", name: "for other terms", stage: before(run.TargetLocal, "submit"), with: func(w *world) { alter(w, func(e *run.ProposalPrepared) { e.Proposal.TermsDigest = elsewhere }) }},
	{rule: "proposal-voided", name: "none is prepared", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.ProposalVoided{w.id(), "state"}) }},
	{rule: "proposal-voided", name: "another one", stage: before(run.TargetLocal, "submit"), with: func(w *world) { w.forge(&run.ProposalVoided{w.id(), "state"}) }},
	{rule: "twice", name: "a proposal prepared again", stage: before(run.TargetLocal, "submit"), with: func(w *world) {
		e := newest[run.ProposalPrepared](w)
		w.forge(&run.ProposalVoided{e.Proposal.ID, "state"}, e)
	}},

	// Claim and dispatch.
	{rule: "claim-status", name: "after a revoke", stage: revoked, follow: []string{"claim-without-permit"}, with: func(w *world) { w.forge(&run.Claimed{w.id(), w.id(), 0}) }},
	{rule: "claim-without-permit", name: "no permit", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(&run.Claimed{w.id(), w.id(), 0}) }},
	{rule: "claim-without-permit", name: "another permit", stage: permitted(run.TargetLocal, "item"), with: func(w *world) { w.forge(&run.Claimed{w.id(), w.id(), 0}) }},
	{rule: "claim-without-permit", name: "a permit spent twice", stage: verified(run.TargetLocal, "item"), with: func(w *world) {
		e := newest[run.Claimed](w)
		e.ExecutionID = w.id()
		w.forge(e)
	}},
	{rule: "claim-expired", name: "at the permit's end", stage: permitted(run.TargetLocal, "item"), with: func(w *world) {
		p := w.read().Permit
		w.after(30 * time.Second).forge(&run.Claimed{p.ID, w.id(), 0})
	}},
	{rule: "claim-grant", name: "the grant ended meanwhile", stage: permitted(run.TargetLocal, "item"), with: func(w *world) {
		p := w.read().Permit
		w.forge(&run.GrantRevoked{p.Bindings.GrantID, run.CauseGrant}, &run.Claimed{p.ID, w.id(), 0})
	}},
	{rule: "claim-proposal", name: "the proposal was voided", stage: permitted(run.TargetLocal, "submit"), with: func(w *world) {
		s := w.read()
		w.forge(&run.ProposalVoided{s.Proposal.ID, "state"}, &run.Claimed{s.Permit.ID, w.id(), price})
	}},
	{rule: "claim-proposal", name: "another proposal stands", stage: permitted(run.TargetLocal, "submit"), with: func(w *world) {
		s, e := w.read(), newest[run.ProposalPrepared](w)
		e.Proposal.ID = w.id()
		w.forge(&run.ProposalVoided{s.Proposal.ID, "state"}, e, &run.Claimed{s.Permit.ID, w.id(), price})
	}},
	{rule: "claim-proposal", name: "the proposal has ended", stage: before(run.TargetLocal, "submit"), with: func(w *world) {
		w.after(10*time.Minute - time.Second).observe()
		p := w.permit("submit")
		w.after(time.Second).forge(&run.Claimed{p.ID, w.id(), price})
	}},
	{rule: "reservation", name: "less than the permit's amount", stage: dispatched(run.TargetLocal, "submit"), with: func(w *world) { alter(w, func(e *run.Claimed) { e.ReservedCents-- }) }},
	{rule: "reservation", name: "a read reserves", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Claimed) { e.ReservedCents++ }) }},
	{rule: "claim-without-dispatch", name: "no intent follows", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) { w.cut("execution.dispatched").forge(&run.Metrics{}) }},
	{rule: "claim-without-dispatch", name: "the chain ends with the claim", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) { w.cut("execution.dispatched") }},
	{rule: "dispatch-after-end", name: "dispatched after a revoke", stage: revoked, follow: []string{"dispatch-without-claim"}, with: func(w *world) {
		w.forge(newest[run.Dispatched](dispatched(run.TargetLocal, "item")(w)))
	}},
	{rule: "dispatch-without-claim", name: "no permit was claimed", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(newest[run.Dispatched](dispatched(run.TargetLocal, "item")(w))) }},
	{rule: "dispatch-without-claim", name: "later than the claim", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) {
		e := newest[run.Dispatched](w)
		w.cut("execution.dispatched").after(time.Millisecond).forge(e)
	}},
	{rule: "dispatch-without-claim", name: "another execution", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Dispatched) { e.ExecutionID = w.id() }) }},
	{rule: "dispatch-without-claim", name: "another permit", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Dispatched) { e.PermitID = w.id() }) }},
	{rule: "twice", name: "a verified execution dispatched again", stage: verified(run.TargetLocal, "item"), follow: []string{"dispatch-without-claim"}, with: func(w *world) { w.forge(newest[run.Dispatched](w)) }},
	{rule: "dispatch-effect", name: "another turn", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Dispatched) { e.TurnID = w.id() }) }},
	{rule: "dispatch-effect", name: "another effect", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Dispatched) { e.EffectDigest = elsewhere }) }},
	{rule: "dispatch-effect", name: "another amount", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Dispatched) { e.AmountCents++ }) }},
	{rule: "dispatch-effect", name: "another operation", stage: dispatched(run.TargetLocal, "item"), follow: []string{"dispatch-entry"}, with: func(w *world) { alter(w, func(e *run.Dispatched) { e.OperationID = "shop.order" }) }},
	{rule: "dispatch-effect", name: "another class", stage: dispatched(run.TargetLocal, "item"), follow: []string{"dispatch-entry"}, with: func(w *world) { alter(w, func(e *run.Dispatched) { e.Class = propose.ClassLocal }) }},
	{rule: "dispatch-target", name: "a hosted mutation without its request", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) { alter(w, func(e *run.Dispatched) { e.Dispatch = nil }) }},
	{rule: "dispatch-target", name: "a hosted read with a dispatch permit", stage: dispatched(run.TargetHosted, "item"), with: func(w *world) {
		alter(w, func(e *run.Dispatched) { e.Dispatch = &run.Dispatch{Audience: origin, SessionID: w.read().Hosted.ID} })
	}},
	{rule: "dispatch-target", name: "a local mutation with a dispatch permit", stage: dispatched(run.TargetLocal, "prepare"), follow: []string{"dispatch-audience"}, with: func(w *world) {
		alter(w, func(e *run.Dispatched) { e.Dispatch = &run.Dispatch{Audience: origin} })
	}},
	{rule: "dispatch-audience", name: "another store", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) { alter(w, func(e *run.Dispatched) { e.Dispatch.Audience += ":8443" }) }},
	{rule: "dispatch-audience", name: "another session", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) { alter(w, func(e *run.Dispatched) { e.Dispatch.SessionID = w.id() }) }},
	{rule: "lease", name: "a millisecond over 10 s", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Dispatched) { e.Lease.Until++ }) }},
	{rule: "dispatch-entry", name: "other arguments", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Dispatched) { e.Args = json.RawMessage(`{"item":"mouse"}`) }) }},
	{rule: "dispatch-entry", name: "other postconditions", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Dispatched) { e.Postconditions = nil }) }},
	{rule: "twice", name: "an execution dispatched again", stage: verified(run.TargetLocal, "item"), with: func(w *world) {
		first := w.read().Execution.ID
		w.claim(w.permit("item"))
		second := newest[run.Dispatched](w)
		second.ExecutionID = first
		alter(w, func(e *run.Claimed) { e.ExecutionID = first })
		w.forge(second)
	}},

	// Outcomes.
	{rule: "execution-unknown", name: "a receipt without a dispatch", stage: ready(run.TargetLocal), with: func(w *world) { w.forge(newest[run.Receipt](receipted(run.TargetLocal, "item")(w))) }},
	{rule: "execution-unknown", name: "a receipt for another execution", stage: receipted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Receipt) { e.ExecutionID = w.id() }) }},
	{rule: "execution-unknown", name: "a store's receipt for another execution", stage: receipted(run.TargetHosted, "prepare"), with: func(w *world) { alter(w, func(e *run.HostedReceipt) { e.ExecutionID = w.id() }) }},
	{rule: "receipt-twice", name: "a second receipt", stage: receipted(run.TargetLocal, "submit"), with: func(w *world) { w.forge(newest[run.Receipt](w)) }},
	{rule: "receipt-twice", name: "a store's receipt twice", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) { e := w.hosted(); w.forge(e, e) }},
	{rule: "receipt-twice", name: "a store's receipt after the receipt", stage: receipted(run.TargetHosted, "prepare"), with: func(w *world) { w.forge(newest[run.HostedReceipt](w)) }},
	{rule: "receipt-kind", name: "a hosted mutation with a local receipt", stage: receipted(run.TargetHosted, "prepare"), with: func(w *world) { alter(w, func(e *run.Receipt) { e.Kind = run.ReceiptLocal }) }},
	{rule: "receipt-kind", name: "a store's receipt for a read", stage: dispatched(run.TargetHosted, "item"), with: func(w *world) {
		x := w.read().Execution
		w.forge(&run.HostedReceipt{x.ID, x.PermitID, "x", elsewhere, "response"})
	}},
	{rule: "receipt-kind", name: "a hosted mutation without the store's receipt", stage: receipted(run.TargetHosted, "prepare"), with: func(w *world) {
		e := newest[run.Receipt](w)
		w.cut("hosted.receipt").forge(e)
	}},
	{rule: "receipt-kind", name: "a hosted read with a local receipt", stage: receipted(run.TargetHosted, "item"), with: func(w *world) { alter(w, func(e *run.Receipt) { e.Kind = run.ReceiptLocal }) }},
	{rule: "receipt-kind", name: "a local mutation with a hosted receipt", stage: receipted(run.TargetLocal, "prepare"), with: func(w *world) { alter(w, func(e *run.Receipt) { e.Kind = run.ReceiptRead }) }},
	{rule: "receipt-permit", name: "a store's receipt for another permit", stage: receipted(run.TargetHosted, "prepare"), with: func(w *world) { alter(w, func(e *run.HostedReceipt) { e.PermitID = w.id() }) }},
	{rule: "receipt-permit", name: "for another permit", stage: receipted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Receipt) { e.PermitID = w.id() }) }},
	{rule: "receipt-result", name: "neither applied nor refused", stage: receipted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Receipt) { e.Result = "maybe" }) }},
	{rule: "receipt-amount", name: "a cent less than reserved", stage: receipted(run.TargetLocal, "submit"), with: func(w *world) { alter(w, func(e *run.Receipt) { e.AmountCents-- }) }},
	{rule: "receipt-amount", name: "a cent more than reserved", stage: receipted(run.TargetLocal, "submit"), with: func(w *world) { alter(w, func(e *run.Receipt) { e.AmountCents++ }) }},
	{rule: "receipt-amount", name: "a refusal that costs", stage: refused(run.TargetHosted, "submit"), with: func(w *world) { alter(w, func(e *run.Receipt) { e.AmountCents = 1 }) }},
	{rule: "receipt-without-consumption", name: "something else follows", stage: receipted(run.TargetLocal, "item"), with: func(w *world) { w.cut("permit.consumed").forge(&run.Metrics{}) }},
	{rule: "receipt-without-consumption", name: "the chain ends with the receipt", stage: receipted(run.TargetHosted, "prepare"), with: func(w *world) { w.cut("permit.consumed") }},
	{rule: "receipt-observed-by", name: "by nobody we know", stage: receipted(run.TargetHosted, "prepare"), with: func(w *world) { alter(w, func(e *run.HostedReceipt) { e.ObservedBy = "rumour" }) }},
	{rule: "consumed-without-receipt", name: "before its receipt", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) {
		x := w.read().Execution
		w.forge(&run.Consumed{x.PermitID, x.ID})
	}},
	{rule: "consumed-permit", name: "another permit", stage: receipted(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Consumed) { e.PermitID = w.id() }) }},
	{rule: "twice", name: "a permit consumed again", stage: receipted(run.TargetLocal, "item"), with: func(w *world) { w.forge(newest[run.Consumed](w)) }},
	{rule: "verified-without-receipt", name: "before its receipt", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) {
		w.forge(&run.Verified{w.read().Execution.ID, w.id(), []run.Postcondition{{"checkout.prepared", true}}})
	}},
	{rule: "verified-unobserved", name: "by an observation that is not recorded", stage: verified(run.TargetHosted, "prepare"), with: func(w *world) {
		e := w.again()
		alter(w, func(v *run.Verified) { v.ObservationID = w.id() })
		w.forge(e)
	}},
	{rule: "verified-unobserved", name: "something else follows", stage: verified(run.TargetLocal, "item"), with: func(w *world) { w.cut("observation.recorded").forge(&run.Metrics{}) }},
	{rule: "verified-unobserved", name: "the chain ends with it", stage: verified(run.TargetLocal, "item"), with: func(w *world) { w.cut("observation.recorded") }},
	{rule: "verified-unapplied", name: "what the store refused", stage: refused(run.TargetHosted, "prepare"), with: func(w *world) {
		w.cut("execution.not_applied").forge(&run.Verified{w.read().Execution.ID, w.id(), []run.Postcondition{{"checkout.prepared", true}}})
	}},
	{rule: "verified-postconditions", name: "one does not hold", stage: verified(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Verified) { e.Postconditions[0].Holds = false }) }},
	{rule: "verified-postconditions", name: "another than promised", stage: verified(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Verified) { e.Postconditions[0].Name = "order.read" }) }},
	{rule: "verified-postconditions", name: "none", stage: verified(run.TargetLocal, "item"), with: func(w *world) { alter(w, func(e *run.Verified) { e.Postconditions = nil }) }},
	{rule: "mismatch-without-receipt", name: "before its receipt", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) {
		w.forge(&run.Mismatched{w.read().Execution.ID, []run.Postcondition{{"checkout.prepared", false}}})
	}},
	{rule: "mismatch-postconditions", name: "every one holds", stage: receipted(run.TargetLocal, "item"), with: func(w *world) {
		w.forge(&run.Mismatched{w.read().Execution.ID, []run.Postcondition{{"item.read", true}}})
	}},
	{rule: "mismatch-postconditions", name: "another than promised", stage: receipted(run.TargetLocal, "item"), with: func(w *world) {
		w.forge(&run.Mismatched{w.read().Execution.ID, []run.Postcondition{{"order.read", false}}})
	}},
	{rule: "not-applied-state", name: "of a verified execution", stage: verified(run.TargetLocal, "item"), with: func(w *world) { w.forge(&run.NotApplied{w.read().Execution.ID, "refused", 0}) }},
	{rule: "not-applied-guess", name: "of a hosted mutation without a receipt", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) {
		w.forge(&run.NotApplied{w.read().Execution.ID, "refused", 0})
	}},
	{rule: "release", name: "of what was applied", stage: receipted(run.TargetHosted, "prepare"), with: func(w *world) { w.forge(&run.NotApplied{w.read().Execution.ID, "refused", 0}) }},
	{rule: "release", name: "more than reserved", stage: refused(run.TargetHosted, "submit"), with: func(w *world) { alter(w, func(e *run.NotApplied) { e.ReleasedCents++ }) }},
	{rule: "release", name: "less than reserved", stage: refused(run.TargetHosted, "submit"), with: func(w *world) { alter(w, func(e *run.NotApplied) { e.ReleasedCents = 0 }) }},
	{rule: "unconfirmed-state", name: "after the receipt", stage: receipted(run.TargetHosted, "prepare"), with: func(w *world) { w.forge(&run.Unconfirmed{w.read().Execution.ID, "timeout"}) }},
	{rule: "unconfirmed-kind", name: "a read", stage: dispatched(run.TargetHosted, "item"), with: func(w *world) { w.forge(&run.Unconfirmed{w.read().Execution.ID, "timeout"}) }},
	{rule: "unconfirmed-kind", name: "after the store's receipt", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) {
		w.forge(w.hosted(), &run.Unconfirmed{w.read().Execution.ID, "timeout"})
	}},
	{rule: "voided-state", name: "after the receipt", stage: receipted(run.TargetHosted, "prepare"), with: func(w *world) {
		w.forge(&run.Voided{w.read().Execution.ID, "late", authority.HostedUnreachable, 0})
	}},
	{rule: "void-without-permit", name: "something else follows", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) {
		w.forge(&run.Voided{w.read().Execution.ID, "late", authority.ExecutionNotApplied, 0}, &run.Metrics{})
	}},
	{rule: "voided-receipted", name: "after the store's receipt", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) {
		w.forge(w.hosted(), &run.Voided{w.read().Execution.ID, "late", authority.HostedUnreachable, 0})
	}},
	{rule: "permit-voided", name: "of an execution that is out", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) {
		x := w.read().Execution
		w.forge(&run.PermitVoided{x.PermitID, x.ID, "late"})
	}},
	{rule: "permit-voided", name: "another permit", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) {
		x := w.read().Execution
		w.forge(&run.Voided{x.ID, "late", authority.HostedUnreachable, 0}, &run.PermitVoided{w.id(), x.ID, "late"})
	}},
	{rule: "twice", name: "a permit voided again", stage: dispatched(run.TargetHosted, "prepare"), with: func(w *world) {
		x := w.read().Execution
		e := &run.PermitVoided{x.PermitID, x.ID, "late"}
		w.forge(&run.Voided{x.ID, "late", authority.HostedUnreachable, 0}, e, e)
	}},

	// What is no event of this machine.
	{rule: "event-type", name: "an unknown type", stage: ready(run.TargetLocal), with: func(w *world) { w.seal(w.now, w.id(), "run.mystery", struct{}{}) }},
	{rule: "event-data", name: "a member is missing", stage: ready(run.TargetLocal), with: func(w *world) { w.seal(w.now, w.id(), "permit.expired", struct{}{}) }},
	{rule: "event-data", name: "a member too many", stage: ready(run.TargetLocal), with: func(w *world) { w.seal(w.now, w.id(), "run.initialized", map[string]any{"by": "agent"}) }},
	{rule: "event-data", name: "a number where a string belongs", stage: ready(run.TargetLocal), with: func(w *world) {
		w.seal(w.now, w.id(), "permit.expired", map[string]any{"permitId": 7})
	}},
	{rule: "event-data", name: "null where a list belongs", stage: dispatched(run.TargetLocal, "item"), with: func(w *world) {
		var data map[string]any
		if err := json.Unmarshal(w.events[w.place("execution.dispatched")].Data, &data); err != nil {
			w.Fatal(err)
		}
		data["postconditions"] = nil
		w.cut("execution.dispatched").seal(w.now, w.id(), "execution.dispatched", data)
	}},
}

// again is the newest observation recorded once more, under a new name.
func (w *world) again() *run.Observed {
	e := newest[run.Observed](w)
	e.ObservationID = w.id()
	return e
}

func showing(e *run.Observed, text string) {
	e.State = json.RawMessage(text)
	e.StateDigest = authority.Digest(authority.DomainState, e.State)
}

// fill makes the catalog n entries long.
func fill(e *run.Observed, n int) {
	for len(e.Catalog) < n {
		more := e.Catalog[0]
		more.EntryID, more.TargetRef = fmt.Sprint("more-", len(e.Catalog)), fmt.Sprint("tgt_more-", len(e.Catalog))
		e.Catalog = append(e.Catalog, more)
	}
	e.CatalogDigest = propose.CatalogDigest(e.Catalog)
}

func (w *world) completed() *run.Completed { return &run.Completed{w.read().Execution.ID} }

// hosted is the store's receipt for the execution that is out.
func (w *world) hosted() *run.HostedReceipt {
	x := w.read().Execution
	d := decide.Begin(w.read(), w.now, w.fresh(), true, decide.Doors{})
	return &run.HostedReceipt{x.ID, x.PermitID, w.receipt(d, x.ID, x.PermitID, x.EffectDigest, *x.Dispatch, dispatch.Applied, nil, nil), elsewhere, "response"}
}

// chain builds the case.
func (c *unlawfulCase) chain(t rapid.TB) []evidence.Event {
	w := c.stage(t)
	c.with(w)
	return w.events
}

// TestUnlawful: each chain is named at its last event, by its rule, and nothing
// before it is called unlawful (H-152, H-221).
func TestUnlawful(t *testing.T) {
	for _, c := range unlawfulCases {
		t.Run(c.rule+"/"+strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			events := c.chain(t)
			last := events[len(events)-1]
			var rules []string
			for _, u := range replayed(events).Unlawful() {
				rules = append(rules, u.Rule)
				if u.Sequence != last.Sequence || u.EventID != last.ID || u.Detail == "" {
					t.Errorf("%s at event %d of %d: %s", u.Rule, u.Sequence, last.Sequence, u.Detail)
				}
			}
			if want := append([]string{c.rule}, c.follow...); !slices.Equal(rules, want) {
				t.Errorf("rules %v, want %v", rules, want)
			}
		})
	}
}

// TestLawfulAtTheLimit is the counterpart of the cases that go just beyond.
func TestLawfulAtTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		stage stage
		with  func(*world)
	}{
		"grant of a millisecond":  {bare(run.TargetLocal), func(w *world) { alter(w, func(e *run.Granted) { e.Grant.ExpiresAt = w.now + 1 }) }},
		"grant below the budget":  {bare(run.TargetLocal), func(w *world) { alter(w, func(e *run.Granted) { e.Grant.MaxTotalCents-- }) }},
		"64 entries":              {ready(run.TargetLocal), func(w *world) { alter(w, func(e *run.Observed) { fill(e, 64) }) }},
		"captured earlier":        {ready(run.TargetLocal), func(w *world) { alter(w, func(e *run.Observed) { e.CapturedAt-- }) }},
		"session to the grant's":  {ready(run.TargetLocal), func(w *world) { w.forge(&run.SessionIssued{1, w.now.Add(time.Hour), issuer}) }},
		"session shorter":         {ready(run.TargetLocal), func(w *world) { w.forge(&run.SessionIssued{1, w.now.Add(time.Hour) - 1, issuer}) }},
		"permit of a millisecond": {permitted(run.TargetLocal, "item"), func(w *world) { alter(w, func(e *run.Issued) { e.Permit.ExpiresAt = w.now + 1 }) }},
		"proposal of a ms":        {before(run.TargetLocal, "submit"), func(w *world) { alter(w, func(e *run.ProposalPrepared) { e.Proposal.ExpiresAt = w.now + 1 }) }},
		"lease of a millisecond":  {dispatched(run.TargetLocal, "item"), func(w *world) { alter(w, func(e *run.Dispatched) { e.Lease.Until = w.now + 1 }) }},
		"session lease shorter":   {created(run.TargetHosted), func(w *world) { alter(w, func(e *run.HostedSessionEvent) { e.Lease.Until-- }) }},
		"claim just in time": {permitted(run.TargetLocal, "item"), func(w *world) {
			p := w.read().Permit
			w.after(30*time.Second - time.Millisecond).forge(&run.Claimed{p.ID, w.id(), 0})
		}},
		"permit expired in time":   {permitted(run.TargetLocal, "item"), func(w *world) { p := w.read().Permit; w.after(30 * time.Second).forge(&run.PermitExpired{p.ID}) }},
		"observed while executing": {receipted(run.TargetHosted, "item"), func(w *world) { w.forge(w.again()) }},
		"session failed":           {created(run.TargetHosted), func(w *world) { w.forge(w.sessionFailed()) }},
		"session failed, revoked":  {created(run.TargetHosted), func(w *world) { w.do(func(d *decide.Deciding) { d.Revoke() }); w.forge(w.sessionFailed()) }},
		"same time":                {ready(run.TargetLocal), func(w *world) { w.forge(&run.Metrics{}) }},
		"100 refusals": {ready(run.TargetLocal), func(w *world) {
			for range 100 {
				w.forge(&run.Refused{nil, authority.PermitMismatch, elsewhere})
			}
		}},
		"some of several hold": {receipted(run.TargetLocal, "item"), func(w *world) {
			w.forge(&run.Mismatched{w.read().Execution.ID, []run.Postcondition{{"item.read", false}}})
		}},
	} {
		w := c.stage(t)
		c.with(w)
		for _, u := range w.replay().Unlawful() {
			if !slices.Contains(owed, u.Rule) {
				t.Errorf("%s: event %d: %s", name, u.Sequence, u.Error())
			}
		}
	}
}

// owed are the rules that a chain breaks when it ends in the middle of a commit, as
// those do that are cut behind the event in question.
var owed = []string{"claim-without-dispatch", "receipt-without-consumption", "verified-unobserved", "void-without-permit"}

func (w *world) sessionFailed() *run.HostedSessionEvent {
	h := w.read().Hosted
	return &run.HostedSessionEvent{Phase: run.SessionFailed, ExecutionID: h.ExecutionID, SessionID: h.ID, EffectDigest: h.EffectHash, ReasonCode: pointer(authority.HostedUnreachable)}
}

// folded folds one event into a state that a chain cannot have come to without
// being unlawful before: the last line of defence.
func folded(w *world, change func(*run.State), b run.Event) []string {
	s := w.read()
	change(s)
	f := run.NewFold(s, w.now)
	f.Apply(w.id(), b)
	var rules []string
	for _, u := range f.Unlawful() {
		rules = append(rules, u.Rule)
	}
	return rules
}

// lastDefences are rules that an earlier rule always announces in a whole chain.
var lastDefences = []struct {
	rule   string
	stage  stage
	change func(*run.State)
	with   func(*world) run.Event
}{
	{"budget", permitted(run.TargetLocal, "submit"), func(s *run.State) { s.Budget.Spent = 1 }, claiming},
	{"budget", permitted(run.TargetLocal, "submit"), func(s *run.State) { s.Budget.Reserved = 1 }, claiming},
	{"budget", permitted(run.TargetLocal, "submit"), func(s *run.State) { s.Budget.Spent, s.Budget.Limit = money.Max, money.Max }, claiming},
	{"grant-uses", permitted(run.TargetLocal, "submit"), func(s *run.State) { s.Use(s.Grants[0].ID, "shop.submit", 1) }, claiming},
	{"claim-grant", permitted(run.TargetLocal, "submit"), func(s *run.State) { s.Grants = nil }, claiming},
	{"claim-stale", permitted(run.TargetLocal, "submit"), func(s *run.State) { s.Observation = nil }, claiming},
	{"claim-stale", permitted(run.TargetLocal, "submit"), func(s *run.State) { s.Observation.ID = s.ID }, claiming},
	{"claim-stale", permitted(run.TargetLocal, "submit"), func(s *run.State) { s.DocumentEpoch++ }, claiming},
	{"claim-stale", permitted(run.TargetLocal, "submit"), func(s *run.State) { s.StateRevision++ }, claiming},
	{"claim-stale", permitted(run.TargetLocal, "submit"), func(s *run.State) { s.GoalDigest = elsewhere }, claiming},
	{"receipt-amount", dispatched(run.TargetLocal, "submit"), func(s *run.State) { s.Budget.Reserved-- }, func(w *world) run.Event {
		return newest[run.Receipt](receipted(run.TargetLocal, "submit")(w))
	}},
	{"release", dispatched(run.TargetLocal, "submit"), func(s *run.State) { s.Budget.Reserved-- }, func(w *world) run.Event {
		return &run.NotApplied{w.read().Execution.ID, "local_failed", price}
	}},
	{"completed-unobserved", nearlyCompleted, func(s *run.State) { s.Observation = nil }, func(w *world) run.Event { return w.completed() }},
	{"event-limit", ready(run.TargetLocal), func(s *run.State) { s.Events = 5000 }, func(*world) run.Event { return &run.Metrics{} }},
	{"approval-unprepared", waiting(run.TargetLocal), func(s *run.State) { s.Status, s.Stop, s.Config.Mode = run.StatusReady, nil, run.ModeBounded }, asking},
	{"approval-unprepared", waiting(run.TargetLocal), func(s *run.State) { s.Status, s.Stop, s.Proposal = run.StatusReady, nil, nil }, asking},
	{"approval-unprepared", waiting(run.TargetLocal), func(s *run.State) { s.Status, s.Stop, s.Proposal.ExpiresAt = run.StatusReady, nil, base }, asking},
	{"approval-proposal", approved(run.TargetLocal), func(s *run.State) { s.Proposal = nil; unapprove(s) }, func(w *world) run.Event { return newest[run.Approved](w) }},
	{"approval-proposal", approved(run.TargetLocal), func(s *run.State) { s.Proposal.ExpiresAt = base; unapprove(s) }, func(w *world) run.Event { return newest[run.Approved](w) }},
	{"grant-without-approval", approved(run.TargetLocal), func(s *run.State) { s.Proposal, s.Grants = nil, s.Grants[:1] }, func(w *world) run.Event { return newest[run.Granted](w) }},
	{"grant-twice", bare(run.TargetLocal), func(*run.State) {}, func(w *world) run.Event { return newest[run.Granted](w) }},
	{"grant-life", approved(run.TargetLocal), func(s *run.State) { s.Grants = nil }, func(w *world) run.Event { return newest[run.Granted](w) }},
	{"turn-limit", ready(run.TargetLocal), func(s *run.State) { s.Turns = 500 }, func(w *world) run.Event { return w.proposed("item") }},
	{"dispatch-audience", dispatched(run.TargetHosted, "prepare"), func(s *run.State) { s.StoreOrigin = nil; unclaim(s) }, func(w *world) run.Event { return newest[run.Dispatched](w) }},
	{"dispatch-audience", dispatched(run.TargetHosted, "prepare"), func(s *run.State) { s.Hosted = nil; unclaim(s) }, func(w *world) run.Event { return newest[run.Dispatched](w) }},
	{"permit-bindings", permitted(run.TargetLocal, "item"), func(s *run.State) { s.Observation = nil; unissue(s) }, func(w *world) run.Event { return newest[run.Issued](w) }},
	{"permit-proposal", permitted(run.TargetLocal, "submit"), func(s *run.State) { s.Proposal = nil; unissue(s) }, func(w *world) run.Event { return newest[run.Issued](w) }},
	{"dispatch-audience", created(run.TargetHosted), func(s *run.State) { s.StoreOrigin, s.Hosted = nil, nil }, func(w *world) run.Event { return newest[run.HostedSessionEvent](w) }},
	{"first-event", ready(run.TargetLocal), func(s *run.State) { *s = run.State{} }, func(w *world) run.Event { return &run.Metrics{} }},
	{"first-event", ready(run.TargetLocal), func(s *run.State) { *s = run.State{Events: 4} }, func(w *world) run.Event { return newest[run.Created](w) }},
	{"first-event", ready(run.TargetLocal), func(s *run.State) { s.Machine = 0 }, func(w *world) run.Event { return &run.Metrics{} }},
	{"subject", ready(run.TargetLocal), func(s *run.State) { *s = run.State{} }, func(w *world) run.Event { e := newest[run.Created](w); e.Subject.Kind = "incident"; return e }},
	{"subject", ready(run.TargetLocal), func(s *run.State) { *s = run.State{} }, func(w *world) run.Event { e := newest[run.Created](w); e.Subject.Machine = 2; return e }},
}

func asking(w *world) run.Event { return newest[run.Paused](waiting(run.TargetLocal)(w)) }

func claiming(w *world) run.Event { return &run.Claimed{w.read().Permit.ID, w.id(), price} }

func unclaim(s *run.State) {
	s.Status, s.Lease, s.Execution.State, s.Execution.Sequence = run.StatusReady, nil, run.ExecutionClaimed, s.Events
}

func unapprove(s *run.State) {
	s.Status, s.Stop, s.Approval, s.Grants = run.StatusPaused, s.NewStop(authority.ApprovalRequired, stopcontext.SourceRuntime, s.ID), nil, s.Grants[:1]
}

func unissue(s *run.State) { s.Permit, s.Turn.Allowed = nil, true }

func TestLastDefences(t *testing.T) {
	for _, c := range lastDefences {
		w := c.stage(t)
		if got := folded(w, c.change, c.with(w)); !slices.Equal(got, []string{c.rule}) {
			t.Errorf("%s: %v", c.rule, got)
		}
	}
	// The limits themselves are lawful.
	for name, c := range map[string]struct {
		stage  stage
		change func(*run.State)
		with   func(*world) run.Event
	}{
		"event 5000":      {ready(run.TargetLocal), func(s *run.State) { s.Events = 4999 }, func(*world) run.Event { return &run.Metrics{} }},
		"turn 500":        {ready(run.TargetLocal), func(s *run.State) { s.Turns = 499 }, func(w *world) run.Event { return w.proposed("item") }},
		"the last budget": {permitted(run.TargetLocal, "submit"), func(*run.State) {}, claiming},
	} {
		w := c.stage(t)
		if got := folded(w, c.change, c.with(w)); len(got) > 0 && !slices.Contains(owed, got[0]) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestBudgetCannotBeArguedAway: with the budget check switched off a run records
// it as passed. The chain is unlawful at each such record, and again where the
// claim exceeds the budget.
func TestBudgetCannotBeArguedAway(t *testing.T) {
	w := blank(t, run.TargetLocal)
	r := w.request()
	r.Budget.Limit--
	w.create(r)
	w.start()
	w.doors.Checks = []int64{11}
	w.upTo("submit")
	p := w.permit("submit")
	w.forge(&run.Claimed{p.ID, w.id(), price})
	var got []string
	for _, u := range w.replay().Unlawful() {
		got = append(got, w.events[u.Sequence-1].Type+" "+u.Rule)
	}
	if want := []string{"policy.checked findings", "policy.checked findings", "permit.claimed budget"}; !slices.Equal(got, want) {
		t.Errorf("unlawful %v, want %v", got, want)
	}
}

// TestFollowOn: what was unlawful once is found again where it matters.
func TestFollowOn(t *testing.T) {
	w := permitted(run.TargetLocal, "item")(t)
	p := w.read().Permit
	w.forge(w.again(), &run.Claimed{p.ID, w.id(), 0})
	var rules []string
	for _, u := range w.replay().Unlawful() {
		rules = append(rules, u.Rule)
	}
	if want := []string{"observation-under-permit", "claim-stale"}; !slices.Equal(rules, want) {
		t.Errorf("rules %v, want %v", rules, want)
	}
}

// TestReplayOfForeignChains: another kind or machine is unknown, not unlawful.
func TestReplayOfForeignChains(t *testing.T) {
	for name, change := range map[string]func(*run.Created){
		"kind":    func(e *run.Created) { e.Subject.Kind = "incident" },
		"machine": func(e *run.Created) { e.Subject.Machine = 2 },
	} {
		w := bare(run.TargetLocal)(t)
		alter(w, change)
		w.forge(&run.Metrics{})
		if r := w.replay(); r.Known() || len(r.Unlawful()) > 0 {
			t.Errorf("another %s: known %v, unlawful %v", name, r.Known(), r.Unlawful())
		}
	}
	w := begun(t, run.TargetLocal)
	for name, e := range map[string]evidence.Event{
		"another first event": {Sequence: 1, Type: "grant.created", Data: w.events[0].Data, Timestamp: w.events[0].Timestamp},
		"unreadable data":     {Sequence: 1, Type: "run.created", Data: []byte("x"), Timestamp: w.events[0].Timestamp},
	} {
		if r := replayed([]evidence.Event{e}); r.Known() || len(r.Unlawful()) > 0 {
			t.Errorf("%s: known %v, unlawful %v", name, r.Known(), r.Unlawful())
		}
	}
	e := w.events[0]
	e.Timestamp = "yesterday"
	if r := replayed([]evidence.Event{e}); len(r.Unlawful()) != 1 || r.Unlawful()[0].Rule != "timestamp" {
		t.Errorf("unlawful %v", r.Unlawful())
	}
}

// TestEveryRuleIsTested reads the rules from the code and wants a case for each.
func TestEveryRuleIsTested(t *testing.T) {
	tested := map[string]bool{"timestamp": true, "checked-incomplete": true} // by other tests of this file
	for _, c := range unlawfulCases {
		tested[c.rule] = true
	}
	for _, c := range lastDefences {
		tested[c.rule] = true
	}
	rules := rulesInCode(t)
	if len(rules) < 80 {
		t.Fatalf("found only %d rules in the code", len(rules))
	}
	for rule := range rules {
		if !tested[rule] {
			t.Errorf("no case breaks the rule %q", rule)
		}
	}
	for rule := range tested {
		if !rules[rule] {
			t.Errorf("the rule %q is not in the code", rule)
		}
	}
}

// rulesInCode collects the rule names given to must, status, execution, owe and stoppedFor.
func rulesInCode(t *testing.T) map[string]bool {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.go", "../chain/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	argument := map[string]int{"must": 1, "status": 0, "execution": 1, "owe": 0, "stoppedFor": 0}
	rules := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := goparser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			i, named := argument[method.Sel.Name]
			if !named || i >= len(call.Args) {
				return true
			}
			if literal, ok := call.Args[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				rule, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				rules[rule] = true
			}
			return true
		})
	}
	return rules
}
