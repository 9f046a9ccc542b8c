package channel_test

import (
	"context"
	"net/http"

	"countersign/evidence"
	"countersign/internal/channel/runbookhttp"
	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
)

// newIncidents makes the control plane of the incident workflow of this house.
func (h *house) newIncidents(edits ...func(*control.Config)) *control.Plane {
	c := control.Config{
		Ledger: h.ledger, Chains: h.gateway, Signing: h.keys.Evidence(), Keys: evidence.Keys{{Public: h.keys.Evidence().Public()}}, MAC: h.keys.MAC, Issuer: h.origin, Workspace: ledger.DefaultWorkspace,
		Freeze: func(ctx context.Context) (bool, int64, error) {
			f, err := h.gateway.Freeze(ctx)
			return f.Frozen, f.Epoch, err
		},
	}
	for _, edit := range edits {
		edit(&c)
	}
	return control.New(c)
}

// visitor is a browser with a cookie of its own, or none yet.
type visitor struct {
	*house
	cookie string
}

func (h *house) visitor() *visitor { return &visitor{house: h} }

func incidentCookie(value string) edit {
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: runbookhttp.CookieName, Value: value}) }
}

// credential is the cookie, and the origin as a browser sends it.
func (v *visitor) credential() edit {
	return func(r *http.Request) {
		if v.cookie != "" {
			incidentCookie(v.cookie)(r)
		}
		if r.Method == http.MethodPost {
			r.Header.Set("Origin", v.origin)
		}
	}
}

// ask sends a request, and keeps the cookie that it is given.
func (v *visitor) ask(body any, edits ...edit) answer {
	v.t.Helper()
	a := v.do("POST", runbookhttp.Path, body, append([]edit{v.credential()}, edits...)...)
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		v.cookie = c.Value
	}
	return a
}

func (v *visitor) get(path string, edits ...edit) answer {
	v.t.Helper()
	return v.do("GET", runbookhttp.Path+path, nil, append([]edit{v.credential()}, edits...)...)
}

func reading() map[string]any { return map[string]any{"operation": "snapshot", "channel": "api"} }

// staging is a request to stage a mitigation at the version that the visitor sees.
func (v *visitor) staging(mitigation string) map[string]any {
	v.t.Helper()
	return map[string]any{"operation": "stage", "channel": "webmcp", "mitigationId": mitigation, "expectedVersion": v.get("").members()["resourceVersion"]}
}

// stage stages a mitigation.
func (v *visitor) stage(mitigation string) {
	v.t.Helper()
	v.ask(v.staging(mitigation)).is(v.t, "stage", 200, "")
}

// staged is what is staged.
func (v *visitor) staged() map[string]any {
	v.t.Helper()
	staged, _ := v.get("").members()["staged"].(map[string]any)
	if staged == nil {
		v.t.Fatal("nothing is staged")
	}
	return staged
}

// approving is what the page sends when its button is pressed.
func (v *visitor) approving() map[string]any {
	v.t.Helper()
	_, nonce, err := v.incidents.Form(v.t.Context(), v.cookie)
	must(v.t, err)
	s := v.staged()
	return map[string]any{"operation": "approve", "channel": "human", "actionDigest": s["actionDigest"], "resourceVersion": s["resourceVersion"], "formNonce": nonce}
}

// executing is a request to execute what is staged.
func (v *visitor) executing() map[string]any {
	v.t.Helper()
	s := v.staged()
	return map[string]any{"operation": "execute", "channel": "webmcp", "actionDigest": s["actionDigest"], "resourceVersion": s["resourceVersion"], "idempotencyKey": s["idempotencyKey"]}
}

// incidentExamples plays the workflow up to its execution.
func incidentExamples(h *house, keep func(operation, name string, request any, a answer) answer) {
	v := h.visitor()
	v.stage("restore-pool")
	v.ask(v.approving()).is(h.t, "approve", 200, "")
	execution := v.executing()
	keep("ask-incident", "executed", execution, v.ask(execution))
	keep("get-incident", "mitigated", nil, v.get(""))
	keep("get-incident-evidence", "mitigated", nil, v.get("/evidence"))
}

// sessionAsCookie sends another session's id, which is shown in its receipts, as one's own
// cookie.
func sessionAsCookie(method, path string) probe {
	return func(h *house, a *belongings) []foreign {
		v := h.visitor()
		v.stage("restore-pool")
		id := v.get("").members()["session"].(map[string]any)["id"].(string)
		return []foreign{{"another session's id as the cookie", func(id string) answer {
			other := &visitor{h, id}
			if method == "POST" {
				return other.ask(reading())
			}
			return other.get(path)
		}, id, "ses_" + hexID()}}
	}
}
