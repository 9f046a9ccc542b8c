package edge

import (
	"net/http"
	"slices"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
)

// RegisterRaw adds an operation whose handler reads the request by itself, in an
// order of its own; guards, Host check, bounds in time, answers to refusals and the
// document are those of all others. op holds the parameters, the body and the
// successful answers that are documented, and in Reasons everything that the handler
// refuses with. The handler returns an error, before anything was written, or has
// answered.
func RegisterRaw(a *API, op Operation, handler func(http.ResponseWriter, *http.Request) error) {
	o := op.Operation
	reasons := append(slices.Clone(op.Reasons), Internal, LedgerUnavailable, OriginRejected)
	if g, found := a.guardOf(o.Path); found {
		reasons = append(reasons, g.Reasons...)
	}
	o.Responses = a.refusals(reasons, o.Responses)
	a.huma.OpenAPI().AddOperation(&o)
	a.mux.HandleFunc(o.Method+" "+o.Path, func(w http.ResponseWriter, r *http.Request) {
		if err := handler(w, r); err != nil {
			a.refused(r.Context(), o.OperationID, err).write(w)
		}
	})
}

// SendJSON answers with v. A body that cannot be encoded panics before anything is
// written and becomes a clean 500.
func SendJSON(w http.ResponseWriter, status int, v any) {
	send(w, status, "application/json", encodedJSON(v))
}

// SendRefusal answers with a refusal whose body is v: p, and members of its own.
func SendRefusal(w http.ResponseWriter, p *Problem, v any) { p.send(w, encodedJSON(v)) }

func encodedJSON(v any) []byte {
	b, err := jsonv2.Marshal(v, jsonv2.Deterministic(true))
	if err != nil {
		panic(notEncoded(err))
	}
	return b
}

func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // an error means the client has left
}
