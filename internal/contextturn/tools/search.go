package tools

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// hit is a document that has one of the words.
type hit struct {
	place int
	score float64 // bm25: the greatest is the best
	most  int     // of the words, no more than these are in it
}

// order is total: no two hits of one search are equal.
func order(a, b hit) int {
	if c := cmp.Compare(b.score, a.score); c != 0 {
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

// Parameters of bm25, as they are widely used.
const (
	saturation = 1.2
	byLength   = 0.75
	leastRare  = 1e-6 // what a word counts that stands nearly everywhere
)

// search calls f for every document that v sees and that has one of the words, in their
// order, and returns in how many of these documents each word stands. Of too many words
// the rarest are searched.
func (b *Build) search(ctx context.Context, v *view, words []word, f func(hit)) (docs map[string]int, err error) {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = w.stem
	}
	docs = make(map[string]int, len(words))
	kept := make([]map[string][]byte, b.segments)
	for s := range kept {
		if len(words) <= maxSearched {
			kept[s] = make(map[string][]byte, len(words))
		}
		err := b.listsOf(ctx, s, list, func(term string, places []byte) error {
			n := 0
			if err := v.each(places, func(int, int) { n++ }); err != nil || n == 0 {
				return err
			}
			docs[term] += n
			if kept[s] != nil {
				kept[s][term] = slices.Clone(places)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	list = slices.SortedFunc(maps.Keys(docs), func(x, y string) int {
		return cmp.Or(cmp.Compare(docs[x], docs[y]), cmp.Compare(x, y))
	})
	list = list[:min(len(list), maxSearched)]
	left := len(docs) - len(list)
	hits := make([]hit, len(b.docs))
	for s, found := range kept {
		if found == nil {
			found = make(map[string][]byte, len(list))
			err := b.listsOf(ctx, s, list, func(term string, places []byte) error {
				found[term] = slices.Clone(places)
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		for _, term := range list {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("tools: search: %w", err)
			}
			rarity := v.rarity(docs[term])
			err := v.each(found[term], func(place, weight int) {
				hits[place].score += v.score(rarity, weight, b.lengths[place])
				hits[place].most++
			})
			if err != nil {
				return nil, err
			}
		}
	}
	for place, h := range hits {
		if h.most > 0 {
			f(hit{place, h.score, h.most + left})
		}
	}
	return docs, nil
}

// rarity is what a word counts that stands in n of the documents.
func (v *view) rarity(n int) float64 {
	return max(math.Log((float64(v.documents-n)+0.5)/(float64(n)+0.5)), leastRare)
}

// score is what a word adds to a document. The conversions keep a machine from rounding
// once where another rounds twice.
func (v *view) score(rarity float64, weight, length int) float64 {
	w := float64(weight)
	long := float64(byLength * float64(length) / v.length)
	return float64(rarity * w * (saturation + 1) / (w + float64(saturation*(1-byLength+long))))
}

// listsOf calls f with the lists of those of the terms that a segment has. places is
// valid until f returns.
func (b *Build) listsOf(ctx context.Context, segment int, terms []string, f func(term string, places []byte) error) error {
	if len(terms) == 0 {
		return nil
	}
	raw, err := json.Marshal(terms)
	if err != nil {
		return fmt.Errorf("tools: search: %w", err)
	}
	rows, err := b.lists.QueryContext(ctx, string(raw), segment)
	if err != nil {
		return fmt.Errorf("tools: search: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var term string
		var places sql.RawBytes
		if err := rows.Scan(&term, &places); err != nil {
			return fmt.Errorf("tools: search: %w", err)
		}
		if err := f(term, places); err != nil {
			return fmt.Errorf("tools: search: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("tools: search: %w", err)
	}
	return nil
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

// common are the words that a document has. It goes once through the document's.
func common(words []word, s stems) []word {
	at := make(map[string]int, len(words))
	for i, w := range words {
		at[w.stem] = i
	}
	found := make([]bool, len(words))
	for stem := range strings.SplitSeq(string(s), "\n") {
		if i, asked := at[stem]; asked {
			found[i] = true
		}
	}
	var has []word
	for i, w := range words {
		if found[i] {
			has = append(has, w)
		}
	}
	return has
}
