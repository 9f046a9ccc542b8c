package content

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const whole = `---
id: refunds/gift-cards
title: "Refund: a gift card"
tags: [refund, "2024"]
profiles:
  - support
  - finance
author: Payments team
source: https://wiki.example.com/refunds
supersedes: [refunds/old]
conflicts: [refunds/other]
---
# The text

---
goes on.
`

func TestParseDocument(t *testing.T) {
	t.Parallel()
	d, faults := ParseDocument([]byte(whole))
	if len(faults) > 0 {
		t.Fatal(Error(faults))
	}
	want := &Document{
		Ref: "refunds/gift-cards", Title: "Refund: a gift card", Tags: []string{"refund", "2024"}, Profiles: []string{"support", "finance"},
		Author: "Payments team", Source: "https://wiki.example.com/refunds", Supersedes: []string{"refunds/old"}, Conflicts: []string{"refunds/other"},
		Text: "# The text\n\n---\ngoes on.\n", Raw: whole, Bytes: len(whole),
		SHA256: "8ac047f885308e9fef1786c6e3efa7e6e5768b03dcb62ff647c0c6c8aa09b541", // sha256sum of the text above
		lines:  map[string]int{"id": 2, "supersedes refunds/old": 10, "conflicts refunds/other": 11},
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("%+v\nwant\n%+v", d, want)
	}
	if !d.VisibleTo("finance") || d.VisibleTo("sales") || d.VisibleTo("") {
		t.Error("it is for support and finance alone")
	}
	if d.Profiles = nil; !d.VisibleTo("sales") || !d.VisibleTo("") {
		t.Error("without profiles it is for everyone")
	}
}

// Line ends of Windows are part of the bytes and mean the same.
func TestParseDocumentOfWindows(t *testing.T) {
	t.Parallel()
	d, faults := ParseDocument([]byte(strings.ReplaceAll(whole, "\n", "\r\n")))
	if len(faults) > 0 || d.Title != "Refund: a gift card" || d.Text != "# The text\r\n\r\n---\r\ngoes on.\r\n" || len(d.Profiles) != 2 {
		t.Errorf("%+v %v", d, faults)
	}
}

