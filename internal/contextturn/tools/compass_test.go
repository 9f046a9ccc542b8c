package tools

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/turn"
)

func compass(t testing.TB, b *Build, profile, task string) *CompassAnswer {
	t.Helper()
	a, err := b.Compass(t.Context(), profile, task)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func find(t testing.TB, b *Build, profile, query string, limit int64) *FindAnswer {
	t.Helper()
	a, err := b.Find(t.Context(), profile, query, limit)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The share decides between covered and partial at 0.8 exactly: five words make
// 4 of 5 covered and 3 of 5 partial.
func TestVerdictBySharedWords(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{
		document("four", "Amber", "basalt copper dolomite"),
		document("three", "Zircon", "yttrium xenon"),
	})
	for _, c := range []struct{ task, want string }{
		{"amber basalt copper dolomite emerald", turn.Covered},
		{"zircon yttrium xenon emerald feldspar", turn.Partial},
		{"amber basalt copper emerald", turn.Partial},
		{"the ambers and the basalts", turn.Covered}, // stems, without stop words
		{"emerald feldspar", turn.Gap},
		{"and the of", turn.Gap},
		{"", turn.Gap},
	} {
		a := compass(t, b, "", c.task)
		if a.Verdict != c.want {
			t.Errorf("%q is %s, want %s", c.task, a.Verdict, c.want)
		}
		if (a.Verdict == turn.Gap) != (len(a.Items) == 0) || (a.Text == "") != (len(a.Items) == 0) || a.Items == nil {
			t.Errorf("%q: %+v", c.task, a)
		}
	}
}

func TestConflictIsForBothSides(t *testing.T) {
	t.Parallel()
	docs := []string{
		document("a", "Granite wall", "It is grey."),
		document("b", "Granite floor", "It is red.", "conflicts: [a]"),
		document("c", "Granite roof", "It is black."),
	}
	b := openDocuments(t, docs)
	if a := compass(t, b, "", "granite"); a.Verdict != turn.Conflict {
		t.Errorf("one side that names it: %s", a.Verdict)
	}
	// Named, but not handed out: no conflict.
	if a := compass(t, b, "", "granite floor red"); a.Verdict != turn.Covered || !slices.Equal(refsOf(a), []string{"b"}) {
		t.Errorf("the other side is not there: %s %v", a.Verdict, refsOf(a))
	}
	docs[0] = document("a", "Granite wall", "It is grey.", "profiles: [mason]")
	b = openDocuments(t, docs)
	if a := compass(t, b, "", "granite"); a.Verdict != turn.Covered {
		t.Errorf("the other side is for another profile: %s", a.Verdict)
	}
	if a := compass(t, b, "mason", "granite"); a.Verdict != turn.Conflict {
		t.Errorf("the mason sees both: %s", a.Verdict)
	}
}

// In 200 documents a word of eleven is not rare (one in twenty is ten), a word of
// ten is.
func TestFloor(t *testing.T) {
	t.Parallel()
	docs := make([]string, 200)
	for i := range docs {
		text := fmt.Sprintf("filler%d", i)
		if i < 11 {
			text += " eleven"
		}
		if i < 10 {
			text += " ten"
		}
		docs[i] = document(fmt.Sprintf("d%03d", i), "Page", text)
	}
	b := openDocuments(t, docs)
	for _, c := range []struct {
		task string
		want int
	}{
		{"eleven", 5},                                         // all of the task, although not rare
		{"eleven missing", 0},                                 // half, not rare
		{"ten missing", 5},                                    // half, rare
		{"ten missing absent gone", 5},                        // a quarter, rare
		{"ten missing absent gone away", 0},                   // less than a quarter
		{"eleven ten missing absent gone", 5},                 // two of five, one rare
		{"eleven page missing absent gone", 0},                // two of five, none rare
		{"eleven page missing", 5},                            // two of three: more than half
		{"page filler150 absent gone lost", 1},                // rare beside common
		{"ten eleven page filler3 " + words("absent", 60), 1}, // four are enough of any number
		{"ten eleven page " + words("absent", 60), 0},
	} {
		if a := compass(t, b, "", c.task); len(a.Items) != c.want {
			t.Errorf("%q: %v, want %d", c.task, refsOf(a), c.want)
		}
	}
}

func words(word string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d ", word, i)
	}
	return b.String()
}

