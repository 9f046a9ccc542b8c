package canon

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
)

func seeds(f *testing.F) {
	n := 0
	for _, name := range []string{"accepted.json", "refused.json"} {
		for _, v := range readVectors[vector](f, name, 29) {
			f.Add(v.input(f))
			n++
		}
	}
	if n < 75 {
		f.Fatalf("only %d seeds", n)
	}
}

// narrower reports whether a text is JSON that the house grammar leaves out on
// purpose. It reads with the standard library and shares nothing with Check.
func narrower(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	depth := 0
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		switch token := token.(type) {
		case json.Delim:
			if token == '[' || token == '{' {
				if depth++; depth > 32 {
					return true
				}
			} else {
				depth--
			}
		case string:
			if strings.Contains(token, "\x00") {
				return true
			}
		case json.Number:
			n, err := token.Int64()
			if err != nil || n > 1<<53-1 || n < -(1<<53-1) {
				return true
			}
		}
	}
}

// FuzzCanonical compares with another implementation of RFC 8785: both give
// the same bytes, or both refuse, or ours refuses what the house grammar leaves
// out.
func FuzzCanonical(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		ours, err := Canonical(text)
		theirs, theirErr := jcs.Transform(text)
		switch {
		case err == nil && theirErr != nil:
			t.Fatalf("only we accept %q: %v", text, theirErr)
		case err == nil && !bytes.Equal(ours, theirs):
			t.Fatalf("%q\nours   %s\ntheirs %s", text, ours, theirs)
		case err != nil && theirErr == nil && !narrower(text):
			t.Fatalf("only we refuse %q: %v", text, err)
		}
		if IsCanonical(text) != (err == nil && bytes.Equal(ours, text)) {
			t.Fatalf("IsCanonical(%q) = %t, canonical form %s, %v", text, IsCanonical(text), ours, err)
		}
		if err != nil {
			return
		}
		again, err := Canonical(ours)
		if err != nil || !bytes.Equal(again, ours) || !IsCanonical(ours) {
			t.Fatalf("the canonical form %s is not its own", ours)
		}
		members, err := Members(ours, nil)
		if (err == nil) != (ours[0] == '{') {
			t.Fatalf("Members(%s): %v", ours, err)
		}
		if err == nil {
			var b []byte
			for _, m := range members {
				b = append(append(append(append(b, ','), m.Name...), ':'), m.Value...)
			}
			if len(b) > 0 {
				b = b[1:]
			}
			if string(ours) != "{"+string(b)+"}" {
				t.Fatalf("the members of %s are %s", ours, b)
			}
		}
	})
}

// optional can tell an absent member from every value.
type optional struct {
	A *string               `json:"a,omitzero"`
	B *int64                `json:"b,omitzero"`
	C *[]bool               `json:"c,omitzero"`
	D *map[string]*optional `json:"d,omitzero"`
	E json.RawMessage       `json:"e,omitzero"`
}

// holdsNull reports whether a member of an optional is null, which reads as absent.
func holdsNull(v map[string]any) bool {
	for name, member := range v {
		switch member := member.(type) {
		case nil:
			return name != "e"
		case []any:
			if name == "c" && slices.Contains(member, nil) {
				return true
			}
		case map[string]any:
			for _, child := range member {
				if child, ok := child.(map[string]any); ok && name == "d" && holdsNull(child) {
					return true
				}
			}
		}
	}
	return false
}

// FuzzUnmarshal reads strictly: what decodes encodes to the canonical form of the
// text wherever the type can tell what stood there, and the plain decoder of the
// standard library sees the same value.
func FuzzUnmarshal(f *testing.F) {
	seeds(f)
	type strict struct {
		A string             `json:"a"`
		B int64              `json:"b"`
		C []bool             `json:"c"`
		D map[string]*strict `json:"d"`
		E json.RawMessage    `json:"e"`
	}
	for _, text := range []string{
		`{"a":"x","b":1,"c":[true],"d":{"k":{"a":"","b":0,"c":[],"d":{},"e":[]}},"e":{"z":1,"y":2}}`,
		`{"e":{"z":-0,"y":"\u0041"},"d":{"k":null,"j":{"e":null}},"a":"\u00e9","c":[false]}`, `{"c":[null],"d":null,"b":null}`,
		`{"a":"x","b":1,"c":[],"d":{},"e":0,"f":1}`, `{"A":"x"}`, `{"b":"1"}`, `{"b":1.0}`, `{"a":null}`, `{"a":"x"} {}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var v strict
		if err := Unmarshal(text, &v); err != nil {
			if v := err.(*SyntaxError); v.Reason == "" {
				t.Fatal("an error without a reason")
			}
			return
		}
		if string(bytes.TrimSpace(text)) == "null" {
			return
		}
		var plain, named map[string]any
		if err := json.Unmarshal(text, &plain); err != nil {
			t.Fatalf("only we read %q: %v", text, err)
		}
		var all optional
		if err := Unmarshal(text, &all); err != nil {
			t.Fatalf("%q is read by one type only: %v", text, err)
		}
		if !holdsNull(plain) {
			canonical, err := Canonical(text)
			encoded, marshalErr := Marshal(all)
			if err != nil || marshalErr != nil || !bytes.Equal(encoded, canonical) {
				t.Fatalf("%q was read as %s, %v; canonical form %s, %v", text, encoded, marshalErr, canonical, err)
			}
		}
		encoded, err := Marshal(v)
		if err != nil {
			t.Fatalf("what was read from %q does not encode: %v", text, err)
		}
		if err := json.Unmarshal(encoded, &named); err != nil {
			t.Fatal(err)
		}
		for name, value := range plain {
			if reflect.DeepEqual(value, named[name]) || name == "d" || holdsNull(map[string]any{name: value}) {
				continue // null leaves the zero value; members of d are optional at every level
			}
			t.Fatalf("member %s of %q was read as %v", name, text, named[name])
		}
	})
}
