package run_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/evidence"
	"countersign/internal/supervision/chain"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/run"
)

var updateVectors = flag.Bool("update", false, "write ../../../vectors/chains anew")

const vectorFolder = "../../../vectors/chains"

// vector is one line of the index of vectors/chains.
type vector struct {
	File     string `json:"file"`
	Rule     string `json:"rule,omitempty"`     // empty: the chain is lawful
	Sequence int64  `json:"sequence,omitempty"` // of the event that breaks the rule
	Title    string `json:"title"`
}

// lawful chains.
var lawfulVectors = []struct {
	file, title string
	world       func(rapid.TB) *world
}{
	{"lawful-local.json", "a completed purchase on a local target", func(t rapid.TB) *world { return before(run.TargetLocal, "done")(t) }},
	{"lawful-hosted.json", "a completed purchase on a hosted target", func(t rapid.TB) *world { return before(run.TargetHosted, "done")(t) }},
	{"lawful-exact-local.json", "an approved purchase on a local target", exactPurchase(run.TargetLocal)},
	{"lawful-exact-hosted.json", "an approved purchase on a hosted target", exactPurchase(run.TargetHosted)},
	{"lawful-approved-twice.json", "a purchase whose first approval lapsed unused", func(t rapid.TB) *world {
		w := approved(run.TargetLocal)(t).after(5 * time.Minute).observe()
		w.propose(w.report("submit"))
		return w.mustApprove().cycle("submit").cycle("order")
	}},
	{"lawful-clarified.json", "a run that went on after a clarification", func(t rapid.TB) *world { return clarified(t).cycle("item") }},
	{"lawful-retried.json", "a run that went on after the store was not there", func(t rapid.TB) *world {
		w := unreached(t)
		w.retry()
		return w.observe().cycle("prepare")
	}},
	{"lawful-simulated.json", "a run to which every simulated event happened", everyEvent},
	{"lawful-attack.json", "a run of the attack suite that went on after a malformed report", func(t rapid.TB) *world {
		w := attackReported(t)
		w.retry()
		return w.observe().cycle("item")
	}},
	{"lawful-context.json", "reports that were made in a context turn, reported and observed", func(t rapid.TB) *world {
		w := ready(run.TargetLocal)(t)
		for _, one := range []struct{ entry, class string }{{"item", run.ClassReported}, {"prepare", run.ClassObserved}} {
			w.do(func(d *decide.Deciding) {
				d.InContext(&run.ContextTurn{ID: contextTurn, Class: one.class}, d.Now().Add(time.Minute))
				review, denial := d.Propose(w.report(one.entry), w.offered(d))
				if denial != nil || review.Reason != "" {
					t.Fatal(denial, review.Reason)
				}
				d.Judge(review, allow)
			})
			w.carry(w.read().Permit)
			w.observe()
		}
		return w
	}},
	{"lawful-probed.json", "an unconfirmed commit that a look-up found applied, verified afterwards", func(t rapid.TB) *world {
		return probed("submit", run.ResultApplied)(t).observe()
	}},
	{"lawful-contradicted.json", "a receipt that says otherwise than the owner did, after the run had spent its budget", func(t rapid.TB) *world {
		w := stated("submit", "not_applied")(t)
		old := *w.read().Execution
		w.retried()
		w.carry(w.permit("submit"))
		w.observe()
		w.look(old, run.ResultApplied)
		return w
	}},
	{"lawful-revoked.json", "a run that was revoked while a dispatch was out, with its receipt", func(t rapid.TB) *world {
		w := dispatched(run.TargetHosted, "prepare")(t)
		w.do(func(d *decide.Deciding) { d.Revoke() })
		w.receive(run.ResultApplied)
		return w
	}},
}

func exactPurchase(target string) stage {
	return func(t rapid.TB) *world { return approved(target)(t).cycle("submit").cycle("order") }
}

// everyEvent is a run to which each event of G-19 happened.
func everyEvent(t rapid.TB) *world {
	w := waiting(run.TargetLocal)(t)
	goOn := func(event string) {
		if reason := w.simulate(event); reason != "" {
			t.Fatalf("%s: %s", event, reason)
		}
		if w.read().Status == run.StatusPaused {
			w.retry()
		}
		w.observe()
	}
	goOn("revise_state")
	w.mustApprove()
	w.permit("submit")
	goOn("navigate")
	w.mustApprove()
	w.permit("submit")
	goOn("expire_permit")
	goOn("provider_timeout")
	w.shop.Price--
	goOn("price_change")
	w.mustApprove()
	if reason := w.simulate("drop_receipt"); reason != "" {
		t.Fatal(reason)
	}
	w.simulate("expire_grant")
	return w
}

