package edge

import (
	"bytes"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/canon"
)

// checkNulls refuses null where the schema does not allow it. huma takes null for
// an optional member as absent; here null is a value, and of the wrong type.
func checkNulls(registry huma.Registry, op *huma.Operation, body []byte) error {
	if !bytes.Contains(body, []byte("null")) {
		return nil
	}
	var v any
	if err := canon.Unmarshal(body, &v); err != nil {
		return err
	}
	if at := nullAt(registry, op.RequestBody.Content["application/json"].Schema, v, "body"); at != "" {
		return Refuse(malformedReason(op), "").at(at, "null is not allowed here")
	}
	return nil
}

// nullAt returns the place of a null that the schema does not allow, or nothing.
func nullAt(registry huma.Registry, s *huma.Schema, v any, at string) string {
	for s != nil && s.Ref != "" {
		s = registry.SchemaFromRef(s.Ref)
	}
	if s == nil {
		return ""
	}
	for _, sub := range s.AllOf {
		if found := nullAt(registry, sub, v, at); found != "" {
			return found
		}
	}
	for _, choice := range [][]*huma.Schema{s.OneOf, s.AnyOf} {
		if found := nullInAll(registry, choice, v, at); found != "" {
			return found
		}
	}
	switch v := v.(type) {
	case nil:
		if s.Type != "" && !s.Nullable {
			return at
		}
	case map[string]any:
		rest, _ := s.AdditionalProperties.(*huma.Schema)
		for name, member := range v {
			schema, named := s.Properties[name]
			if !named {
				schema = rest
			}
			if found := nullAt(registry, schema, member, at+"."+name); found != "" {
				return found
			}
		}
	case []any:
		for i, item := range v {
			if found := nullAt(registry, s.Items, item, at+"["+strconv.Itoa(i)+"]"); found != "" {
				return found
			}
		}
	}
	return ""
}

// nullInAll finds a place when every alternative has one: then none of them fits.
func nullInAll(registry huma.Registry, choice []*huma.Schema, v any, at string) (found string) {
	for _, s := range choice {
		if found = nullAt(registry, s, v, at); found == "" {
			return ""
		}
	}
	return found
}
