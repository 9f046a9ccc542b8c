package replicas_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign/internal/app"
	"countersign/internal/ledger"
	"countersign/internal/replica"
)

// at is the agent as it speaks to these replicas alone.
func (a *agent) at(places ...int) *agent {
	part := *a
	part.house = a.house.at(places...)
	part.HTTP = part.house.http
	return &part
}

// G-12: one request that reaches all replicas at once, several times, has one effect, and
// everybody is told the same execution and receipt, whichever replica did it; who asks
// later is answered as the first one was. A key that was used for one request is not good
// for another one anywhere.
func TestOneRequestAtEveryReplica(t *testing.T) {
	h := newHouse(t)
	run := h.create("merchant", "hosted", "bounded")
	a := h.agent(run)
	for i, id := range steps["merchant"] {
		p := a.allow(id)
		headers := []string{"X-Step-Permit", p.token, "X-Idempotency-Key", "one-key-for-step-" + fmt.Sprint(i)}
		var mu sync.Mutex
		told, first := map[string]int{}, [][]byte{}
		each([]int{0, 1, 2, 0, 1, 2, 0, 1, 2}, func(place int) {
			for {
				got, err := a.at(place).send("POST", "/api/v1/operation", p.body, append(headers, "Authorization", "Bearer "+a.Token)...)
				if err != nil || got.status != 200 && got.text("reasonCode") != "IN_PROGRESS" {
					t.Errorf("%s at %d: %v %s", id, place, err, got.body)
					return
				}
				if got.status != 200 {
					continue // it is under way; protocol.md: ask again with the same key
				}
				mu.Lock()
				defer mu.Unlock()
				told[fmt.Sprint(got.text("executionId"), got.at("receipt"))]++ // between receipt and verification the state is receipted
				if got.header.Get("Idempotency-Replayed") == "" {
					first = append(first, got.body)
				}
				return
			}
		})
		if len(told) != 1 || len(first) != 1 {
			t.Fatalf("%s: %d different receipts, %d first answers: %v", id, len(told), len(first), told)
		}
		for place := range h.replicas {
			if got := a.at(place).ask("POST", "/operation", p.body, headers...).is(t, "asked later", 200, ""); !bytes.Equal(got.body, first[0]) {
				t.Errorf("%s: asked later %s\nwant %s", id, got.body, first[0])
			}
			a.at(place).ask("POST", "/operation", []byte(`{"action":{"kind":"service","operationId":"x","targetRef":"y","args":{}}}`), headers...).is(t, "another request under the key", 409, "IDEMPOTENCY_CONFLICT")
		}
	}
	h.completed(run, "merchant")
	h.orders(1)
	if n := count(h.events(run), "execution.dispatched"); n != len(steps["merchant"]) {
		t.Errorf("%d executions, want %d", n, len(steps["merchant"]))
	}
}

// G-20, L-6: a session and a token are good at every replica as soon as one has given
// them, and at none as soon as one has ended them.
func TestSessionsEverywhere(t *testing.T) {
	h := newHouse(t)
	run := h.create("merchant", "local", "bounded")
	for issuing := range h.replicas {
		former := h.at(issuing).agent(run)
		for place := range h.replicas {
			former.at(place).ask("GET", "/capabilities", nil).is(t, "a new token", 200, "")
		}
		next := h.at((issuing + 1) % 3).agent(run)
		for place := range h.replicas {
			former.at(place).ask("GET", "/capabilities", nil).is(t, "a token that was replaced", 401, "AUTHENTICATION_REQUIRED")
			next.at(place).ask("GET", "/capabilities", nil).is(t, "its successor", 200, "")
		}
	}
	for ending := range h.replicas {
		guest := *h.at((ending + 1) % 3)
		guest.cookie = ""
		guest.cookie = guest.signIn()
		everywhere := func(status int, reason string) {
			t.Helper()
			for place := range h.replicas {
				there := h.at(place)
				there.cookie = guest.cookie
				there.owner("GET", "/status", nil).is(t, "a guest's session", status, reason)
			}
		}
		everywhere(200, "")
		there := h.at(ending)
		there.cookie = guest.cookie
		there.owner("DELETE", "/session", nil).is(t, "sign out", 204, "")
		everywhere(401, "AUTHENTICATION_REQUIRED")
	}
}