func TestDocumentFaults(t *testing.T) {
	t.Parallel()
	names := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("n%d", i)
		}
		return strings.Join(list, ", ")
	}
	matter := func(lines string) string { return "---\nid: a\ntitle: A\n" + lines + "\n---\nText.\n" }
	for _, c := range []struct{ raw, want string }{
		{"", "the file is empty"},
		{strings.Repeat("a", MaxDocument+1), "more than 262144 bytes"},
		{"\ufeff" + whole, "1: it begins with a byte order mark"},
		{"---\nid: a\ntitle: \xff\n---\nText.\n", "3: it is not UTF-8"},
		{"---\nid: a\ntitle: A\n---\nText.\n\x00", "6: it holds the character U+0000"},
		{"# Title\n", "1: the first line is not ---"},
		{"---\nid: a\n", "1: the front matter does not end"},
		{"---\n---\nText.\n", "1: the front matter is empty"},
		{"---\n# nothing\n---\nText.\n", "1: the front matter is empty"},
		{"---\nid: a\ntitle: A\n---\n \n\n", "5: there is no text"},
		{"---\nid: a\n---\nText.\n", "1: there is no title"},
		{"---\ntitle: A\n---\nText.\n", "1: there is no id"},
		{"---\n- id\n- title\n---\nText.\n", "2: the front matter is not a list of keys and values"},
		{"---\n!!map {id: a, title: A}\n---\nText.\n", ""},
		{"---\n!own {id: a, title: A}\n---\nText.\n", "2: the front matter is not a list of keys and values"},
		{"---\nid: [\n---\nText.\n", "the front matter is not YAML"},
		{"---\nid: a\ntitle: b: c\n---\nText.\n", "3: the front matter is not YAML"},
		{"---\nid: a\ntitle: A\n--- {id: b}\n---\nText.\n", "more than one YAML document"},
		{"---\n" + strings.Repeat("# comment\n", 2_000) + "id: a\ntitle: A\n---\nText.\n", "1: the front matter has 20015 bytes"},
		{matter("titel: B"), `4: unknown key "titel"`},
		{matter("Author: B"), `4: unknown key "Author"`},
		{matter("1: B"), `4: unknown key "1"`},
		{matter("? [a]\n: B"), `4: unknown key ""`},
		{matter("title: B"), "4: the key title stands twice"},
		{matter("author: 2024"), "4: author is not plain text"},
		{matter("author: true"), "4: author is not plain text"},
		{matter("author: null"), "4: author is not plain text"},
		{matter("author:"), "4: author is not plain text"},
		{matter("author: 2024-01-01"), "4: author is not plain text"},
		{matter("author: [B]"), "4: author is not plain text"},
		{matter("author: {name: B}"), "4: author is not plain text"},
		{matter("author: !!str 5"), "4: author is not plain text"},
		{matter("author: !own B"), "4: author is not plain text"},
		{matter("author: &b B"), "4: author is not plain text"},
		{matter("author: &b B\nsource: *b"), "5: source is not plain text"},
		{matter("<<: {author: B}"), `4: unknown key "<<"`},
		{matter(`author: ""`), "4: author is empty"},
		{matter(`author: "a\nb"`), "4: author holds a line break"},
		{matter(`author: "a\u0007"`), "4: author holds a line break or a character that does not print"},
		{matter("author: a\u202eb"), "4: author holds a line break or a character that does not print"},
		{matter("source: \u2066a\u2069"), "4: source holds a line break or a character that does not print"},
		{matter("tags: [a, b\u200bc]"), "4: an entry of tags holds a line break or a character that does not print"},
		{"---\nid: a\ntitle: A\ufeff\n---\nText.\n", "3: title holds a line break or a character that does not print"},
		{"---\nid: a\ntitle: \"A\\u009b\"\n---\nText.\n", "3: title holds a line break or a character that does not print"},
		{matter("author: |\n  a\n  b"), "4: author holds a line break"},
		{matter("author: " + strings.Repeat("é", MaxTitle+1)), "4: author has more than 200 characters"},
		{matter("source: " + strings.Repeat("a", MaxSource+1)), "4: source has more than 500 characters"},
		{matter("tags: refund"), "4: tags is not a list"},
		{matter("tags: {a: b}"), "4: tags is not a list"},
		{matter("tags: &t [a]"), "4: tags is not a list"},
		{matter("tags: !own [a]"), "4: tags is not a list"},
		{matter("tags: [a, [b]]"), "4: an entry of tags is not plain text"},
		{matter("tags:\n  - a\n  - 5"), "6: an entry of tags is not plain text"},
		{matter("tags: [a, a]"), `4: "a" stands twice in tags`},
		{matter("tags: [" + strings.Repeat("a", MaxTag+1) + "]"), "4: an entry of tags has more than 50 characters"},
		{matter("tags: [" + names(MaxTags+1) + "]"), "4: tags has 21 entries"},
		{matter("profiles: []"), "4: profiles is empty"},
		{matter("profiles: [Support]"), `4: "Support" of profiles has a character that is not allowed`},
		{matter("profiles: [" + strings.Repeat("a", 41) + "]"), "4: an entry of profiles has more than 40 characters"},
		{matter("supersedes: [a b]"), `4: "a b" of supersedes has a character that is not allowed`},
		{matter("conflicts: [" + names(MaxNames+1) + "]"), "4: conflicts has 51 entries"},
		{"---\nid: a b\ntitle: A\n---\nText.\n", "2: the id is not of"},
		{"---\nid: /a\ntitle: A\n---\nText.\n", "2: the id is not of"},
		{"---\nid: " + strings.Repeat("a", MaxRef+1) + "\ntitle: A\n---\nText.\n", "2: id has more than 200 characters"},
		{"---\nid: 7\ntitle: A\n---\nText.\n", "2: id is not plain text"},
		{matter("titel: B\nauthor: 5\ntags: a"), "4: unknown key \"titel\""},
		{matter("tags: []\nsupersedes: []"), ""},
		{matter("author: Ωmega Ünïon 😀"), ""},
		{"---\nid: " + strings.Repeat("a", MaxRef) + "\ntitle: A\n---\nText.\n", ""},
		{"---\nid: a\ntitle: A\n---", "5: there is no text"},
		{"---   \nid: a\ntitle: A\n---\t\nText.", ""},
	} {
		d, faults := ParseDocument([]byte(c.raw))
		if (d == nil) != (len(faults) > 0) {
			t.Errorf("%.60q: a document and faults: %v", c.raw, faults)
		}
		report := fmt.Sprint(Error(in("", faults)))
		lines := make([]string, len(faults))
		for i, f := range faults {
			lines[i] = strings.TrimPrefix(Fault{File: "x", Line: f.Line, Text: f.Text}.String(), "x:")
			if !strings.Contains(f.Text, ";") { // what to do stands behind it
				t.Errorf("%.60q: %q does not say what to do", c.raw, f.Text)
			}
		}
		switch {
		case c.want == "" && len(faults) > 0:
			t.Errorf("%.60q: %s", c.raw, report)
		case c.want != "" && !slices.ContainsFunc(lines, func(l string) bool {
			return strings.HasPrefix(strings.TrimSpace(l), c.want) || strings.Contains(l, c.want)
		}):
			t.Errorf("%.60q: %q, want %q", c.raw, lines, c.want)
		}
	}
	// All that can be seen is told at once.
	if _, faults := ParseDocument([]byte(matter("titel: B\nauthor: 5\ntags: a"))); len(faults) != 3 {
		t.Errorf("%v", faults)
	}
}

