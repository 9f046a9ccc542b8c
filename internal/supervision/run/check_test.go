package run_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/policy"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// reviewed is the material of one application of the hard checks.
type reviewed struct {
	s       *run.State
	catalog []propose.Entry
	r       *propose.Report
	now     evidence.Time
}

func (x *reviewed) check(doors ...int64) policy.Review {
	return policy.Check(x.s, x.catalog, x.r, x.now, doors...)
}

func (x *reviewed) entry(id string) *propose.Entry { return propose.EntryByID(x.catalog, id) }

func (x *reviewed) action() *propose.Action { return &x.r.Candidates[0].Action }

func (x *reviewed) grant() *authority.Grant { return &x.s.Grants[0] }

// about returns a maker of faultless material on an entry, new at each call.
func about(t *testing.T, id string) func() *reviewed {
	w := before(run.TargetLocal, id)(t)
	return func() *reviewed {
		x := &reviewed{s: w.read(), now: w.now}
		if err := canon.Unmarshal(canon.MustMarshal(w.catalog), &x.catalog); err != nil {
			t.Fatal(err)
		}
		x.r = reportOn(x.entry(id), x.s.Observation)
		return x
	}
}

// failures lists the failed checks with their codes.
func failures(r policy.Review) map[int64]string {
	failed := map[int64]string{}
	for _, f := range r.Findings {
		if f.Result == run.CheckFailed {
			failed[f.Check] = f.Code
		}
	}
	return failed
}

// breaks holds one way to fail each check of G-09 that leaves the others as they
// are.
var breaks = map[int64]struct {
	code string
	with func(*reviewed)
}{
	2:  {authority.InvalidSelection, func(x *reviewed) { x.r.SelectedCandidateID = "b" }},
	3:  {authority.MissingEvidence, func(x *reviewed) { x.r.Justification.EvidenceRefs = []string{x.s.ID} }},
	4:  {authority.StaleState, func(x *reviewed) { x.now = x.now.Add(61 * time.Second) }},
	5:  {authority.StaleTarget, func(x *reviewed) { x.action().TargetRef = "tgt_foreign" }},
	6:  {authority.ForbiddenOperation, func(x *reviewed) { x.grant().Constraints[0].Value = "addr_office" }},
	7:  {authority.GrantExhausted, func(x *reviewed) { x.s.Use(x.grant().ID, "shop.submit", 1) }},
	8:  {authority.ArgumentMismatch, func(x *reviewed) { x.action().Args = json.RawMessage(`{"amountCents":"13701"}`) }},
	9:  {authority.EffectMismatch, func(x *reviewed) { x.r.ExpectedEffect.DisclosedFields = []string{"addressRef"} }},
	10: {authority.EffectMismatch, func(x *reviewed) { x.r.ExpectedEffect.TransactionProposalID = nil }},
	11: {authority.BudgetExceeded, func(x *reviewed) { x.s.Budget.Spent = 1 }},
}

// TestEachHardCheck fails alone, with its code; with its door open the same bad
// report passes, which shows that nothing else caught it (H-039, H-060, H-061, H-063).
func TestEachHardCheck(t *testing.T) {
	good := about(t, "submit")
	if r := good().check(); r.Reason != "" || r.Entry.EntryID != "submit" || r.Grant.ID != good().grant().ID || len(failures(r)) != 0 {
		t.Fatalf("a faultless report: %+v", r)
	}
	names := map[int64]string{2: "selection", 3: "evidence", 4: "state", 5: "target", 6: "operation", 7: "grant", 8: "arguments", 9: "effect", 10: "proposal", 11: "budget"}
	for i, f := range good().check().Findings {
		if f.Check != int64(i+2) || f.Name != names[f.Check] || f.Result != run.CheckPassed || f.Code != "" {
			t.Errorf("finding %d is %+v", i, f)
		}
	}
	for number, broken := range breaks {
		x := good()
		broken.with(x)
		r := x.check()
		if failed := failures(r); r.Reason != broken.code || len(failed) != 1 || failed[number] != broken.code || len(r.Findings) != 10 {
			t.Errorf("check %d: reason %q, failed %v, want only its %s", number, r.Reason, failed, broken.code)
		}
		if r := x.check(number); r.Reason != "" {
			t.Errorf("check %d switched off: %q", number, r.Reason)
		}
		for other := int64(2); other <= 11; other++ {
			if r := x.check(other); other != number && r.Reason != broken.code {
				t.Errorf("check %d with %d switched off: %q", number, other, r.Reason)
			}
		}
	}
}

