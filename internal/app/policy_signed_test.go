package app_test

import (
	"bytes"
	"testing"

	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/keys"
)

// The policy that a run is bound to, its version and its digest are in the run's signed
// evidence: whoever alters them leaves a file that does not verify.
func TestPolicyIsSigned(t *testing.T) {
	d := openDesk(t, "")
	id := d.publish()
	run := d.ask("POST", "/runs", boundRun(id)).is(t, "a bound run", 201, "").at("runId").(string)
	export := d.ask("GET", "/runs/"+run+"/evidence", nil).is(t, "export", 200, "").body
	k, err := keys.Load(d.dir)
	must(t, err)
	trusted := audit.Options{Keys: evidence.Keys{{Public: k.Evidence().Public()}}}
	verifies := func(raw []byte) bool {
		r, err := audit.Verify(bytes.NewReader(raw), trusted)
		return err == nil && r.OK()
	}
	if !verifies(export) {
		t.Fatal("the export does not verify")
	}
	for _, c := range [][2]string{
		{`"policyVersion":1`, `"policyVersion":2`},
		{`"guardianId":"` + id, `"guardianId":"` + id[:len(id)-1] + string(rune(map[bool]byte{true: '1', false: '0'}[id[len(id)-1] == '0']))},
		{`"machine":1`, `"machine":2`},
	} {
		if n := bytes.Count(export, []byte(c[0])); n == 0 {
			t.Errorf("the evidence does not say %s", c[0])
		}
		if verifies(bytes.ReplaceAll(export, []byte(c[0]), []byte(c[1]))) {
			t.Errorf("%s can become %s", c[0], c[1])
		}
	}
}
