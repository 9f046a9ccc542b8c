package replica_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"countersign/dispatch"
	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/client"
	"countersign/internal/ledger"
	"countersign/internal/replica"
	"countersign/internal/supervision/run"
)

// account is everything that is known in the end: what clients were told, what the ledger
// proves, and what the services have done by their own books.
type account struct {
	told   []told
	chains map[string]*chain
	orders []replica.Order
	spent  []replica.Spent
	locals map[string]string // what the local service of a run has done, by run; "" for nothing
}

// chain is a run as the ledger has it.
type chain struct {
	view    view
	target  string
	events  []event
	export  []byte
	problem string // of its verification, "" for none
}

// settle takes the account of an installation whose clients have ended. It stops the
// replica.
func settle(t *testing.T, in *replica.Installation, r *replica.Replica, shop *replica.Shop, owner *client.Owner, told []told) *account {
	t.Helper()
	a := &account{told: told, chains: map[string]*chain{}, locals: map[string]string{}}
	raw, _, err := owner.Runs(t.Context(), 10000)
	must(t, err)
	for _, one := range raw {
		c := &chain{}
		must(t, json.Unmarshal(one, &c.view))
		must(t, json.Unmarshal(one, &struct{ Target *string }{&c.target}))
		export, err := owner.Export(t.Context(), c.view.RunID)
		must(t, err)
		c.export = export.Body
		c.verify(t, in, shop)
		a.chains[c.view.RunID] = c
	}
	r.Stop()
	a.orders, err = shop.Orders(t.Context())
	must(t, err)
	a.spent, err = shop.Spent(t.Context())
	must(t, err)
	l := in.Ledger(t)
	for id, c := range a.chains {
		if c.target != run.TargetLocal {
			continue
		}
		s, _, err := l.Load(t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindService, ID: id})
		must(t, err)
		a.locals[id] = done(t, s.State)
	}
	return a
}

// done reads the id of what a local service has done.
func done(t *testing.T, state []byte) string {
	t.Helper()
	var s struct {
		Order    *struct{ OrderID string }
		Transfer *struct{ TransferID string }
	}
	must(t, json.Unmarshal(state, &s))
	switch {
	case s.Order != nil:
		return s.Order.OrderID
	case s.Transfer != nil:
		return s.Transfer.TransferID
	}
	return ""
}

// verify checks an export as anybody would who has the two keys, against the head that
// the view told before.
func (c *chain) verify(t *testing.T, in *replica.Installation, shop *replica.Shop) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(in.Dir, "keys", "evidence.pub"))
	must(t, err)
	keys, err := evidence.ParseKeys(text)
	must(t, err)
	head, err := evidence.ParseLink(c.view.Head)
	must(t, err)
	report, err := audit.Verify(bytes.NewReader(c.export), audit.Options{Keys: keys, Head: head, StoreKeys: []dispatch.TrustedKey{shop.Key}})
	must(t, err)
	if !report.OK() {
		var b strings.Builder
		must(t, report.PrintShort(&b, c.view.RunID))
		c.problem = b.String()
	}
	var content struct{ Events []evidence.Event }
	must(t, json.Unmarshal(c.export, &content))
	c.events = nil
	for _, e := range content.Events {
		c.events = append(c.events, event{e, read(e)})
	}
}

// event is one with what the account reads of its data.
type event struct {
	evidence.Event
	data
}

// data is what the account reads of an event's data.
type data struct {
	ExecutionID, PermitID, TurnID       string
	Verdict, Decision, EffectDigest     string
	Class, Result, Phase, Answer        string
	ReservedCents, AmountCents          string
	ReleasedCents, SpentCents, OrderID  *string
	Finding                             string
	Receipt                             *string         // JWS
	Kind, Status, BodySHA256, AmountRaw json.RawMessage `json:"-"`
}

func read(e evidence.Event) (d data) {
	// A member that another type of event has as an object is none of ours.
	var members map[string]json.RawMessage
	if json.Unmarshal(e.Data, &members) != nil {
		return d
	}
	for name, raw := range members {
		_ = json.Unmarshal([]byte(`{`+strconv.Quote(name)+`:`+string(raw)+`}`), &d)
	}
	return d
}

func cents(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0 // null: nothing is paid
	}
	return n
}

