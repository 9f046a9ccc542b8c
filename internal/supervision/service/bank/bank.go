// Package bank is the adapter for a bank account: read accounts, payees and
// transactions, prepare a transfer, submit it. All data is synthetic (H-011), and the
// local bank is all there is: it has no hosted form (H-013).
//
// Operations (G-06): bank.accounts, .payees, .transactions and .transfer.status read;
// bank.transfer.prepare prepares; bank.transfer.submit commits. There is no other
// operation: no payee is ever created and nothing is withdrawn.
package bank

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/money"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/service"
)

// Operations of a bank.
const (
	opAccounts     = "bank.accounts"
	opPayees       = "bank.payees"
	opTransactions = "bank.transactions"
	opStatus       = "bank.transfer.status"
	opPrepare      = "bank.transfer.prepare"
	opSubmit       = "bank.transfer.submit"
)

const currency = "USD"

// maxMemo is the longest memo in characters (G-06).
const maxMemo = 140

// Adapter is the bank. The zero value is ready.
type Adapter struct{}

// Name is the service's name in a create-run body.
func (Adapter) Name() string { return "bank" }

// Synthetic is what a person is told of the local bank's data (H-011).
func (Adapter) Synthetic() string {
	return "Synthetic bank: accounts, payees and money are made up."
}

// Currency is the one currency of the bank.
func (Adapter) Currency() string { return currency }

// LocalOrigin is the origin of the local synthetic bank.
func (Adapter) LocalOrigin() string { return "local" }

// Operations lists what a bounded grant covers.
func (Adapter) Operations() []string {
	return []string{opAccounts, opPayees, opTransactions, opStatus, opPrepare, opSubmit}
}

// MaxUses is how often a grant lets each commit operation run (G-07).
func (Adapter) MaxUses() map[string]int64 { return map[string]int64{opSubmit: 1} }

// Workflow is read, prepare, commit, verify.
func (Adapter) Workflow() []run.Step {
	return []run.Step{
		{Name: "read", ClosedBy: "accounts.read"},
		{Name: "prepare", ClosedBy: "transfer.prepared"},
		{Name: "commit", ClosedBy: "transfer.confirmed"},
		{Name: "verify", ClosedBy: "transfer.amount_matches"},
	}
}

// terms are the members of G-06 without the memo.
type terms struct {
	SourceAccountRef string      `json:"sourceAccountRef"`
	PayeeRef         string      `json:"payeeRef"`
	AmountCents      money.Cents `json:"amountCents"`
	Currency         string      `json:"currency"`
}

// wireTerms are the terms of a create-run body.
type wireTerms struct {
	terms
	Memo string `json:"memo"`
}

// heldTerms are the terms as evidence holds them.
type heldTerms struct {
	terms
	Memo evidence.Commitment `json:"memo"`
}

// Terms resolves the terms of a create-run body. nil gives the fixture's: 5000 cents
// from the checking account to the utility.
func (Adapter) Terms(raw json.RawMessage, _ string) (service.Terms, *authority.Denial) {
	t, bank := wireTerms{terms{"acct_checking", "payee_utility", 5000, currency}, "Synthetic invoice 1042"}, fixture()
	if raw != nil {
		t = wireTerms{}
		if denial := service.ReadTerms(raw, &t); denial != nil {
			return service.Terms{}, denial
		}
	}
	switch {
	case bank.account(t.SourceAccountRef) == nil:
		return service.Terms{}, service.Invalid("terms.sourceAccountRef must be one of " + refs(bank.Accounts))
	case bank.payee(t.PayeeRef) == nil:
		return service.Terms{}, service.Invalid("terms.payeeRef must be one of " + refs(bank.Payees))
	case t.AmountCents < 1:
		return service.Terms{}, service.Invalid("terms.amountCents must be at least 1")
	case t.Currency != currency:
		return service.Terms{}, service.Invalid("terms.currency must be " + currency)
	case utf8.RuneCountInString(t.Memo) > maxMemo:
		return service.Terms{}, service.Invalid("terms.memo must be at most 140 characters")
	}
	return service.Terms{
		JSON: canon.MustMarshal(t.terms), Texts: map[string]string{"memo": t.Memo},
		Constraints: []authority.Constraint{
			{Name: "sourceAccountRef", Rule: authority.RuleEquals, Value: t.SourceAccountRef},
			{Name: "payeeRef", Rule: authority.RuleEquals, Value: t.PayeeRef},
			{Name: "amountCents", Rule: authority.RuleEquals, Value: t.AmountCents.String()},
			{Name: "currency", Rule: authority.RuleEquals, Value: t.Currency},
		},
	}, nil
}

// refs lists the references of accounts or payees for a person.
func refs[T interface{ ref() string }](list []T) string {
	var names []string
	for _, item := range list {
		names = append(names, item.ref())
	}
	return strings.Join(slices.Sorted(slices.Values(names)), ", ")
}
