package edge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/channel/bounds"
)

// MaxBody is the largest request body in bytes (L-19), but for operations that say
// otherwise, and LargestBody the largest that one may allow.
const (
	MaxBody     = 64 << 10
	LargestBody = 8 << 20
)

// bodyRate is how fast, in bytes a second, a body has to arrive for which
// [bounds.BodyTimeout] is too short: the largest has 42 s.
const bodyRate = 256 << 10

// Operation is a route with its documentation.
type Operation struct {
	huma.Operation
	// Reasons are the codes that the handler refuses with. Those of the guard and
	// of reading the request are added. A code of the table that refuses no
	// request panics at registration.
	Reasons []string
	// Malformed is the code for a body outside the grammar or its schema; empty
	// means INVALID_REQUEST.
	Malformed string
	// BodySchema documents the body of an operation with a RawBody.
	BodySchema *huma.Schema
	// MaxBody, unless 0, is the largest body in bytes, at most [LargestBody]. Give a
	// larger one than the constant only to whoever a guard let in: it is held whole.
	MaxBody int64
}

// Register adds a JSON operation. I and O are huma's input and output structs. A
// body is read into a field Body, checked against its schema and decoded with
// package canon, or left as a field RawBody []byte with the tag
// contentType:"application/json", which is checked for the grammar alone and
// valid until the handler returns. An operation with neither refuses bodies.
func Register[I, O any](a *API, op Operation, handler func(context.Context, *I) (*O, error)) {
	t := reflect.TypeFor[I]()
	_, body := t.FieldByName("Body")
	_, raw := t.FieldByName("RawBody")
	o := a.operation(op, body || raw)
	o.SkipValidateBody = raw && !body || a.without == checkBody
	huma.Register(a.huma, o, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		if err != nil {
			return nil, a.refused(ctx, o.OperationID, err)
		}
		return out, nil
	})
	if raw && !body {
		a.documentBody(o, op.BodySchema)
	}
}

// documentBody replaces the schema that huma gives raw bodies, a binary string.
func (a *API) documentBody(o huma.Operation, schema *huma.Schema) {
	if schema == nil {
		schema = &huma.Schema{}
	}
	item := a.huma.OpenAPI().Paths[o.Path]
	for _, registered := range []*huma.Operation{item.Post, item.Put, item.Patch} {
		if registered != nil && registered.OperationID == o.OperationID {
			registered.RequestBody.Content["application/json"].Schema = schema
		}
	}
}

// malformedKey is where huma.Operation.Metadata holds Operation.Malformed.
const malformedKey = "edge.malformed"

func malformedReason(op *huma.Operation) string {
	if reason, ok := op.Metadata[malformedKey].(string); ok {
		return reason
	}
	return authority.InvalidRequest
}

// operation prepares what huma registers: documented refusals and strict reading.
func (a *API) operation(op Operation, body bool) huma.Operation {
	o := op.Operation
	reasons := append(slices.Clone(op.Reasons), Internal, LedgerUnavailable)
	if g, found := a.guardOf(o.Path); found {
		reasons = append(reasons, g.Reasons...)
	}
	if op.Malformed != "" {
		reasons = append(reasons, op.Malformed)
		o.Metadata = map[string]any{malformedKey: op.Malformed}
	}
	reasons = append(reasons, authority.InvalidRequest, OriginRejected)
	if body {
		reasons = append(reasons, ContentTypeRejected, BodyTooLarge)
	}
	o.Responses = a.refusals(reasons, o.Responses)
	o.MaxBodyBytes = a.maxBody(op.MaxBody) + 1 // huma refuses what equals its bound; ours is checked before
	o.BodyReadTimeout = -1                     // the router's deadline holds; a later one would cut long handlers
	o.Middlewares = append(slices.Clone(o.Middlewares), a.readRequest)
	return o
}

// refusals documents the reasons by status.
func (a *API) refusals(reasons []string, responses map[string]*huma.Response) map[string]*huma.Response {
	documented := map[string]*huma.Response{}
	for status, r := range responses {
		documented[status] = r
	}
	codes := map[int][]string{}
	for _, code := range reasons {
		r, known := reasonOf(code)
		if !known || r.Status == http.StatusOK {
			panic("edge: " + code + " is not a reason to refuse a request")
		}
		if !slices.Contains(codes[r.Status], code) {
			codes[r.Status] = append(codes[r.Status], code)
		}
	}
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	for status, list := range codes {
		slices.Sort(list)
		documented[strconv.Itoa(status)] = &huma.Response{
			Description: strings.Join(list, ", "),
			Content:     map[string]*huma.MediaType{problemType: {Schema: schema}},
		}
	}
	return documented
}

