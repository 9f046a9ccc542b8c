package run_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/chain"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// The price of the one thing that the synthetic shop sells, shipping included,
// and the budget of a run: equal, which is allowed (G-06, G-08).
const price money.Cents = 13700

// testKey signs chains in tests and in vectors/chains. Its seed is the hash of a
// public sentence: it is worth nothing, and nothing real is signed with it.
var testKey = evidence.NewSigningKey(keyOf("countersign test vectors: evidence key, not for use"))

var storeKey = keyOf("countersign test vectors: store key, not for use")

func keyOf(sentence string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(sentence))
	return ed25519.NewKeyFromSeed(seed[:])
}

const (
	issuer = "https://control.example"
	origin = "https://shop.example"
	holder = "holder-1"
)

// shop is the synthetic service: one thing can be read, prepared and bought.
type shop struct {
	Checkout int64 `json:"checkout"` // counts preparations
	Ordered  bool  `json:"ordered"`
	Price    int64 `json:"price"` // cents
}

func (s shop) offer() *decide.Offer {
	if s.Checkout == 0 || s.Ordered {
		return nil
	}
	return &decide.Offer{OperationID: "shop.submit", Destination: "addr_home", AmountCents: money.Cents(s.Price), Currency: "USD"}
}

// apply does what an operation does.
func (s *shop) apply(operation string) {
	switch operation {
	case "shop.prepare":
		s.Checkout++
	case "shop.submit":
		s.Ordered = true
	}
}

func pointer[T any](v T) *T { return &v }

func step(name, closedBy string) run.Step { return run.Step{Name: name, ClosedBy: closedBy} }

// sent is a signed request to the shop in a session.
func sent(session, path, bodyHash string) run.Dispatch {
	return run.Dispatch{Audience: origin, SessionID: session, Method: "POST", URI: origin + path, BodySHA256: bodyHash, KeyID: testKey.ID}
}

// catalog lists what the shop offers: item (read), prepare, submit (commit, when
// prepared), order (read, when ordered).
func (s shop) catalog(proposalID *string) []propose.Entry {
	entry := func(id, operation, class string, amount *money.Cents, args string, disclosed []string, postcondition string, facts ...authority.Fact) propose.Entry {
		return propose.Entry{
			EntryID: id, Kind: "service", OperationID: operation, TargetRef: "tgt_" + id, Args: json.RawMessage(args), Label: id, Transport: "service",
			Effect: propose.Effect{Class: class, DisclosedFields: disclosed, Postconditions: []string{postcondition}, AmountCents: amount},
			Facts:  facts,
		}
	}
	total := money.Cents(s.Price)
	terms := []authority.Fact{{Name: "addressRef", Value: "addr_home"}, {Name: "totalCents", Value: total.String()}}
	item := entry("item", "shop.item", propose.ClassRead, nil, `{"item":"keyboard"}`, []string{}, "item.read")
	prepare := entry("prepare", "shop.prepare", propose.ClassPrepare, pointer(money.Cents(0)), `{"addressRef":"addr_home"}`, []string{"addressRef"}, "checkout.prepared", terms...)
	prepare.Destination, prepare.Currency, prepare.FitCents = pointer("addr_home"), pointer("USD"), &total
	list := []propose.Entry{item, prepare}
	if s.offer() != nil && proposalID != nil {
		submit := entry("submit", "shop.submit", propose.ClassCommit, &total, `{"amountCents":"`+total.String()+`"}`, []string{"addressRef", "totalCents"}, "order.confirmed", terms...)
		submit.Destination, submit.Currency, submit.Effect.TransactionProposalID = pointer("addr_home"), pointer("USD"), proposalID
		list = append(list, submit)
	}
	if s.Ordered {
		list = append(list, entry("order", "shop.order", propose.ClassRead, nil, `{}`, []string{}, "order.read"))
	}
	return list
}

