package replica_test

import (
	"bytes"
	"net/http"
	"os"
	"testing"
	"time"

	"countersign/internal/client"
	"countersign/internal/replica"
)

func TestMain(m *testing.M) { os.Exit(replica.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// One owner's session and the runs' tokens are good at every replica, each replica has
// its share of the requests, and a killed one is missed by nobody.
func TestReplicas(t *testing.T) {
	in := replica.Prepare(t, replica.PostgreSQL)
	shop := in.OpenShop(t)
	rs := in.Start(t, replica.Options{}, replica.Options{Offset: 5 * time.Second}, replica.Options{})
	front := in.Front(rs...)
	owner := in.SignIn(t, front.Client())
	for _, service := range []string{"merchant", "bank", "broker"} {
		purchase(t, front.Client(), owner, service, "local")
	}
	rs[0].Kill()
	id := purchase(t, front.Client(), owner, "merchant", "hosted")
	orders, err := shop.Orders(t.Context())
	must(t, err)
	if len(orders) != 1 || orders[0].TotalCents != 13700 {
		t.Errorf("the store has %+v, want one order for 13700", orders)
	}
	t.Logf("run %s; answers %v", id, front.Served())
	for i, r := range rs[1:] {
		served := front.Served()[r.Name]
		for r.Requests() < served && t.Context().Err() == nil { // a request is counted a moment after its answer
		}
		if served < 10 {
			t.Errorf("replica %d has answered %d requests", i+1, served)
		}
	}
	rs[0].Restart(replica.Options{})
	if r, err := owner.Once(t.Context(), "GET", "/api/v1/owner/runs", nil); err != nil || r.Status != http.StatusOK {
		t.Errorf("after a restart: %s, %v", r.Got(), err)
	}
	in.CutListener(rs[1])
	for _, r := range rs {
		r.Stop()
	}
}

// A process kills itself at the pass of a point that it was told, stands still where it
// was told to, and follows its clock.
func TestFaults(t *testing.T) {
	replica.Each(t, func(t *testing.T, engine string) {
		in := replica.Prepare(t, engine)
		shop := in.OpenShop(t)
		r := in.Start(t, replica.Options{})[0]
		owner := in.SignIn(t, r.Client())

		r.Arm(replica.Fault{Point: "before-send", Hit: 2, Hold: true})
		agent := created(t, r.Client(), owner, "merchant", "hosted")
		steps := replica.Steps["merchant"]
		for _, step := range steps[:2] { // the catalog is served without the store
			done := make(chan error, 1)
			go func() { _, err := agent.Do(t.Context(), step); done <- err }()
			if step == steps[1] {
				r.Held()
				r.Release()
			}
			must(t, <-done)
		}

		r.Arm(replica.Fault{Point: "after-send"})
		if done, err := agent.Do(t.Context(), steps[2]); err == nil {
			t.Fatalf("a killed process answers %s", done.Got())
		}
		if point := r.Wait(); point != "after-send" {
			t.Errorf("killed at %q", point)
		}
		r.Restart(replica.Options{})
		in.Move(11 * time.Second)
		view, err := owner.Run(t.Context(), agent.RunID)
		must(t, err)
		if !bytes.Contains(view.Body, []byte(`"reasonCode":"DISPATCH_UNCONFIRMED"`)) {
			t.Errorf("the run is not unconfirmed when the lease has ended: %.2000s", view.Body)
		}
		spent, err := shop.Spent(t.Context())
		must(t, err)
		if len(spent) != 2 || spent[0].Result != "applied" { // the session and the cart
			t.Errorf("the store has taken %+v", spent)
		}
		r.Stop()
	})
}

func created(t *testing.T, h *http.Client, owner *client.Owner, service, target string) *replica.Agent {
	t.Helper()
	id, _, err := owner.CreateRun(t.Context(), replica.Run(service, target, "bounded"))
	must(t, err)
	agent, err := replica.NewAgent(t.Context(), owner, id, h)
	must(t, err)
	return agent
}

// purchase has a run do all that it may, and returns its id.
func purchase(t *testing.T, h *http.Client, owner *client.Owner, service, target string) string {
	t.Helper()
	agent := created(t, h, owner, service, target)
	for _, step := range replica.Steps[service] {
		_, err := agent.Do(t.Context(), step)
		must(t, err)
	}
	return agent.RunID
}
