package contexthttp

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/canon"
	"countersign/internal/channel/edge"
	"countersign/internal/contextturn/turn"
)

// said is what the body of a request says, of whichever route.
type said struct {
	ClientRef     *string  `json:"clientRef"`
	Task          *string  `json:"task"`
	Ref           *string  `json:"ref"`
	Query         *string  `json:"query"`
	Limit         *int64   `json:"limit"`
	InteractionID *string  `json:"interactionId"`
	Detail        *string  `json:"detail"`
	CaseID        *string  `json:"caseId"`
	ExpectRefs    []string `json:"expectRefs"`
	Event         string   `json:"event"`
	Tool          string   `json:"tool"`
	ToolUseID     string   `json:"toolUseId"`
	Status        string   `json:"status"`
	Note          *string  `json:"note"`
	Kind          string   `json:"kind"`
	Digest        string   `json:"digest"`
}

// fixed are the members with values of their own, whose refusals have codes of their
// own, in the order of the rejection list.
var fixed = []struct{ member, reason string }{
	{"event", turn.EventNotAllowed}, {"tool", turn.ToolNotAllowed}, {"status", turn.StatusNotAllowed},
}

// plainly are the members whose texts evidence holds as they are. What stands there cannot
// be erased: one that looks like a secret is no value of the member, whatever its form.
var plainly = []string{"tool", "toolUseId"}

// form is the documented schema of a body, and what reads it: the two cannot differ.
type form struct {
	schema   *huma.Schema
	patterns map[string]*regexp.Regexp
}

func newForm(schema *huma.Schema) *form {
	f := &form{schema, map[string]*regexp.Regexp{}}
	for name, m := range schema.Properties {
		if m.Pattern != "" {
			f.patterns[name] = regexp.MustCompile(m.Pattern)
		}
	}
	return f
}

// read reads a body. What is wrong with it is refused in the order of the rejection
// list, each time with every place where the same is wrong.
func (f *form) read(raw []byte, query string) (*said, error) {
	var members map[string]any
	if err := canon.Check(raw); err != nil {
		return nil, outside(err)
	}
	if err := canon.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, edge.Refuse(turn.BodyInvalid, "").At("", "want an object")
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return nil, edge.Refuse(turn.BodyInvalid, "").AtPlace("query", "not a query string")
	}
	names := slices.Sorted(maps.Keys(members))
	for _, step := range []func([]string, map[string]any) *findings{f.malformed, f.unknown(parameters), f.disallowed, f.long} {
		if found := step(names, members); found != nil {
			return nil, found.refusal()
		}
	}
	var s said
	if err := canon.Unmarshal(raw, &s); err != nil {
		return nil, outside(err)
	}
	return &s, nil
}

// findings are places of a body where one kind of thing is wrong.
type findings struct {
	reason string
	list   [][2]string // place, message
}

func (f *findings) refusal() error {
	p := edge.Refuse(f.reason, "")
	for _, place := range f.list {
		p.AtPlace(place[0], place[1])
	}
	return p
}

// collect returns findings, or nil when there are none.
func collect(reason string, each func(add func(place, message string))) *findings {
	f := &findings{reason: reason}
	each(func(place, message string) { f.list = append(f.list, [2]string{place, message}) })
	if len(f.list) == 0 {
		return nil
	}
	return f
}

// outside is the refusal of a body outside the grammar.
func outside(err error) error {
	if s, ok := errors.AsType[*canon.SyntaxError](err); ok {
		return edge.Refuse(turn.BodyInvalid, "").At(s.Pointer, s.Reason)
	}
	return edge.Refuse(turn.BodyInvalid, "").At("", "unreadable")
}

// malformed finds members that are missing or that no value of their kind could be.
func (f *form) malformed(names []string, members map[string]any) *findings {
	return collect(turn.BodyInvalid, func(add func(string, string)) {
		for _, name := range f.schema.Required {
			if _, given := members[name]; !given {
				add(inBody+name, "missing")
			}
		}
		for _, name := range names {
			if m := f.schema.Properties[name]; m != nil {
				if wrong := f.wrong(name, m, members[name]); wrong != "" {
					add(inBody+name, wrong)
				}
			}
		}
		if len(f.schema.OneOf) > 0 && !f.chosen(members) {
			add("body", "want "+f.schema.Description)
		}
	})
}