// world is a run together with everything that a caller keeps for it. Between
// two decisions the state is bytes, as in the ledger, so that what is not
// persisted is missed at once.
type world struct {
	rapid.TB
	target  string
	exact   bool // every commit waits for an approval
	state   []byte
	now     evidence.Time
	seed    uint64
	events  []evidence.Event
	texts   []evidence.Text
	fates   map[string]decide.Fate
	shop    shop
	catalog []propose.Entry
	doors   decide.Doors
	dead    bool // the holder of the lease is gone
	last    *decide.Transition
}

// base is when every run of the tests begins.
var base = evidence.TimeOf(time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC))

// blank is the world before its run exists.
func blank(t rapid.TB, target string) *world {
	return &world{TB: t, target: target, now: base, fates: map[string]decide.Fate{}, shop: shop{Price: int64(price)}}
}

// begun is a run that is ready for its first report.
func begun(t rapid.TB, target string) *world {
	return kept("ready "+target, func(t rapid.TB) *world {
		w := blank(t, target)
		w.create(w.request())
		w.start()
		return w
	})(t)
}

// before is a run whose purchase is about to propose an entry.
func before(target, entry string) stage {
	return kept("before "+target+" "+entry, func(t rapid.TB) *world { return begun(t, target).upTo(entry) })
}

// stage makes a world.
type stage func(rapid.TB) *world

// worlds are what [kept] has made already.
var worlds = map[string]*world{}

// kept makes a world once and hands out copies of it.
func kept(key string, make stage) stage {
	return func(t rapid.TB) *world {
		if worlds[key] == nil {
			worlds[key] = make(t)
		}
		w := *worlds[key]
		w.TB = t
		w.events, w.texts, w.catalog, w.fates = slices.Clone(w.events), slices.Clone(w.texts), slices.Clone(w.catalog), maps.Clone(w.fates)
		return &w
	}
}

func (w *world) local() bool { return w.target == run.TargetLocal }

func (w *world) after(d time.Duration) *world { w.now = w.now.Add(d); return w }

func (w *world) fresh() (seed [32]byte) {
	w.seed++
	binary.BigEndian.PutUint64(seed[:], w.seed)
	copy(seed[8:], w.target)
	return seed
}

// read reads the state as the next caller would.
func (w *world) read() *run.State {
	w.Helper()
	s, err := run.DecodeState(w.state)
	if err != nil {
		w.Fatalf("the stored state is unreadable: %v", err)
	}
	return s
}

// attempt makes one decision and stores nothing: on a copy of the state that the
// last decision left, which has to stay as it was stored.
func (w *world) attempt(choose func(*decide.Deciding)) (*decide.Transition, error) {
	w.Helper()
	var s *run.State
	if w.state != nil {
		s = w.read()
	}
	if w.last != nil {
		kept, before := w.last.State, w.state
		s = kept.Clone()
		defer func() {
			if after, err := kept.Encode(); err != nil || !bytes.Equal(after, before) {
				w.Errorf("a decision changed the state that it was made on\n got %s, %v\nwant %s", after, err, before)
			}
		}()
	}
	d := decide.Begin(s, w.now, w.fresh(), !w.dead, w.doors)
	choose(d)
	return d.Done()
}

// do makes one decision and stores what came of it.
func (w *world) do(choose func(*decide.Deciding)) *decide.Transition {
	w.Helper()
	out, err := w.attempt(choose)
	if err != nil {
		w.Fatalf("the machine refused its own decision: %v", err)
	}
	w.store(out)
	return out
}

