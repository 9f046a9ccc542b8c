package service

import (
	"errors"
	"strings"
	"testing"

	"countersign/internal/authority"
)

// L-2: exactly the members, each with a value of its type; the place of the first that
// is wrong is named and nothing is quoted.
func TestReadTerms(t *testing.T) {
	type terms struct {
		Name  string `json:"name"`
		Count int64  `json:"count"`
	}
	for raw, place := range map[string]string{
		`{"name":"x","count":1}`: "", `{"count":1,"name":""}`: "",
		`{"name":"x"}`: "terms", `{}`: "terms", `null`: "terms", `[]`: "terms", `"secret"`: "terms", `{"name":"x","count":1}}`: "terms", ``: "terms", `{"name":"x","name":"x","count":1}`: "terms",
		`{"name":null,"count":1}`: "terms.name", `{"name":1,"count":1}`: "terms.name", `{"name":"x","count":"secret"}`: "terms.count", `{"name":"x","count":1,"secret":2}`: "terms.secret",
		`{"name":"x","Count":1,"count":1}`: "terms.Count",
	} {
		var got terms
		denial := ReadTerms([]byte(raw), &got)
		at := ""
		if denial != nil {
			at, _, _ = strings.Cut(denial.Detail, " ")
			if denial.Reason != authority.InvalidRequest || strings.Contains(strings.TrimPrefix(denial.Detail, "terms.secret"), "secret") {
				t.Errorf("%s: %v", raw, denial)
			}
		}
		if at != place {
			t.Errorf("%s: place %q, want %q", raw, at, place)
		}
		if place == "" && got.Count != 1 {
			t.Errorf("%s: read as %+v", raw, got)
		}
	}
}

// Every promised postcondition is answered, in order, and a failure to answer is none.
func TestHold(t *testing.T) {
	p := Promise{Postconditions: []string{"a", "b"}}
	got, err := Hold(p, func(name string) (bool, error) { return name == "b", nil })
	if err != nil || len(got) != 2 || got[0].Name != "a" || got[0].Holds || got[1].Name != "b" || !got[1].Holds {
		t.Errorf("%+v, %v", got, err)
	}
	broken := errors.New("broken")
	if got, err := Hold(p, func(name string) (bool, error) { return true, map[string]error{"b": broken}[name] }); !errors.Is(err, broken) || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
}
