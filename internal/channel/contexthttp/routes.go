package contexthttp

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/turn"
)

// Perimeter is what the routes ask; *perimeter.Perimeter is one.
type Perimeter interface {
	Authenticate(ctx context.Context, token string) (*perimeter.Caller, error)
	Start(ctx context.Context, by *perimeter.Caller, key string, clientRef *string) (*perimeter.Started, error)
	Call(ctx context.Context, by *perimeter.Caller, turnID string, r tools.Request) (*perimeter.Answer, error)
	Observe(ctx context.Context, by *perimeter.Caller, turnID, key string, o turn.Observation) (*perimeter.Observed, error)
	Complete(ctx context.Context, by *perimeter.Caller, turnID, key, status string, note *string) (*perimeter.Completed, error)
	RecordBridge(ctx context.Context, by *perimeter.Caller, key, kind, digest string) (*perimeter.BridgeReceipt, error)
}

// Largest bodies in bytes (G-34).
const (
	maxTurnBody = 4 << 10
	maxBody     = 16 << 10
)

// Headers of the protocol, as net/http spells them.
const (
	keyHeader     = "Idempotency-Key"
	turnHeader    = "X-Seif-Turn-Id"
	profileHeader = "X-Seif-Profile"
)

// route is one operation of the perimeter under both of its paths.
type route struct {
	id, path             string // what follows the base
	summary, description string
	who                  who
	keyed                bool // it takes an Idempotency-Key
	limit                int64
	request              reflect.Type
	answer               reflect.Type
	statuses             []int // of success, the first one of what is new
	reasons              []string
	act                  func(ctx context.Context, p Perimeter, q *request) (*answer, error)
}

// who says which clients a route is for.
type who int

const (
	anyClient    who = iota // a turn is needed of those that opted in
	turnClient              // a named client that opted in
	bridgeClient            // a named client of kind bridge
)

// request is one that passed steps 1 to 4, but for what its key was used for.
type request struct {
	by   *perimeter.Caller
	turn string // the turn that it is about; empty: none
	key  string
	said
}

// answer is what is sent for a request that was taken.
type answer struct {
	status   int
	replayed bool
	body     any
}

// Register adds the routes.
func Register(api *edge.API, p Perimeter) {
	told := newRefusals(api.Log())
	for _, r := range routes() {
		g := &gate{p: p, route: r, told: told}
		for _, base := range []struct{ path, suffix, of string }{
			{"/{handle}/{project}", "", "production"},
			{"/{handle}/{project}/{environment}", "-in-environment", "the environment named"},
		} {
			edge.RegisterRaw(api, g.operation(api, base.path, base.suffix, base.of), g.serve)
		}
	}
}

// operation documents the route at one of its paths, and sets the form of its body.
func (g *gate) operation(api *edge.API, base, suffix, of string) edge.Operation {
	schemas := api.OpenAPI().Components.Schemas
	reference := schemas.Schema(g.route.request, true, "")
	g.form = newForm(schemas.SchemaFromRef(reference.Ref))
	o := huma.Operation{
		OperationID: g.route.id + suffix, Method: http.MethodPost, Path: base + "/context" + g.route.path, Tags: []string{"context"},
		Summary: g.route.summary, Description: g.route.description + " In " + of + ".",
		Parameters: g.parameters(suffix != ""),
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: reference},
		}},
		Responses: map[string]*huma.Response{},
	}
	for i, status := range g.route.statuses {
		r := &huma.Response{
			Description: []string{"Done.", "It was done before, with the same key; what it has come to."}[i],
			Content:     map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(g.route.answer, true, "")}},
		}
		if g.route.keyed && i == len(g.route.statuses)-1 {
			r.Headers = map[string]*huma.Param{"Idempotency-Replayed": {
				Description: "true when an earlier request with the same key was answered so.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}},
			}}
		}
		o.Responses[strconv.Itoa(status)] = r
	}
	reasons := g.reasons()
	if suffix != "" {
		reasons = append(reasons, authority.NotFound) // of another environment
	}
	return edge.Operation{Operation: o, Reasons: reasons}
}

func (g *gate) parameters(environment bool) []*huma.Param {
	text := func(in, name, doc, pattern string, required bool, example any) *huma.Param {
		return &huma.Param{Name: name, In: in, Description: doc, Required: required, Schema: &huma.Schema{Type: huma.TypeString, Pattern: pattern}, Example: example}
	}
	list := []*huma.Param{
		text("path", "handle", "The project's handle.", "", true, "acme"),
		text("path", "project", "The project's slug.", "", true, "support"),
	}
	if environment {
		p := text("path", "environment", "The environment; without it the path is that of production.", "", true, "staging")
		p.Schema.Enum = []any{project.Production, project.Staging}
		list = append(list, p)
	}
	if g.route.who == turnClient && g.route.id != startID {
		list = append(list, text("path", "id", "The turn's id.", "", true, exampleTurn))
	}
	if g.route.keyed {
		list = append(list, text("header", "Idempotency-Key", "16 to 160 characters out of A-Z a-z 0-9 - _ . ~, fresh for each new request.", keyForm.String(), true, "ctx-2f1c8e7a9b3d4c5e"))
	}
	if g.route.who == anyClient {
		list = append(list, text("header", "X-SEIF-Turn-Id", "The open turn; required of a client that opted in to the turn protocol, refused from others.", "^trn_[0-9a-f]{32}$", false, exampleTurn))
	}
	return append(list, text("header", "X-SEIF-Profile", "Refused when it differs from the profile that the client is bound to.", "", false, "support"))
}

