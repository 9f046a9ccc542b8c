package redact

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s without secrets, at most limit characters long.
func Text(s string, limit int) string {
	t := clean(s)
	out := writer{left: limit}
	at := 0
	for _, x := range union(t.find()) {
		if !out.plain(t.text[at:x.from]) || !out.marker("[redacted:"+x.kind+"]") {
			return out.String()
		}
		at = x.to
	}
	out.plain(t.text[at:])
	return out.String()
}

// Finds reports whether [Text] would take something out of s: for a value that is refused
// then, because it must stay as it is or not be kept at all.
func Finds(s string) bool { return len(clean(s).find()) > 0 }

// find finds the secrets, in no order; they may overlap.
func (t *cleaned) find() (found []span) {
	for _, finder := range []func([]span) []span{t.bearers, t.keys, t.jwts, t.pems, t.cards, t.emails} {
		found = finder(found)
	}
	return found
}

// cleaned is a text without the characters that do not show.
type cleaned struct {
	text string
	// edge says of each byte whether something was dropped before it. What was dropped
	// neither ends a secret nor joins a word to the secret behind it.
	edge []bool
	ends [sets][]int // of each byte: where the run of characters of the set ends that begins there
	far  [sets][]int // of each end of a run: where the pieces end that go on behind it
}

// hidden are the characters that do not show: control and format characters, line and
// paragraph separators, and what a font may leave out.
var hidden = []*unicode.RangeTable{
	unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
}

// tail are the bytes of a character behind its first.
var tail [utf8.UTFMax - 1]bool

func clean(s string) *cleaned {
	var b strings.Builder
	edge := make([]bool, 0, len(s))
	dropped := false
	for at := 0; at < len(s); {
		r, n := utf8.DecodeRuneInString(s[at:])
		if r == utf8.RuneError && n == 1 || unicode.In(r, hidden...) {
			dropped = true
		} else {
			r = ascii(r)
			b.WriteRune(r)
			edge = append(edge, dropped)
			edge, dropped = append(edge, tail[:utf8.RuneLen(r)-1]...), false
		}
		at += n
	}
	t := &cleaned{text: b.String(), edge: edge}
	for set := range t.ends {
		t.ends[set] = runs(t.text, set)
		t.far[set] = t.pieces(set)
	}
	return t
}

// ascii is the ASCII character of which r is the fullwidth or small form, or r.
func ascii(r rune) rune {
	const first, last, apart, smallAt = 0xff01, 0xff5e, 0xff01 - '!', 0xfe6b
	switch {
	case first <= r && r <= last:
		return r - apart
	case r == smallAt:
		return '@'
	}
	return r
}

// runs says of each byte where the run of characters of the set ends that begins there.
// It is made once, so that a text of nothing but beginnings is not read again for each.
func runs(text string, set int) []int {
	ends := make([]int, len(text)+1)
	ends[len(text)] = len(text)
	for i := len(text) - 1; i >= 0; i-- {
		ends[i] = i
		if members[text[i]]&(1<<set) != 0 {
			ends[i] = max(i+1, ends[i+1])
		}
	}
	return ends
}

// pieces says of each end of a run where the secret ends that was broken there: behind one
// space it goes on with a run that is no word of prose. It is made from the end on, for the
// same reason as [runs].
func (t *cleaned) pieces(set int) []int {
	far := make([]int, len(t.text)+1)
	for end := range slices.Backward(far) {
		far[end] = end
		r, n := utf8.DecodeRuneInString(t.text[end:])
		if next := end + n; unicode.Is(unicode.Zs, r) && jumbled(t.text[next:t.ends[set][next]]) {
			far[end] = far[t.ends[set][next]]
		}
	}
	return far
}

// jumbled reports whether ASCII text is a piece of a secret rather than a word: not short,
// and of letters and digits, or with a capital letter behind a small one.
func jumbled(s string) bool {
	const short = 6
	letter, digit, small, hump := false, false, false, false
	for _, c := range []byte(s) {
		lower, capital := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z'
		letter, digit = letter || lower || capital, digit || '0' <= c && c <= '9'
		small, hump = small || lower, hump || small && capital
	}
	return len(s) >= short && (letter && digit || hump)
}

// span is a secret: the bytes from one to the other.
type span struct {
	from, to int
	kind     string
}

// union joins spans that overlap, so that no piece of one shows beside the marker of the
// other. The kind is that of the one that begins first.
func union(spans []span) (joined []span) {
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, x := range spans {
		if n := len(joined); n > 0 && x.from < joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, x.to)
		} else {
			joined = append(joined, x)
		}
	}
	return joined
}

// writer is a text that may still grow by some characters.
type writer struct {
	strings.Builder
	left int
}

// plain writes as much of s as fits and reports whether that was all.
func (w *writer) plain(s string) bool {
	for i := range s {
		if w.left <= 0 {
			w.WriteString(s[:i])
			return false
		}
		w.left--
	}
	w.WriteString(s)
	return true
}

// marker writes s when all of it fits, and reports whether it did.
func (w *writer) marker(s string) bool {
	if w.left < len(s) {
		return false
	}
	w.left -= len(s)
	w.WriteString(s)
	return true
}
