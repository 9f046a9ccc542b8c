package canon_test

import (
	"testing"

	"countersign/internal/canon"
)

// Data that can be spelled in two ways could hide a change from whoever compares it.
func TestExactly(t *testing.T) {
	type data struct {
		A string  `json:"a"`
		B *string `json:"b"`
	}
	for raw, want := range map[string]bool{
		`{"a":"x","b":null}`: true, `{"a":"","b":"y"}`: true,
		`{"b":null,"a":"x"}`: false, `{"a":"x", "b":null}`: false, `{"a":"\u0078","b":null}`: false, `{"a":"x"}`: false, `{"b":null}`: false,
		`{"a":"x","b":null,"c":1}`: false, `{"A":"x","b":null}`: false, `{"a":1,"b":null}`: false, ``: false, `{"a":"x","b":null} `: false,
	} {
		if got := canon.Exactly([]byte(raw), new(data)); got != want {
			t.Errorf("%s: %t", raw, got)
		}
	}
	if canon.Exactly([]byte(`{}`), struct{ F float64 }{}) {
		t.Error("what cannot be decoded into is read exactly")
	}
}