// reasons are all codes that the route refuses with.
func (g *gate) reasons() []string {
	list := []string{
		turn.HTTPSRequired, turn.ContentType, turn.TooLarge, turn.TokenMissing, turn.TokenInvalid, turn.ProjectNotFound,
		turn.EnvironmentMismatch, turn.ProfileMismatch, turn.BodyInvalid, turn.UnknownField, turn.ValueTooLong, turn.IdempotencyInProgress,
	}
	if g.route.who != bridgeClient {
		list = append(list, turn.NamedClientRequired, turn.TurnProtocolNotEnabled)
	} else {
		list = append(list, turn.BridgeClientRequired)
	}
	if g.route.keyed {
		list = append(list, turn.IdempotencyKeyInvalid, turn.IdempotencyConflict)
	}
	return slices.Concat(list, g.route.reasons)
}

const (
	startID     = "start-context-turn"
	exampleTurn = "trn_01940e2e7c0070008000000000000001"
)

// ofTurn are the codes of what is about a turn that is open already.
var ofTurn = []string{turn.TurnNotFound, turn.TurnClosed, turn.TurnExpired, turn.LimitReached}

// ofTool are those of a tool.
var ofTool = slices.Concat([]string{turn.TurnRequired, turn.TurnIDInvalid}, ofTurn)

// ofContent are those of a tool that hands context out.
var ofContent = slices.Concat(ofTool, []string{turn.BuildMissing, turn.BuildOpening})

// routes are all routes of the perimeter.
func routes() []route {
	return []route{
		{
			id: startID, path: "/turns/start", summary: "Open a turn", who: turnClient, keyed: true, limit: maxTurnBody,
			description: "The turn lasts 15 minutes. The same request with the same key gets the turn that it opened, as it is by now, and opens no other. Send no prompt and no answer of a model.",
			request:     reflect.TypeFor[startRequest](), answer: reflect.TypeFor[startAnswer](), statuses: []int{201, 200},
			reasons: []string{turn.LimitReached}, act: start,
		},
		tool(turn.Compass, "Context for a task", "The items of the client's profile that fit the task best, with a verdict on how much of it they cover.",
			reflect.TypeFor[compassRequest](), reflect.TypeFor[compassAnswer](), ofContent),
		tool(turn.Resolve, "One item", "The item as it stands in the selected Build.",
			reflect.TypeFor[resolveRequest](), reflect.TypeFor[resolveAnswer](), slices.Concat(ofContent, []string{turn.ItemNotFound})),
		tool(turn.Find, "Search", "Ranked items of the client's profile, with the places that fit.",
			reflect.TypeFor[findRequest](), reflect.TypeFor[findAnswer](), ofContent),
		tool(turn.Why, "Where an item comes from, or why it was selected", "Of a ref its provenance; of an interaction of this client what was selected, and why.",
			reflect.TypeFor[whyRequest](), reflect.TypeFor[whyAnswer](), slices.Concat(ofContent, []string{turn.ItemNotFound})),
		tool(turn.ReportGap, "Report a gap", "Says that context is missing. The same gap, reported again, has the same id. It hands nothing out.",
			reflect.TypeFor[gapRequest](), reflect.TypeFor[gapAnswer](), ofTool),
		tool(turn.Test, "Run a test case", "Whether the selected Build finds what is expected, without any of its text. It hands nothing out.",
			reflect.TypeFor[testRequest](), reflect.TypeFor[testAnswer](), slices.Concat(ofContent, []string{turn.ItemNotFound})),
		tool(turn.Doctor, "How the client stands", "Client, profile, environment, protocol and Build; nothing of the content.",
			reflect.TypeFor[doctorRequest](), reflect.TypeFor[doctorAnswer](), ofTool),
		{
			id: "observe-context-turn", path: "/turns/{id}/observations", summary: "Record a pre-tool observation", who: turnClient, keyed: true, limit: maxTurnBody,
			description: "A hook saw an intention before a tool was to run; whether it ran is not observed. Only event, tool and toolUseId are taken: input, prompts and results are refused.",
			request:     reflect.TypeFor[observationRequest](), answer: reflect.TypeFor[observationAnswer](), statuses: []int{201, 200},
			reasons: slices.Concat(ofTurn, []string{turn.EventNotAllowed, turn.ToolNotAllowed}), act: observe,
		},
		{
			id: "complete-context-turn", path: "/turns/{id}/complete", summary: "Report technical completion", who: turnClient, keyed: true, limit: maxTurnBody,
			description: "What the application reports of its technical call; nothing of it is observed. The first report that is taken ends the turn; the same request with the same key gets its receipt again.",
			request:     reflect.TypeFor[completeRequest](), answer: reflect.TypeFor[completeAnswer](), statuses: []int{200},
			reasons: slices.Concat(ofTurn, []string{turn.StatusNotAllowed}), act: complete,
		},
		{
			id: "record-bridge-receipt", path: "/bridge/receipts", summary: "Record a bridge receipt", who: bridgeClient, keyed: true, limit: maxBody,
			description: "Extension. A local bridge saw a file, process or HTTP transition. It shows no activity of a model or of a tool.",
			request:     reflect.TypeFor[bridgeRequest](), answer: reflect.TypeFor[bridgeAnswer](), statuses: []int{201, 200}, act: bridge,
		},
	}
}

func tool(name, summary, description string, request, answer reflect.Type, reasons []string) route {
	r := route{
		id: "context-" + name, path: "/" + name, summary: summary, description: description, limit: maxBody,
		request: request, answer: answer, statuses: []int{http.StatusOK}, reasons: reasons, act: call(name),
	}
	if name == turn.ReportGap {
		r.statuses = []int{http.StatusCreated}
	}
	return r
}
