package tools

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"countersign/internal/canon"
	"countersign/internal/contextturn/content"
)

// alone opens a Build of what a profile may see of some documents and cases and nothing
// else. A document that names one that is left out is written again without that; again
// tells the hash of the first writing by that of the second.
func alone(t *testing.T, raw []string, cases []content.Case, profile string) (b *Build, again *strings.Replacer) {
	t.Helper()
	var docs []*content.Document
	seen := map[string]bool{}
	for _, text := range raw {
		d, faults := content.ParseDocument([]byte(text))
		if err := content.Error(faults); err != nil {
			t.Fatal(err)
		}
		if d.VisibleTo(profile) {
			docs, seen[d.Ref] = append(docs, d), true
		}
	}
	hidden := func(ref string) bool { return !seen[ref] }
	var left, hashes []string
	for _, d := range docs {
		text := d.Raw
		if slices.ContainsFunc(slices.Concat(d.Supersedes, d.Conflicts), hidden) {
			fields := map[string]any{
				"id": d.Ref, "title": d.Title, "tags": append([]string{}, d.Tags...),
				"supersedes": slices.DeleteFunc(append([]string{}, d.Supersedes...), hidden), "conflicts": slices.DeleteFunc(append([]string{}, d.Conflicts...), hidden),
			}
			if d.Author != "" {
				fields["author"] = d.Author
			}
			if d.Source != "" {
				fields["source"] = d.Source
			}
			matter, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			text = "---\n" + string(matter) + "\n---\n" + d.Text
			hashes = append(hashes, canon.Hash([]byte(text)), d.SHA256)
		}
		left = append(left, text)
	}
	cases = slices.DeleteFunc(slices.Clone(cases), func(c content.Case) bool { return slices.ContainsFunc(c.ExpectRefs, hidden) })
	return openDocuments(t, left, cases...), strings.NewReplacer(hashes...)
}

// answers is all that a Build says to a profile: every tool, for all texts, refs and cases.
func answers(t *testing.T, b *Build, profile string, texts, refs []string, cases []content.Case) []string {
	t.Helper()
	var all []string
	say := func(of string, a Answer, err error) {
		if err != nil {
			all = append(all, fmt.Sprintf("%s: %v", of, err))
			return
		}
		all = append(all, fmt.Sprintf("%s: %s %s", of, canon.MustMarshal(a), canon.MustMarshal(a.Handed())))
	}
	for i, text := range texts {
		compass, err := answer(b.Compass(t.Context(), profile, text))
		say("compass "+text, compass, err)
		find, err := answer(b.Find(t.Context(), profile, text, MaxLimit))
		say("find "+text, find, err)
		test, err := answer(b.Test(t.Context(), profile, text, []string{refs[i%len(refs)]}))
		say("test "+text, test, err)
	}
	for _, ref := range refs {
		resolve, err := answer(b.Resolve(t.Context(), profile, ref))
		say("resolve "+ref, resolve, err)
		why, err := answer(b.Why(t.Context(), profile, ref))
		say("why "+ref, why, err)
	}
	for _, c := range cases {
		test, err := answer(b.TestCase(t.Context(), profile, c.ID))
		say("case "+c.ID, test, err)
	}
	return all
}

// different counts what a Build says otherwise than one of the visible documents alone.
func different(t *testing.T, b *Build, raw []string, cases []content.Case, profile string, texts []string) (n int, first string) {
	t.Helper()
	refs := []string{"nothing"}
	for i, e := range b.Manifest().Documents {
		if i%4 == 0 {
			refs = append(refs, e.Ref)
		}
	}
	other, again := alone(t, raw, cases, profile)
	got, want := answers(t, b, profile, texts, refs, cases), answers(t, other, profile, texts, refs, cases)
	for i := range got {
		if w := again.Replace(want[i]); got[i] != w {
			if n++; n == 1 {
				first = got[i] + "\nwant\n" + w
			}
		}
	}
	return n, first
}

