package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// hit is a document that has one of the words.
type hit struct {
	place int
	score float64 // bm25 as FTS5 gives it: the least is the best
}

// order is total: no two hits of one search are equal.
func order(a, b hit) int {
	if c := cmp.Compare(a.score, b.score); c != 0 {
		return c
	}
	return cmp.Compare(a.place, b.place)
}

// best keeps the first hits in order, at most its capacity.
type best []hit

func (b *best) add(h hit) {
	if len(*b) == cap(*b) {
		last := len(*b) - 1
		if last < 0 || order((*b)[last], h) < 0 {
			return
		}
		*b = (*b)[:last]
	}
	at, _ := slices.BinarySearchFunc(*b, h, order)
	*b = slices.Insert(*b, at, h)
}

// search calls f for every document that has one of the words, in no order. Of too
// many words it takes the rarest. The quotes around each word keep it from being
// read as syntax; a stem has none in it.
func (b *Build) search(ctx context.Context, words []word, docs map[string]int, f func(hit)) error {
	searched := make([]string, 0, len(words))
	for _, w := range words {
		if docs[w.stem] > 0 {
			searched = append(searched, w.stem)
		}
	}
	if len(searched) == 0 {
		return nil
	}
	slices.SortFunc(searched, func(x, y string) int {
		return cmp.Or(cmp.Compare(docs[x], docs[y]), cmp.Compare(x, y))
	})
	searched = searched[:min(len(searched), maxSearched)]
	rows, err := b.match.QueryContext(ctx, `"`+strings.Join(searched, `" OR "`)+`"`)
	if err != nil {
		return fmt.Errorf("tools: search: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var score float64
		if err := rows.Scan(&id, &score); err != nil {
			return fmt.Errorf("tools: search: %w", err)
		}
		f(hit{int(id) - 1, score})
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("tools: search: %w", err)
	}
	return nil
}

// documents says in how many documents of the Build each word stands.
func (b *Build) documents(ctx context.Context, words []word) (map[string]int, error) {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = w.stem
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("tools: search: %w", err)
	}
	rows, err := b.counts.QueryContext(ctx, string(raw))
	if err != nil {
		return nil, fmt.Errorf("tools: search: %w", err)
	}
	defer rows.Close()
	counts := make(map[string]int, len(words))
	for rows.Next() {
		var term string
		var n int
		if err := rows.Scan(&term, &n); err != nil {
			return nil, fmt.Errorf("tools: search: %w", err)
		}
		counts[term] = n
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("tools: search: %w", err)
	}
	return counts, nil
}

// stemsAt are the words of one document, its title, tags and text together.
func (b *Build) stemsAt(ctx context.Context, place int) (stems, error) {
	var s stems
	if err := b.stems.QueryRowContext(ctx, place+1).Scan(&s); err != nil {
		return "", fmt.Errorf("tools: read words: %w", err)
	}
	return s, nil
}

// textAt is the text of one document.
func (b *Build) textAt(ctx context.Context, place int) (string, error) {
	var text string
	if err := b.text.QueryRowContext(ctx, place+1).Scan(&text); err != nil {
		return "", fmt.Errorf("tools: read text: %w", err)
	}
	return text, nil
}

// maxReason bounds the words that a reason names.
const maxReason = 12

// reason says in plain words what a document has of a task or a query.
func reason(of string, words, has []word) string {
	if len(has) == 0 {
		return fmt.Sprintf("It has none of the %s's words.", of)
	}
	names := make([]string, min(len(has), maxReason))
	for i := range names {
		names[i] = has[i].shown
	}
	more := ""
	if n := len(has) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	if len(words) == 1 {
		return fmt.Sprintf("It has the %s's one word: %s.", of, names[0])
	}
	return fmt.Sprintf("It has %d of the %s's %d words: %s%s.", len(has), of, len(words), strings.Join(names, ", "), more)
}

// common are the words that a document has.
func common(words []word, s stems) []word {
	var has []word
	for _, w := range words {
		if s.has(w.stem) {
			has = append(has, w)
		}
	}
	return has
}