func (w *world) store(out *decide.Transition) {
	w.Helper()
	state, err := out.State.Encode()
	if err != nil {
		w.Fatalf("encode: %v", err)
	}
	if len(state) > 32<<10 {
		w.Fatalf("the state has %d bytes, want at most 32 KB", len(state))
	}
	sealed, err := evidence.Seal(testKey, out.State.ID, link(w.events), out.State.UpdatedAt.Time(), out.Drafts)
	if err != nil {
		w.Fatalf("seal: %v", err)
	}
	for _, f := range out.Fates {
		if _, twice := w.fates[f.PermitID]; twice {
			w.Fatalf("permit %s has two fates", f.PermitID)
		}
		w.fates[f.PermitID] = f
	}
	if problem := unfreezable(out); problem != "" {
		w.Fatal(problem)
	}
	w.state, w.last = state, out
	w.events, w.texts = append(w.events, sealed...), append(w.texts, out.Texts...)
}

// link is the place behind the last of the events.
func link(events []evidence.Event) evidence.Link {
	if len(events) == 0 {
		return evidence.Link{Hash: evidence.Genesis}
	}
	e := events[len(events)-1]
	return evidence.Link{Sequence: e.Sequence, Hash: e.Hash}
}

// settle stores what time alone brings about.
func (w *world) settle() *decide.Transition { return w.do(func(*decide.Deciding) {}) }

// denied makes a decision that must be a denial, stores its settling, and
// returns the reason.
func (w *world) denied(choose func(*decide.Deciding) *authority.Denial) string {
	w.Helper()
	var denial *authority.Denial
	w.do(func(d *decide.Deciding) { denial = choose(d) })
	if denial == nil {
		return ""
	}
	return denial.Reason
}

// replay folds the whole chain again.
func (w *world) replay() *chain.Replay { return replayed(w.events) }

func replayed(events []evidence.Event) *chain.Replay {
	r := &chain.Replay{}
	for _, e := range events {
		r.Apply(e)
	}
	return r
}

// verify requires that the chain is lawful and amounts to the decided state.
func (w *world) verify() {
	w.Helper()
	r := w.replay()
	for _, u := range r.Unlawful() {
		w.Errorf("event %d: %s", u.Sequence, u.Error())
	}
	state, err := r.State().Encode()
	if err != nil {
		w.Fatal(err)
	}
	if !r.Known() || !bytes.Equal(state, w.state) {
		w.Errorf("replay gives another state\nreplayed %s\ndecided  %s", state, w.state)
	}
}

// types lists the types of the events from an index on.
func (w *world) types(from int) []string {
	var types []string
	for _, e := range w.events[from:] {
		types = append(types, e.Type)
	}
	return types
}

// emitted requires exactly these events after the first n.
func (w *world) emitted(n int, want ...string) {
	w.Helper()
	if got := w.types(n); !slices.Equal(got, want) {
		w.Errorf("events %v, want %v", got, want)
	}
}

func (w *world) request() decide.CreateRequest {
	names := authority.NewFresh(sha256.Sum256([]byte(w.target)), w.now)
	r := decide.CreateRequest{
		Workspace: "default", Issuer: issuer, RunID: names.ID(),
		Config: run.Config{
			Service: "shop", Target: w.target, Channel: "http", TrafficActor: "agent", Mode: "bounded", ExecutionMode: "replay",
			Executor: "replay", Interrogator: "replay",
		},
		Instruction: "Buy one keyboard for $137 total.",
		Terms:       json.RawMessage(`{"addressRef":"addr_home","maxTotalCents":"13700"}`),
		Constraints: []authority.Constraint{{Name: "addressRef", Rule: authority.RuleEquals, Value: "addr_home"}, {Name: "totalCents", Rule: authority.RuleAtMost, Value: "13700"}},
		Operations:  []string{"shop.item", "shop.prepare", "shop.submit", "shop.order"},
		MaxUses:     map[string]int64{"shop.submit": 1},
		Workflow:    []run.Step{step("read", "item.read"), step("prepare", "checkout.prepared"), step("commit", "order.confirmed"), step("verify", "order.read")},
		Budget:      authority.Budget{Limit: price}, Currency: "USD",
	}
	if w.exact {
		r.Config.Mode = run.ModeExact
	}
	if !w.local() {
		r.StoreOrigin, r.StoreKeys = pointer(origin), []string{canon.EncodeBase64(storeKey.Public().(ed25519.PublicKey))}
	}
	return r
}

