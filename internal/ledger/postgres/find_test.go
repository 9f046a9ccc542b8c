package postgres

import (
	"encoding/json"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/pgtest"
)

// A list reads what matches, and not every subject of its kind: also on tables that the
// server has never gathered statistics of. As the control, the statement that asks each
// subject for its attributes reads them all.
func TestFindReadsWhatMatches(t *testing.T) {
	url := pgtest.Database(t, Migrate)
	l := begin(t, url, Options{})
	const others = 600
	for i := range others / 50 {
		c := ledger.Change{}
		for range 50 {
			key := runKey()
			value := "done"
			if i == 3 && len(c.Writes) == 0 {
				value = "open"
			}
			c.Writes = append(c.Writes, ledger.Write{Key: key, Head: evidence.Genesis, State: []byte("{}"), Attributes: []ledger.Attribute{{Name: "status", Value: value}, {Name: "purpose", Value: "owner"}}})
		}
		mustStore(t, l, c)
	}
	q := ledger.Query{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, Where: []ledger.Attribute{{Name: "status", Value: "open"}, {Name: "purpose", Value: "owner"}}}
	found, err := l.Find(t.Context(), q)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d subjects, %v", len(found), err)
	}
	read := func(sql string, args ...any) (rows float64) {
		t.Helper()
		var raw string
		if err := l.reads.QueryRow(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+sql, args...).Scan(&raw); err != nil {
			t.Fatal(err)
		}
		var plans []struct {
			Plan node `json:"Plan"`
		}
		if err := json.Unmarshal([]byte(raw), &plans); err != nil {
			t.Fatal(err)
		}
		return plans[0].Plan.read()
	}
	sql, args := finding(q)
	if n := read(sql, args...); n > 20 {
		t.Errorf("%v rows were read for one that matches", n)
	}
	control := `SELECT s.id FROM subjects s WHERE s.workspace = $1 AND s.kind = $2 AND EXISTS (SELECT FROM attributes a
		WHERE a.workspace = s.workspace AND a.kind = s.kind AND a.id = s.id AND a.name = $3 AND a.value || '' = $4) ORDER BY s.id DESC LIMIT 100`
	if n := read(control, args[:4]...); n < others {
		t.Errorf("the control read %v rows", n)
	}
}

// node is one step of a plan.
type node struct {
	Type    string  `json:"Node Type"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []node  `json:"Plans"`
}

// read is how many rows the scans of a plan have looked at.
func (n node) read() (rows float64) {
	if strings.Contains(n.Type, "Scan") && n.Type != "Subquery Scan" {
		rows = (n.Rows + n.Removed) * n.Loops
	}
	for _, below := range n.Plans {
		rows += below.read()
	}
	return rows
}
