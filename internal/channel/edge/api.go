package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"countersign/internal/canon"
	"countersign/internal/channel/bounds"
)

// Config of an API.
type Config struct {
	Origin  string       // public origin, the one spelling of ParseOrigin
	Title   string       // of the OpenAPI document
	Version string       // of the contract (H-001)
	Log     *slog.Logger // nil: nothing is logged
	// Ready reports whether the process can do its work; /readyz asks it, at most
	// once a second. Without it the answer is no.
	Ready func(context.Context) error
	// Unavailable recognizes errors of the installation that pass by themselves:
	// they are 503 LEDGER_UNAVAILABLE, not 500.
	Unavailable func(error) bool
	Without     string // a check that only tests leave out, see [API]
}

// API holds the routes, their guards and the OpenAPI document. Register
// everything before serving; after that it is safe for concurrent use.
type API struct {
	origin *url.URL
	log    *slog.Logger
	ready  *bounds.Probe
	passes func(error) bool
	mux    *routes
	huma   huma.API
	guards []guarded // longest prefix first

	missing http.Handler // unless nil, shows browsers that there is no such page
	absent  []absence

	without check // a check that tests leave out, to see that it is the one that protects

	exchanges bounds.Exchanges

	ended chan struct{} // closed when streams have to end
	end   sync.Once
}

// check names one of the steps that a request goes through behind its guard.
type check string

const (
	checkOwner      check = "owner"      // the whole guard of the owner's routes: 401, 403
	checkRoute      check = "route"      // 404, 405
	checkNoBody     check = "no body"    // 400: a body where none is taken
	checkType       check = "type"       // 415
	checkSize       check = "size"       // 413
	checkBody       check = "body"       // 400: grammar, schema and decoding
	checkParameters check = "parameters" // 400: unknown, empty or repeated
)

// New makes an API without routes but /healthz and /readyz.
func New(c Config) (*API, error) {
	origin, err := ParseOrigin(c.Origin)
	if err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) error { return errors.New("edge: nothing says whether the process is ready") }
	}
	setHuma()
	a := &API{origin: origin, log: c.Log, passes: c.Unavailable, without: check(c.Without), mux: &routes{ServeMux: http.NewServeMux()}, ended: make(chan struct{})}
	a.ready = bounds.NewProbe(func(ctx context.Context) error {
		err := c.Ready(ctx)
		if err != nil {
			a.log.WarnContext(ctx, "not ready", "cause", err.Error())
		}
		return err
	})
	config := huma.DefaultConfig(c.Title, c.Version)
	config.CreateHooks = nil // no $schema member in bodies
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	format := huma.Format{Marshal: write, Unmarshal: a.decode}
	config.Formats = map[string]huma.Format{"application/json": format, "json": format}
	config.Transformers = []huma.Transformer{encode}
	config.Servers = []*huma.Server{{URL: c.Origin}}
	a.huma = humago.New(a.mux, config)
	return a, nil
}

// ParseOrigin reads an origin and accepts the spelling browsers send:
// scheme://host or scheme://host:port with http or https, in lower case, without
// the scheme's default port, path, query or user.
func ParseOrigin(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("edge: the origin is not a URL")
	}
	defaultPort := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if defaultPort == "" || u.Hostname() == "" || u.Port() == defaultPort ||
		s != u.Scheme+"://"+u.Host || s != strings.ToLower(s) || strings.HasSuffix(u.Host, ":") {
		return nil, fmt.Errorf("edge: want an origin such as http://localhost:8420 or https://host, in lower case and without a path")
	}
	return u, nil
}

// Origin returns the configured origin.
func (a *API) Origin() string { return a.origin.String() }

// Log is where the API tells the operator something; never nil.
func (a *API) Log() *slog.Logger { return a.log }

// OpenAPI returns the document of what is registered.
func (a *API) OpenAPI() *huma.OpenAPI { return a.huma.OpenAPI() }