// What follows the first has at least half as many of the words.
func TestFollowersHaveHalfOfTheFirst(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{
		document("all", "Amber basalt copper dolomite", "Stones."),
		document("half", "Amber basalt", "Other stones."),
		document("one", "Amber", "A stone."),
	})
	if a := compass(t, b, "", "amber basalt copper dolomite"); !slices.Equal(refsOf(a), []string{"all", "half"}) {
		t.Errorf("%v", refsOf(a))
	}
	if a := compass(t, b, "", "amber"); len(a.Items) != 3 {
		t.Errorf("%v", refsOf(a))
	}
}

func TestSupersededIsLeftOutForThoseWhoSeeTheNewer(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{
		document("new", "Granite", "Since spring.", "profiles: [mason]", "supersedes: [old]"),
		document("old", "Granite granite granite", "Until winter granite."),
		document("other", "Marble and granite, marble and marble", "Different."),
	})
	if got := refsOf(compass(t, b, "mason", "granite")); !slices.Equal(got, []string{"new", "other"}) {
		t.Errorf("mason: compass %v", got)
	}
	if got := refsOf(find(t, b, "mason", "granite", 10)); !slices.Equal(got, []string{"new", "other", "old"}) {
		t.Errorf("mason: find %v", got)
	}
	if got := refsOf(find(t, b, "mason", "granite", 2)); !slices.Equal(got, []string{"new", "other"}) {
		t.Errorf("mason: find 2 %v", got)
	}
	if got := refsOf(compass(t, b, "clerk", "granite")); !slices.Equal(got, []string{"old", "other"}) {
		t.Errorf("clerk: compass %v", got)
	}
	old, err := b.Why(t.Context(), "mason", "old")
	if err != nil || !slices.Equal(old.Provenance.SupersededBy, []string{"new"}) {
		t.Errorf("why: %+v, %v", old, err)
	}
	if old, err = b.Why(t.Context(), "clerk", "old"); err != nil || len(old.Provenance.SupersededBy) > 0 {
		t.Errorf("a ref that the profile may not see is shown: %+v, %v", old, err)
	}
	if r, err := b.Resolve(t.Context(), "mason", "old"); err != nil || r.Item.Ref != "old" {
		t.Errorf("resolve: %+v, %v", r, err)
	}
}

// What a profile may not see answers like what is not there, in every tool.
func TestProfileIsABoundary(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{
		document("open", "Opal", "For everyone."),
		document("secret", "Sapphire", "For few.", "profiles: [jeweller]", "conflicts: [open]"),
	}, content.Case{ID: "c", Task: "sapphire", ExpectRefs: []string{"secret"}})
	for _, profile := range []string{"clerk", ""} {
		if a := compass(t, b, profile, "sapphire"); a.Verdict != turn.Gap || len(a.Items) > 0 {
			t.Errorf("%q: compass %+v", profile, a)
		}
		if a := find(t, b, profile, "sapphire", 10); len(a.Items) > 0 {
			t.Errorf("%q: find %+v", profile, a)
		}
		for _, ref := range []string{"secret", "nothing", ""} {
			if a, err := b.Resolve(t.Context(), profile, ref); a != nil || !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: resolve %s: %v", profile, ref, err)
			}
			if a, err := b.Why(t.Context(), profile, ref); a != nil || !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: why %s: %v", profile, ref, err)
			}
		}
		if a, err := b.Resolve(t.Context(), profile, "open"); err != nil || len(a.Item.Conflicts) > 0 {
			t.Errorf("%q: resolve %+v, %v", profile, a, err)
		}
		for _, id := range []string{"c", "nothing"} {
			if a, err := b.TestCase(t.Context(), profile, id); a != nil || !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: case %s: %+v, %v", profile, id, a, err)
			}
		}
		for _, ref := range []string{"secret", "nothing"} {
			if a, err := b.Test(t.Context(), profile, "sapphire", []string{ref}); err != nil || a.Passed || !slices.Equal(a.Missing, []string{ref}) {
				t.Errorf("%q: test %s: %+v, %v", profile, ref, a, err)
			}
		}
	}
	// The control: whom it is for gets it everywhere.
	if a := compass(t, b, "jeweller", "sapphire"); a.Verdict != turn.Covered {
		t.Errorf("compass %+v", a)
	}
	if a, err := b.Resolve(t.Context(), "jeweller", "open"); err != nil || !slices.Equal(a.Item.Conflicts, []string{"secret"}) {
		t.Errorf("resolve %+v, %v", a, err)
	}
	if a, err := b.TestCase(t.Context(), "jeweller", "c"); err != nil || !a.Passed || a.Found != 1 {
		t.Errorf("test %+v, %v", a, err)
	}
}

