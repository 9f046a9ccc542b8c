package tools

import (
	"testing"

	"countersign/internal/canon"
	"countersign/internal/contextturn/content"
	"countersign/internal/contextturn/turn"
)

// S-041: compass, resolve, find, why and test answer from a Build with the members
// that the protocol gives them.
func TestMembersOfTheAnswers(t *testing.T) {
	t.Parallel()
	b := openDocuments(t, []string{
		document("a", "Opal", "A stone of many colours.", "tags: [gem]", "author: Mine", "source: https://example.com/opal", "supersedes: [b]", "conflicts: [c]"),
		document("b", "Old opal", "Grey."), document("c", "Topaz", "Yellow."),
	}, content.Case{ID: "case", Task: "opal", ExpectRefs: []string{"a"}})
	sum := b.Manifest().Documents[0].SHA256
	opal, ref, id := "opal", "a", "case"
	for _, c := range []struct {
		request Request
		want    string
	}{
		{Request{Tool: turn.Compass, Task: &opal}, `{"items":[{"reason":"It has the task's one word: opal.","ref":"a","title":"Opal"}],"text":"# Opal\n[a]\n\nA stone of many colours.\n\n","verdict":"covered"}`},
		{Request{Tool: turn.Resolve, Ref: &ref}, `{"item":{"author":"Mine","conflicts":["c"],"ref":"a","sha256":"` + sum + `","source":"https://example.com/opal","supersedes":["b"],"tags":["gem"],"text":"A stone of many colours.\n","title":"Opal"}}`},
		{Request{Tool: turn.Find, Query: &opal}, `{"items":[{"ref":"a","snippet":"A stone of many colours.","title":"Opal"},{"ref":"b","snippet":"Grey.","title":"Old opal"}]}`},
		{Request{Tool: turn.Why, Ref: &ref}, `{"provenance":{"author":"Mine","build":null,"conflicts":["c"],"ref":"a","sha256":"` + sum + `","source":"https://example.com/opal","supersededBy":[],"supersedes":["b"],"title":"Opal"}}`},
		{Request{Tool: turn.Test, CaseID: &id}, `{"expected":["a"],"found":1,"missing":[],"passed":true}`},
		{Request{Tool: turn.Test, Task: &opal, ExpectRefs: []string{"a", "b"}}, `{"expected":["a","b"],"found":1,"missing":["b"],"passed":false}`},
	} {
		answer, err := b.Answer(t.Context(), "", c.request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := canon.Marshal(answer)
		if err != nil || string(got) != c.want {
			t.Errorf("%s:\n%s\nwant\n%s\n%v", c.request.Tool, got, c.want, err)
		}
	}
}