// TestFirstFailureWins: neighbours broken together answer with the earlier code,
// and both are found.
func TestFirstFailureWins(t *testing.T) {
	good := about(t, "submit")
	for number := int64(2); number <= 10; number++ {
		x := good()
		breaks[number].with(x)
		later := breaks[number+1]
		if number == 5 { // an unknown target has no terms, but an operation
			later.with = func(x *reviewed) { x.action().OperationID = "shop.gift" }
		}
		later.with(x)
		if number == 2 { // without a selection there is nothing else to hold against the catalog
			later = breaks[3]
		}
		r := x.check()
		if failed := failures(r); r.Reason != breaks[number].code || failed[number] != breaks[number].code || failed[number+1] != later.code {
			t.Errorf("checks %d and %d: reason %q, failed %v", number, number+1, r.Reason, failed)
		}
	}
	// Everything at once.
	x := good()
	for number := int64(3); number <= 11; number++ {
		if number != 5 {
			breaks[number].with(x)
		}
	}
	if r := x.check(); r.Reason != authority.MissingEvidence || len(failures(r)) != 8 {
		t.Errorf("all but selection and target: reason %q, failed %v", r.Reason, failures(r))
	}
}

// TestSkipped: what an earlier failure leaves without material is skipped, not
// passed.
func TestSkipped(t *testing.T) {
	for _, c := range []struct {
		number int64
		with   func(*reviewed)
		want   []int64
	}{
		{2, breaks[2].with, []int64{5, 6, 7, 8, 9, 10, 11}},
		{5, breaks[5].with, []int64{8, 9, 10, 11}},
		{6, func(x *reviewed) { x.s.Grants = nil }, []int64{7, 11}},
	} {
		x := about(t, "submit")()
		c.with(x)
		var skipped []int64
		r := x.check()
		for _, f := range r.Findings {
			if f.Result == run.CheckSkipped {
				skipped = append(skipped, f.Check)
			}
		}
		if !slices.Equal(skipped, c.want) {
			t.Errorf("check %d failed: skipped %v, want %v", c.number, skipped, c.want)
		}
		written := policy.NewChecked(x.s, "turn", r)
		if hasDigest := written.EffectDigest != nil && written.ActionDigest != nil; hasDigest != (c.number == 6) {
			t.Errorf("check %d failed: digests %v, %v", c.number, written.EffectDigest, written.ActionDigest)
		}
	}
}

