package incidentpage_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/channel/edge"
	"countersign/internal/console/frame"
	incidentpage "countersign/internal/console/incident"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// silent is a control plane whose ledger does not answer.
type silent struct{ cookies []string }

func (s *silent) Form(_ context.Context, cookie string) (*control.Snapshot, string, error) {
	s.cookies = append(s.cookies, cookie)
	return nil, "", control.ErrUnavailable
}

// A page that cannot be shown says so as a page of everybody's: it has a way back to itself,
// and names none of the owner's. More than one cookie of the name is refused, with what to do:
// without a word the page would show another session.
func TestRefused(t *testing.T) {
	const origin = "http://localhost:8420"
	api, err := edge.New(edge.Config{
		Origin: origin, Title: "t", Version: "1", Log: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil },
		Unavailable: func(err error) bool { return errors.Is(err, control.ErrUnavailable) },
	})
	if err != nil {
		t.Fatal(err)
	}
	plane := &silent{}
	incidentpage.Register(frame.New(api, nil, nil), plane)
	ask := func(cookie string) (int, string) {
		r := httptest.NewRequest("GET", origin+"/incident", nil)
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Cookie", cookie)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	status, body := ask("countersign_incident=one")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, `<a href="/incident">Try again</a>`) {
		t.Errorf("%d: %s", status, body)
	}
	for _, owners := range []string{"/approvals", "/runs", "/freeze", "sign-out"} {
		if strings.Contains(body, owners) {
			t.Errorf("the refusal names %s of the owner's", owners)
		}
	}
	for _, twice := range []string{"countersign_incident=one; countersign_incident=two", "countersign_incident=one; countersign_incident=one"} {
		if status, body := ask(twice); status != http.StatusUnprocessableEntity || !strings.Contains(body, "remove the cookies named countersign_incident") {
			t.Errorf("%s: %d: %s", twice, status, body)
		}
	}
	ask("")
	if len(plane.cookies) != 2 || plane.cookies[0] != "one" || plane.cookies[1] != "" {
		t.Errorf("asked with the cookies %q", plane.cookies)
	}
}

// there are five tools, each with a description and a schema that takes nothing else,
// and none approves.
func TestTools(t *testing.T) {
	want := []string{"get_incident_snapshot", "compare_mitigations", "stage_mitigation", "execute_approved_mitigation", "reset_incident_simulation"}
	if len(incidentpage.Tools) != len(want) {
		t.Fatalf("%d tools", len(incidentpage.Tools))
	}
	for i, tool := range incidentpage.Tools {
		if tool.Name != want[i] || tool.Operation == incident.Approve || tool.Description == "" || tool.InputSchema["additionalProperties"] != false {
			t.Errorf("%+v, want %s", tool, want[i])
		}
	}
}

// damaged is a control plane whose ledger holds what is no receipt.
type damaged struct{}

func (damaged) Form(context.Context, string) (*control.Snapshot, string, error) {
	s := &control.Snapshot{Incident: incident.TheIncident, Mitigations: incident.Catalog, Status: incident.Investigating, Version: 1, Metrics: incident.TheIncident.Baseline, Session: &control.SessionView{ID: "ses_1"}}
	s.Receipts = control.Receipts{Total: 1, Items: []evidence.Event{{Sequence: 1, Data: []byte(`{"event":`), Hash: "ab"}}}
	return s, "", nil
}

// what was damaged in the ledger is shown with the verification that failed; it does
// not take the page away.
func TestDamaged(t *testing.T) {
	const origin = "http://localhost:8420"
	api, err := edge.New(edge.Config{
		Origin: origin, Title: "t", Version: "1", Log: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	incidentpage.Register(frame.New(api, nil, nil), damaged{})
	r := httptest.NewRequest("GET", origin+"/incident", nil)
	r.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	for _, want := range []string{"This receipt cannot be read", "not verified", `<span class="chip danger">unreadable</span>`, `title="ab"`} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d, without %s: %.300s", w.Code, want, w.Body)
		}
	}
}
