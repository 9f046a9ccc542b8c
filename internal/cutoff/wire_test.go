package cutoff

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"countersign/contextclient"
)

// listener keeps the newest answer.
type listener struct{ body []byte }

func (l *listener) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	l.body, err = io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(l.body))
	return resp, err
}

// members are the places of all members of a JSON value.
func members(t *testing.T, raw []byte) map[string]bool {
	t.Helper()
	var value any
	must(t, json.Unmarshal(raw, &value))
	found := map[string]bool{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				found[at+"."+name] = true
				walk(at+"."+name, member)
			}
		case []any:
			for _, e := range v {
				walk(at+"[]", e)
			}
		}
	}
	walk("", value)
	return found
}

// S-041, S-044: what the server answers to each tool is what the package has fields for, and
// the other way round.
func TestAnswers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, token := h.client("reader", "required")
	heard := &listener{}
	c, err := contextclient.New(contextclient.Config{BaseURL: h.base(), Token: contextclient.Token(token), Profile: "support", HTTP: &http.Client{Transport: heard}})
	must(t, err)
	ctx := t.Context()
	same := func(name string, got any) {
		t.Helper()
		raw, err := json.Marshal(got)
		must(t, err)
		ours, theirs := members(t, raw), members(t, heard.body)
		if !maps.Equal(ours, theirs) {
			t.Errorf("%s: the package has %v, the server answers %v", name, slices.Sorted(maps.Keys(ours)), slices.Sorted(maps.Keys(theirs)))
		}
	}

	turn, err := c.Start(ctx, contextclient.StartOptions{ClientRef: "ticket"})
	must(t, err)
	if turn.Status != open || turn.Profile != "support" || turn.Environment != "production" || !turn.ExpiresAt.After(turn.OpenedAt) {
		t.Errorf("%+v", turn)
	}
	compass, err := turn.Compass(ctx, task)
	must(t, err)
	same("compass", compass)
	if compass.Verdict != contextclient.Covered || len(compass.Items) != 1 || !strings.Contains(compass.Text, "five days") || compass.TurnID != turn.ID || compass.Interaction.Build.Number != 1 {
		t.Errorf("%+v", compass)
	}
	resolved, err := turn.Resolve(ctx, "refunds")
	must(t, err)
	same("resolve", resolved)
	found, err := turn.Find(ctx, "refunds", 1)
	must(t, err)
	same("find", found)
	if len(found.Items) != 1 || found.Items[0].Ref != "refunds" {
		t.Errorf("%+v", found)
	}
	why, err := turn.Why(ctx, "refunds")
	must(t, err)
	same("why of a ref", why)
	if why.Provenance == nil || why.Provenance.SHA256 != resolved.Item.SHA256 {
		t.Errorf("%+v", why)
	}
	why, err = turn.WhySelected(ctx, compass.Interaction.ID)
	must(t, err)
	same("why of an interaction", why)
	if why.Selection == nil || why.Selection.Tool != "compass" || len(why.Selection.Items) != 1 {
		t.Errorf("%+v", why)
	}
	gap, err := turn.ReportGap(ctx, contextclient.GapReport{Task: "How do I exchange it?", Detail: "Nothing is said of it."})
	must(t, err)
	same("report-gap", gap)
	tested, err := turn.Test(ctx, contextclient.Expectation{Task: task, ExpectRefs: []string{"refunds"}})
	must(t, err)
	same("test", tested)
	if !tested.Passed || tested.Found != 1 {
		t.Errorf("%+v", tested)
	}
	health, err := turn.Doctor(ctx)
	must(t, err)
	same("doctor", health)
	if health.Protocol != "seif.http-turn.v1" || health.Client.Name != "reader" {
		t.Errorf("%+v", health)
	}
	observation, err := turn.Observe(ctx, tool, "use-1")
	must(t, err)
	same("observation", map[string]any{"observation": observation})
	receipt, err := turn.Complete(ctx, contextclient.Failed, "timed out")
	must(t, err)
	same("receipt", map[string]any{"receipt": receipt})
	if receipt.Reported != contextclient.Failed || receipt.Status != "REPORTED_FAILED" || receipt.Deliveries != 5 || receipt.Observations != 1 || receipt.EvidenceClass != "reported" {
		t.Errorf("%+v", receipt)
	}
	if _, err := turn.Compass(ctx, task); err == nil || !strings.Contains(err.Error(), "turn_closed") {
		t.Errorf("context in a closed turn: %v", err)
	}
}