// findings names everything in which the three differ.
func (a *account) findings() (found []string) {
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, id := range slices.Sorted(maps.Keys(a.chains)) {
		c := a.chains[id]
		if c.problem != "" {
			report("%s does not verify: %s", id, c.problem)
		}
		if !c.view.ended() && c.view.Status != "ready" || c.view.unconfirmed() != "" {
			report("%s is left %s, %v, %+v", id, c.view.Status, c.view.StopContext, c.view.Executions)
		}
		for _, problem := range c.budget() {
			report("%s: %s", id, problem)
		}
	}
	for _, problem := range slices.Concat(a.promises(), a.store(), a.local()) {
		report("%s", problem)
	}
	return found
}

// budget adds up what a run holds and has spent, event by event: never more than it may,
// and in the end what the view says. No permit has two executions.
func (c *chain) budget() (found []string) {
	type sum struct{ reserved, claimed, spent int64 }
	held, permits := map[string]*sum{}, map[string]string{}
	limit := cents(c.view.BudgetCents)
	var reserved, spent int64
	for _, e := range c.events {
		d := e.data
		x := held[d.ExecutionID]
		if x == nil {
			x = &sum{}
			held[d.ExecutionID] = x
		}
		switch e.Type {
		case "permit.claimed":
			if other := permits[d.PermitID]; other != "" {
				found = append(found, fmt.Sprintf("event %d: permit %s had execution %s before", e.Sequence, d.PermitID, other))
			}
			permits[d.PermitID] = d.ExecutionID
			*x = sum{reserved: cents(d.ReservedCents), claimed: cents(d.ReservedCents)}
		case "execution.receipt":
			if d.Result == run.ResultApplied {
				*x = sum{claimed: x.claimed, spent: cents(d.AmountCents)}
			}
		case "execution.not_applied", "execution.voided":
			*x = sum{claimed: x.claimed}
		case "execution.reconciled":
			switch d.Finding {
			case "applied":
				*x = sum{claimed: x.claimed, spent: x.claimed}
			case "not_applied":
				*x = sum{claimed: x.claimed}
			}
		case "execution.contradicted":
			*x = sum{claimed: x.claimed, reserved: x.claimed}
		}
		reserved, spent = 0, 0
		for _, x := range held {
			reserved, spent = reserved+x.reserved, spent+x.spent
		}
		if reserved+spent > limit {
			found = append(found, fmt.Sprintf("event %d: %d reserved and %d spent of %d", e.Sequence, reserved, spent, limit))
		}
	}
	if reserved != cents(c.view.Reserved) || spent != cents(c.view.SpentCents) {
		found = append(found, fmt.Sprintf("the view says %s reserved and %s spent, the events %d and %d", c.view.Reserved, c.view.SpentCents, reserved, spent))
	}
	return found
}

// promises holds what clients were told against the evidence.
func (a *account) promises() (found []string) {
	for _, p := range a.told {
		if c := a.chains[p.RunID]; c == nil {
			found = append(found, fmt.Sprintf("run %s was answered and is not there", p.RunID))
		} else if lost := c.lacks(p); lost != "" {
			found = append(found, fmt.Sprintf("%s was told and is not in the evidence: %s", lost, mustJSON(p)))
		}
	}
	return found
}

// lacks names what was told and is not there, "" when it is.
func (c *chain) lacks(p told) string {
	has := func(match func(e event) bool) bool { return slices.ContainsFunc(c.events, match) }
	what, there := "", true
	switch {
	case p.Created:
		what, there = "a creation", has(func(e event) bool { return e.Type == "run.created" })
	case p.Token:
		what, there = "a token", has(func(e event) bool { return e.Type == "session.issued" })
	case p.Head != "":
		what, there = "a head", has(func(e event) bool { return p.Head == strconv.FormatInt(e.Sequence, 10)+":"+e.Hash })
	case p.Turn != "":
		what, there = "a decision", has(func(e event) bool {
			return e.TurnID == p.Turn && (e.Type == "guardian.decided" && e.Decision == p.Decision || e.Type == "policy.checked" && e.Verdict == p.Decision)
		})
	case p.Receipt != nil:
		what, there = "a receipt", c.holds(p)
	case p.Approved != "":
		what, there = "an approval", has(func(e event) bool {
			return e.Type == "approval.granted" && e.EffectDigest == p.Approved
		})
	case p.Revoked:
		what, there = "a revocation", has(func(e event) bool { return e.Type == "run.revoked" })
	case p.Probed != "":
		what, there = "a probe", has(func(e event) bool {
			return e.ExecutionID == p.Probed && (e.Type == "execution.probed" || e.Type == "execution.reconciled")
		})
	case p.Retried:
		what, there = "a retry or a statement", has(func(e event) bool {
			return e.Type == "retry.accepted" || e.Type == "execution.reconciled"
		})
	}
	if there {
		return ""
	}
	return what
}

