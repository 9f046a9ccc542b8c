package tools

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

// FindAnswer is the documents that have words of a query.
type FindAnswer struct {
	Items []FindItem `json:"items"`
}

// FindItem is one document of a find.
type FindItem struct {
	Ref     string `json:"ref"`
	Title   string `json:"title"`
	Snippet string `json:"snippet"`
	SHA256  string `json:"-"`
	Reason  string `json:"-"`
}

// Handed is the documents of which the answer shows a part.
func (a *FindAnswer) Handed() []Handed {
	handed := make([]Handed, len(a.Items))
	for i, item := range a.Items {
		handed[i] = Handed{item.Ref, item.SHA256, item.Reason}
	}
	return handed
}

// Find ranks the documents that have at least one word of the query. Those that a
// visible one supersedes stand behind all others. limit is 1 to MaxLimit.
func (b *Build) Find(ctx context.Context, profile, query string, limit int64) (*FindAnswer, error) {
	if limit < 1 || limit > MaxLimit {
		return nil, fmt.Errorf("%w: a limit of %d", ErrRequest, limit)
	}
	var answer *FindAnswer
	err := b.during(ctx, func(ctx context.Context) (err error) {
		answer, err = b.find(ctx, profile, query, int(limit))
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (b *Build) find(ctx context.Context, profile, query string, limit int) (*FindAnswer, error) {
	s := newStemmer()
	words := s.content(query)
	answer := &FindAnswer{Items: []FindItem{}}
	if len(words) == 0 {
		return answer, nil
	}
	v := b.view(profile)
	current, old := make(best, 0, limit), make(best, 0, limit)
	_, err := b.search(ctx, v, words, func(h hit) {
		if v.superseded[h.place] {
			old.add(h)
		} else {
			current.add(h)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, h := range append(current, old...)[:min(limit, len(current)+len(old))] {
		d := b.docs[h.place]
		has, err := b.stemsAt(ctx, h.place)
		if err != nil {
			return nil, err
		}
		text, err := b.textAt(ctx, h.place)
		if err != nil {
			return nil, err
		}
		answer.Items = append(answer.Items, FindItem{d.Ref, d.Title, s.snippet(text, words), d.SHA256, reason("query", words, common(words, has))})
	}
	return answer, nil
}

// Where a snippet is looked for and how it begins, in bytes.
const (
	snippetSearched = 64 << 10
	snippetBefore   = 80
)

// snippet is the part of text around the first of the words, on one line.
func (s *stemmer) snippet(text string, words []word) string {
	text = strings.TrimSpace(text)
	wanted := map[string]bool{}
	for _, w := range words {
		wanted[w.stem] = true
	}
	first := 0
	s.each(head(text, snippetSearched), func(start, _ int, stem string) bool {
		if wanted[stem] {
			first = start
		}
		return !wanted[stem]
	})
	before, after := "", ""
	if begin := first - snippetBefore; begin > 0 {
		if space := strings.IndexAny(text[begin:first], " \n"); space >= 0 {
			first = begin + space + 1
		}
		before = "… "
	} else {
		first = 0
	}
	part := text[first:]
	if len(part) > MaxSnippet {
		part, after = head(part, MaxSnippet), " …"
		if space := strings.LastIndexAny(part, " \n"); space > 0 {
			part = part[:space]
		}
	}
	return before + strings.Join(strings.Fields(part), " ") + after
}

// head is the first n bytes of text, less what would be a broken character.
func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
