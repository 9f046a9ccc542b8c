package tools

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want []string
	}{
		{"Refunds, refunded and refunding", []string{"refund", "refund", "refund"}},
		{"the customer's policies don't expire", []string{"custom", "polici", "expir"}},
		{"Café cafe\u0301 CAFE", []string{"cafe", "cafe", "cafe"}},
		{"HTTP/2 429: v1.2", []string{"http", "2", "429", "v1", "2"}},
		{"STRASSE ΣΊΣΥΦΟΣ МОСКВА", []string{"strass", "σισυφοσ", "москва"}},
		{"ﬁnd ＡＢＣ", []string{"find", "abc"}},
		{"Straße Σίσυφος Москва 中文", []string{"strass", "σισυφοσ", "москва", "中文"}},
		{"İstanbul", []string{"istanbul"}},
		{"mail@example.com", []string{"mail", "exampl", "com"}},
		{"😀 — … ½", nil},
		{"it is not what we should have", nil},
		{strings.Repeat("ü", 100), []string{strings.Repeat("u", 64)}},
		{strings.Repeat("中", 100), []string{strings.Repeat("中", 21)}},
	} {
		var got []string
		newStemmer().each(c.text, func(start, end int, stem string) bool {
			if !utf8.ValidString(c.text[start:end]) {
				t.Errorf("%q: cut inside a character", c.text)
			}
			got = append(got, stem)
			return true
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// A stem goes into the index and into a query as it is, so it must be one token of
// the tokenizer and have no quote in it.
func TestStemsAreTokens(t *testing.T) {
	t.Parallel()
	s := newStemmer()
	for r := rune(1); r <= utf8.MaxRune; r++ {
		if !unicode.In(r, unicode.L, unicode.Nd, unicode.M) || unicode.In(r, unicode.Han, unicode.Hangul) && r%64 != 0 {
			continue // each of those two scripts is folded in one way
		}
		for _, text := range []string{string(r), "a" + string(r) + "b"} {
			s.each(text, func(_, _ int, stem string) bool {
				for i := range len(stem) {
					c := stem[i]
					if c < utf8.RuneSelf && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
						t.Errorf("%U: %q", r, stem)
					}
				}
				return true
			})
		}
		clear(s.stems)
	}
}

func TestSnippet(t *testing.T) {
	t.Parallel()
	s := newStemmer()
	filler := strings.Repeat("wall of words ", 30)
	for _, c := range []struct{ text, query, want string }{
		{"\n\nThe opal\n  is   blue.\n", "opal", "The opal is blue."},
		{"Nothing of it.", "opal", "Nothing of it."},
		{filler + "then opals end it.", "opal", "… wall of words wall of words wall of words wall of words wall of words then opals end it."},
	} {
		if got := s.snippet(c.text, s.content(c.query)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	for _, text := range []string{filler + "opal " + filler, strings.Repeat("é", 500) + " opal " + strings.Repeat("é", 500), strings.Repeat("opal", 500)} {
		got := s.snippet(text, s.content("opal"))
		if body := strings.Trim(got, "… "); len(body) > MaxSnippet || !utf8.ValidString(got) || body == "" {
			t.Errorf("%d bytes: %q", len(body), got)
		}
	}
}