// Document returns the OpenAPI 3.1 document as indented JSON, the same bytes for
// the same routes.
func (a *API) Document() ([]byte, error) {
	raw, err := json.Marshal(a.huma.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("edge: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("edge: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// Handle registers a plain handler for a pattern of http.ServeMux. It is guarded
// by its path like every other and not part of the document.
func (a *API) Handle(pattern string, h http.Handler) { a.mux.HandleFunc(pattern, h.ServeHTTP) }

// Missing registers what a browser is shown, with 404, for a path that has neither a
// route nor a guard. Everybody else gets the refusal.
func (a *API) Missing(h http.Handler) { a.missing = h }

// Absent says why there is nothing at a path and below it, which the refusals then tell.
func (a *API) Absent(path, why string) { a.absent = append(a.absent, absence{path + "/", why}) }

type absence struct{ prefix, why string }

// Absence is what [API.Absent] said of a path, or "".
func (a *API) Absence(path string) string {
	for _, x := range a.absent {
		if strings.HasPrefix(path+"/", x.prefix) {
			return x.why
		}
	}
	return ""
}

// Routes returns the patterns of all registered routes, documented or not, in
// the order of registration.
func (a *API) Routes() []string { return slices.Clone(a.mux.patterns) }

// routes is a mux that remembers what was registered.
type routes struct {
	*http.ServeMux
	patterns []string
}

func (r *routes) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	r.patterns = append(r.patterns, pattern)
	r.ServeMux.HandleFunc(pattern, h)
}

// encoded is an answer's body, ready to be sent.
type encoded []byte

// encode turns an answer into bytes before the status is sent. A body that
// cannot be encoded panics here and becomes a clean 500; later it would be a
// broken 200. A nil slice is written as [], as the schema says.
func encode(ctx huma.Context, _ string, v any) (any, error) {
	b := encodedJSON(v)
	ctx.SetHeader("Content-Length", strconv.Itoa(len(b)))
	return encoded(b), nil
}

func notEncoded(err error) error { return fmt.Errorf("edge: an answer cannot be encoded: %w", err) }

func write(w io.Writer, v any) error {
	_, err := w.Write(v.(encoded))
	return err
}

func (a *API) decode(raw []byte, v any) error {
	if a.without == checkBody {
		return json.Unmarshal(raw, v)
	}
	return canon.Unmarshal(raw, v)
}

// setHuma gives huma's package variables our rules, once.
var setHuma = sync.OnceFunc(func() {
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
	huma.NewErrorWithContext = func(ctx huma.Context, status int, _ string, errs ...error) huma.StatusError {
		return fromHuma(ctx.Operation(), status, errs)
	}
	// Without a context there is no operation: used for the schema of refusals.
	huma.NewError = func(status int, _ string, errs ...error) huma.StatusError {
		return fromHuma(&huma.Operation{}, status, errs)
	}
})

// fromHuma turns a refusal of huma's into ours: our reason, places and messages,
// none of its values.
func fromHuma(op *huma.Operation, status int, errs []error) *Problem {
	reason := reasonOfStatus(status)
	if reason == Internal {
		p := Refuse(Internal, "")
		if len(errs) > 0 {
			p.cause = errs[0]
		}
		return p
	}
	inBody := true
	p := Refuse(reason, "")
	for _, err := range errs {
		d, ok := err.(huma.ErrorDetailer)
		if !ok {
			continue
		}
		detail := d.ErrorDetail()
		// Behind a colon huma quotes parse errors, and those quote the value.
		message, _, _ := strings.Cut(detail.Message, ": ")
		p.at(detail.Location, message)
		inBody = inBody && (detail.Location == "body" || strings.HasPrefix(detail.Location, "body."))
	}
	if len(p.Errors) == 0 && p.Status == http.StatusBadRequest {
		p.at("body", "missing or unreadable")
	}
	if m := malformedReason(op); reason != m && inBody && p.Status == http.StatusBadRequest {
		errors := p.Errors
		p = Refuse(m, "")
		p.Errors = errors
	}
	return p
}