// create emits run.created, its grant and, for a hosted run, the intent to open
// a session.
func (w *world) create(r decide.CreateRequest) {
	w.Helper()
	w.do(func(d *decide.Deciding) {
		d.Create(r)
		if !w.local() {
			execution, session := d.NewID(), d.NewID()
			body := dispatch.HashBody([]byte("{}"))
			d.DispatchSession(execution, session, canon.Hash([]byte("session")), sent(session, "/api/sessions", body), holder, 0)
		}
	})
}

// start brings a created run to ready.
func (w *world) start() {
	w.Helper()
	w.do(func(d *decide.Deciding) {
		if !w.local() {
			h := *d.State().Hosted
			if denial := d.OpenSession(w.receipt(d, h.ExecutionID, d.State().ID, h.EffectHash, h.Dispatch, dispatch.Applied, nil, nil)); denial != nil {
				w.Fatal(denial)
			}
		}
		w.observed(d)
		d.Initialize()
	})
}

// receipt is the store's signed word.
func (w *world) receipt(d *decide.Deciding, jti, pid, effect string, sent run.Dispatch, result dispatch.Result, order, amount *string) string {
	w.Helper()
	token, err := dispatch.Receipt{
		Issuer: origin, Audience: issuer, ID: jti, StepPermit: pid, Session: sent.SessionID, EffectDigest: effect, BodyHash: sent.BodySHA256,
		AnswerHash: dispatch.HashBody([]byte(jti)), Operation: sent.Method + " " + sent.URI[len(sent.Audience):], OrderID: order, AmountCents: amount,
		Result: result, IssuedAt: d.Now().Time().Unix(),
	}.Sign(storeKey)
	if err != nil {
		w.Fatal(err)
	}
	return token
}

// sighting is what the shop shows now.
func (w *world) sighting() decide.Sighting {
	return decide.Sighting{State: canon.MustMarshal(w.shop), Offer: w.shop.offer(), CapturedAt: w.now}
}

// observed records a new observation inside a decision.
func (w *world) observed(d *decide.Deciding) {
	seen := w.sighting()
	plan := d.Plan(seen)
	w.catalog = w.shop.catalog(plan.ProposalID)
	d.Observe(plan, seen, w.catalog, w.promised(d.State()))
}

// promised tells which of the newest execution's postconditions hold.
func (w *world) promised(s *run.State) []run.Postcondition {
	x := s.Execution
	if x == nil || x.State != run.ExecutionReceipted {
		return nil
	}
	holds := map[string]bool{
		"item.read": true, "checkout.prepared": w.shop.Checkout > 0, "order.confirmed": w.shop.Ordered, "order.read": w.shop.Ordered,
	}
	var seen []run.Postcondition
	for _, name := range x.Postconditions {
		seen = append(seen, run.Postcondition{name, holds[name]})
	}
	return seen
}

func (w *world) observe() *world {
	w.Helper()
	w.do(func(d *decide.Deciding) {
		if denial := d.CanObserve(); denial != nil {
			w.Fatal(denial)
		}
		w.observed(d)
	})
	return w
}

func (w *world) entry(id string) *propose.Entry {
	w.Helper()
	e := propose.EntryByID(w.catalog, id)
	if e == nil {
		w.Fatalf("the catalog has no entry %s", id)
	}
	return e
}

// offered is what the run offers now: the catalog of its observation, and nothing while
// it has none.
func (w *world) offered(d *decide.Deciding) []propose.Entry {
	if d.State().Observation == nil {
		return nil
	}
	return w.catalog
}

// report is a faultless report on one entry.
func (w *world) report(id string) *propose.Report {
	w.Helper()
	return reportOn(w.entry(id), w.read().Observation)
}