// holds reports whether the evidence has a receipt as it was answered, every member byte
// for byte, the store's signed one included.
func (c *chain) holds(p told) bool {
	var answered map[string]json.RawMessage
	if json.Unmarshal(p.Receipt, &answered) != nil || len(answered) != 8 {
		return false
	}
	signed := json.RawMessage("null")
	for _, e := range c.events {
		if e.data.ExecutionID != p.ExecutionID {
			continue
		}
		var recorded map[string]json.RawMessage
		if json.Unmarshal(e.Data, &recorded) != nil {
			return false
		}
		switch e.Type {
		case "hosted.receipt":
			signed = recorded["receipt"]
		case "execution.receipt":
			if string(answered["receiptId"]) != strconv.Quote(e.ID) || !bytes.Equal(answered["jws"], signed) {
				return false
			}
			for _, name := range []string{"kind", "result", "status", "bodySha256", "amountCents", "orderId"} {
				if !bytes.Equal(answered[name], recorded[name]) {
					return false
				}
			}
			return true
		}
	}
	return false
}

// applied returns the receipts of a run's commits that took effect.
func (c *chain) applied() (list []data) {
	commits := map[string]bool{}
	for _, e := range c.events {
		if e.Type == "execution.dispatched" && e.Class == "commit" {
			commits[e.ExecutionID] = true
		}
		if e.Type == "execution.receipt" && commits[e.ExecutionID] && e.Result == run.ResultApplied {
			list = append(list, e.data)
		}
	}
	return list
}

// store holds the store's own books against the evidence of hosted runs.
func (a *account) store() (found []string) {
	receipts, known, orders := map[string]string{}, map[string]bool{}, map[string]data{}
	probes := map[string]bool{} // what a permit is for that asks about an execution: it has no effect, and nothing stands before it in evidence
	for _, id := range slices.Sorted(maps.Keys(a.chains)) {
		c := a.chains[id]
		for _, e := range c.events {
			d := e.data
			probes[dispatch.HashBody(dispatch.CloseBody(d.ExecutionID))] = true
			switch {
			case e.Type == "hosted.receipt":
				receipts[d.ExecutionID], known[d.ExecutionID] = *d.Receipt, true
			case e.Type == "hosted.session" && d.Phase == "opened":
				receipts[d.ExecutionID], known[d.ExecutionID] = *d.Receipt, true
			case e.Type == "hosted.session" && c.view.Status == "failed":
				known[d.ExecutionID] = true // an empty session that nobody has
			}
		}
		if c.target != run.TargetHosted {
			continue
		}
		applied := c.applied()
		if len(applied) > 1 {
			found = append(found, fmt.Sprintf("%s: %d receipts of commits that took effect", id, len(applied)))
		}
		for _, d := range applied {
			orders[d.ExecutionID] = d
		}
	}
	for _, p := range a.spent {
		switch receipt, there := receipts[p.ExecutionID]; {
		case !known[p.ExecutionID] && !probes[p.BodyHash]:
			found = append(found, fmt.Sprintf("the store has %s for %s, and no run knows", p.Result, p.ExecutionID))
		case there && receipt != p.Receipt:
			found = append(found, fmt.Sprintf("the receipt of %s is not the store's", p.ExecutionID))
		}
		delete(receipts, p.ExecutionID)
	}
	for id := range receipts {
		found = append(found, fmt.Sprintf("the store knows nothing of receipt %s", id))
	}
	for _, o := range a.orders {
		d, there := orders[o.ExecutionID]
		if !there || d.OrderID == nil || *d.OrderID != o.ID || cents(d.AmountCents) != o.TotalCents {
			found = append(found, fmt.Sprintf("the store has order %+v, the evidence %+v", o, d))
		}
		delete(orders, o.ExecutionID)
	}
	for id := range orders {
		found = append(found, fmt.Sprintf("execution %s was applied and the store has no order", id))
	}
	return found
}

// local holds what local services did against the evidence of their runs.
func (a *account) local() (found []string) {
	for _, id := range slices.Sorted(maps.Keys(a.locals)) {
		var ids []string
		for _, d := range a.chains[id].applied() {
			ids = append(ids, *d.OrderID)
		}
		want := []string{a.locals[id]}
		if a.locals[id] == "" {
			want = nil
		}
		if !slices.Equal(ids, want) {
			found = append(found, fmt.Sprintf("the local service of %s has done %q, its receipts say %q", id, want, ids))
		}
	}
	return found
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