// export writes the export of a chain as the issuer would.
func export(t *testing.T, events []evidence.Event, texts []evidence.Text) []byte {
	t.Helper()
	subject, err := events[0].Subject()
	if err != nil {
		t.Fatal(err)
	}
	texts = slices.Clone(texts)
	slices.SortFunc(texts, func(a, b evidence.Text) int { return strings.Compare(a.Commitment, b.Commitment) })
	var b bytes.Buffer
	err = evidence.WriteExport(&b, testKey, base.Add(time.Hour).Time(), evidence.Source{
		Subject: subject, Head: link(events),
		Events: func(yield func(evidence.Event, error) bool) {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		},
		Texts: func(yield func(evidence.Text, error) bool) {
			for _, text := range texts {
				if !yield(text, nil) {
					return
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// chainVectors makes every file of vectors/chains, by name, and the index. There
// is one unlawful chain for each rule that a single event can break.
func chainVectors(t *testing.T) (map[string][]byte, []vector) {
	files := map[string][]byte{}
	var index []vector
	for _, l := range lawfulVectors {
		w := l.world(t)
		w.verify()
		files[l.file] = export(t, w.events, w.texts)
		index = append(index, vector{File: l.file, Title: l.title})
	}
	for _, c := range unlawfulCases {
		file := c.rule + ".json"
		if _, made := files[file]; made || c.unfit || len(c.follow) > 0 {
			continue
		}
		events := c.chain(t)
		files[file] = export(t, events, nil)
		index = append(index, vector{file, c.rule, int64(len(events)), c.name})
	}
	return files, index
}

// TestChainVectors holds vectors/chains against the machine: the files are the
// ones that are made here, package evidence finds nothing wrong with any, and
// replay finds exactly what the index says.
func TestChainVectors(t *testing.T) {
	files, index := chainVectors(t)
	encoded, err := json.MarshalIndent(map[string]any{
		"about": "Exports that are perfectly hashed and signed. Those with a rule are unlawful: the event at sequence breaks that rule, and nothing else is wrong. The key is a published test key; trust it for nothing.",
		"cases": index,
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	files["index.json"] = append(encoded, '\n')
	files["evidence.pub"] = evidence.Keys{{Public: testKey.Public()}}.Format()
	if *updateVectors {
		if err := os.RemoveAll(vectorFolder); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(vectorFolder, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(vectorFolder, name), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(vectorFolder)
	if err != nil {
		t.Fatal(err)
	}
	var present []string
	for _, entry := range entries {
		present = append(present, entry.Name())
	}
	if want := slices.Sorted(maps.Keys(files)); !slices.Equal(present, want) {
		t.Errorf("the folder holds %v, want %v", present, want)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(vectorFolder, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is made here (%v); go test -run TestChainVectors -update . writes it anew", name, err)
		}
	}
	unlawful := 0
	for _, v := range index {
		replay := &chain.Replay{}
		report, err := evidence.Verify(bytes.NewReader(files[v.File]), evidence.Keys{{Public: testKey.Public()}}, evidence.Options{Each: func(e evidence.Event) error {
			replay.Apply(e)
			return nil
		}})
		if err != nil || !report.OK() || !replay.Known() {
			t.Errorf("%s: report %+v, error %v, known %v: want a whole chain of this machine", v.File, report, err, replay.Known())
			continue
		}
		found := replay.Unlawful()
		if v.Rule == "" {
			if len(found) > 0 {
				t.Errorf("%s: %v, want a lawful chain", v.File, found)
			}
			continue
		}
		unlawful++
		if len(found) != 1 || found[0].Rule != v.Rule || found[0].Sequence != v.Sequence {
			t.Errorf("%s: %v, want only %s at event %d", v.File, found, v.Rule, v.Sequence)
		}
	}
	if unlawful < 25 {
		t.Errorf("%d unlawful chains, want at least 25", unlawful)
	}
}
