package tools

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxWord bounds a folded word in bytes; what is longer is cut there.
const maxWord = 64

// maxStems bounds what a stemmer remembers.
const maxStems = 1 << 16

// stemmer finds the words of texts and remembers their stems. It is not safe for
// concurrent use.
type stemmer struct {
	stems map[string]string // "" for a stop word
	low   []byte
	folds cases.Caser
}

func newStemmer() *stemmer { return &stemmer{stems: map[string]string{}, folds: cases.Fold()} }

// each calls f for every word of text that is no stop word, with where it stands
// and its stem, until f returns false.
func (s *stemmer) each(text string, f func(start, end int, stem string) bool) {
	for at := 0; at < len(text); {
		start, ascii := at, true
		s.low = s.low[:0]
	word:
		for at < len(text) {
			c := text[at]
			switch {
			case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
				s.low = append(s.low, c)
				at++
			case 'A' <= c && c <= 'Z':
				s.low = append(s.low, c+'a'-'A')
				at++
			case c < utf8.RuneSelf:
				break word
			default:
				r, size := utf8.DecodeRuneInString(text[at:])
				if !unicode.In(r, unicode.L, unicode.Nd, unicode.M) {
					break word
				}
				ascii = false
				at += size
			}
		}
		if at == start {
			_, size := utf8.DecodeRuneInString(text[at:])
			at += size
			continue
		}
		var stem string
		if ascii {
			stem = s.stem(s.low)
		} else {
			stem = s.stem([]byte(s.fold(text[start:at])))
		}
		if stem != "" && !f(start, at, stem) {
			return
		}
	}
}

// stem returns the stem of a folded word, "" for one that does not count.
func (s *stemmer) stem(folded []byte) string {
	for len(folded) > maxWord {
		_, size := utf8.DecodeLastRune(folded)
		folded = folded[:len(folded)-size]
	}
	if stem, known := s.stems[string(folded)]; known {
		return stem
	}
	word := string(folded)
	stem := word
	switch {
	case stopwords[word]:
		stem = ""
	case !strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }):
		stem = english.Stem(word, true)
	}
	if len(s.stems) >= maxStems {
		clear(s.stems)
	}
	s.stems[word] = stem
	return stem
}

// fold makes one spelling of many.
func (s *stemmer) fold(word string) string {
	return s.folds.String(strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.L, unicode.Nd) {
			return r
		}
		return -1
	}, norm.NFKD.String(word)))
}

// word is one content word of a task or a query.
type word struct {
	stem  string
	shown string // as it stands there first, in lower case
}

// content returns the content words of text in the order in which they come.
func (s *stemmer) content(text string) []word {
	var words []word
	seen := map[string]bool{}
	s.each(text, func(start, end int, stem string) bool {
		if !seen[stem] {
			seen[stem] = true
			words = append(words, word{stem, strings.ToLower(text[start:end])})
		}
		return true
	})
	return words
}

// stems is the distinct stems of one document in order, with a line break between.
type stems string
