package replica_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/internal/client"
	"countersign/internal/replica"
	"countersign/internal/supervision/decide"
)

// finds fails unless one of the findings has these words.
func (a *account) finds(t *testing.T, what, words string) {
	t.Helper()
	found := a.findings()
	if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, words) }) {
		t.Errorf("%s: %q, want a finding with %q", what, found, words)
	}
}

// copy is an account that may be changed without the first.
func (a *account) copy() *account {
	b := &account{slices.Clone(a.told), map[string]*chain{}, slices.Clone(a.orders), slices.Clone(a.spent), maps.Clone(a.locals)}
	for id, c := range a.chains {
		other := *c
		other.events = slices.Clone(c.events)
		b.chains[id] = &other
	}
	return b
}

// The control of the account: a true one has no finding, and each thing that could be
// lost, done twice or left open is found when it is changed.
func TestAccountFinds(t *testing.T) {
	in := replica.Prepare(t, replica.SQLite)
	shop := in.OpenShop(t)
	r := in.Start(t, replica.Options{})[0]
	c := gather(t, 1, in, r, kind{"merchant", "hosted", "exact", false}, kind{"bank", "local", "bounded", false})
	for _, s := range c.shoppers {
		must(t, s.life(t.Context()))
	}
	owner := c.shoppers[0].owner
	revoked := created(t, r.Client(), owner, "broker", "local")
	_, err := owner.Revoke(t.Context(), revoked.RunID)
	must(t, err)
	c.journal.note(told{RunID: revoked.RunID, Revoked: true})
	a := settle(t, in, r, shop, owner, c.journal.list)
	for _, f := range a.findings() {
		t.Error(f)
	}
	if t.Failed() {
		return
	}
	hosted, local := "", ""
	for id, c := range a.chains {
		switch {
		case c.target == "hosted":
			hosted = id
		case a.locals[id] != "":
			local = id
		}
	}
	first := func(c *chain, kind string) int {
		i := slices.IndexFunc(c.events, func(e event) bool { return e.Type == kind })
		if i < 0 {
			t.Fatalf("%s has no %s", c.view.RunID, kind)
		}
		return i
	}
	without := func(id, kind string) func(*account) {
		return func(a *account) {
			c := a.chains[id]
			c.events = slices.DeleteFunc(c.events, func(e event) bool { return e.Type == kind })
		}
	}
	promise := func(match func(told) bool, change func(*told)) func(*account) {
		return func(a *account) {
			i := slices.IndexFunc(a.told, match)
			if i < 0 {
				t.Fatal("nobody was told that")
			}
			change(&a.told[i])
		}
	}
	receipt := func(p told) bool { return bytes.Contains(p.Receipt, []byte(`"kind":"hosted"`)) }
	for what, control := range map[string]struct {
		words  string
		change func(*account)
	}{
		"a receipt is lost":               {"a receipt was told", without(local, "execution.receipt")},
		"the store's receipt is lost":     {"a receipt was told", without(hosted, "hosted.receipt")},
		"another order was told":          {"a receipt was told", promise(receipt, func(p *told) { p.Receipt = bytes.Replace(p.Receipt, []byte(`"status":2`), []byte(`"status":3`), 1) })},
		"another signed receipt was told": {"a receipt was told", promise(receipt, func(p *told) { p.Receipt = bytes.Replace(p.Receipt, []byte(`"jws":"e`), []byte(`"jws":"f`), 1) })},
		"a run is lost":                   {"is not there", func(a *account) { delete(a.chains, hosted) }},
		"a creation is lost":              {"a creation was told", without(hosted, "run.created")},
		"a token is lost":                 {"a token was told", without(hosted, "session.issued")},
		"a head is of another chain":      {"a head was told", promise(func(p told) bool { return p.Head != "" }, func(p *told) { p.Head = p.Head[:len(p.Head)-1] + "x" })},
		"another decision was told":       {"a decision was told", promise(func(p told) bool { return p.Turn != "" }, func(p *told) { p.Decision = "TERMINATE" })},
		"an approval is lost":             {"an approval was told", without(hosted, "approval.granted")},
		"a revocation is lost":            {"a revocation was told", without(revoked.RunID, "run.revoked")},
		"a probe is lost":                 {"a probe was told", func(a *account) { a.told = append(a.told, told{RunID: hosted, Probed: "x"}) }},
		"a retry is lost":                 {"a retry or a statement was told", func(a *account) { a.told = append(a.told, told{RunID: local, Retried: true}) }},
		"the store ordered twice": {"the store has order", func(a *account) {
			o := a.orders[0]
			o.ID, o.ExecutionID = "another", "another"
			a.orders = append(a.orders, o)
		}},
		"the store ordered for more": {"the store has order", func(a *account) { a.orders[0].TotalCents++ }},
		"the store ordered nothing":  {"has no order", func(a *account) { a.orders = nil }},
		"the store was sent what none knows": {"no run knows", func(a *account) {
			p := a.spent[0]
			p.ExecutionID, p.BodyHash = "another", "another"
			a.spent = append(a.spent, p)
		}},
		"the store signed something else": {"is not the store's", func(a *account) { a.spent[0].Receipt += "x" }},
		"the store has no permit":         {"the store knows nothing of receipt", func(a *account) { a.spent = a.spent[1:] }},
		"the bank did nothing":            {"the local service of", func(a *account) { a.locals[local] = "" }},
		"the bank did something else":     {"the local service of", func(a *account) { a.locals[local] = "another" }},
		"a commit was receipted twice": {"receipts of commits", func(a *account) {
			c := a.chains[hosted]
			for _, e := range c.events {
				if e.Type == "execution.receipt" && e.OrderID != nil {
					c.events = append(c.events, e)
					return
				}
			}
		}},
		"a permit was claimed twice": {"had execution", func(a *account) {
			c := a.chains[hosted]
			c.events = append(c.events, c.events[first(c, "permit.claimed")])
		}},
		"the budget was smaller":   {"spent of 13699", func(a *account) { a.chains[hosted].view.BudgetCents = "13699" }},
		"the view adds up wrongly": {"the view says", func(a *account) { a.chains[hosted].view.SpentCents = "0" }},
		"a run is left paused":     {"is left paused", func(a *account) { a.chains[local].view.Status = "paused" }},
		"an effect is left open": {"is left completed", func(a *account) {
			c := a.chains[hosted]
			c.view.Executions = slices.Clone(c.view.Executions)
			c.view.Executions[0].State = "unconfirmed"
		}},
		"a chain was altered": {"does not verify", func(a *account) {
			c := a.chains[hosted]
			c.export = bytes.Replace(c.export, []byte(`"amountCents":"13700"`), []byte(`"amountCents":"13701"`), 1)
			c.verify(t, in, shop)
		}},
	} {
		b := a.copy()
		control.change(b)
		b.finds(t, what, control.words)
	}
	if found := a.findings(); len(found) > 0 {
		t.Errorf("a control has changed the account itself: %q", found)
	}
}