// TestHardChecks goes through what each check compares, and the boundaries (H-039, H-053, H-054, H-065, H-066).
func TestHardChecks(t *testing.T) {
	at := func(d time.Duration) func(*reviewed) { return func(x *reviewed) { x.now = x.now.Add(d) } }
	twin := func(x *reviewed, disposition string) {
		c := x.r.Candidates[0]
		c.Disposition = disposition
		x.r.Candidates = append(x.r.Candidates, c)
	}
	for _, c := range []struct {
		entry, name string
		number      int64
		with        func(*reviewed)
		want        string // "" passes
	}{
		{"submit", "a rejected alternative", 2, func(x *reviewed) { twin(x, propose.DispositionRejected); x.r.Candidates[1].ID = "b" }, ""},
		{"submit", "a second proposed candidate", 2, func(x *reviewed) { twin(x, propose.DispositionProposed); x.r.Candidates[1].ID = "b" }, ""},
		{"submit", "selected is rejected", 2, func(x *reviewed) { x.r.Candidates[0].Disposition = propose.DispositionRejected }, authority.InvalidSelection},
		{"submit", "an id twice", 2, func(x *reviewed) { twin(x, propose.DispositionRejected) }, authority.InvalidSelection},
		{"submit", "another id twice", 2, func(x *reviewed) {
			twin(x, propose.DispositionRejected)
			twin(x, propose.DispositionRejected)
			x.r.Candidates[1].ID, x.r.Candidates[2].ID = "b", "b"
		}, authority.InvalidSelection},
		{"submit", "no candidate", 2, func(x *reviewed) { x.r.Candidates = nil }, authority.InvalidSelection},

		{"submit", "among others", 3, func(x *reviewed) {
			x.r.Justification.EvidenceRefs = append([]string{"x"}, x.r.Justification.EvidenceRefs...)
		}, ""},
		{"submit", "none", 3, func(x *reviewed) { x.r.Justification.EvidenceRefs = nil }, authority.MissingEvidence},
		{"submit", "no observation yet", 3, func(x *reviewed) { x.s.Observation = nil }, authority.MissingEvidence},

		{"submit", "age just below", 4, at(60*time.Second - time.Millisecond), ""},
		{"submit", "age equal", 4, at(60 * time.Second), ""},
		{"submit", "age just above", 4, at(60*time.Second + time.Millisecond), authority.StaleState},
		{"submit", "an earlier document", 4, func(x *reviewed) { x.s.DocumentEpoch++ }, authority.StaleState},
		{"item", "an earlier state", 4, func(x *reviewed) { x.s.StateRevision++ }, authority.StaleState},
		{"item", "no observation yet", 4, func(x *reviewed) { x.s.Observation = nil }, authority.StaleState},

		{"item", "not listed", 6, func(x *reviewed) { x.action().OperationID = "shop.gift" }, authority.ForbiddenOperation},
		{"item", "granted and not listed", 6, func(x *reviewed) {
			x.action().OperationID = "shop.gift"
			x.grant().Operations = append(x.grant().Operations, "shop.gift")
		}, authority.ForbiddenOperation},
		{"item", "granted and not listed, at an unknown target", 6, func(x *reviewed) {
			breaks[5].with(x)
			x.action().OperationID = "shop.gift"
			x.grant().Operations = append(x.grant().Operations, "shop.gift")
		}, authority.ForbiddenOperation},
		{"item", "listed and not granted", 6, func(x *reviewed) { x.grant().Operations = []string{"shop.prepare"} }, authority.ForbiddenOperation},
		{"item", "of another target", 6, func(x *reviewed) { x.action().OperationID = "shop.prepare" }, authority.ForbiddenOperation},
		{"submit", "total just below the terms", 6, func(x *reviewed) { x.grant().Constraints[1].Value = "13701" }, ""},
		{"submit", "total equal", 6, func(*reviewed) {}, ""},
		{"submit", "total just above", 6, func(x *reviewed) { x.grant().Constraints[1].Value = "13699" }, authority.ForbiddenOperation},
		{"submit", "a fact that the terms do not speak of", 6, func(x *reviewed) {
			x.entry("submit").Facts = append(x.entry("submit").Facts, authority.Fact{Name: "gift", Value: "yes"})
		}, authority.ForbiddenOperation},

		{"item", "grant just not expired", 7, func(x *reviewed) { x.grant().ExpiresAt = x.now + 1 }, ""},
		{"item", "grant ends now", 7, func(x *reviewed) { x.grant().ExpiresAt = x.now }, authority.GrantExpired},
		{"item", "grant ended", 7, func(x *reviewed) { x.grant().ExpiresAt = x.now - 1 }, authority.GrantExpired},
		{"submit", "one use left", 7, func(x *reviewed) { x.grant().MaxUses["shop.submit"] = 2; x.s.Use(x.grant().ID, "shop.submit", 1) }, ""},
		{"submit", "used up", 7, func(x *reviewed) { x.grant().MaxUses["shop.submit"] = 2; x.s.Use(x.grant().ID, "shop.submit", 2) }, authority.GrantExhausted},
		{"submit", "more than used up", 7, func(x *reviewed) { x.grant().MaxUses["shop.submit"] = 2; x.s.Use(x.grant().ID, "shop.submit", 3) }, authority.GrantExhausted},
		{"item", "not counted", 7, func(x *reviewed) { x.s.Use(x.grant().ID, "shop.item", 1000) }, ""},
		{"submit", "expired before exhausted", 7, func(x *reviewed) { breaks[7].with(x); x.grant().ExpiresAt = x.now }, authority.GrantExpired},

		{"item", "kind", 8, func(x *reviewed) { x.action().Kind = "click" }, authority.ArgumentMismatch},
		{"item", "a url where there is none", 8, func(x *reviewed) { x.action().URL = pointer("https://elsewhere.example") }, authority.ArgumentMismatch},
		{"item", "a value where there is none", 8, func(x *reviewed) { x.action().Value = pointer("") }, authority.ArgumentMismatch},
		{"item", "the url of the entry", 8, func(x *reviewed) { x.entry("item").URL = pointer("u"); x.action().URL = pointer("u") }, ""},
		{"item", "the value of the entry", 8, func(x *reviewed) { x.entry("item").Value = pointer("v"); x.action().Value = pointer("v") }, ""},
		{"item", "without the entry's url", 8, func(x *reviewed) { x.entry("item").URL = pointer("u") }, authority.ArgumentMismatch},
		{"item", "another spelling of the same arguments", 8, func(x *reviewed) { x.action().Args = json.RawMessage(` { "item" : "keyboard" } `) }, ""},
		{"item", "one argument more", 8, func(x *reviewed) { x.action().Args = json.RawMessage(`{"item":"keyboard","n":1}`) }, authority.ArgumentMismatch},

		{"submit", "operation", 9, func(x *reviewed) { x.r.ExpectedEffect.OperationID = "shop.prepare" }, authority.EffectMismatch},
		{"submit", "under-declared", 9, func(x *reviewed) { x.r.ExpectedEffect.DisclosedFields = nil }, authority.EffectMismatch},
		{"submit", "over-declared", 9, func(x *reviewed) {
			x.r.ExpectedEffect.DisclosedFields = append(slices.Clone(x.r.ExpectedEffect.DisclosedFields), "name")
		}, authority.EffectMismatch},
		{"submit", "another order", 9, func(x *reviewed) { x.r.ExpectedEffect.DisclosedFields = []string{"totalCents", "addressRef"} }, authority.EffectMismatch},
		{"submit", "postconditions", 9, func(x *reviewed) { x.r.ExpectedEffect.Postconditions = []string{"order.read"} }, authority.EffectMismatch},

		{"submit", "another proposal", 10, func(x *reviewed) { x.r.ExpectedEffect.TransactionProposalID = &x.s.ID }, authority.EffectMismatch},
		{"item", "a read names one", 10, func(x *reviewed) { x.r.ExpectedEffect.TransactionProposalID = &x.s.ID }, authority.EffectMismatch},
		{"item", "a read offers one", 10, func(x *reviewed) {
			x.r.ExpectedEffect.TransactionProposalID, x.entry("item").Effect.TransactionProposalID = &x.s.ID, &x.s.ID
		}, authority.EffectMismatch},
		{"submit", "a commit without one", 10, func(x *reviewed) {
			x.r.ExpectedEffect.TransactionProposalID, x.entry("submit").Effect.TransactionProposalID = nil, nil
		}, authority.EffectMismatch},
		{"submit", "the entry offers another", 10, func(x *reviewed) { x.entry("submit").Effect.TransactionProposalID = &x.s.ID }, authority.EffectMismatch},
		{"submit", "none is prepared", 10, func(x *reviewed) { x.s.Proposal = nil }, authority.EffectMismatch},
		{"submit", "another is prepared", 10, func(x *reviewed) { x.s.Proposal.ID = x.s.ID }, authority.EffectMismatch},
		{"submit", "of another operation", 10, func(x *reviewed) { x.s.Proposal.OperationID = "shop.gift" }, authority.EffectMismatch},
		{"submit", "of another state", 10, func(x *reviewed) { x.s.Proposal.StateRevision-- }, authority.EffectMismatch},
		{"submit", "of another amount", 10, func(x *reviewed) { x.s.Proposal.AmountCents-- }, authority.EffectMismatch},
		{"submit", "to another destination", 10, func(x *reviewed) { x.s.Proposal.Destination = "addr_office" }, authority.EffectMismatch},
		{"submit", "without a destination", 10, func(x *reviewed) { x.entry("submit").Destination = nil }, authority.EffectMismatch},
		{"submit", "in another currency", 10, func(x *reviewed) { x.s.Proposal.Currency = "EUR" }, authority.EffectMismatch},
		{"submit", "without a currency", 10, func(x *reviewed) { x.entry("submit").Currency = nil }, authority.EffectMismatch},
		{"submit", "proposal just not expired", 10, func(x *reviewed) { x.s.Proposal.ExpiresAt = x.now + 1 }, ""},
		{"submit", "proposal ends now", 10, func(x *reviewed) { x.s.Proposal.ExpiresAt = x.now }, authority.EffectMismatch},
		{"submit", "proposal ended", 10, func(x *reviewed) { x.s.Proposal.ExpiresAt = x.now - 1 }, authority.EffectMismatch},

		{"submit", "one cent below the budget", 11, func(x *reviewed) { x.s.Budget.Limit++ }, ""},
		{"submit", "exactly the budget", 11, func(*reviewed) {}, ""},
		{"submit", "one cent above", 11, func(x *reviewed) { x.s.Budget.Limit-- }, authority.BudgetExceeded},
		{"submit", "one cent reserved", 11, func(x *reviewed) { x.s.Budget.Reserved = 1 }, authority.BudgetExceeded},
		{"submit", "grant one cent below", 11, func(x *reviewed) { x.grant().MaxTotalCents-- }, authority.BudgetExceeded},
		{"submit", "grant one cent above", 11, func(x *reviewed) { x.grant().MaxTotalCents++ }, ""},
		{"item", "a read costs nothing", 11, func(x *reviewed) { x.s.Budget.Limit = 0 }, ""},
		{"prepare", "its commit fits exactly", 11, func(*reviewed) {}, ""},
		{"prepare", "its commit is a cent below", 11, func(x *reviewed) { *x.entry("prepare").FitCents-- }, ""},
		{"prepare", "its commit is a cent above", 11, func(x *reviewed) { *x.entry("prepare").FitCents++ }, authority.BudgetExceeded},
		{"prepare", "the larger of amount and fit counts", 11, func(x *reviewed) {
			*x.entry("prepare").FitCents, x.entry("prepare").Effect.AmountCents = 0, pointer(price+1)
		}, authority.BudgetExceeded},
	} {
		x := about(t, c.entry)()
		c.with(x)
		if got := failures(x.check())[c.number]; got != c.want {
			t.Errorf("check %d, %s: %q, want %q", c.number, c.name, got, c.want)
		}
	}
}