// wrong says why a value cannot be one of the member, or nothing. Fixed values and upper
// bounds are looked at later.
func (f *form) wrong(name string, m *huma.Schema, value any) string {
	switch v := value.(type) {
	case string:
		switch {
		case m.Type != huma.TypeString:
			return "want " + m.Type
		case m.MinLength != nil && utf8.RuneCountInString(v) < *m.MinLength:
			return "empty"
		case slices.Contains(plainly, name) && turn.IsSecret(v):
			return "looks like a secret"
		case isFixed(name):
			return ""
		case f.patterns[name] != nil && !f.patterns[name].MatchString(v), len(m.Enum) > 0 && !slices.Contains(m.Enum, value):
			return "want " + m.Description
		}
	case float64:
		if m.Type != huma.TypeInteger {
			return "want " + m.Type
		}
		if m.Minimum != nil && v < *m.Minimum {
			return "too small"
		}
	case []any:
		if m.Type != huma.TypeArray {
			return "want " + m.Type
		}
		for _, item := range v {
			if s, ok := item.(string); !ok || s == "" {
				return "want texts that are not empty"
			}
		}
		if m.MinItems != nil && len(v) < *m.MinItems {
			return "empty"
		}
	default:
		return "want " + m.Type
	}
	return ""
}

func isFixed(name string) bool {
	return slices.ContainsFunc(fixed, func(f struct{ member, reason string }) bool { return f.member == name })
}

// chosen reports whether exactly one of the alternatives is there, whole.
func (f *form) chosen(members map[string]any) bool {
	begun, whole := 0, 0
	for _, alternative := range f.schema.OneOf {
		given := 0
		for _, name := range alternative.Required {
			if _, there := members[name]; there {
				given++
			}
		}
		begun += min(given, 1)
		if given == len(alternative.Required) {
			whole++
		}
	}
	return begun == 1 && whole == 1
}

// unknown finds members and query parameters that nobody asked for. What they hold is
// not looked at.
func (f *form) unknown(parameters url.Values) func([]string, map[string]any) *findings {
	return func(names []string, _ map[string]any) *findings {
		return collect(turn.UnknownField, func(add func(string, string)) {
			for _, name := range names {
				if f.schema.Properties[name] == nil {
					add(inBody+name, "unknown")
				}
			}
			for _, name := range slices.Sorted(maps.Keys(parameters)) {
				add("query."+name, "unknown query parameter")
			}
		})
	}
}

// inBody is how the place of a member begins.
const inBody = "body."

// disallowed finds the first member with a value that is not one of the fixed ones.
func (f *form) disallowed(_ []string, members map[string]any) *findings {
	for _, x := range fixed {
		m := f.schema.Properties[x.member]
		if m == nil {
			continue
		}
		v := members[x.member].(string)
		if f.patterns[x.member] != nil && !f.patterns[x.member].MatchString(v) || len(m.Enum) > 0 && !slices.Contains(m.Enum, any(v)) {
			return &findings{x.reason, [][2]string{{inBody + x.member, "want " + m.Description}}}
		}
	}
	return nil
}

// long finds what is over its bound.
func (f *form) long(names []string, members map[string]any) *findings {
	return collect(turn.ValueTooLong, func(add func(string, string)) {
		for _, name := range names {
			switch m := f.schema.Properties[name]; v := members[name].(type) {
			case string:
				if m.MaxLength != nil && utf8.RuneCountInString(v) > *m.MaxLength {
					add(inBody+name, "at most "+strconv.Itoa(*m.MaxLength)+" characters")
				}
			case float64:
				if m.Maximum != nil && v > *m.Maximum {
					add(inBody+name, "at most "+strconv.Itoa(int(*m.Maximum)))
				}
			case []any:
				if m.MaxItems != nil && len(v) > *m.MaxItems {
					add(inBody+name, "at most "+strconv.Itoa(*m.MaxItems))
				}
				for i, item := range v {
					if most := m.Items.MaxLength; most != nil && utf8.RuneCountInString(item.(string)) > *most {
						add(inBody+name+"["+strconv.Itoa(i)+"]", "at most "+strconv.Itoa(*most)+" characters")
					}
				}
			}
		}
	})
}

// key returns the one Idempotency-Key of a request.
func key(h http.Header) (string, error) {
	keys := h["Idempotency-Key"]
	if len(keys) != 1 || !keyForm.MatchString(keys[0]) {
		return "", edge.Refuse(turn.IdempotencyKeyInvalid, "")
	}
	return keys[0], nil
}

// keyForm is 16 to 160 of the characters that a URL holds as they are (RFC 3986).
var keyForm = regexp.MustCompile(`^[A-Za-z0-9\-_.~]{16,160}$`)