// A ledger that was put back to an older copy has lost what clients were told, and does
// not know what the store has done: the account finds both. Nothing else does, since the
// older chain is whole.
func TestAccountFindsLostLedger(t *testing.T) {
	in := replica.Prepare(t, replica.SQLite)
	shop := in.OpenShop(t)
	r := in.Start(t, replica.Options{})[0]
	c := gather(t, 1, in, r, kind{"merchant", "hosted", "bounded", false})
	s := c.shoppers[0]
	agent := created(t, r.Client(), s.owner, "merchant", "hosted")
	steps := replica.Steps["merchant"]
	for _, step := range steps[:len(steps)-1] {
		_, err := agent.Do(t.Context(), step)
		must(t, err)
	}
	r.Stop()
	older := filepath.Join(t.TempDir(), "older")
	must(t, os.CopyFS(older, os.DirFS(in.Dir)))
	r.Restart(replica.Options{})
	d, err := agent.Do(t.Context(), steps[len(steps)-1])
	must(t, err)
	c.journal.note(told{RunID: agent.RunID, ExecutionID: d.ExecutionID, Receipt: d.Receipt})
	r.Stop()
	for _, name := range []string{"countersign.db", "countersign.db-wal", "countersign.db-shm"} {
		must(t, os.RemoveAll(filepath.Join(in.Dir, name)))
		if content, err := os.ReadFile(filepath.Join(older, name)); err == nil {
			must(t, os.WriteFile(filepath.Join(in.Dir, name), content, 0o600))
		}
	}
	r.Restart(replica.Options{})
	a := settle(t, in, r, shop, s.owner, c.journal.list)
	a.finds(t, "an older ledger", "a receipt was told and is not in the evidence")
	a.finds(t, "an older ledger", "the store has applied for "+d.ExecutionID+", and no run knows")
	a.finds(t, "an older ledger", "the store has order")
	if a.chains[agent.RunID].problem != "" {
		t.Errorf("the older chain does not verify: %s", a.chains[agent.RunID].problem)
	}
}