func TestRefsAndProfiles(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"a": true, "A9._:/-": true, strings.Repeat("a", 200): true, strings.Repeat("a", 201): false,
		"": false, "-a": false, ".a": false, "a b": false, "é": false, "a\n": false, "a\x00": false, "a?b": false,
	} {
		if IsRef(s) != want {
			t.Errorf("IsRef(%q) = %v", s, !want)
		}
	}
	for s, want := range map[string]bool{
		"support": true, "a-1": true, "-": true, strings.Repeat("a", 40): true, strings.Repeat("a", 41): false, "": false, "Support": false, "a_b": false, "a\n": false,
	} {
		if IsProfile(s) != want {
			t.Errorf("IsProfile(%q) = %v", s, !want)
		}
	}
}

// FuzzParseDocument: what parses is made of its bytes and keeps every bound; what
// does not parse has a fault.
func FuzzParseDocument(f *testing.F) {
	for _, raw := range []string{whole, "", "---\n---\n", "---\nid: a\ntitle: A\n---\nText.\n", "---\nid: &a [*a]\n---\nx", "---\n? {a: b}\n: c\n---\nx", "---\n!!binary x\n---\ny", "---\nid: a\ntitle: \"\\u0000\"\n---\nx"} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, faults := ParseDocument(raw)
		if d == nil {
			if len(faults) == 0 {
				t.Fatal("no document and no fault")
			}
			for _, fault := range faults {
				if fault.Text == "" || fault.Line < 0 {
					t.Fatalf("%+v", fault)
				}
			}
			return
		}
		if len(faults) > 0 {
			t.Fatalf("a document with faults: %v", faults)
		}
		if d.Raw != string(raw) || d.Bytes != len(raw) || !strings.HasSuffix(d.Raw, d.Text) || strings.TrimSpace(d.Text) == "" {
			t.Fatalf("it is not of its bytes: %+v", d)
		}
		m := NewManifest([]*Document{d}, nil)
		encoded, digest, err := m.Encode()
		if err != nil {
			t.Fatalf("its manifest: %v", err)
		}
		again, err := DecodeManifest(encoded)
		if err != nil || !reflect.DeepEqual(again.Documents, m.Documents) || len(digest) != 64 {
			t.Fatalf("%+v, %v", again, err)
		}
		for _, profile := range d.Profiles {
			if !IsProfile(profile) {
				t.Fatalf("profile %q", profile)
			}
		}
		for _, ref := range slices.Concat(d.Supersedes, d.Conflicts) {
			if !IsRef(ref) {
				t.Fatalf("ref %q", ref)
			}
		}
	})
}
