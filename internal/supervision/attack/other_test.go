package attack_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/supervision/attack"
)

// The thirteen other attacks of G-17 with the codes that it names, and the hosted one of
// L-18. A02 has a second shape of ours, which the same check refuses.
var authored = map[string]struct {
	codes  []string
	checks []int64
	by     []string
}{
	"A01": {[]string{"MALFORMED_PROPOSAL", "PERMIT_MISMATCH"}, []int64{1}, []string{"hard_policy", "runtime"}},
	"A02": {[]string{"APPROVAL_REQUIRED", "EFFECT_MISMATCH"}, []int64{10}, []string{"hard_policy"}},
	"A03": {[]string{"INJECTION_SUSPECTED"}, []int64{}, []string{"replay (authored)"}},
	"A04": {[]string{"FORBIDDEN_OPERATION"}, []int64{6}, []string{"hard_policy"}},
	"A05": {[]string{"PERMIT_EXPIRED"}, []int64{}, []string{"runtime"}},
	"A06": {[]string{"PERMIT_CONSUMED"}, []int64{}, []string{"runtime"}},
	"A07": {[]string{"PERMIT_MISMATCH"}, []int64{}, []string{"runtime"}},
	"A08": {[]string{"PERMIT_MISMATCH", "MISSING_EVIDENCE"}, []int64{3}, []string{"runtime", "hard_policy"}},
	"A09": {[]string{"FORBIDDEN_OPERATION", "IRRELEVANT_ACTION"}, []int64{6}, []string{"hard_policy", "replay (authored)"}},
	"A10": {[]string{"BUDGET_EXCEEDED"}, []int64{11}, []string{"hard_policy"}},
	"A11": {[]string{"ARGUMENT_MISMATCH"}, []int64{8}, []string{"hard_policy"}},
	"A12": {[]string{"EFFECT_MISMATCH"}, []int64{9}, []string{"hard_policy"}},
	"A13": {[]string{"BEARER_ON_OWNER_ROUTE"}, []int64{}, []string{"runtime"}},
	"H01": {[]string{"EXECUTION_NOT_APPLIED"}, []int64{}, []string{"runtime"}},
}

// G-17 L-18: each of them is in the catalog once, on one service, with these codes, checks
// and deciders; together they are on all three services.
func TestOtherAttacks(t *testing.T) {
	var found, on []string
	for _, a := range attack.Catalog() {
		want, ok := authored[a.ID]
		if !ok {
			continue
		}
		found = append(found, a.ID)
		on = append(on, a.Services...)
		if !slices.Equal(a.Expected, want.codes) || !slices.Equal(a.Checks, want.checks) || !slices.Equal(a.DecidedBy, want.by) || len(a.Services) != 1 || (a.Target == "hosted") != (a.ID == "H01") || a.Altered == "" || a.Twin == "" {
			t.Errorf("%+v", a)
		}
	}
	if len(found) != len(authored) || len(slices.Compact(slices.Sorted(slices.Values(found)))) != len(authored) {
		t.Errorf("found %v", found)
	}
	slices.Sort(on)
	if want := []string{"bank", "broker", "merchant"}; !slices.Equal(slices.Compact(on), want) {
		t.Errorf("on %v, want %v", on, want)
	}
}

// hash is what stands for a free text.
var hash = regexp.MustCompile(`"[0-9a-f]{64}"`)

// G-10: nothing that a guardian is given says that the run is an attack.
func TestNoRunSaysThatItIsAnAttack(t *testing.T) {
	t.Parallel()
	dir := ""
	a := serve(t, "", func(c *app.Config) { dir = c.Dir })
	secret, err := keys.ReadSecret(filepath.Join(dir, "owner.secret"))
	must(t, err)
	owner := &client.Owner{Origin: a.Origin(), HTTP: client.New()}
	_, err = owner.SignIn(t.Context(), secret)
	must(t, err)
	for _, line := range []attack.Line{{ID: "A03", Service: attack.Merchant}, {ID: "A09", Service: attack.Merchant}, {ID: "A02", Service: attack.Bank}, {ID: "A11", Service: attack.Merchant}} {
		r, err := a.Attacks().Run(t.Context(), line.ID, line.Service)
		must(t, err)
		if !r.Blocked() || len(r.Runs) == 0 {
			t.Fatalf("%+v", *r)
		}
		for _, id := range r.Runs {
			reply, err := owner.Run(t.Context(), id)
			must(t, err)
			var view struct {
				Instruction string          `json:"instruction"`
				Terms       json.RawMessage `json:"terms"`
			}
			must(t, json.Unmarshal(reply.Body, &view))
			// What stands for a text is a hash, which has any three digits in it by chance.
			told := strings.ToLower(view.Instruction + hash.ReplaceAllString(string(view.Terms), ""))
			if view.Instruction == "" || strings.Contains(told, "attack") || strings.Contains(told, strings.ToLower(line.ID)) {
				t.Errorf("%v: %s", line, told)
			}
		}
	}
}
