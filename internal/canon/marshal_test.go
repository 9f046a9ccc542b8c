package canon

import (
	stdjson "encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

type cents int64

func (c cents) MarshalText() ([]byte, error) {
	if c < 0 {
		return nil, fmt.Errorf("negative")
	}
	return fmt.Appendf(nil, "%d", int64(c)), nil
}

type own struct{ text string }

func (o own) MarshalJSON() ([]byte, error) { return []byte(o.text), nil }

type ownByPointer struct{ text string }

func (o *ownByPointer) MarshalJSON() ([]byte, error) { return []byte(o.text), nil }

type tree struct {
	Name     string  `json:"name"`
	Children []*tree `json:"children"`
	Up       *tree   `json:"up"`
}

type embedded struct {
	Z int64  `json:"z"`
	A string `json:"a"`
}

// everything has a member for each way in which a value can be written.
type everything struct {
	embedded
	Untagged  bool
	Ignored   chan int                      `json:"-"`
	hidden    string                        // an unexported field is no member
	Text      string                        `json:"text"`
	Int       int                           `json:"int"`
	Small     int8                          `json:"small"`
	Unsigned  uint16                        `json:"unsigned"`
	Float     float64                       `json:"float"`
	Pointer   *string                       `json:"pointer"`
	Amount    cents                         `json:"amount"`
	Amounts   *cents                        `json:"amounts"`
	Bytes     []byte                        `json:"bytes"`
	Array     [2]int64                      `json:"array"`
	Slice     []string                      `json:"slice"`
	Map       map[string]int64              `json:"map"`
	Maps      map[string]map[string][]cents `json:"maps"`
	Numbers   map[int]string                `json:"numbers"`
	Raw       stdjson.RawMessage            `json:"raw"`
	Any       any                           `json:"any"`
	Own       own                           `json:"own"`
	ByPointer ownByPointer                  `json:"byPointer"`
	Time      time.Time                     `json:"time"`
	Zero      *int64                        `json:"zero,omitzero"`
	ZeroText  string                        `json:"zeroText,omitzero"`
	ZeroTime  time.Time                     `json:"zeroTime,omitzero"`
	Tree      tree                          `json:"tree"`
	Empty     struct {
		Text   string `json:"text,omitempty"`
		Number int64  `json:"number,omitempty"`
	} `json:"empty"`
	Quoted struct {
		N int64 `json:"n,string"`
	} `json:"quoted"`
}

// Marshal is the library's encoding, brought into canonical form.
func TestMarshalAgreesWithTheLibrary(t *testing.T) {
	text, amount, zero := "é\U0001f600\u2028</>\\\"\x01", cents(13700), int64(0)
	full := everything{
		embedded: embedded{7, "a"}, Untagged: true, hidden: "h", Text: text, Int: -5, Small: -128, Unsigned: 65535, Float: 3,
		Pointer: &text, Amount: 1, Amounts: &amount, Bytes: []byte{0, 1, 255}, Array: [2]int64{1, 2}, Slice: []string{"b", "a", ""},
		Map:  map[string]int64{"b": 1, "a": 2, "": 3, "é": 4, "\U0001f600": 5, "\uffff": 6, "\n": 7},
		Maps: map[string]map[string][]cents{"x": {"y": {1, 2}, "z": nil}, "w": nil}, Numbers: map[int]string{10: "a", 9: "b"},
		Raw: stdjson.RawMessage(` { "b" : [ 1 , 2.0e0 ] , "a" : "\u0041" } `), Any: map[string]any{"b": []any{1, "x", nil, true}, "a": tree{Name: "t"}},
		Own: own{`{"b":1,"a":2}`}, ByPointer: ownByPointer{`[ 1 ]`}, Time: time.Unix(0, 0).UTC(), Zero: &zero, ZeroText: "z", ZeroTime: time.Unix(1, 0).UTC(),
		Tree: tree{"root", []*tree{nil, {Name: "leaf", Up: &tree{}}}, nil},
	}
	full.Raw = stdjson.RawMessage(` { "b" : [ 1 , 2 ] , "a" : "\u0041" } `)
	full.Empty.Text, full.Quoted.N = "t", 1<<60
	values := []any{
		nil, full, &full, everything{Own: own{"null"}, ByPointer: ownByPointer{"1"}}, embedded{}, "", true, -1, cents(0), []cents(nil), map[string]string(nil), stdjson.RawMessage(nil),
		(*tree)(nil), tree{}, []any{}, struct{}{}, [3]bool{}, stdjson.RawMessage("[]"), []stdjson.RawMessage{nil, stdjson.RawMessage("1")}, map[cents]int{3: 1, 20: 2},
		// Outside the grammar, inside any of the ways.
		1.5, map[string]float64{"a": 1.5}, "\xff", "\x00", []string{"\x00"}, map[string]int{"\x00": 1}, map[string]int{"\xff": 1}, cents(-1), own{"{"}, own{"1.5"},
		int64(maxSafeInteger), int64(maxSafeInteger + 1), int64(-maxSafeInteger), int64(-maxSafeInteger - 1), uint64(maxSafeInteger + 1), make(chan int), struct{ C chan int }{},
		stdjson.RawMessage(`{"a":1,"a":1}`), stdjson.RawMessage(`1 2`), stdjson.RawMessage(``), stdjson.RawMessage(`"\ud800"`), map[string]any{"a": make(chan int)},
	}
	for depth := 29; depth < 36; depth++ { // round the bound, made of each kind that nests
		var slice, object, raw any = 1, 1, stdjson.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		for range depth {
			slice, object = []any{slice}, map[string]any{"a": object}
		}
		values = append(values, slice, object, raw, []any{raw}, struct{ A any }{raw}, map[string]any{"a": raw}, struct{ A any }{slice}, own{string(raw.(stdjson.RawMessage))})
	}
	for _, v := range values {
		got, gotErr := Marshal(v)
		raw, wantErr := json.Marshal(v)
		var want []byte
		if wantErr == nil {
			want, wantErr = Canonical(raw)
		}
		if string(got) != string(want) || (gotErr == nil) != (wantErr == nil) {
			t.Errorf("%T: got %s, %v\nwant %s, %v", v, got, gotErr, want, wantErr)
		}
		if gotErr == nil && !IsCanonical(got) {
			t.Errorf("%T: %s is not canonical", v, got)
		}
	}
}

// A value that holds itself is refused and not followed for ever.
func TestMarshalOfACircle(t *testing.T) {
	circle := &tree{Name: "round"}
	circle.Up = circle
	if got, err := Marshal(circle); err == nil {
		t.Errorf("Marshal gives %d bytes", len(got))
	}
}

// FuzzMarshal: for any text, number and raw value, one pass and two agree.
func FuzzMarshal(f *testing.F) {
	f.Add("a", int64(1), []byte(`{"b":1,"a":[]}`))
	f.Add("\x00", int64(1)<<53, []byte(`1.5`))
	f.Add("\U0001f600\uffff", int64(-1), []byte(`"\u0041"`))
	f.Fuzz(func(t *testing.T, text string, n int64, raw []byte) {
		v := struct {
			B []string           `json:"b"`
			A map[string]int64   `json:"a"`
			C stdjson.RawMessage `json:"c"`
			D any                `json:"d"`
		}{[]string{text}, map[string]int64{text: n, text + "a": 1, "\U0001f600": 2, "\uffff": 3}, raw, map[string]any{"x": []any{stdjson.RawMessage(raw)}}}
		got, gotErr := Marshal(v)
		encoded, wantErr := json.Marshal(v)
		var want []byte
		if wantErr == nil {
			want, wantErr = Canonical(encoded)
		}
		if string(got) != string(want) || (gotErr == nil) != (wantErr == nil) {
			t.Errorf("got %s, %v\nwant %s, %v", got, gotErr, want, wantErr)
		}
	})
}