func TestTextIsBoundedAndSaysWhenItIsCut(t *testing.T) {
	t.Parallel()
	long := func(id, word string, size int) string {
		return document(id, "Page", word+" "+strings.Repeat("é ", (size-len(word))/3)+"laststone")
	}
	b := openDocuments(t, []string{
		long("a", "jasper", 200_000), long("b", "jasper jasper", 40_000), long("c", "jasper", 30_000), document("d", "Page", "jasper"),
	})
	a := compass(t, b, "", "jasper")
	if refs := refsOf(a); !slices.Contains(refs, "d") || !slices.Contains(refs, "b") || slices.Contains(refs, "c") || slices.Contains(refs, "a") {
		t.Errorf("whole documents that fit: %v", refs)
	}
	if len(a.Text) > MaxText || strings.Contains(a.Text, "[Cut here") || strings.Count(a.Text, "laststone") != 1 {
		t.Errorf("%d bytes, cut: %v", len(a.Text), strings.Contains(a.Text, "[Cut here"))
	}
	b = openDocuments(t, []string{long("a", "jasper", 200_000)})
	a = compass(t, b, "", "jasper laststone")
	switch {
	case len(a.Items) != 1 || len(a.Text) > MaxText || len(a.Text) < MaxText-4:
		t.Errorf("%d items, %d bytes", len(a.Items), len(a.Text))
	case !utf8.ValidString(a.Text):
		t.Error("cut inside a character")
	case !strings.HasPrefix(a.Text, "# Page\n[a]\n\njasper é") || !strings.HasSuffix(a.Text, "Resolve a for the whole.]\n\n"):
		t.Errorf("%.30q … %q", a.Text, a.Text[len(a.Text)-90:])
	case a.Verdict != turn.Partial: // the last word was cut off, so it is not handed out
		t.Errorf("verdict %s", a.Verdict)
	}
	whole, err := b.Resolve(t.Context(), "", "a")
	if err != nil || len(whole.Item.Text) < 199_000 || !strings.HasSuffix(whole.Item.Text, "laststone\n") {
		t.Errorf("resolve cuts: %d bytes, %v", len(whole.Item.Text), err)
	}
}

func TestReasonSaysWhichWords(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{document("a", "Refunds", "Paid by cards.")})
	a := compass(t, b, "", "How is a refund of a Card paid in Rome?")
	if want := "It has 3 of the task's 4 words: refund, card, paid."; a.Items[0].Reason != want {
		t.Errorf("%q, want %q", a.Items[0].Reason, want)
	}
	if a = compass(t, b, "", "refund"); a.Items[0].Reason != "It has the task's one word: refund." {
		t.Errorf("%q", a.Items[0].Reason)
	}
	if f := find(t, b, "", "card rome", 1); f.Items[0].Reason != "It has 1 of the query's 2 words: card." {
		t.Errorf("%q", f.Items[0].Reason)
	}
}

// Nothing that is typed reaches the index as syntax, and nothing makes it fail.
func TestHostileQueries(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{
		document("a", "Opal", "near title rank and or not match"), document("b", "Topaz", "null select drop table words"),
	})
	for _, q := range []string{
		`"`, `""`, `'`, `opal"`, `"opal`, `opal" OR "topaz`, `opal AND topaz`, `opal NOT topaz`, `NEAR(opal topaz, 2)`,
		`title:opal`, `{title text}: opal`, `^opal`, `opal*`, `-opal`, `+opal`, `(opal`, `opal)`, `opal + topaz`,
		`'; DROP TABLE words; --`, `words MATCH 'x'`, `rank MATCH 'bm25(0)'`, `\`, "\x00", "\xff\xfe", "%", "_", "?1", "$a", ":a", "@a",
		"😀", "👩‍👩‍👧", "\u202eopal", "e\u0301", "ﬁ", "İ", "ẞ", "Ⅷ ½ ²", "中文", "한국어", "हिन्दी", "ا", "\u0300\u0301",
		strings.Repeat("a", 4_000), strings.Repeat("é", 4_000), strings.Repeat("a ", 2_000), strings.Repeat(`"`, 4_000), strings.Repeat("(", 4_000),
		words("opal", 500), "the and of", "' ' '", "\t\r\n",
	} {
		for _, text := range []string{q, "opal " + q} {
			want := text != q || strings.Contains(strings.ToLower(text), "opal") && !strings.Contains(text, "opal0")
			if text == "\u202eopal" {
				want = true
			}
			a := compass(t, b, "", text)
			f := find(t, b, "", text, MaxLimit)
			if got := slices.Contains(refsOf(f), "a"); want && !got {
				t.Errorf("%.40q: find has no opal", text)
			}
			if len(a.Items) > MaxItems || !utf8.ValidString(a.Text) {
				t.Errorf("%.40q: %+v", text, a)
			}
		}
	}
	// As syntax this would leave out the first.
	if got := refsOf(find(t, b, "", "opal NOT opal", 5)); !slices.Contains(got, "a") {
		t.Errorf("NOT is an operator: %v", got)
	}
	if got := refsOf(find(t, b, "", "title:topaz", 5)); !slices.Contains(got, "a") { // it has the word title
		t.Errorf("a colon is an operator: %v", got)
	}
}

