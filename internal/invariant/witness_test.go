package invariant_test

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// A witness reads the events of one chain, in their order, and says which invariant each
// breaks (requirements, section 6). It knows nothing of what was asked for.
type witness struct {
	exact                   bool
	budget, spent, reserved int
	live, claimed           string            // permit that is issued and not used; that is used and not settled
	commits                 map[string]string // permits of a commit, and the grant that each rests on
	approved                map[string]int    // grants of approvals, with the number of claims
	digests                 map[string]string // of grants of approvals
	dispatched              map[string]bool   // executions
	refused                 int
}

func newWitness(mode string, budget int) *witness {
	return &witness{exact: mode == "exact", budget: budget, commits: map[string]string{}, approved: map[string]int{}, digests: map[string]string{}, dispatched: map[string]bool{}}
}

// facts are what a witness reads of an event.
type facts struct {
	PermitID, ExecutionID, GrantID, EffectDigest, Class, Result string
	AmountCents, ReservedCents, ReleasedCents, SpentCents       cents
	Permit                                                      struct {
		PermitID, EffectDigest string
		Bindings               struct{ GrantID string }
	}
}

type cents int

func (c *cents) UnmarshalJSON(b []byte) error {
	var s string
	if string(b) == "null" {
		return nil
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	n, err := strconv.Atoi(s)
	*c = cents(n)
	return err
}

// see returns what is wrong with the event.
func (w *witness) see(e event) (broken []string) {
	var f facts
	switch e.Type { // of the others nothing matters here, and they have members of other kinds
	case "approval.granted", "permit.issued", "permit.claimed", "permit.expired", "permit.revoked", "permit.consumed", "permit.voided",
		"execution.dispatched", "execution.receipt", "execution.not_applied", "execution.voided", "execution.reconciled":
		if err := json.Unmarshal(e.Data, &f); err != nil {
			return []string{err.Error()}
		}
	}
	must := func(holds bool, invariant string) {
		if !holds {
			broken = append(broken, fmt.Sprintf("event %d, %s: %s", e.Sequence, e.Type, invariant))
		}
	}
	switch e.Type {
	case "approval.granted":
		w.approved[f.GrantID], w.digests[f.GrantID] = 0, f.EffectDigest
	case "permit.issued":
		must(w.live == "" && w.claimed == "", "(2) at most one permit is issued or claimed")
		w.live = f.Permit.PermitID
		if f.Class == "commit" {
			grant := f.Permit.Bindings.GrantID
			w.commits[w.live] = grant
			must(!w.exact || w.digests[grant] != "" && w.digests[grant] == f.Permit.EffectDigest, "(1) a commit in exact mode rests on the approval of its effect")
		}
	case "permit.claimed":
		must(f.PermitID != "" && f.PermitID == w.live, "(1) what is claimed is the live permit")
		w.live, w.claimed, w.reserved = "", f.PermitID, w.reserved+int(f.ReservedCents)
		if grant, commit := w.commits[f.PermitID]; commit && w.exact {
			w.approved[grant]++
			must(w.approved[grant] == 1, "(1) an approval is used once")
		}
	case "permit.expired", "permit.revoked":
		must(f.PermitID == w.live, "(2) what ends is the live permit")
		w.live = ""
	case "execution.dispatched":
		must(f.PermitID != "" && f.PermitID == w.claimed && !w.dispatched[f.ExecutionID], "(1) an execution has a claimed permit")
		w.dispatched[f.ExecutionID] = true
	case "execution.receipt":
		if f.Result == "applied" {
			w.spent, w.reserved = w.spent+int(f.AmountCents), w.reserved-int(f.AmountCents)
		}
	case "permit.consumed", "permit.voided":
		w.claimed = ""
	case "execution.not_applied", "execution.voided", "execution.reconciled":
		w.spent += int(f.SpentCents)
		w.reserved -= int(f.SpentCents) + int(f.ReleasedCents)
		// What was given back can be claimed again; a commit takes its approval with it.
		if grant, commit := w.commits[w.claimed]; commit && w.exact && f.ReleasedCents > 0 {
			w.approved[grant]--
		}
		w.claimed = ""
	case "operation.refused":
		w.refused++
		must(w.refused <= 100, "(4) at most a hundred refusals are recorded")
	}
	must(w.spent >= 0 && w.reserved >= 0 && w.spent+w.reserved <= w.budget, fmt.Sprintf("(3) %d spent and %d reserved are within %d", w.spent, w.reserved, w.budget))
	return broken
}