// To a profile a Build says byte for byte what one of the documents says that it may see.
func TestHiddenDocumentsLeaveNoTrace(t *testing.T) {
	t.Parallel()
	folder, _ := readHandbook(t)
	var raw, texts []string
	for _, d := range folder.Documents {
		raw = append(raw, d.Raw)
	}
	for i := 0; i < len(tasks); i += 3 {
		texts = append(texts, tasks[i].task, queries[i].query)
	}
	b := openDocuments(t, raw, folder.Cases...)
	for _, profile := range []string{"support", "staff"} {
		if n, first := different(t, b, raw, folder.Cases, profile, texts); n > 0 {
			t.Errorf("%s: %d answers of the handbook differ: %s", profile, n, first)
		}
	}
	const builds = 3
	blind := 0
	for seed := range uint64(builds) {
		r := rand.New(rand.NewPCG(seed, 41))
		raw, cases, texts := anyBuild(r)
		b := openDocuments(t, raw, cases...)
		for _, profile := range []string{"red", ""} {
			if n, first := different(t, b, raw, cases, profile, texts); n > 0 {
				t.Errorf("seed %d, %q: %d answers differ: %s", seed, profile, n, first)
			}
		}
		// The control: with the number and the length of all documents it shows.
		v, all := b.view("red"), 0
		for _, n := range b.lengths {
			all += n
		}
		v.documents, v.length = len(b.docs), float64(all)/float64(len(b.docs))
		n, _ := different(t, b, raw, cases, "red", texts)
		blind += n
	}
	if blind == 0 {
		t.Error("statistics of all documents are not noticed")
	}
}

// anyBuild is some documents, of which many are for one profile or for two, and questions.
func anyBuild(r *rand.Rand) (raw []string, cases []content.Case, texts []string) {
	text := func(n int) string {
		var b strings.Builder
		for range n {
			w := r.IntN(200) * r.IntN(200) / 200 // the first are frequent
			fmt.Fprintf(&b, "w%dx ", w)
		}
		return b.String()
	}
	ref := func(i int) string { return fmt.Sprintf("d%03d", i) }
	n := 110 + r.IntN(50)
	for i := range n {
		matter := []string{}
		if i > 0 && r.IntN(2) == 0 {
			matter = append(matter, "profiles: "+[]string{"[red]", "[green]", "[red, green]", "[blue]"}[r.IntN(4)])
		}
		if i > 0 && r.IntN(8) == 0 {
			matter = append(matter, fmt.Sprintf("supersedes: [%s]", ref(r.IntN(i))))
		}
		if i > 0 && r.IntN(4) == 0 {
			matter = append(matter, fmt.Sprintf("conflicts: [%s]", ref(r.IntN(i))))
		}
		raw = append(raw, document(ref(i), text(3), text(5+r.IntN(30)), matter...))
	}
	for i := range 10 {
		cases = append(cases, content.Case{ID: fmt.Sprintf("c%d", i), Task: text(4), ExpectRefs: []string{ref(r.IntN(n))}})
	}
	for range 5 {
		texts = append(texts, text(1+r.IntN(3)), text(4+r.IntN(8)))
	}
	return raw, cases, append(texts, text(200), text(400))
}

// A client must not learn whether a word stands in a document that is not for it. Of
// these 68 words the 64 rarest are searched, so one more rare word would push out one
// that finds something.
func TestNoOracleOfHiddenWords(t *testing.T) {
	t.Parallel()
	var docs []string
	task := "alpha beta gamma delta "
	for i := range 63 {
		docs = append(docs, document(fmt.Sprintf("f%02d", i), "Filler", fmt.Sprintf("fill%d", i)))
		task += fmt.Sprintf("fill%d ", i)
	}
	for i := range 3 {
		docs = append(docs, document(fmt.Sprintf("t%d", i), "Target", "alpha beta gamma delta"))
	}
	docs = append(docs, document("hidden", "Board", "The purchase of Zyntrax.", "profiles: [board]"))
	b := openDocuments(t, docs)
	ask := func(profile, word string) string {
		return string(canon.MustMarshal(compass(t, b, profile, task+word))) + string(canon.MustMarshal(find(t, b, profile, task+word, MaxLimit)))
	}
	if ask("support", "zyntrax") != ask("support", "zyntrex") {
		t.Error("the answer tells that the word is there")
	}
	if ask("board", "zyntrax") == ask("board", "zyntrex") { // the control
		t.Error("the question is not one by which the word shows")
	}
}
