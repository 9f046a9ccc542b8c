package channel_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"countersign/internal/channel"
	"countersign/internal/channel/edge"
)

// contract is the published document, and a RoundTripper that holds every answer
// against it: an unknown operation, an undocumented status or reason, another
// content type or a body outside its schema fails the test.
type contract struct {
	t    testing.TB
	next http.RoundTripper
}

func (c *contract) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	op := document().find(r.Method, r.URL.Path)
	if op == nil {
		c.t.Errorf("%s %s is not in the document", r.Method, r.URL.Path)
		return response, nil
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		if problem := op.check(response, nil); problem != "" {
			c.t.Errorf("%s %s: %s", r.Method, r.URL.Path, problem)
		}
		return response, nil
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	if problem := op.check(response, body); problem != "" {
		c.t.Errorf("%s %s: %s\n%.1000s", r.Method, r.URL.Path, problem, body)
	}
	return response, nil
}

// operation is one documented operation.
type operation struct {
	ID          string `json:"operationId"`
	Method      string
	Path        string
	Parameters  []struct{ Name, In string } `json:"parameters"`
	RequestBody *struct {
		Content map[string]content `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Description string             `json:"description"`
		Content     map[string]content `json:"content"`
		Headers     map[string]struct {
			Example string `json:"example"`
		} `json:"headers"`
	} `json:"responses"`
}

type content struct {
	Examples map[string]struct {
		Value any `json:"value"`
	} `json:"examples"`
}

// openAPI is the document as a client reads it.
type openAPI struct {
	operations []*operation
	compiler   *jsonschema.Compiler
	mu         sync.Mutex
	compiled   map[string]*jsonschema.Schema
}

const documentURL = "https://document.test/openapi.json"

// document reads the document that the routes make.
var document = sync.OnceValue(func() *openAPI {
	raw, err := channel.Document()
	if err != nil {
		panic(err)
	}
	d, err := readDocument(raw)
	if err != nil {
		panic(err)
	}
	return d
})

func readDocument(raw []byte) (*openAPI, error) {
	resource, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	d := &openAPI{compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(documentURL, resource); err != nil {
		return nil, err
	}
	var read struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		return nil, err
	}
	for p, methods := range read.Paths {
		for method, raw := range methods {
			o := &operation{Method: strings.ToUpper(method), Path: p}
			if err := json.Unmarshal(raw, o); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, p, err)
			}
			d.operations = append(d.operations, o)
		}
	}
	slices.SortFunc(d.operations, func(a, b *operation) int { return strings.Compare(a.ID, b.ID) })
	return d, nil
}

// find returns the operation of a request, or nil.
func (d *openAPI) find(method, p string) *operation {
	for _, o := range d.operations {
		pattern := o.Path
		for strings.Contains(pattern, "{") {
			before, rest, _ := strings.Cut(pattern, "{")
			_, after, _ := strings.Cut(rest, "}")
			pattern = before + "*" + after
		}
		if matched, _ := path.Match(pattern, p); matched && o.Method == method {
			return o
		}
	}
	return nil
}

// validate holds a value against the schema at a place of the document.
func (d *openAPI) validate(place []string, v any) error {
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	pointer := documentURL + "#"
	for _, token := range place {
		pointer += "/" + escape.Replace(token)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, known := d.compiled[pointer]
	if !known {
		var err error
		if s, err = d.compiler.Compile(pointer); err != nil {
			return err
		}
		d.compiled[pointer] = s
	}
	return s.Validate(v)
}

func (o *operation) responseSchema(status, kind string) []string {
	return []string{"paths", o.Path, strings.ToLower(o.Method), "responses", status, "content", kind, "schema"}
}

func (o *operation) requestSchema() []string {
	return []string{"paths", o.Path, strings.ToLower(o.Method), "requestBody", "content", "application/json", "schema"}
}

// check says what is wrong with an answer, or nothing.
func (o *operation) check(r *http.Response, body []byte) string {
	status := strconv.Itoa(r.StatusCode)
	documented, known := o.Responses[status]
	if !known {
		return "status " + status + " is not documented"
	}
	if len(documented.Content) == 0 {
		if len(body) > 0 {
			return "the document knows no body of status " + status
		}
		return ""
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if _, known := documented.Content[kind]; !known {
		return fmt.Sprintf("content type %q is not documented for status %s", kind, status)
	}
	if kind == "application/problem+json" {
		if wrong := checkProblem(documented.Description, r.StatusCode, body); wrong != "" {
			return wrong
		}
	}
	if !strings.HasSuffix(kind, "json") {
		return ""
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	if err := document().validate(o.responseSchema(status, kind), v); err != nil {
		return err.Error()
	}
	return ""
}

// checkProblem holds a refusal against its line of the table and against the
// reasons that the operation documents for the status.
func checkProblem(documented string, status int, body []byte) string {
	var p struct {
		Type, Title, ReasonCode string
		Status                  int
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return err.Error()
	}
	if !slices.Contains(strings.Split(documented, ", "), p.ReasonCode) {
		return fmt.Sprintf("reason %s is not documented for status %d: %s", p.ReasonCode, status, documented)
	}
	i := slices.IndexFunc(edge.Reasons(), func(r edge.Reason) bool { return r.Code == p.ReasonCode })
	if r := edge.Reasons()[i]; r.Status != status || p.Status != status || p.Title != r.Title || p.Type != "/reasons#"+r.Code {
		return "the refusal is not its line of the table"
	}
	return ""
}