// TestProposeStopsByCategory: in a direct run a retry decision leaves the run
// ready, anything else pauses it (G-04).
func TestProposeStopsByCategory(t *testing.T) {
	for _, c := range []struct {
		name     string
		with     func(*reviewed)
		category string // "" leaves the run ready
		code     string
	}{
		{"selection", breaks[2].with, "", authority.InvalidSelection},
		{"evidence", breaks[3].with, "", authority.MissingEvidence},
		{"target", breaks[5].with, "", authority.StaleTarget},
		{"operation", func(x *reviewed) { x.action().OperationID = "shop.gift" }, stopcontext.CategoryClarification, authority.ForbiddenOperation},
		{"arguments", breaks[8].with, stopcontext.CategoryClarification, authority.ArgumentMismatch},
		{"effect", breaks[9].with, stopcontext.CategoryClarification, authority.EffectMismatch},
		{"proposal", breaks[10].with, stopcontext.CategoryClarification, authority.EffectMismatch},
	} {
		w := before(run.TargetLocal, "submit")(t)
		x := &reviewed{s: w.read(), catalog: w.catalog, r: w.report("submit"), now: w.now}
		c.with(x)
		if reason := w.propose(x.r); reason != c.code {
			t.Errorf("%s: %q, want %s", c.name, reason, c.code)
		}
		if c.category == "" {
			w.status(run.StatusReady)
		} else {
			w.status(run.StatusPaused)
			w.stop(c.category, stopcontext.SourceHardPolicy, c.code, "clarify", "none")
		}
		if w.read().Permit != nil {
			t.Errorf("%s: a permit", c.name)
		}
		w.verify()
	}
	// The age is judged by the decision's own time.
	for age, want := range map[time.Duration]string{60 * time.Second: "", 60*time.Second + time.Millisecond: authority.StaleState} {
		w := begun(t, run.TargetLocal).after(age)
		if reason := w.propose(w.report("item")); reason != want {
			t.Errorf("age %v: %q, want %q", age, reason, want)
		}
		w.verify()
	}
	// A commit that was used up stops the run for good; a budget that is too small for clarification.
	w := blank(t, run.TargetLocal)
	request := w.request()
	request.MaxUses = map[string]int64{"shop.item": 1}
	w.create(request)
	w.start()
	w.cycle("item")
	if reason := w.propose(w.report("item")); reason != authority.GrantExhausted {
		t.Errorf("%q, want GRANT_EXHAUSTED", reason)
	}
	w.stop(stopcontext.CategoryAuthority, stopcontext.SourceHardPolicy, authority.GrantExhausted, "none", "none")
	w.verify()

	w = blank(t, run.TargetLocal)
	request = w.request()
	request.Budget.Limit--
	w.create(request)
	w.start()
	if reason := w.propose(w.report("prepare")); reason != authority.BudgetExceeded {
		t.Errorf("%q, want BUDGET_EXCEEDED", reason)
	}
	w.stop(stopcontext.CategoryClarification, stopcontext.SourceHardPolicy, authority.BudgetExceeded, "clarify", "none")
	w.verify()
}