// An owner who says that nothing came of an effect that the store has made: the store is
// asked, its receipt takes the place of the statement, and the account is true. With the
// doors open the statement stands, and the account finds an order that no receipt tells.
func TestAccountFindsOpenDoor(t *testing.T) {
	for name, doors := range map[string]decide.Doors{"closed": {}, "open": {Statement: true, Machine: true}} {
		t.Run(name, func(t *testing.T) {
			in := replica.Prepare(t, replica.SQLite)
			shop := in.OpenShop(t)
			r := in.Start(t, replica.Options{})[0]
			owner := in.SignIn(t, r.Client())
			agent := created(t, r.Client(), owner, "merchant", "hosted")
			steps := replica.Steps["merchant"]
			for _, step := range steps[:len(steps)-1] {
				_, err := agent.Do(t.Context(), step)
				must(t, err)
			}
			turn, err := agent.Permit(t.Context(), steps[len(steps)-1])
			must(t, err)
			r.Arm(replica.Fault{Point: "before-receipt"})
			key := replica.NewKey()
			if d, err := agent.Execute(t.Context(), turn.Permit.Token, turn.Permit.Action, key); err == nil {
				t.Fatalf("a killed server answers %s", d.Got())
			}
			r.Wait()
			r.Restart(replica.Options{Doors: doors})
			d, err := agent.Execute(t.Context(), turn.Permit.Token, turn.Permit.Action, key)
			must(t, err)
			if d.Reason != "DISPATCH_UNCONFIRMED" {
				t.Fatalf("the same request: %s", d.Got())
			}
			reconciled := reconcile(t, owner, agent.RunID, "not_applied")
			if reconciled.Status != 200 {
				t.Fatalf("the statement: %s", reconciled.Got())
			}
			var v view
			must(t, json.Unmarshal(reconciled.Body, &v))
			a := settle(t, in, r, shop, owner, nil)
			if name == "open" {
				a.finds(t, "a statement against the store", "the store has order")
				return
			}
			for _, f := range a.findings() {
				t.Error(f)
			}
			if v.Status != "completed" {
				t.Errorf("the run is %s when the store's receipt is there", v.Status)
			}
		})
	}
}

func reconcile(t *testing.T, owner *client.Owner, id, finding string) client.Reply {
	t.Helper()
	seen, err := owner.Run(t.Context(), id)
	must(t, err)
	var v view
	must(t, json.Unmarshal(seen.Body, &v))
	r, err := owner.Once(t.Context(), "POST", runs+"/"+id+"/reconcile", map[string]string{"executionId": v.unconfirmed(), "finding": finding})
	must(t, err)
	return r
}
