package canon

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// Three cases round each end of the safe range, and the ends of the grammar.
func TestIntegerBounds(t *testing.T) {
	for _, c := range []struct {
		number string
		ok     bool
	}{
		{"9007199254740990", true}, {"9007199254740991", true}, {"9007199254740992", false}, {"9007199254740993", false},
		{"-9007199254740990", true}, {"-9007199254740991", true}, {"-9007199254740992", false},
		{"999999999999999", true}, {"1000000000000000", true}, {"9999999999999999", false}, {"10000000000000000", false},
		{"0", true}, {"-1", true}, {"1", true},
	} {
		if got, err := Canonical([]byte(c.number)); (err == nil) != c.ok || c.ok && string(got) != c.number {
			t.Errorf("Canonical(%s) = %s, %v", c.number, got, err)
		}
		if IsCanonical([]byte(c.number)) != c.ok {
			t.Errorf("IsCanonical(%s) = %t", c.number, !c.ok)
		}
	}
	for _, not := range []string{"-0", "00", "-01", "1.", "1e1", "-"} {
		if IsCanonical([]byte(not)) {
			t.Errorf("IsCanonical(%s)", not)
		}
	}
}

func TestDepthBounds(t *testing.T) {
	for _, brackets := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		for depth, ok := range map[int]bool{31: true, 32: true, 33: false} {
			text := []byte(strings.Repeat(brackets[0], depth) + "1" + strings.Repeat(brackets[1], depth))
			if err := Check(text); (err == nil) != ok {
				t.Errorf("%d levels: %v", depth, err)
			}
			if IsCanonical(text) != ok {
				t.Errorf("%d levels: IsCanonical is %t", depth, !ok)
			}
		}
	}
	// A text that is far too deep is refused as such, without a deep stack.
	if err := Check([]byte(strings.Repeat("[", 1<<20))); err == nil || !strings.Contains(err.Error(), "deeper than 32") {
		t.Errorf("a million brackets: %v", err)
	}
}

// Every one-byte departure from a canonical text is either another canonical
// text or recognised as none: IsCanonical agrees with Canonical.
func TestIsCanonicalEveryByte(t *testing.T) {
	base := []byte(`{"":[],"a":[0,-1,12,true,false,null,"x\\\"\n\u0001é"],"b":{"c":{},"d":"\u001f"},"é":"","ｅ":9007199254740991}`)
	if !IsCanonical(base) {
		t.Fatal("the text to depart from is not canonical")
	}
	for i := range base {
		for c := range 256 {
			text := append([]byte(nil), base...)
			text[i] = byte(c)
			agree(t, text)
		}
		agree(t, base[:i])
		agree(t, append(base[:i:i], base[i+1:]...))
	}
}

func agree(t testing.TB, text []byte) {
	t.Helper()
	canonical, err := Canonical(text)
	if want := err == nil && string(canonical) == string(text); IsCanonical(text) != want {
		t.Errorf("IsCanonical(%q) = %t, Canonical says %s, %v", text, !want, canonical, err)
	}
}