// The bound on wrong secrets is the one thing that each replica counts for itself, as
// docs/operate.md and the threat model say: five from one address at each. None
// locks the owner out anywhere.
func TestWrongSecretsAreCountedByEach(t *testing.T) {
	h := newHouse(t)
	for place := range h.replicas {
		one := h.at(place)
		one.signIn()
		for range 5 {
			one.trySecret("wrong").is(t, "a wrong secret", 401, "AUTHENTICATION_REQUIRED")
		}
		if a := one.trySecret("wrong").is(t, "the sixth", 429, "RATE_LIMITED"); a.header.Get("Retry-After") == "" {
			t.Error("nothing says when to try again")
		}
		one.signIn()
	}
}

// A key is replaced while nobody serves: as long as one replica of three lives nothing is
// changed, and those that were killed with -9 do not hold anybody up. Then runs go on
// under the next key, and a replica with a former copy of the folder is refused.
func TestRotateBetweenReplicas(t *testing.T) {
	h := newHouse(t)
	run := h.create("merchant", "hosted", "bounded")
	h.agent(run).cycle("merchant.catalog")
	former := filepath.Join(t.TempDir(), "former")
	must(t, os.CopyFS(former, os.DirFS(h.Dir)))
	must(t, filepath.WalkDir(former, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		return os.Chmod(path, mode)
	}))
	rotate := func() error {
		_, _, err := app.Rotate(t.Context(), app.Rotation{Dir: h.Dir, Database: h.Database, Key: "evidence"})
		return err
	}
	for i, r := range h.replicas {
		if err := rotate(); !errors.Is(err, ledger.ErrServed) {
			t.Fatalf("with %d replicas serving: %v, want ErrServed", 3-i, err)
		}
		r.Kill()
	}
	must(t, rotate())
	for _, r := range h.replicas {
		r.Restart(patient)
	}
	a := h.agent(run)
	for _, id := range steps["merchant"][1:] {
		a.cycle(id)
	}
	h.completed(run, "merchant")
	keys := map[string]bool{}
	for _, e := range h.events(run) {
		keys[e.KeyID] = true
	}
	if len(keys) != 2 {
		t.Errorf("the chain is signed by %d keys, want 2", len(keys))
	}
	late, err := app.Open(context.Background(), app.Config{Dir: former, Database: h.Database, Addr: "127.0.0.1:0"})
	if !errors.Is(err, app.ErrFormerKeys) {
		if late != nil {
			late.Close()
		}
		t.Errorf("a former copy of the folder: %v, want ErrFormerKeys", err)
	}
}