// readRequest reads the body and refuses what huma would let pass: parameters that
// are unknown, empty or repeated, a body where none is taken, another type, a text
// outside the grammar.
func (a *API) readRequest(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	op := ctx.Operation()
	body, err := a.readBody(w, r, op)
	if err == nil && a.without != checkParameters {
		err = parameters(r, op)
	}
	if err == nil && len(body) > 0 && !op.SkipValidateBody {
		err = checkNulls(a.huma.OpenAPI().Components.Schemas, op, body)
	}
	if err != nil {
		a.refused(r.Context(), op.OperationID, err).write(w)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	next(ctx)
}

func (a *API) readBody(w http.ResponseWriter, r *http.Request, op *huma.Operation) ([]byte, error) {
	if op.RequestBody == nil {
		if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n > 0 && a.without != checkNoBody {
			return nil, Refuse(authority.InvalidRequest, "").at("body", "this operation takes no body")
		}
		return nil, nil
	}
	if r.ContentLength == 0 && !op.RequestBody.Required && len(r.Header["Content-Type"]) == 0 {
		return nil, nil
	}
	codes := BodyReasons{Type: ContentTypeRejected, Size: BodyTooLarge, Malformed: authority.InvalidRequest}
	if a.without == checkType {
		codes.Type = ""
	}
	if op.MaxBodyBytes-1 > MaxBody && a.without != checkSize {
		// Only a longer time than every body has; the end of the server is not moved.
		end := time.Now().Add(bounds.BodyTimeout + time.Duration(op.MaxBodyBytes/bodyRate)*time.Second)
		if err := http.NewResponseController(w).SetReadDeadline(end); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return nil, err
		}
	}
	body, err := ReadBody(w, r, op.MaxBodyBytes-1, codes)
	if err != nil {
		return nil, err
	}
	if err := canon.Check(body); err != nil && a.without != checkBody {
		return nil, malformed(malformedReason(op), err)
	}
	r.Header.Set("Content-Type", "application/json") // the one spelling that huma knows
	return body, nil
}

// BodyReasons are the codes with which [ReadBody] refuses: another content type (none:
// any is taken), a body over the limit, one that did not arrive whole.
type BodyReasons struct{ Type, Size, Malformed string }

// ReadBody reads a body of application/json in UTF-8 of at most limit bytes, also one
// that is sent in pieces without a length. It does not look at its grammar.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64, codes BodyReasons) ([]byte, error) {
	if codes.Type != "" && !isJSON(r.Header) {
		return nil, Refuse(codes.Type, "")
	}
	tooLarge := Refuse(codes.Size, fmt.Sprintf("Send at most %d bytes.", limit)).With("Connection", "close")
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case int64(len(body)) > limit:
		return nil, tooLarge
	case err != nil:
		return nil, Refuse(codes.Malformed, "").at("body", "did not arrive whole").With("Connection", "close")
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return body, nil
}

func (a *API) maxBody(own int64) int64 {
	if own < 0 || own > LargestBody {
		panic("edge: a body is larger than any may be")
	}
	if a.without == checkSize {
		return 1 << 30
	}
	return cmp.Or(own, MaxBody)
}

// isJSON accepts application/json alone or with charset utf-8, sent once and
// without a content encoding.
func isJSON(h http.Header) bool {
	if len(h["Content-Type"]) != 1 || len(h["Content-Encoding"]) != 0 {
		return false
	}
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return false
	}
	charset, given := params["charset"]
	delete(params, "charset")
	return len(params) == 0 && (!given || strings.EqualFold(charset, "utf-8"))
}

// parameters refuses what two readers could take differently, or a client could
// take for a request that it is not: an unknown query parameter, one without a
// value, and a parameter that is there twice.
func parameters(r *http.Request, op *huma.Operation) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Refuse(authority.InvalidRequest, "").at("query", "not a query string")
	}
	p := Refuse(authority.InvalidRequest, "")
	for _, name := range slices.Sorted(maps.Keys(query)) {
		known := slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.In == "query" && p.Name == name })
		switch values := query[name]; {
		case !known:
			p.at("query."+name, "unknown query parameter")
		case len(values) > 1:
			p.at("query."+name, "stands twice")
		case values[0] == "":
			p.at("query."+name, "has no value")
		}
	}
	for _, known := range op.Parameters {
		if known.In == "header" && len(r.Header.Values(known.Name)) > 1 {
			p.at("header."+known.Name, "stands twice")
		}
	}
	if len(p.Errors) > 0 {
		return p
	}
	return nil
}
