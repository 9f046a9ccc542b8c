package cutoff

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"testing"

	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/contextturn/content"
	"countersign/internal/keys"
	"countersign/internal/ledger"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// house is the product with one project, behind a proxy.
type house struct {
	t       *testing.T
	clock   *ledger.Clock
	owner   *client.Owner
	project string
	proxy   *proxy
}

const document = "---\nid: refunds\ntitle: Refund policy\n---\nRefunds are paid within five days to the original card.\n"

func newHouse(t *testing.T) *house {
	t.Helper()
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "D")
	h := &house{t: t, clock: &ledger.Clock{}}
	must(t, app.Init(ctx, dir, ""))
	a, err := app.Open(ctx, app.Config{Dir: dir, Addr: "localhost:0", Clock: h.clock})
	must(t, err)
	serving, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- errors.Join(a.Serve(serving), a.Close()) }()
	t.Cleanup(func() { stop(); must(t, <-served) })
	secret, err := keys.ReadSecret(filepath.Join(dir, "owner.secret"))
	must(t, err)
	h.owner = &client.Owner{Origin: a.Origin(), HTTP: client.New()}
	_, err = h.owner.SignIn(ctx, secret)
	must(t, err)

	var created struct{ ID string }
	r, err := h.owner.CreateProject(ctx, "acme", "support")
	must(t, err)
	must(t, json.Unmarshal(r.Body, &created))
	h.project = created.ID
	d, faults := content.ParseDocument([]byte(document))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	must(t, h.owner.StoreDocuments(ctx, h.project, []client.Document{{SHA256: d.Entry().SHA256, Text: document}}))
	_, err = h.owner.PublishBuild(ctx, h.project, map[string]any{"environment": "production", "manifest": content.NewManifest([]*content.Document{d}, []content.Case{})})
	must(t, err)
	h.proxy = newProxy(t, a.Origin())
	return h
}

// client makes a named client and returns its id and token.
func (h *house) client(name, protocol string) (id, token string) {
	h.t.Helper()
	r, err := h.owner.CreateClient(h.t.Context(), h.project, map[string]string{"name": name, "kind": "custom", "profile": "support", "environment": "production", "turnProtocol": protocol})
	must(h.t, err)
	var created struct {
		Client struct{ ID string }
		Token  string
	}
	must(h.t, json.Unmarshal(r.Body, &created))
	return created.Client.ID, created.Token
}

func (h *house) base() string { return h.proxy.URL + "/acme/support" }

// shown is a turn as the owner's list shows it.
type shown struct {
	ID           string
	Status       string
	Deliveries   int
	Observations int
	Reported     *string
}

// turns are those of a client, newest first.
func (h *house) turns(client string) (list []shown) {
	h.t.Helper()
	_, err := h.owner.Each(h.t.Context(), h.project, "turns", url.Values{"client": {client}}, 1000, func(raw json.RawMessage) (bool, error) {
		var v shown
		err := json.Unmarshal(raw, &v)
		list = append(list, v)
		return true, err
	})
	must(h.t, err)
	return list
}

// recorded are the types of the events of a turn, in their order, out of its signed evidence.
func (h *house) recorded(turn string) (types []string) {
	h.t.Helper()
	r, err := h.owner.ExportOf(h.t.Context(), h.project, "turns", turn)
	must(h.t, err)
	x, err := evidence.ReadExport(bytes.NewReader(r.Body))
	must(h.t, err)
	for _, e := range x.Events {
		types = append(types, e.Type)
	}
	return types
}

// count is how often a type is among them.
func count(types []string, of string) (n int) {
	for _, t := range types {
		if t == of {
			n++
		}
	}
	return n
}

// without is the list without the turns that are in another one.
func without(list, other []shown) []shown {
	return slices.DeleteFunc(slices.Clone(list), func(s shown) bool {
		return slices.ContainsFunc(other, func(o shown) bool { return o.ID == s.ID })
	})
}
