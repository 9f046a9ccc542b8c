package channel_test

import (
	"fmt"
	"testing"

	"countersign/internal/channel/edge"
)

// named are the places of a refusal's errors, in order.
func (a answer) named() []string {
	list, _ := a.members()["errors"].([]any)
	places := make([]string, 0, len(list))
	for _, e := range list {
		places = append(places, e.(map[string]any)["location"].(string))
	}
	return places
}

// One rule for the query of every documented route: a parameter is known, has a
// value and stands once, and every one that breaks it is named. The same request
// without a query is not refused so.
func TestQueryOfEveryRoute(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.agent("local")
	before := h.total(c.run)
	tried := 0
	p := h.project("support")
	for _, list := range [][]route{routes(c.run, "owner"), routes(c.run, "agent"), p.routes()} {
		for _, o := range list {
			who := h.asOwner(h.cookie)
			if family(o.Path) == "agent" {
				who = set("Authorization", "Bearer "+c.token)
			}
			var body any
			if o.RequestBody != nil {
				body = []byte("{}")
			}
			for query, want := range map[string]string{
				"zzz=1": "[query.zzz]", "zzz=": "[query.zzz]", "zzz": "[query.zzz]", "zzz=1&zzz=1": "[query.zzz]",
				"zzz=1&aaa=": "[query.aaa query.zzz]", "=1": "[query.]", "a=%zz": "[query]",
			} {
				tried++
				a := h.do(o.Method, o.path+"?"+query, body, who)
				a.is(t, o.ID+" ?"+query, 400, "INVALID_REQUEST")
				if got := fmt.Sprint(a.named()); got != want {
					t.Errorf("%s ?%s: errors name %s, want %s", o.ID, query, got, want)
				}
			}
		}
	}
	if want := 7 * (len(document().operations) - len(routes("", "context")) - len(routes("", "incident"))); tried != want || tried == 0 {
		t.Errorf("%d queries were tried, want %d", tried, want)
	}
	if n := h.total(c.run); n != before {
		t.Errorf("%d events, before %d", n, before)
	}
	// The session stands: no sign-out and no revocation took place.
	h.owner("GET", "/runs?limit=1", nil).is(t, "a good query", 200, "")
	c.ask("GET", "/capabilities?", nil).is(t, "an empty query", 200, "")
	h.do("GET", ownerPrefix+"/runs?zzz=1", nil).is(t, "authentication comes first", 401, edge.AuthenticationRequired)
}
