package canon

import (
	"bytes"
	"encoding"
	stdjson "encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// Marshal returns the canonical form of v. Values outside the house grammar
// (fractions, integers above 2^53-1, strings with U+0000) are errors.
//
// Members, tags and marshaling methods mean what they mean to package
// github.com/go-json-experiment/json: a nil slice is [], a nil map {}. Structs,
// strings, integers, slices, maps and raw values are written in one pass; any
// other kind of value goes through that package and [Canonical].
func Marshal(v any) ([]byte, error) {
	scratch := buffers.Get().(*[]byte)
	defer buffers.Put(scratch)
	b, err := appendValue((*scratch)[:0], reflect.ValueOf(v), 0)
	if err != nil {
		return nil, err
	}
	if cap(b) <= maxBuffer {
		*scratch = b
	}
	return bytes.Clone(b), nil
}

// buffers lets most values be written without growing a slice.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// maxBuffer bounds what a buffer keeps.
const maxBuffer = 1 << 16

// MustMarshal is [Marshal] for values that the program built itself and that
// cannot be outside the grammar. It panics on an error.
func MustMarshal(v any) []byte {
	b, err := Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// appendValue appends v, which stands inside depth arrays and objects.
func appendValue(dst []byte, v reflect.Value, depth int) ([]byte, error) {
	if !v.IsValid() {
		return append(dst, "null"...), nil
	}
	return writerOf(v.Type())(dst, v, depth)
}

// A writer appends the canonical form of a value of one type.
type writer func(dst []byte, v reflect.Value, depth int) ([]byte, error)

// writers holds what writerOf has found, by reflect.Type.
var writers sync.Map

func writerOf(t reflect.Type) writer {
	if w, ok := writers.Load(t); ok {
		return w.(writer)
	}
	w := newWriter(t)
	writers.Store(t, w)
	return w
}

var (
	rawType  = reflect.TypeFor[stdjson.RawMessage]()
	byteType = reflect.TypeFor[byte]()
	texts    = reflect.TypeFor[encoding.TextMarshaler]()
	methods  = []reflect.Type{
		reflect.TypeFor[stdjson.Marshaler](), reflect.TypeFor[json.MarshalerTo](),
		reflect.TypeFor[encoding.TextAppender](), texts,
	}
)

func newWriter(t reflect.Type) writer {
	if t == rawType {
		return appendRaw
	}
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && hasMethod(t) {
		if t.Implements(texts) && !slices.ContainsFunc(methods[:3], reflect.PointerTo(t).Implements) {
			return appendText
		}
		return appendOther
	}
	switch t.Kind() {
	case reflect.Bool:
		return appendBool
	case reflect.String:
		return func(dst []byte, v reflect.Value, _ int) ([]byte, error) { return AppendQuote(dst, v.String()) }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return appendInt
	case reflect.Pointer, reflect.Interface:
		return appendElem
	case reflect.Slice:
		if t.Elem() != byteType {
			return appendSlice
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String && !hasMethod(t.Key()) {
			return appendMap
		}
	case reflect.Struct:
		if members, ok := membersOf(t); ok {
			return structWriter(members)
		}
	}
	return appendOther
}

// hasMethod reports whether a value of type t, or a pointer to one, encodes itself.
func hasMethod(t reflect.Type) bool {
	return slices.ContainsFunc(methods, reflect.PointerTo(t).Implements)
}

// appendOther leaves a value to the library.
func appendOther(dst []byte, v reflect.Value, depth int) ([]byte, error) {
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return nil, fmt.Errorf("canon: %w", err)
	}
	return appendJSON(dst, raw, depth)
}

func appendRaw(dst []byte, v reflect.Value, depth int) ([]byte, error) {
	if v.IsNil() {
		return append(dst, "null"...), nil
	}
	return appendJSON(dst, v.Bytes(), depth)
}

// appendJSON appends any text of the house grammar in canonical form.
func appendJSON(dst, raw []byte, depth int) ([]byte, error) {
	if s := (scanner{b: raw}); s.value(depth, nil) && s.i == len(raw) {
		return append(dst, raw...), nil
	}
	canonical, err := Canonical(raw)
	if err != nil {
		return nil, err
	}
	if s := (scanner{b: canonical}); !s.value(depth, nil) {
		return nil, tooDeep()
	}
	return append(dst, canonical...), nil
}

func tooDeep() error {
	return &SyntaxError{Reason: fmt.Sprintf("nested deeper than %d levels", MaxDepth)}
}

func appendText(dst []byte, v reflect.Value, _ int) ([]byte, error) {
	text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return nil, fmt.Errorf("canon: %w", err)
	}
	return AppendQuote(dst, string(text))
}

func appendBool(dst []byte, v reflect.Value, _ int) ([]byte, error) {
	return strconv.AppendBool(dst, v.Bool()), nil
}

func appendInt(dst []byte, v reflect.Value, _ int) ([]byte, error) {
	n := v.Int()
	if n > maxSafeInteger || n < -maxSafeInteger {
		return nil, &SyntaxError{Reason: "a number is outside the safe integer range"}
	}
	return strconv.AppendInt(dst, n, 10), nil
}

func appendElem(dst []byte, v reflect.Value, depth int) ([]byte, error) {
	if v.IsNil() {
		return append(dst, "null"...), nil
	}
	return appendValue(dst, v.Elem(), depth)
}

func appendSlice(dst []byte, v reflect.Value, depth int) (_ []byte, err error) {
	if depth == MaxDepth {
		return nil, tooDeep()
	}
	each := writerOf(v.Type().Elem())
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = each(dst, v.Index(i), depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendMap(dst []byte, v reflect.Value, depth int) (_ []byte, err error) {
	if depth == MaxDepth {
		return nil, tooDeep()
	}
	names := v.MapKeys()
	slices.SortFunc(names, func(a, b reflect.Value) int { return compareUTF16(a.String(), b.String()) })
	each := writerOf(v.Type().Elem())
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = AppendQuote(dst, name.String()); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, err = each(dst, v.MapIndex(name), depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// member is a field of a struct as a member of its object.
type member struct {
	name  string
	start []byte // quoted name and colon
	index []int
	write writer
	omit  func(reflect.Value) bool // nil: never
}

func structWriter(members []member) writer {
	return func(dst []byte, v reflect.Value, depth int) (_ []byte, err error) {
		if depth == MaxDepth {
			return nil, tooDeep()
		}
		dst = append(dst, '{')
		first := true
		for i := range members {
			m := &members[i]
			field := v.FieldByIndex(m.index)
			if m.omit != nil && m.omit(field) {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(dst, m.start...)
			if dst, err = m.write(dst, field, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
}

// membersOf returns the members of a struct in canonical order. ok is false when
// a tag or an embedding means more than the writer knows.
func membersOf(t reflect.Type) (members []member, ok bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "":
			if f.Type.Kind() != reflect.Struct || hasMethod(f.Type) || options != "" {
				return nil, false
			}
			inner, ok := membersOf(f.Type)
			if !ok {
				return nil, false
			}
			for _, m := range inner {
				m.index = append([]int{i}, m.index...)
				members = append(members, m)
			}
			continue
		case !f.IsExported():
			return nil, false
		case name == "":
			name = f.Name
		}
		m, ok := newMember(f, name, options)
		if !ok {
			return nil, false
		}
		m.index = []int{i}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b member) int { return compareUTF16(a.name, b.name) })
	for i := 1; i < len(members); i++ {
		if members[i].name == members[i-1].name {
			return nil, false
		}
	}
	return members, true
}

func newMember(f reflect.StructField, name, options string) (m member, ok bool) {
	start, err := AppendQuote(nil, name)
	if err != nil || strings.ContainsAny(name, `'\`) {
		return m, false
	}
	m = member{name: name, start: append(start, ':')}
	switch options {
	case "":
	case "omitzero":
		if _, has := reflect.PointerTo(f.Type).MethodByName("IsZero"); has {
			return m, false
		}
		m.omit = reflect.Value.IsZero
	default:
		return m, false
	}
	// The type of a field may hold its own struct, whose writer is being made.
	m.write = func(dst []byte, v reflect.Value, depth int) ([]byte, error) { return writerOf(f.Type)(dst, v, depth) }
	return m, true
}