func TestMembers(t *testing.T) {
	text := `{"a":{"x":1},"b\n":[1,2],"c":"}"}`
	got, err := Members([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`"a" {"x":1}`, `"b\n" [1,2]`, `"c" "}"`}
	for i, m := range got {
		if s := fmt.Sprintf("%s %s", m.Name, m.Value); i >= len(want) || s != want[i] {
			t.Errorf("member %d is %s", i, s)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d members, want %d", len(got), len(want))
	}
	if got, err := Members([]byte("{}"), nil); err != nil || len(got) != 0 {
		t.Errorf("an empty object: %v, %v", got, err)
	}
	for text, reason := range map[string]string{
		"":              "no value",
		"[]":            "not an object",
		"1":             "not an object",
		`{"b":1,"a":2}`: "not in the canonical form",
		`{"a": 1}`:      "not in the canonical form",
		` {"a":1}`:      "not an object in canonical form",
		`{"a":1,"a":1}`: "stands twice",
		`{"a":1.5}`:     "not an integer",
		`{"a":1`:        "ends early",
		`{"a":1}}`:      "bytes follow",
	} {
		if _, err := Members([]byte(text), nil); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("Members(%s): %v, want %s", text, err, reason)
		}
	}
}

func TestQuote(t *testing.T) {
	for text, quoted := range map[string]string{
		"": `""`, "a": `"a"`, "\"\\\b\t\n\f\r": `"\"\\\b\t\n\f\r"`, "\x01\x1f\x7f": `"\u0001\u001f` + "\x7f\"",
		"</>&\u2028": "\"</>&\u2028\"", "é😀": `"é😀"`, "\ufffd": "\"\ufffd\"",
	} {
		if got, err := AppendQuote([]byte("x"), text); err != nil || string(got) != "x"+quoted {
			t.Errorf("AppendQuote(%q) = %s, %v, want %s", text, got, err, quoted)
		}
		if got, err := Unquote([]byte(quoted)); err != nil || got != text {
			t.Errorf("Unquote(%s) = %q, %v, want %q", quoted, got, err, text)
		}
	}
	for _, text := range []string{"\x00", "a\x00b", "\xff", "\xed\xa0\x80"} {
		if got, err := AppendQuote(nil, text); err == nil {
			t.Errorf("AppendQuote(%q) = %s", text, got)
		}
	}
	for _, quoted := range []string{"", `"`, "1", `"a`, `"a"b`, `"\u0041"`, `"\/"`, `"\u000a"`, `"\u001F"`, `"\u0000"`, `"\ud83d\ude00"`, `"\u00`, `"\`, "\"\n\""} {
		if got, err := Unquote([]byte(quoted)); err == nil {
			t.Errorf("Unquote(%s) = %q", quoted, got)
		}
	}
}

type inner struct {
	B int64  `json:"b"`
	A string `json:"a"`
}

type outer struct {
	Inner inner           `json:"inner"`
	Raw   json.RawMessage `json:"raw"`
	Omit  *string         `json:"omit,omitempty"`
}

func TestMarshal(t *testing.T) {
	v := outer{inner{-5, "<é>"}, json.RawMessage(` { "z" : 1 , "y" : [ ] } `), nil}
	want := `{"inner":{"a":"<é>","b":-5},"raw":{"y":[],"z":1}}`
	if got, err := Marshal(v); err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if got := MustMarshal(v); string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for name, v := range map[string]any{
		"a fraction": 1.5, "2^53": int64(1) << 53, "-2^53": -(int64(1) << 53), "NaN": math.NaN(), "NUL": "\x00", "broken UTF-8": "\xff",
		"a channel": make(chan int), "raw that is not JSON": json.RawMessage("{"), "a raw repeated member": json.RawMessage(`{"a":1,"a":1}`),
	} {
		if got, err := Marshal(v); err == nil {
			t.Errorf("%s: Marshal gives %s", name, got)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("MustMarshal did not panic at a fraction")
		}
	}()
	MustMarshal(0.5)
}

func TestUnmarshal(t *testing.T) {
	var v outer
	if err := Unmarshal([]byte(`{"raw":[1, 2],"inner":{"b":7,"a":"x"}}`), &v); err != nil || v.Inner != (inner{7, "x"}) || string(v.Raw) != "[1, 2]" {
		t.Fatalf("got %+v, %v", v, err)
	}
	for text, want := range map[string]string{
		`{"inner":{"a":"x","b":7,"c":1},"raw":1}`: "canon: unknown member at /inner/c",
		`{"inner":{"A":"x"},"raw":1}`:             "canon: unknown member at /inner/A",
		`{"Inner":{}}`:                            "canon: unknown member at /Inner",
		`{"inner":{"b":"7"}}`:                     "canon: wrong type at /inner/b",
		`{"inner":{"a":7}}`:                       "canon: wrong type at /inner/a",
		`{"inner":[]}`:                            "canon: wrong type at /inner",
		`{"inner":{"b":1.0}}`:                     "canon: a number is not an integer at /inner/b",
		`{"inner":{"b":9007199254740993}}`:        "canon: a number is outside the safe integer range at /inner/b",
		`{"inner":{"a":"\u0000"}}`:                "canon: a string holds U+0000 at /inner/a",
		`{"inner":{"a":"1","a":"2"}}`:             "canon: a member stands twice at /inner/a",
		`{"inner":{"a":"\ud800"}}`:                "canon: not valid JSON at /inner/a",
		`{} {}`:                                   "canon: bytes follow the value",
		`{}x`:                                     "canon: bytes follow the value",
		``:                                        "canon: no value",
		`{"inner":`:                               "canon: the text ends early at /inner",
	} {
		var v outer
		err := Unmarshal([]byte(text), &v)
		var at *SyntaxError
		if !errors.As(err, &at) || err.Error() != want {
			t.Errorf("Unmarshal(%s): %v, want %s", text, err, want)
		}
	}
}

// Errors name the place and never what was submitted.
func TestErrorsHoldNoValues(t *testing.T) {
	for _, text := range []string{`{"inner":{"a":["secret"]}}`, `{"inner":"secret"}`, `{"inner":{"b":"secret"}}`, `{"raw":"secret` + "\x00" + `"}`, `{"inner":{"a":"secret`, `"secret"`} {
		var v outer
		if err := Unmarshal([]byte(text), &v); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Unmarshal(%q): %v", text, err)
		}
	}
}

func TestDecode(t *testing.T) {
	var v inner
	if err := Decode([]byte(`{"a":"x","more":[{}],"b":2}`), &v); err != nil || v != (inner{2, "x"}) {
		t.Errorf("got %+v, %v", v, err)
	}
	for text, want := range map[string]string{
		`{"a":1}`:         "canon: wrong type at /a",
		`{"more":0.5}`:    "canon: a number is not an integer at /more",
		`{"a":"","a":""}`: "canon: a member stands twice at /a",
	} {
		if err := Decode([]byte(text), &v); err == nil || err.Error() != want {
			t.Errorf("Decode(%s): %v, want %s", text, err, want)
		}
	}
	// Members in another case are other members.
	v = inner{}
	if err := Decode([]byte(`{"A":"x"}`), &v); err != nil || v.A != "" {
		t.Errorf("got %+v, %v", v, err)
	}
}

// Values from RFC 6234 and RFC 4648.
func TestHashAndBase64(t *testing.T) {
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if Hash([]byte("abc")) != abc || !IsHash(abc) {
		t.Error("SHA-256 of abc")
	}
	for _, not := range []string{"", abc[1:], abc + "0", strings.ToUpper(abc), "g" + abc[1:], "/" + abc[1:], ":" + abc[1:], "`" + abc[1:]} {
		if IsHash(not) {
			t.Errorf("IsHash(%s)", not)
		}
	}
	for plain, encoded := range map[string]string{"": "", "f": "Zg", "fo": "Zm8", "foo": "Zm9v", "foob": "Zm9vYg", "\xfb\xff\xbf": "-_-_"} {
		if EncodeBase64([]byte(plain)) != encoded {
			t.Errorf("EncodeBase64(%q) = %s", plain, EncodeBase64([]byte(plain)))
		}
		if got, err := DecodeBase64(encoded); err != nil || string(got) != plain {
			t.Errorf("DecodeBase64(%s) = %q, %v", encoded, got, err)
		}
	}
	for _, not := range []string{"Zg==", "Zg=", "Zh", "Zm9=", "Zm 9v", "Zm9v\n", "Zm\r\n9v", "+/+/", "Z", "Zm9vY", "é"} {
		if got, err := DecodeBase64(not); err == nil {
			t.Errorf("DecodeBase64(%q) = %q", not, got)
		}
	}
}