func reportOn(e *propose.Entry, o *run.Observation) *propose.Report {
	refs := []string{}
	if o != nil {
		refs = append(refs, o.ID)
	}
	return &propose.Report{
		GoalRestatement:     "Buy one keyboard.",
		Candidates:          []propose.Candidate{{ID: "a", Action: e.Action(), Purpose: "to get on", Disposition: propose.DispositionProposed}},
		SelectedCandidateID: "a",
		Justification:       propose.Justification{Summary: "it is the next step", EvidenceRefs: refs},
		ExpectedEffect: propose.ExpectedEffect{
			OperationID: e.OperationID, TransactionProposalID: e.Effect.TransactionProposalID, DisclosedFields: e.Effect.DisclosedFields, Postconditions: e.Effect.Postconditions,
		},
		Uncertainties: []string{},
	}
}

var (
	allow     = decide.Verdict{Decision: run.Allow, ReasonCode: authority.Relevant, Explanation: "It serves the goal.", Provider: "replay", Provenance: run.ByReplay}
	terminate = decide.Verdict{Decision: run.Terminate, ReasonCode: authority.InjectionSuspected, Explanation: "No further.", Provider: "replay", Provenance: run.ByReplay}
)

func pauseFor(reason string) decide.Verdict {
	return decide.Verdict{Decision: run.Pause, ReasonCode: reason, Explanation: "Wait.", Provider: "replay", Provenance: run.ByReplay}
}

// propose hands a report in and returns the reason of the first failed check or
// of the denial, or "" when everything passed.
func (w *world) propose(r *propose.Report) (reason string) {
	w.Helper()
	w.do(func(d *decide.Deciding) {
		review, denial := d.Propose(r, w.offered(d))
		if reason = review.Reason; denial != nil {
			reason = denial.Reason
		}
	})
	return reason
}

// judged hands a faultless report in and lets the guardian answer.
func (w *world) judged(id string, v decide.Verdict) *run.Permit {
	w.Helper()
	var permit *run.Permit
	report := w.report(id)
	w.do(func(d *decide.Deciding) {
		review, denial := d.Propose(report, w.offered(d))
		if denial != nil || review.Reason != "" {
			w.Fatalf("propose %s: %v, %s", id, denial, review.Reason)
		}
		permit = d.Judge(review, v)
	})
	return permit
}

// permit gets a permit for an entry.
func (w *world) permit(id string) *run.Permit {
	w.Helper()
	p := w.judged(id, allow)
	if p == nil {
		w.Fatalf("no permit for %s", id)
	}
	return w.read().Permit
}

// use is the lawful use of a permit.
func (w *world) use(d *decide.Deciding, p *run.Permit) decide.ClaimRequest {
	action := w.entry(p.EntryID).Action()
	var fate *decide.Fate
	if f, ok := w.fates[p.ID]; ok {
		fate = &f
	}
	return decide.ClaimRequest{
		PermitID: p.ID, Action: &action, Catalog: w.catalog, Fate: fate, ExecutionID: d.NewID(), Holder: holder,
		Dispatch: func(e *propose.Entry, _ *run.Permit) (*run.Dispatch, *authority.Denial) {
			request := sent(d.State().Hosted.ID, "/api/"+e.EntryID, dispatch.HashBody(e.Args))
			return &request, nil
		},
	}
}

// claim claims a permit and stores the intent. For a local shop the caller
// receives in the same decision; see [world.carry].
func (w *world) claim(p *run.Permit) *run.Execution {
	w.Helper()
	w.do(func(d *decide.Deciding) {
		if _, denial := d.Claim(w.use(d, p)); denial != nil {
			w.Fatal(denial)
		}
	})
	return w.read().Execution
}

