package client_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"countersign/internal/client"
)

// The lists of a project are followed like that of runs, each at its own path and with what
// it is filtered by on every page.
func TestEachOfAProject(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+"?"+r.URL.Query().Encode())
		next := `"c2"`
		if r.URL.Query().Get("before") == "c2" {
			next = "null"
		}
		fmt.Fprintf(w, `{"turns":[1,2],"clients":[1,2],"nextCursor":%s}`, next)
	}))
	defer server.Close()
	owner := client.Owner{Origin: server.URL, HTTP: client.New()}
	for what, want := range map[client.OfProject][]string{
		client.Turns:   {"/api/projects/p/turns?limit=100&status=OPEN", "/api/projects/p/turns?before=c2&limit=98&status=OPEN"},
		client.Clients: {"/api/projects/p/mcp/clients?limit=100&status=OPEN", "/api/projects/p/mcp/clients?before=c2&limit=98&status=OPEN"},
	} {
		asked = nil
		seen := 0
		more, err := owner.Each(t.Context(), "p", what, url.Values{"status": {"OPEN"}}, 100, func(json.RawMessage) (bool, error) {
			seen++
			return true, nil
		})
		if err != nil || more || seen != 4 || !slices.Equal(asked, want) {
			t.Errorf("%s: %d seen, more %v, asked %q, %v", what, seen, more, asked, err)
		}
	}
	if _, err := owner.Each(t.Context(), "p", client.Gaps, nil, 100, func(json.RawMessage) (bool, error) { return true, nil }); err == nil {
		t.Error("an answer without the list is taken for an empty one")
	}
}
