package bank

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/service"
)

var adapter Adapter

// memo stands for a memo.
var memo = evidence.NewText([evidence.SaltSize]byte{1}, "rent").Commit()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ids names what a bank creates.
func ids() func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("id-%d", n) }
}

// G-06: the operations of a bank, and no other: no payee is created, nothing is
// withdrawn or cancelled.
func TestOperations(t *testing.T) {
	want := []string{"bank.accounts", "bank.payees", "bank.transactions", "bank.transfer.prepare", "bank.transfer.status", "bank.transfer.submit"}
	if got := slices.Sorted(slices.Values(adapter.Operations())); !slices.Equal(got, want) {
		t.Errorf("operations %v, want %v", got, want)
	}
	if got := adapter.MaxUses(); !maps.Equal(got, map[string]int64{"bank.transfer.submit": 1}) {
		t.Errorf("max uses %v", got)
	}
	for _, absent := range []string{"bank.payee.create", "bank.withdraw", "bank.transfer.cancel", "bank.transfer", ""} {
		if effect, err := adapter.Execute(adapter.NewLocal(), service.Promise{Operation: absent, Args: []byte("{}")}, ids()); err == nil {
			t.Errorf("%q was executed: %+v", absent, effect)
		}
	}
}

// G-06 L-2: terms have exactly their five members; the defaults are the fixture's, and
// a wrong member is named.
func TestTerms(t *testing.T) {
	def, denial := adapter.Terms(nil, "local")
	if denial != nil {
		t.Fatal(denial)
	}
	if got, want := string(def.JSON), `{"amountCents":"5000","currency":"USD","payeeRef":"payee_utility","sourceAccountRef":"acct_checking"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := def.Texts; len(got) != 1 || got["memo"] == "" {
		t.Errorf("texts %v", got)
	}
	good := map[string]string{"sourceAccountRef": `"acct_savings"`, "payeeRef": `"payee_landlord"`, "amountCents": `"1"`, "currency": `"USD"`, "memo": `"rent"`}
	for name, c := range map[string]struct{ member, value, place string }{
		"as it is": {"memo", `"rent"`, ""}, "no memo": {"memo", `""`, ""}, "140 characters": {"memo", `"` + strings.Repeat("ä", 140) + `"`, ""},
		"141 characters": {"memo", `"` + strings.Repeat("m", 141) + `"`, "terms.memo"}, "null memo": {"memo", "null", "terms.memo"},
		"a number as memo": {"memo", "1", "terms.memo"}, "an object as memo": {"memo", `{"length":1,"text":"x"}`, "terms.memo"},
		"another account": {"sourceAccountRef", `"acct_elsewhere"`, "terms.sourceAccountRef"}, "a new payee": {"payeeRef", `"payee_new"`, "terms.payeeRef"},
		"no payee": {"payeeRef", `""`, "terms.payeeRef"}, "another currency": {"currency", `"EUR"`, "terms.currency"},
		"nothing": {"amountCents", `"0"`, "terms.amountCents"}, "a number": {"amountCents", "1", "terms.amountCents"}, "negative": {"amountCents", `"-1"`, "terms.amountCents"},
		"leading zero": {"amountCents", `"01"`, "terms.amountCents"}, "twelve digits": {"amountCents", `"999999999999"`, ""}, "thirteen digits": {"amountCents", `"1000000000000"`, "terms.amountCents"},
		"unknown member": {"origin", `"local"`, "terms.origin"}, "missing": {"currency", "", "terms"}, "wrong case": {"Memo", `"x"`, "terms.Memo"},
	} {
		m := maps.Clone(good)
		if m[c.member] = c.value; c.value == "" {
			delete(m, c.member)
		}
		var parts []string
		for k, v := range m {
			parts = append(parts, fmt.Sprintf("%q:%s", k, v))
		}
		_, denial := adapter.Terms(json.RawMessage("{"+strings.Join(parts, ",")+"}"), "local")
		place := ""
		if denial != nil {
			place, _, _ = strings.Cut(denial.Detail, " ")
			if denial.Reason != authority.InvalidRequest || strings.Contains(denial.Detail, "elsewhere") {
				t.Errorf("%s: %v", name, denial)
			}
		}
		if place != c.place {
			t.Errorf("%s: place %q, want %q", name, place, c.place)
		}
	}
	for _, raw := range []string{"[]", `"fixture"`, "null", "1", "{}"} {
		if _, denial := adapter.Terms(json.RawMessage(raw), "local"); denial == nil || !strings.HasPrefix(denial.Detail, "terms ") {
			t.Errorf("%s: %v", raw, denial)
		}
	}
}

// held are terms as evidence holds them.
func held(t testing.TB, raw string) (json.RawMessage, authority.Grant) {
	t.Helper()
	var given json.RawMessage
	if raw != "" {
		given = json.RawMessage(raw)
	}
	terms, denial := adapter.Terms(given, "local")
	if denial != nil {
		t.Fatal(denial)
	}
	var h heldTerms
	must(t, canon.Unmarshal(terms.JSON, &h.terms))
	h.Memo = memo
	return canon.MustMarshal(h), authority.Grant{Constraints: terms.Constraints}
}

func catalogOf(t testing.TB, s *State) []propose.Entry {
	t.Helper()
	terms, _ := held(t, "")
	id := "0192f0c1-2b3c-7d4e-8f50-616263646566"
	c, err := adapter.Catalog(s.sighting(nil), service.Plan{Origin: "local", Terms: terms, ProposalID: &id})
	must(t, err)
	return c
}

// prepared is the fixture with a quote for the transfer of the terms.
func prepared() *State {
	s := fixture()
	s.Quote = &Quote{"q", 1, 0, 5000, Order{"acct_checking", "payee_utility", 5000, "USD", memo}}
	return s
}

// done is the fixture after that transfer.
func done(t testing.TB) *State {
	t.Helper()
	effect, err := adapter.Execute(canon.MustMarshal(prepared()), submission(func(*submitArgs) {}), ids())
	must(t, err)
	var s State
	must(t, canon.Unmarshal(effect.State, &s))
	return &s
}

func submission(edit func(*submitArgs)) service.Promise {
	a := submitArgs{"q", 1, "acct_checking", "payee_utility", 5000, 0, "USD", memo}
	edit(&a)
	return service.Promise{Operation: opSubmit, Args: canon.MustMarshal(a), Postconditions: []string{"transfer.confirmed", "transfer.amount_matches"}}
}

// G-05: at most 64 entries in every state, each with an id, arguments and a label of
// its own, and every payee and account an entry of its own.
func TestCatalogBounds(t *testing.T) {
	for name, c := range map[string]struct {
		s    *State
		want int
	}{
		"new": {fixture(), 2 + 2 + 6}, "prepared": {prepared(), 2 + 2 + 1 + 6 + 1}, "done": {done(t), 2 + 2 + 1},
	} {
		entries := catalogOf(t, c.s)
		if len(entries) != c.want || len(entries) > 64 {
			t.Errorf("%s: %d entries, want %d", name, len(entries), c.want)
		}
		ids, actions := map[string]bool{}, map[string]bool{}
		for _, e := range entries {
			action := e.OperationID + string(e.Args)
			if ids[e.EntryID] || actions[action] {
				t.Errorf("%s: %s twice", name, e.EntryID)
			}
			ids[e.EntryID], actions[action] = true, true
			if again, err := canon.Canonical(e.Args); err != nil || string(again) != string(e.Args) {
				t.Errorf("%s: arguments %s", e.EntryID, e.Args)
			}
			if e.Kind != "service" || e.Transport != "service" { // L-19
				t.Errorf("%s: kind %s, transport %s", e.EntryID, e.Kind, e.Transport)
			}
			if reads := e.Effect.Class == propose.ClassRead; reads != (e.Effect.AmountCents == nil) || reads != (e.Destination == nil) || reads != (e.Currency == nil) {
				t.Errorf("%s: amount %v, destination %v, currency %v", e.EntryID, e.Effect.AmountCents, e.Destination, e.Currency)
			}
			if !slices.Contains(adapter.Operations(), e.OperationID) {
				t.Errorf("%s is of no operation: %s", e.EntryID, e.OperationID)
			}
		}
	}
	terms, _ := held(t, "")
	for payees, fits := range map[int]bool{30: true, 31: false} { // with 2 accounts, and 4 reads
		many := fixture()
		many.Payees = nil
		for i := range payees {
			many.Payees = append(many.Payees, Payee{fmt.Sprintf("payee_%d", i), "P"})
		}
		if c, err := adapter.Catalog(many.sighting(nil), service.Plan{Terms: terms}); (err == nil) != fits || fits && len(c) != 64 {
			t.Errorf("%d payees: %d entries, %v", payees, len(c), err)
		}
	}
	// A total that is no amount cannot be prepared.
	dear := fixture()
	dear.Tariff.FeeCents = money.Max
	if c := catalogOf(t, dear); len(c) != 4 {
		t.Errorf("%d entries, want the 4 reads", len(c))
	}
}

// What cannot be read is an error everywhere, and no state.
func TestUnreadable(t *testing.T) {
	bad := []byte(`{"accounts":[{"balanceCents":-1}]}`)
	terms, _ := held(t, "")
	seen := fixture().sighting(nil)
	for _, state := range [][]byte{bad, []byte("{}}"), nil} {
		broken := seen
		broken.State = state
		if c, err := adapter.Catalog(broken, service.Plan{Terms: terms}); err == nil {
			t.Errorf("%s: catalog %v", state, c)
		}
		if s, err := adapter.SeeLocal(state, nil); err == nil {
			t.Errorf("%s: sighting %v", state, s)
		}
		if h, err := adapter.Holds(broken, submission(func(*submitArgs) {})); err == nil {
			t.Errorf("%s: holds %v", state, h)
		}
		if e, err := adapter.Execute(state, service.Promise{Operation: opPayees, Args: []byte("{}")}, ids()); err == nil {
			t.Errorf("%s: effect %v", state, e)
		}
		if s, err := adapter.PriceChange(state); err == nil {
			t.Errorf("%s became %s", state, s)
		}
	}
	for _, terms := range []string{`{}}`, `{"amountCents":5000}`, `{"symbol":"SYNA"}`, ""} {
		if c, err := adapter.Catalog(seen, service.Plan{Terms: []byte(terms)}); err == nil {
			t.Errorf("terms %s: catalog %v", terms, c)
		}
	}
	if h, err := adapter.Holds(seen, service.Promise{Args: []byte("[]"), Postconditions: []string{"transfer.prepared"}}); err == nil {
		t.Errorf("arguments of another form: %v", h)
	}
}

// The memo is free text: catalog and state hold what stands for it and never the text.
func TestMemoIsCommitted(t *testing.T) {
	for _, e := range catalogOf(t, prepared()) {
		if e.OperationID != opPrepare && e.OperationID != opSubmit {
			continue
		}
		var args struct {
			Memo evidence.Commitment `json:"memo"`
		}
		must(t, canon.Decode(e.Args, &args))
		if args.Memo != memo {
			t.Errorf("%s: memo %+v", e.EntryID, args.Memo)
		}
	}
	if all := string(canon.MustMarshal(catalogOf(t, done(t)))) + string(canon.MustMarshal(done(t))); strings.Contains(all, "rent") {
		t.Errorf("the text of the memo is shown: %s", all)
	}
}

// Facts hold every transfer against the terms, so that only theirs is admitted. A
// fee costs budget: what fits is held with it (G-08).
func TestFacts(t *testing.T) {
	_, grant := held(t, "")
	admitted := []string{}
	s := prepared()
	s.Tariff.FeeCents = 25
	for _, e := range catalogOf(t, s) {
		if e.Effect.Class != propose.ClassRead && grant.Admits(e.Facts) {
			admitted = append(admitted, e.EntryID)
		}
		if e.OperationID == opPrepare && (e.Amount() != 0 || e.Fit() != 5025) {
			t.Errorf("%s: amount %s, fit %s, want 0 and 5025", e.EntryID, e.Amount(), e.Fit())
		}
		if e.OperationID == opSubmit && (e.Amount() != 5000 || *e.Destination != "payee_utility") { // as it was prepared
			t.Errorf("%s: amount %s to %s", e.EntryID, e.Amount(), *e.Destination)
		}
	}
	if want := []string{"transfer:acct_checking:payee_utility", "submit:q"}; !slices.Equal(admitted, want) {
		t.Errorf("admitted %v, want %v", admitted, want)
	}
	_, other := held(t, `{"sourceAccountRef":"acct_checking","payeeRef":"payee_utility","amountCents":"4999","currency":"USD","memo":""}`)
	for _, e := range catalogOf(t, prepared()) {
		if e.Effect.Class != propose.ClassRead && other.Admits(e.Facts) {
			t.Errorf("%s is admitted one cent over the terms", e.EntryID)
		}
	}
}

// The local bank refuses what the state does not allow, and then changes nothing.
func TestRefusals(t *testing.T) {
	order := func(edit func(*Order)) service.Promise {
		o := Order{"acct_checking", "payee_utility", 5000, "USD", memo}
		edit(&o)
		return service.Promise{Operation: opPrepare, Args: canon.MustMarshal(o)}
	}
	poor := prepared()
	poor.Accounts[0].BalanceCents = 4999
	dear := prepared()
	dear.Tariff = Tariff{2, 25}
	for name, c := range map[string]struct {
		s *State
		p service.Promise
	}{
		"another quote":           {prepared(), submission(func(a *submitArgs) { a.QuoteID = "r" })},
		"another version":         {prepared(), submission(func(a *submitArgs) { a.TariffVersion = 2 })},
		"another account":         {prepared(), submission(func(a *submitArgs) { a.SourceAccountRef = "acct_savings" })},
		"another payee":           {prepared(), submission(func(a *submitArgs) { a.Destination = "payee_utilities" })},
		"another amount":          {prepared(), submission(func(a *submitArgs) { a.AmountCents = 4999 })},
		"another fee":             {prepared(), submission(func(a *submitArgs) { a.FeeCents = 1 })},
		"another currency":        {prepared(), submission(func(a *submitArgs) { a.Currency = "EUR" })},
		"another memo":            {prepared(), submission(func(a *submitArgs) { a.Memo.Length++ })},
		"nothing prepared":        {fixture(), submission(func(*submitArgs) {})},
		"the old tariff":          {dear, submission(func(*submitArgs) {})},
		"funds gone meanwhile":    {poor, submission(func(*submitArgs) {})},
		"a second time":           {done(t), submission(func(*submitArgs) {})},
		"prepare after it":        {done(t), order(func(*Order) {})},
		"insufficient funds":      {fixture(), order(func(o *Order) { o.SourceAccountRef = "acct_savings" })},
		"one cent too many":       {fixture(), order(func(o *Order) { o.AmountCents = 250001 })},
		"a fee too many":          {dear, order(func(o *Order) { o.AmountCents = 249976 })},
		"nothing":                 {fixture(), order(func(o *Order) { o.AmountCents = 0 })},
		"more than is an amount":  {dear, order(func(o *Order) { o.AmountCents = money.Max })},
		"unknown account":         {fixture(), order(func(o *Order) { o.SourceAccountRef = "acct" })},
		"unknown payee":           {fixture(), order(func(o *Order) { o.PayeeRef = "payee" })},
		"foreign currency":        {fixture(), order(func(o *Order) { o.Currency = "EUR" })},
		"transactions of nobody":  {fixture(), service.Promise{Operation: opTransactions, Args: []byte(`{"accountRef":"acct"}`)}},
		"status of nothing":       {fixture(), service.Promise{Operation: opStatus, Args: []byte(`{"quoteId":""}`)}},
		"status of another quote": {prepared(), service.Promise{Operation: opStatus, Args: []byte(`{"quoteId":"r"}`)}},
	} {
		before := canon.MustMarshal(c.s)
		effect, err := adapter.Execute(before, c.p, ids())
		if err != nil || effect.Refused == "" || string(effect.State) != string(before) || effect.OrderID != nil || effect.View != nil {
			t.Errorf("%s: %+v, %v", name, effect, err)
		}
		if strings.Contains(name, "funds") != (effect.Refused == "insufficient funds") && !strings.Contains(name, "too many") && name != "more than is an amount" {
			t.Errorf("%s: %s", name, effect.Refused)
		}
	}
	for _, p := range []service.Promise{{Operation: opTransactions, Args: []byte(`{}}`)}, {Operation: opStatus, Args: []byte(`{"id":1}`)}, {Operation: opSubmit, Args: []byte(`[]`)}} {
		if _, err := adapter.Execute(adapter.NewLocal(), p, ids()); err == nil {
			t.Errorf("%s took %s", p.Operation, p.Args)
		}
	}
}

// A transfer takes its amount with the fee from its account and is booked once.
func TestTransfer(t *testing.T) {
	dear, err := adapter.PriceChange(adapter.NewLocal())
	must(t, err)
	create := ids()
	effect, err := adapter.Execute(dear, service.Promise{Operation: opPrepare, Args: canon.MustMarshal(Order{"acct_checking", "payee_landlord", 120000, "USD", memo})}, create)
	must(t, err)
	var s State
	must(t, canon.Unmarshal(effect.State, &s))
	if o := s.offer(); o == nil || o.AmountCents != 120025 || o.Destination != "payee_landlord" || o.OperationID != "bank.transfer.submit" || o.Currency != "USD" {
		t.Fatalf("the offer is %+v", o)
	}
	if s.account("acct_checking").BalanceCents != 250000 {
		t.Error("preparing took money")
	}
	effect, err = adapter.Execute(effect.State, service.Promise{Operation: opSubmit, Args: canon.MustMarshal(s.Quote.submission())}, create)
	must(t, err)
	must(t, canon.Unmarshal(effect.State, &s))
	if effect.OrderID == nil || s.Transfer == nil || *effect.OrderID != s.Transfer.ID || s.account("acct_checking").BalanceCents != 129975 || s.offer() != nil {
		t.Errorf("%+v\n%s", effect, effect.State)
	}
	read := func(operation, args string) string {
		e, err := adapter.Execute(effect.State, service.Promise{Operation: operation, Args: []byte(args)}, create)
		must(t, err)
		if string(e.State) != string(effect.State) || e.View == nil {
			t.Fatalf("%s: %+v", operation, e)
		}
		return *e.View
	}
	if v := read(opTransactions, `{"accountRef":"acct_checking"}`); strings.Count(v, "transactionId") != 3 || !strings.Contains(v, `"120025"`) {
		t.Errorf("transactions %s", v)
	}
	if v := read(opTransactions, `{"accountRef":"acct_savings"}`); v != `{"transactions":[]}` {
		t.Errorf("transactions %s", v)
	}
	if v := read(opStatus, `{"quoteId":"`+s.Transfer.QuoteID+`"}`); !strings.Contains(v, `"status":"completed"`) {
		t.Errorf("status %s", v)
	}
	if v := read(opAccounts, `{}`); !strings.Contains(v, `"129975"`) {
		t.Errorf("accounts %s", v)
	}
	if v := read(opPayees, `{}`); strings.Count(v, "payeeRef") != 3 {
		t.Errorf("payees %s", v)
	}
}

// The smallest transfer and one of everything are made.
func TestSmallestAndLargest(t *testing.T) {
	for amount, left := range map[money.Cents]money.Cents{1: 249999, 250000: 0} {
		create := ids()
		effect, err := adapter.Execute(adapter.NewLocal(), service.Promise{Operation: opPrepare, Args: canon.MustMarshal(Order{"acct_checking", "payee_utility", amount, "USD", memo})}, create)
		must(t, err)
		var s State
		must(t, canon.Unmarshal(effect.State, &s))
		if effect.Refused != "" {
			t.Fatalf("%s: %s", amount, effect.Refused)
		}
		effect, err = adapter.Execute(effect.State, service.Promise{Operation: opSubmit, Args: canon.MustMarshal(s.Quote.submission())}, create)
		must(t, err)
		if must(t, canon.Unmarshal(effect.State, &s)); s.Accounts[0].BalanceCents != left {
			t.Errorf("%s: %s left, want %s", amount, s.Accounts[0].BalanceCents, left)
		}
	}
}

// Postconditions hold against what was seen, not against what was promised.
func TestHolds(t *testing.T) {
	after := done(t)
	unbooked := done(t)
	unbooked.Transactions = nil
	for name, c := range map[string]struct {
		s    *State
		edit func(*submitArgs)
		want []bool
	}{
		"as promised":       {after, func(*submitArgs) {}, []bool{true, true}},
		"another quote":     {after, func(a *submitArgs) { a.QuoteID = "r" }, []bool{false, true}},
		"another account":   {after, func(a *submitArgs) { a.SourceAccountRef = "acct_savings" }, []bool{false, true}},
		"another payee":     {after, func(a *submitArgs) { a.Destination = "payee_landlord" }, []bool{false, true}},
		"another memo":      {after, func(a *submitArgs) { a.Memo.Text = "" }, []bool{false, true}},
		"a cent difference": {after, func(a *submitArgs) { a.AmountCents = 4999 }, []bool{true, false}},
		"another fee":       {after, func(a *submitArgs) { a.FeeCents = 1 }, []bool{true, false}},
		"not booked":        {unbooked, func(*submitArgs) {}, []bool{false, true}},
		"not submitted":     {prepared(), func(*submitArgs) {}, []bool{false, false}},
	} {
		got, err := adapter.Holds(c.s.sighting(nil), submission(c.edit))
		must(t, err)
		if len(got) != 2 || got[0].Holds != c.want[0] || got[1].Holds != c.want[1] {
			t.Errorf("%s: %+v, want %v", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		s     *State
		payee string
		want  bool
	}{
		"as promised": {prepared(), "payee_utility", true}, "another payee": {prepared(), "payee_landlord", false},
		"nothing": {fixture(), "payee_utility", false}, "the old tariff": {func() *State { s := prepared(); s.Tariff.Version++; return s }(), "payee_utility", false},
	} {
		p := service.Promise{Args: canon.MustMarshal(Order{"acct_checking", c.payee, 5000, "USD", memo}), Postconditions: []string{"transfer.prepared", "of another machine"}}
		got, err := adapter.Holds(c.s.sighting(nil), p)
		must(t, err)
		if got[0].Holds != c.want || got[1].Holds {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// G-07: after a price change nothing that was prepared before can be submitted, and
// what is prepared again costs the new fee.
func TestPriceChange(t *testing.T) {
	before := canon.MustMarshal(prepared())
	after, err := adapter.PriceChange(before)
	must(t, err)
	seen, err := adapter.SeeLocal(after, nil)
	must(t, err)
	if prepared().offer() == nil || seen.Offer != nil {
		t.Errorf("the offer afterwards is %+v", seen.Offer)
	}
	if effect, err := adapter.Execute(after, submission(func(*submitArgs) {}), ids()); err != nil || effect.Refused == "" {
		t.Errorf("the old fee: %+v, %v", effect, err)
	}
	again, err := adapter.Execute(after, service.Promise{Operation: opPrepare, Args: canon.MustMarshal(prepared().Quote.Order)}, ids())
	must(t, err)
	seen, err = adapter.SeeLocal(again.State, nil)
	must(t, err)
	if seen.Offer == nil || seen.Offer.AmountCents != 5025 {
		t.Errorf("the new offer is %+v, want 5025 cents", seen.Offer)
	}
	s := fixture()
	s.Tariff.FeeCents = money.Max
	if state, err := adapter.PriceChange(canon.MustMarshal(s)); err == nil {
		t.Errorf("the largest fee became %s", state)
	}
}

// Whatever is done in whatever order: the state stays one that can be read and offered
// as a catalog, no balance grows or goes below nothing, and money leaves once.
func TestAnyOrderOfOperations(t *testing.T) {
	submits := 0
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 7))
		state, create, commits := adapter.NewLocal(), ids(), 0
		for range 40 {
			var s State
			must(t, canon.Unmarshal(state, &s))
			entries := catalogOf(t, &s)
			e := entries[r.IntN(len(entries))]
			if last := &entries[len(entries)-1]; last.OperationID == opSubmit && r.IntN(4) == 0 {
				e = *last
			}
			p := service.Promise{Operation: e.OperationID, Args: e.Args, Postconditions: e.Effect.Postconditions}
			if r.IntN(4) == 0 { // any amount, from anywhere
				p = service.Promise{Operation: opPrepare, Args: canon.MustMarshal(Order{s.Accounts[r.IntN(2)].Ref, s.Payees[r.IntN(3)].Ref, money.Cents(r.Int64N(400000)), "USD", memo})}
			}
			if r.IntN(10) == 0 {
				changed, err := adapter.PriceChange(state)
				must(t, err)
				state = changed
			}
			effect, err := adapter.Execute(state, p, create)
			must(t, err)
			var after State
			must(t, canon.Unmarshal(effect.State, &after))
			if effect.OrderID != nil {
				commits++
				submits++
			}
			moved := money.Cents(0)
			for i, a := range after.Accounts {
				if a.BalanceCents < 0 || a.BalanceCents > s.Accounts[i].BalanceCents {
					t.Fatalf("seed %d: %s", seed, effect.State)
				}
				moved += s.Accounts[i].BalanceCents - a.BalanceCents
			}
			switch {
			case commits > 1, (moved > 0) != (effect.OrderID != nil), moved > 0 && moved != after.Transfer.TotalCents:
				t.Fatalf("seed %d: %d commits, %s moved by %s: %s", seed, commits, moved, p.Operation, effect.State)
			}
			state = effect.State
		}
	}
	if submits < 50 {
		t.Errorf("only %d transfers were made", submits)
	}
}