// TestDigests: changing any covered field changes a digest, and nothing else
// does (design, section 3).
func TestDigests(t *testing.T) {
	base := func() *propose.Entry {
		e := shop{Checkout: 1, Price: int64(price)}.catalog(pointer("p"))[2]
		return &e
	}
	effect := func(e *propose.Entry) string { return e.EffectDigest("shop", 7) }
	action := func(e *propose.Entry) string { return e.ActionDigest(effect(e), "o", 3) }
	for _, c := range []struct {
		name           string
		change         func(*propose.Entry)
		effect, action bool // changes
	}{
		{"nothing", func(*propose.Entry) {}, false, false},
		{"operation", func(e *propose.Entry) { e.OperationID += "x" }, true, true},
		{"args", func(e *propose.Entry) { e.Args = json.RawMessage(`{"amountCents":"1"}`) }, true, true},
		{"spelling of args", func(e *propose.Entry) { e.Args = json.RawMessage(` {"amountCents" : "13700"}`) }, false, false},
		{"url", func(e *propose.Entry) { e.URL = pointer("") }, true, true},
		{"value", func(e *propose.Entry) { e.Value = pointer("") }, true, true},
		{"destination", func(e *propose.Entry) { e.Destination = pointer("addr_office") }, true, true},
		{"no destination", func(e *propose.Entry) { e.Destination = nil }, true, true},
		{"amount", func(e *propose.Entry) { e.Effect.AmountCents = pointer(money.Cents(1)) }, true, true},
		{"no amount", func(e *propose.Entry) { e.Effect.AmountCents = nil }, true, true},
		{"currency", func(e *propose.Entry) { e.Currency = pointer("EUR") }, true, true},
		{"class", func(e *propose.Entry) { e.Effect.Class = propose.ClassRead }, true, true},
		{"disclosed fields", func(e *propose.Entry) { e.Effect.DisclosedFields = e.Effect.DisclosedFields[:1] }, true, true},
		{"postconditions", func(e *propose.Entry) { e.Effect.Postconditions = nil }, true, true},
		{"proposal", func(e *propose.Entry) { e.Effect.TransactionProposalID = pointer("q") }, true, true},
		{"kind", func(e *propose.Entry) { e.Kind = "click" }, false, true},
		{"target", func(e *propose.Entry) { e.TargetRef += "x" }, false, true},
		{"label", func(e *propose.Entry) { e.Label += "x" }, false, false},
		{"transport", func(e *propose.Entry) { e.Transport = "browser" }, false, false},
	} {
		e := base()
		c.change(e)
		if got := effect(e) != effect(base()); got != c.effect {
			t.Errorf("%s changes the effect digest: %v, want %v", c.name, got, c.effect)
		}
		if got := action(e) != action(base()); got != c.action {
			t.Errorf("%s changes the action digest: %v, want %v", c.name, got, c.action)
		}
		if got := e.Digest() != base().Digest(); got != (c.name != "nothing" && c.name != "spelling of args") {
			t.Errorf("%s changes the entry digest: %v", c.name, got)
		}
	}
	e, d := base(), effect(base())
	if e.EffectDigest("bank", 7) == d || e.EffectDigest("shop", 8) == d {
		t.Error("the effect digest does not cover service and stateRevision")
	}
	a := e.ActionDigest(d, "o", 3)
	if e.ActionDigest(d, "o2", 3) == a || e.ActionDigest(d, "o", 4) == a || e.ActionDigest(a, "o", 3) == a {
		t.Error("the action digest does not cover effect, observation and epoch")
	}
}

