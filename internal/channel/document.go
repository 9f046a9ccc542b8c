package channel

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// document adds what cannot be read off Go types: how members of one name look
// everywhere, and the recorded examples. off are operations that this server is without.
func document(d *huma.OpenAPI, off ...string) {
	for _, s := range d.Components.Schemas.Map() {
		for name, member := range s.Properties {
			conventional(name, member)
			if !slices.Contains(s.Required, name) {
				member.Nullable = false // absent or a value
			}
		}
		s.PrecomputeMessages()
	}
	for operation, e := range examples() {
		o := operationOf(d, operation)
		if o == nil && slices.Contains(off, operation) {
			continue
		}
		if o == nil {
			panic("channel: there is an example of " + operation + " and no such operation")
		}
		exemplifyAs(o, e)
		if same := operationOf(d, operation+inEnvironment); same != nil {
			exemplifyAs(same, e)
		}
	}
}

// inEnvironment ends the id of an operation that is another one under a longer path.
const inEnvironment = "-in-environment"

// exemplifyAs shows an example of an operation. What was answered stands at every
// success, since all have one form.
func exemplifyAs(o *huma.Operation, e example) {
	if e.Request != nil {
		exemplify(o.RequestBody.Content["application/json"], e.Name, e.Request)
	}
	for name, value := range e.Headers {
		o.Responses[strconv.Itoa(e.Status)].Headers[name].Example = value
	}
	if e.Response == nil {
		return
	}
	for status, r := range o.Responses {
		for _, content := range r.Content {
			if status[0] == '2' {
				exemplify(content, e.Name, e.Response)
			}
		}
	}
}

// objects are members with JSON that another package wrote.
var objects = []string{"args", "data", "state", "terms"}

// conventional gives a member the form that its name promises.
func conventional(name string, s *huma.Schema) {
	switch {
	case s.Type == "" && s.Ref == "" && s.OneOf == nil && slices.Contains(objects, name):
		s.Type = huma.TypeObject
	case s.Type != huma.TypeString:
	case strings.HasSuffix(name, "Cents"):
		s.Pattern = "^(0|[1-9][0-9]{0,11})$"
	case strings.HasSuffix(name, "Digest") || strings.HasSuffix(strings.ToLower(name), "sha256"):
		s.Pattern = "^[0-9a-f]{64}$"
	case strings.HasSuffix(name, "At") || name == "timestamp":
		s.Format = "date-time"
	}
}

// example is what was sent and answered once.
type example struct {
	Name     string            `json:"name"`
	Request  json.RawMessage   `json:"request,omitempty"`
	Status   int               `json:"status"`
	Headers  map[string]string `json:"headers,omitempty"` // of an answer without a body
	Response json.RawMessage   `json:"response,omitempty"`
}

//go:embed examples.json
var recorded []byte

// examples returns the recorded examples by operation.
func examples() map[string]example {
	var all map[string]example
	if err := json.Unmarshal(recorded, &all); err != nil {
		panic(err) // the file is part of the program
	}
	return all
}

func exemplify(content *huma.MediaType, name string, value json.RawMessage) {
	content.Examples = map[string]*huma.Example{name: {
		Summary: "Recorded; ids, times, digests, tokens and signatures are replaced, long lists are cut.", Value: value,
	}}
}

// operationOf finds an operation; nil when there is none.
func operationOf(d *huma.OpenAPI, id string) *huma.Operation {
	for _, path := range d.Paths {
		for _, o := range []*huma.Operation{path.Get, path.Post, path.Put, path.Patch, path.Delete} {
			if o != nil && o.OperationID == id {
				return o
			}
		}
	}
	return nil
}
