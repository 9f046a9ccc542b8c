package tools

import (
	"context"

	"countersign/internal/contextturn/turn"
)

// ResolveAnswer is one whole document.
type ResolveAnswer struct {
	Item Item `json:"item"`
}

// Item is a document as it is handed out. SHA256 is of the file with its front
// matter, which text is without. Conflicts names the documents on both sides of a
// conflict. Refs that the profile may not see are left out.
type Item struct {
	Ref        string   `json:"ref"`
	Title      string   `json:"title"`
	Tags       []string `json:"tags"`
	Author     string   `json:"author"`
	Source     string   `json:"source"`
	Supersedes []string `json:"supersedes"`
	Conflicts  []string `json:"conflicts"`
	SHA256     string   `json:"sha256"`
	Text       string   `json:"text"`
}

// Handed is the one document.
func (a *ResolveAnswer) Handed() []Handed {
	return []Handed{{a.Item.Ref, a.Item.SHA256, "It was asked for by its ref."}}
}

// Resolve returns the document of a ref, or ErrNotFound when there is none that the
// profile may see. One that is superseded is found by its ref.
func (b *Build) Resolve(ctx context.Context, profile, ref string) (*ResolveAnswer, error) {
	v := b.view(profile)
	var place int
	var text string
	err := b.during(ctx, func(ctx context.Context) (err error) {
		if place, err = b.seen(v, ref); err == nil {
			text, err = b.textAt(ctx, place)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	d := b.docs[place]
	return &ResolveAnswer{Item{
		Ref: d.Ref, Title: d.Title, Tags: append([]string{}, d.Tags...), Author: d.Author, Source: d.Source,
		Supersedes: b.refs(v, b.places(d.Supersedes)), Conflicts: b.refs(v, b.against[place]), SHA256: d.SHA256, Text: text,
	}}, nil
}

// WhyAnswer is where a document comes from.
type WhyAnswer struct {
	Provenance Provenance `json:"provenance"`
}

// Provenance is what is known of a document besides its text. Build is for the
// caller to fill: a Build does not know its number.
type Provenance struct {
	Ref          string      `json:"ref"`
	Title        string      `json:"title"`
	Source       string      `json:"source"`
	Author       string      `json:"author"`
	SHA256       string      `json:"sha256"`
	Supersedes   []string    `json:"supersedes"`
	SupersededBy []string    `json:"supersededBy"`
	Conflicts    []string    `json:"conflicts"`
	Build        *turn.Build `json:"build"`
}

// Handed is the one document.
func (a *WhyAnswer) Handed() []Handed {
	return []Handed{{a.Provenance.Ref, a.Provenance.SHA256, "Its provenance was asked for by its ref."}}
}

// Why returns the provenance of a ref, or ErrNotFound when there is none that the
// profile may see.
func (b *Build) Why(_ context.Context, profile, ref string) (*WhyAnswer, error) {
	leave, err := b.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	v := b.view(profile)
	place, err := b.seen(v, ref)
	if err != nil {
		return nil, err
	}
	d := b.docs[place]
	return &WhyAnswer{Provenance{
		Ref: d.Ref, Title: d.Title, Source: d.Source, Author: d.Author, SHA256: d.SHA256,
		Supersedes: b.refs(v, b.places(d.Supersedes)), SupersededBy: b.refs(v, b.over[place]), Conflicts: b.refs(v, b.against[place]),
	}}, nil
}

func (b *Build) places(refs []string) []int {
	places := make([]int, len(refs))
	for i, ref := range refs {
		places[i] = b.place[ref]
	}
	return places
}