// TestReportedKeepsTheChecks: what evidence holds of a report gives the hard
// checks the same material, and its prose only as commitments.
func TestReportedKeepsTheChecks(t *testing.T) {
	r := about(t, "submit")().r
	r.Candidates = append(r.Candidates, propose.Candidate{ID: "b", Action: r.Candidates[0].Action, Purpose: "another way", Disposition: propose.DispositionRejected, RejectionReason: pointer("not needed")})
	const foreign = `{"a":{"length":1,"text":"x"},"b":[1]}`
	r.Candidates[1].Action.Args = json.RawMessage(foreign)
	r.Uncertainties = []string{"none"}
	texts := map[string]bool{}
	reported := propose.NewReported(r, about(t, "submit")().catalog, func(s string) evidence.Commitment {
		texts[s] = true
		return evidence.NewText([evidence.SaltSize]byte{1}, s).Commit()
	})
	for name, alter := range map[string]func(*reviewed){"as it is": func(*reviewed) {}, "stale": func(x *reviewed) { x.s.StateRevision++ }, "elsewhere": func(x *reviewed) { x.catalog = nil }} {
		x := about(t, "submit")()
		alter(x)
		if got, want := policy.Reported(x.s, x.catalog, &reported, x.now), policy.Check(x.s, x.catalog, r, x.now); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: found %+v, want %+v", name, got, want)
		}
	}
	raw := string(canon.MustMarshal(reported))
	if args := string(reported.Candidates[0].Action.Args); args != string(r.Candidates[0].Action.Args) {
		t.Errorf("the catalog's own arguments became %s", args)
	}
	for _, prose := range []string{r.GoalRestatement, r.Candidates[0].Purpose, "another way", "not needed", r.Justification.Summary, "none", foreign} {
		if !texts[prose] || strings.Contains(raw, strconv.Quote(prose)) || strings.Contains(raw, foreign) {
			t.Errorf("%q is kept: %t; evidence: %s", prose, texts[prose], raw)
		}
	}
	if len(texts) != 7 {
		t.Errorf("%d texts, want one for each prose", len(texts))
	}
}
