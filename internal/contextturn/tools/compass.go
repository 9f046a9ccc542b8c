package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/turn"
)

// CompassAnswer is the best-fit context for a task.
type CompassAnswer struct {
	Verdict string        `json:"verdict"`
	Text    string        `json:"text"` // of all items, at most MaxText bytes
	Items   []CompassItem `json:"items"`
}

// CompassItem is one document of a compass.
type CompassItem struct {
	Ref    string `json:"ref"`
	Title  string `json:"title"`
	Reason string `json:"reason"`
	SHA256 string `json:"-"`
}

// Handed is the documents whose text the answer holds.
func (a *CompassAnswer) Handed() []Handed {
	handed := make([]Handed, len(a.Items))
	for i, item := range a.Items {
		handed[i] = Handed{item.Ref, item.SHA256, item.Reason}
	}
	return handed
}

// Compass chooses the documents that fit a task best, by the rules of the package
// comment. A task to which nothing fits is answered with the verdict gap.
func (b *Build) Compass(ctx context.Context, profile, task string) (*CompassAnswer, error) {
	var answer *CompassAnswer
	err := b.during(ctx, func(ctx context.Context) (err error) {
		answer, err = b.compass(ctx, profile, task)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (b *Build) compass(ctx context.Context, profile, task string) (*CompassAnswer, error) {
	s := newStemmer()
	words := s.content(task)
	chosen, err := b.choose(ctx, profile, words)
	if err != nil {
		return nil, err
	}
	answer := &CompassAnswer{Items: []CompassItem{}}
	var text strings.Builder
	found := map[string]bool{}
	for _, c := range chosen {
		d := b.docs[c.place]
		text.WriteString(c.block)
		if c.cut {
			c.has = common(words, s.row(&content.Document{Title: d.Title, Tags: d.Tags, Text: c.block}).stems)
		}
		for _, w := range c.has {
			found[w.stem] = true
		}
		answer.Items = append(answer.Items, CompassItem{d.Ref, d.Title, reason("task", words, c.has), d.SHA256})
	}
	answer.Text = text.String()
	answer.Verdict = b.verdict(len(words), len(found), chosen)
	return answer, nil
}

// verdict is the rule of the package comment.
func (b *Build) verdict(words, found int, chosen []choice) string {
	if len(chosen) == 0 {
		return turn.Gap
	}
	for i, x := range chosen {
		for _, y := range chosen[i+1:] {
			if slices.Contains(b.against[x.place], y.place) {
				return turn.Conflict
			}
		}
	}
	if 10*found >= 8*words {
		return turn.Covered
	}
	return turn.Partial
}

// choice is a document that fits, and its part of the text.
type choice struct {
	place int
	has   []word
	block string
	cut   bool
}

// choose finds the documents that compass hands out.
func (b *Build) choose(ctx context.Context, profile string, words []word) ([]choice, error) {
	if len(words) == 0 {
		return nil, nil
	}
	v := b.view(profile)
	candidates := make(best, 0, maxCandidates)
	docs, err := b.search(ctx, v, words, func(h hit) {
		if !v.superseded[h.place] {
			candidates.add(h)
		}
	})
	if err != nil {
		return nil, err
	}
	var chosen []choice
	room, least := MaxText, 0
	for _, h := range candidates {
		if len(chosen) == MaxItems {
			break
		}
		if h.most < least || !enough(words, h.most) {
			continue
		}
		c := choice{place: h.place}
		stems, err := b.stemsAt(ctx, h.place)
		if err != nil {
			return nil, err
		}
		c.has = common(words, stems)
		if len(c.has) < least || !v.fits(words, c.has, docs) {
			continue
		}
		text, err := b.textAt(ctx, h.place)
		if err != nil {
			return nil, err
		}
		d := b.docs[h.place]
		c.block = fmt.Sprintf("# %s\n[%s]\n\n%s\n\n", d.Title, d.Ref, strings.TrimSpace(text))
		if len(c.block) > room {
			if len(chosen) > 0 {
				continue
			}
			c.block, c.cut = cut(c.block, d.Ref), true
		}
		if len(chosen) == 0 {
			least = (len(c.has) + 1) / 2
		}
		room -= len(c.block)
		chosen = append(chosen, c)
	}
	return chosen, nil
}

// fits is the floor of the package comment, for a document that has some of the words.
func (v *view) fits(words, has []word, docs map[string]int) bool {
	if 2*len(has) > len(words) {
		return true
	}
	rare := max(5, v.documents/20)
	return enough(words, len(has)) && slices.ContainsFunc(has, func(w word) bool { return docs[w.stem] <= rare })
}

// enough reports whether a document with n of the words may fit.
func enough(words []word, n int) bool { return n >= min((len(words)+3)/4, 4) }

// cut shortens a block to MaxText and says so at its end.
func cut(block, ref string) string {
	mark := fmt.Sprintf("\n\n[Cut here: the text is longer than one answer. Resolve %s for the whole.]\n\n", ref)
	end := MaxText - len(mark)
	for !utf8.RuneStart(block[end]) {
		end--
	}
	return block[:end] + mark
}