// A replica that others take for dead, because its session at the database broke while
// its request was at the store, comes back with the receipt: until then the outcome is
// unknown, afterwards it is what the receipt says, and it was sent once. As long as its
// session lives nobody takes it for dead.
func TestTakenForDead(t *testing.T) {
	h := newHouse(t)
	run := h.create("merchant", "hosted", "bounded")
	a := h.agent(run)
	for _, id := range steps["merchant"][:4] {
		a.cycle(id)
	}
	p := a.allow("merchant.checkout.submit")
	headers := []string{"X-Step-Permit", p.token, "X-Idempotency-Key", "the-key-of-this-order"}
	h.replicas[0].Arm(replica.Fault{Point: "before-receipt", Hold: true})
	answered := make(chan answer)
	go func() {
		got, err := a.at(0).send("POST", "/api/v1/operation", p.body, append(headers, "Authorization", "Bearer "+a.Token)...)
		if err != nil {
			t.Error(err)
		}
		answered <- got
	}()
	h.replicas[0].Held()
	h.orders(1)
	h.Move(-time.Hour) // so that the lease does not end before its holder is taken for dead
	others := a.at(1, 2)
	for range 4 {
		others.ask("POST", "/operation", p.body, headers...).is(t, "while it lives", 409, "IN_PROGRESS")
	}
	// It comes back within some milliseconds each time, and the others have to meet it away.
	away := h.troubled(h.replicas[0], true)
	for settled, begun := false, time.Now(); !settled; {
		if time.Since(begun) > patience {
			t.Fatal("nobody takes it for dead")
		}
		got := others.ask("POST", "/operation", p.body, headers...)
		if settled = got.text("reasonCode") == "DISPATCH_UNCONFIRMED"; !settled {
			got.is(t, "while it may live", 409, "IN_PROGRESS")
		}
	}
	if v := others.view(run); v.text("outcome") != "unconfirmed_effect" {
		t.Errorf("meanwhile the run is %s", v.text("outcome"))
	}
	away()
	h.Move(time.Hour)
	h.replicas[0].Release()
	if got := (<-answered).is(t, "the one that was taken for dead", 200, ""); got.at("receipt") == nil {
		t.Errorf("without a receipt: %s", got.body)
	}
	others.ask("GET", "/observation", nil).is(t, "observe", 200, "") // after eight seconds the attempt leaves that to others
	h.completed(run, "merchant")
	h.orders(1)
	events := h.events(run)
	if u, r := count(events, "execution.unconfirmed"), count(events, "hosted.receipt"); u != 1 || r == 0 {
		t.Errorf("%d unconfirmed, %d receipts", u, r)
	}
}

// Design 1: every server settles what is due, and one settles it: of 24 live permits that
// end at once, with three servers at work, each is recorded as expired once, and no server
// is needed for it: the last one settles for two that were killed.
func TestEachSettles(t *testing.T) {
	h := newHouse(t)
	expire := func(h *house, n int) {
		t.Helper()
		var runs []string
		for range n {
			run := h.create("bank", "local", "bounded")
			h.agent(run).allow("bank.accounts")
			runs = append(runs, run)
		}
		for _, r := range h.replicas {
			select {
			case <-r.Ended():
			default:
				r.Move(31 * time.Second)
			}
		}
		for _, run := range runs {
			last := h.watch(run, nil, 2)
			for seen := 0; ; { // nobody asks for the run; the stream shows what is settled
				frames := last.reaches(seen + 1)
				if slices.ContainsFunc(frames[seen:], func(f arrival) bool { return bytes.Contains(f.data, []byte(`"permit.expired"`)) }) {
					break
				}
				seen = len(frames)
			}
			last.stop()
			if n := count(h.events(run), "permit.expired"); n != 1 {
				t.Errorf("the expiry of one permit is recorded %d times", n)
			}
		}
	}
	expire(h, 24)
	lost := 0
	for _, r := range h.replicas {
		lost += r.Count("ledger_commits_total", `outcome="conflict"`)
	}
	t.Logf("%d times another server was first", lost)
	h.replicas[0].Kill()
	h.replicas[1].Kill()
	expire(h.at(2), 3)
}

// A replica that lost every session with the database is ready again by itself, and the
// others are not concerned. Its own metrics go on counting.
func TestReadyAgain(t *testing.T) {
	h := newHouse(t)
	conn := h.sql()
	ready := func(place int) int {
		t.Helper()
		got, err := h.at(place).send("GET", "/readyz", nil)
		must(t, err)
		return got.status
	}
	for place, r := range h.replicas {
		if h.cutOff(conn, r) == 0 {
			t.Errorf("%s has no session", r.Name)
		}
		before, tries := r.Requests(), 1
		for ready(place) != 200 {
			tries++
		}
		for other := range h.replicas {
			if got := ready(other); got != 200 {
				t.Errorf("replica %d answers %d after replica %d was cut off", other, got, place)
			}
		}
		if got := r.Requests() - before; got != tries+1 {
			t.Errorf("%s counts %d requests, want %d", r.Name, got, tries+1)
		}
		h.at(place).create("merchant", "local", "bounded")
	}
}