func TestRequestsThatABuildDoesNotTake(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{document("a", "Opal", "A stone.")}, content.Case{ID: "c", Task: "opal", ExpectRefs: []string{"a"}})
	text, zero, many, two := "opal", int64(0), int64(21), int64(2)
	a, c := "a", "c"
	for i, r := range []Request{
		{}, {Tool: turn.Compass}, {Tool: turn.Find}, {Tool: turn.Resolve}, {Tool: turn.Why}, {Tool: turn.Test}, {Tool: turn.Doctor}, {Tool: turn.ReportGap, Task: &text}, {Tool: "other", Task: &text},
		{Tool: turn.Why, InteractionID: &text}, {Tool: turn.Find, Query: &text, Limit: &zero}, {Tool: turn.Find, Query: &text, Limit: &many}, {Tool: turn.Test, Task: &text},
		{Tool: turn.Test, Task: &text, ExpectRefs: make([]string, 21)},
	} {
		if answer, err := b.Answer(t.Context(), "", r); answer != nil || !errors.Is(err, ErrRequest) {
			t.Errorf("%d: %v, %v", i, answer, err)
		}
	}
	for i, r := range []Request{
		{Tool: turn.Compass, Task: &text}, {Tool: turn.Find, Query: &text}, {Tool: turn.Find, Query: &text, Limit: &two}, {Tool: turn.Resolve, Ref: &a}, {Tool: turn.Why, Ref: &a},
	} {
		answer, err := b.Answer(t.Context(), "", r)
		if err != nil || len(answer.Handed()) != 1 || answer.Handed()[0].Ref != "a" || len(answer.Handed()[0].SHA256) != 64 || answer.Handed()[0].Reason == "" {
			t.Errorf("%d: %+v, %v", i, answer, err)
		}
	}
	for i, r := range []Request{{Tool: turn.Test, CaseID: &c}, {Tool: turn.Test, Task: &text, ExpectRefs: []string{"a"}}} {
		answer, err := b.Answer(t.Context(), "", r)
		if err != nil || len(answer.Handed()) != 0 || !answer.(*TestAnswer).Passed {
			t.Errorf("test %d: %+v, %v", i, answer, err)
		}
	}
	if answer, err := b.Answer(t.Context(), "", Request{Tool: turn.Test, CaseID: &a}); answer != nil || !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown case: %v, %v", answer, err)
	}
}

// Equal documents stand in the order of their refs, and a limit takes the first.
func TestEqualScoresStandByRef(t *testing.T) {
	t.Parallel()
	var docs, refs []string
	for i := range 80 {
		ref := fmt.Sprintf("d%02d", (i*37)%80)
		docs = append(docs, document(ref, "Granite", "A stone."))
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	b := openDocuments(t, docs)
	for _, limit := range []int64{1, 7, MaxLimit} {
		if got := refsOf(find(t, b, "", "granite", limit)); !slices.Equal(got, refs[:limit]) {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
	if got := refsOf(compass(t, b, "", "granite")); !slices.Equal(got, refs[:MaxItems]) {
		t.Errorf("compass: %v", got)
	}
}

// Of more than 64 words the rarest are searched, so that a long text has its price.
func TestOnlyTheRarestOfManyWordsAreSearched(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{
		document("many", "Page", words("rare", maxSearched)), document("one", "Page", "common"), document("two", "Page", "common"),
	})
	if got := refsOf(find(t, b, "", "common "+words("rare", maxSearched), 10)); !slices.Equal(got, []string{"many"}) {
		t.Errorf("65 words: %v", got)
	}
	if got := refsOf(find(t, b, "", "common "+words("rare", maxSearched-1), 10)); !slices.Equal(got, []string{"many", "one", "two"}) {
		t.Errorf("64 words: %v", got)
	}
}