// outcome is the receipt that the target demands.
func (w *world) outcome(d *decide.Deciding, result string) decide.Outcome {
	w.Helper()
	x := d.State().Execution
	o := decide.Outcome{Kind: run.ReceiptLocal, Result: result, BodySHA256: canon.Hash([]byte(x.ID)), ObservedBy: "response"}
	if result == run.ResultRefused {
		o.Cause = "refused"
	}
	switch {
	case w.local():
	case x.Class == propose.ClassRead:
		o.Kind, o.Status = run.ReceiptRead, 200
	default:
		o.Kind, o.Status = run.ReceiptHosted, 200
		var order, amount *string
		if result == run.ResultApplied && x.Class == propose.ClassCommit {
			names := authority.NewFresh(sha256.Sum256([]byte(x.ID)), d.Now())
			order, amount = pointer(names.ID()), pointer(x.AmountCents.String())
		}
		o.OrderID = order
		o.Receipt = w.receipt(d, x.ID, x.PermitID, x.EffectDigest, *x.Dispatch, dispatch.Result(result), order, amount)
	}
	return o
}

// received is the receipt of the execution under way, inside a decision.
func (w *world) received(d *decide.Deciding, result string) {
	w.Helper()
	x := *d.State().Execution
	if result == run.ResultApplied {
		w.shop.apply(x.OperationID)
	}
	if denial := d.Receive(x.ID, w.outcome(d, result)); denial != nil {
		w.Fatal(denial)
	}
}

func (w *world) receive(result string) {
	w.Helper()
	w.do(func(d *decide.Deciding) { w.received(d, result) })
}

// carry uses a permit up to its receipt, in one commit or two.
func (w *world) carry(p *run.Permit) {
	w.Helper()
	if !w.local() {
		w.claim(p)
		w.receive(run.ResultApplied)
		return
	}
	w.do(func(d *decide.Deciding) {
		if _, denial := d.Claim(w.use(d, p)); denial != nil {
			w.Fatal(denial)
		}
		w.received(d, run.ResultApplied)
	})
}

// cycle is one whole action: report, permit, execution, verification.
func (w *world) cycle(id string) *world {
	w.Helper()
	w.carry(w.permit(id))
	w.observe()
	return w
}

// upTo runs the purchase until the named entry is the next to be proposed.
func (w *world) upTo(id string) *world {
	w.Helper()
	for _, step := range []string{"item", "prepare", "submit", "order"} {
		if step == id {
			return w
		}
		w.cycle(step)
	}
	return w
}

// status requires the status of the run and returns its state.
func (w *world) status(want string) *run.State {
	w.Helper()
	s := w.read()
	if s.Status != want {
		w.Errorf("status %s, want %s", s.Status, want)
	}
	return s
}

// stop requires a stop.
func (w *world) stop(category, source, reason, recovery, dispatched string) {
	w.Helper()
	s := w.read().Stop
	if s == nil {
		w.Fatal("there is no stopContext")
	}
	got := []string{s.Category, s.Source, s.ReasonCode, s.Recovery, s.Dispatch}
	if want := []string{category, source, reason, recovery, dispatched}; !slices.Equal(got, want) {
		w.Errorf("stop %v, want %v", got, want)
	}
	if s.Version != 1 || !authority.IsID(s.AttemptID) || s.Message == "" || len(s.Message) > 500 {
		w.Errorf("stop %+v: want version 1, an attempt and a message of at most 500 characters", s)
	}
}

// budget requires what is spent and reserved.
func (w *world) budget(spent, reserved money.Cents) {
	w.Helper()
	if b := w.read().Budget; b.Spent != spent || b.Reserved != reserved {
		w.Errorf("spent %s, reserved %s, want %s, %s", b.Spent, b.Reserved, spent, reserved)
	}
}

// rule returns the rule that an error of Done names.
func rule(err error) string {
	var u *run.Unlawful
	if errors.As(err, &u) {
		return u.Rule
	}
	return ""
}
