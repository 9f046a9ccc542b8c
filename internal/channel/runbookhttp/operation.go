package runbookhttp

import (
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// only says when the routes exist.
const only = " Exists only where the server was started with --incident."

// Operations are the ids of the routes in the document.
var Operations = []string{getID, evidenceID, postID}

const (
	getID      = "get-incident"
	evidenceID = "get-incident-evidence"
	postID     = "ask-incident"
)

func getOperation() edge.Operation {
	return edge.Operation{Operation: huma.Operation{
		OperationID: getID, Method: http.MethodGet, Path: Path, Tags: []string{"incident"}, Summary: "The incident as it is",
		Description: "The snapshot of the cookie's session, or of one that has not begun. It creates nothing and leaves no receipt. " + incident.HonestySynthetic + only,
	}, Reasons: []string{incident.OriginRejected, incident.InvalidRequest, incident.ControlPlaneDown}}
}

func evidenceOperation() edge.Operation {
	return edge.Operation{Operation: huma.Operation{
		OperationID: evidenceID, Method: http.MethodGet, Path: Path + "/evidence", Tags: []string{"incident"}, Summary: "Export the session's signed receipts",
		Description: "An export like that of a run; countersign verify reads it. It leaves no receipt. It is sent while it is read: one that breaks off is none. At most " + strconv.Itoa(MaxExports) + " are sent at once, and each for a minute at most." + only,
		Responses: map[string]*huma.Response{"200": {
			Description: "The export: canonical JSON and one newline.",
			Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}}},
		}},
	}, Reasons: []string{incident.OriginRejected, incident.InvalidRequest, incident.ControlPlaneDown, authority.NotFound, authority.InvalidRequest}}
}

// undecided are the reasons of a POST that nothing was decided about.
var undecided = []string{
	incident.OriginRejected, incident.ContentTypeRejected, edge.BodyTooLarge, incident.InvalidJSON, incident.InvalidRequest, edge.RateLimited, incident.ControlPlaneDown,
}

// decided are those that come with a receipt, or none, and the snapshot.
var decided = []string{
	incident.NothingStaged, incident.InvalidMitigation, incident.StaleState, incident.StaleApproval, incident.StaleExecution, incident.StaleReset,
	incident.ApprovalRequired, incident.IdentityMismatch, incident.ApprovalExpired, incident.ApprovalConsumed, incident.IdempotencyConflict,
	incident.ReceiptConflict, incident.ExecutionConflict, incident.RecoveryFirst, authority.Frozen,
}

// registerPost adds and documents the one operation that asks for something.
func registerPost(api *edge.API, handler func(http.ResponseWriter, *http.Request) error) {
	schemas := api.OpenAPI().Components.Schemas
	schema := func(t reflect.Type) *huma.Schema { return schemas.Schema(t, true, "") }
	edge.RegisterRaw(api, edge.Operation{Operation: huma.Operation{
		OperationID: postID, Method: http.MethodPost, Path: Path, Tags: []string{"incident"}, Summary: "Ask for a transition",
		Description: "Reads, compares, stages, approves, executes or resets, as operation says; the session begins with the first request that leaves a receipt, refused ones too. " +
			"An execution needs the digest, version and key of what is staged and a live approval of exactly that; the same request again gets the same record and applies nothing. " +
			"approve is the page's: no other channel and no tool approves. " + incident.HonestyChannel + " At most " + strconv.Itoa(control.MaxNew) + " sessions begin in an hour from one address." + only,
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema(reflect.TypeFor[Request]())}}},
		Responses: map[string]*huma.Response{"200": {
			Description: "It was let through.",
			Headers: map[string]*huma.Param{"Set-Cookie": {
				Description: "The cookie of the session that began with it.", Schema: &huma.Schema{Type: huma.TypeString},
			}},
			Content: map[string]*huma.MediaType{"application/json": {Schema: schema(reflect.TypeFor[IncidentAnswer]())}},
		}},
	}, Reasons: append(append([]string{}, undecided...), decided...)}, handler)
	plain, more := schema(reflect.TypeFor[edge.Problem]()), schema(reflect.TypeFor[DecidedProblem]())
	responses := api.OpenAPI().Paths[Path].Post.Responses
	for _, r := range edge.Reasons() {
		for _, code := range decided {
			if r.Code == code {
				for _, content := range responses[strconv.Itoa(r.Status)].Content {
					content.Schema = &huma.Schema{OneOf: []*huma.Schema{plain, more}}
				}
			}
		}
	}
}
