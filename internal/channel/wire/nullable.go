package wire

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/canon"
)

// Nullable is an object or null, always present. The document says so with oneOf,
// which a plain pointer to a struct cannot.
type Nullable[T any] struct{ Value *T }

// Null wraps a pointer; nil is null.
func Null[T any](v *T) Nullable[T] { return Nullable[T]{v} }

// MarshalJSON writes the object or null.
func (n Nullable[T]) MarshalJSON() ([]byte, error) {
	if n.Value == nil {
		return []byte("null"), nil
	}
	return canon.Marshal(n.Value)
}

// Schema documents the object or null.
func (Nullable[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{r.Schema(reflect.TypeFor[T](), true, ""), {Type: "null"}}}
}

// Empty is the body of a request that says nothing; it may be left out.
type Empty struct{}
