package replicas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/replica"
)

// life is one run, driven to its end over whatever happens to the replicas, by what
// api/protocol.md says and by nothing that only this test knows.
type life struct {
	*house
	service, target, mode string
	managed               bool
	instruction           string // names the run in the list, since creating has no key

	run     string
	watcher *watcher          // of the run, at whichever replica is there
	told    map[string]string // receipts that the agent was answered with, by execution
}

// try sends an owner's request. What was not answered, or only with "later", is nothing.
func (l *life) try(method, path string, body any) (a answer, ok bool) {
	a, err := l.send(method, "/api/v1/owner"+path, body, l.asOwner()...)
	return a, err == nil && a.status < 500
}

var errTooLong = errors.New("the run does not come to its end")

// live drives the run to its end.
func (l *life) live() error {
	l.told = map[string]string{}
	var a *agent
	var last string
	for begin := time.Now(); time.Since(begin) < patience; {
		if l.run == "" {
			if err := l.create(); err != nil {
				return err
			}
			continue
		}
		if l.watcher == nil {
			l.watcher = l.watch(l.run, nil, 0, 1, 2)
		}
		v, ok := l.try("GET", "/runs/"+l.run, nil)
		if !ok {
			continue
		}
		last = fmt.Sprintf("%s %s %s", l.run, v.text("status"), v.text("stopContext", "reasonCode"))
		switch status, recovery := v.text("status"), v.text("stopContext", "recovery"); {
		case status == "completed":
			return nil
		case status == "failed" && l.target == "hosted": // while its session was opened: nothing was ordered
			l.watcher.stop()
			l.run, l.watcher, a = "", nil, nil
		case v.text("outcome") == "unconfirmed_effect":
			list, _ := v.at("executions").([]any)
			l.try("POST", "/runs/"+l.run+"/probe", map[string]any{"executionId": v.at("executions", len(list)-1, "executionId")})
		case status == "paused" && recovery == "retry":
			l.try("POST", "/runs/"+l.run+"/retry", map[string]any{})
		case status == "paused" && recovery == "approve":
			l.try("POST", "/runs/"+l.run+"/approve", map[string]any{"proposalId": v.at("proposal", "proposalId"), "digest": v.at("proposal", "effectDigest")})
		case status == "paused":
			return fmt.Errorf("stopped: %s", v.body)
		case status == "running" || status == "created":
			time.Sleep(20 * time.Millisecond) // somebody is at work, or about to be found dead
		case l.managed:
			if p, ok := l.try("POST", "/runs/"+l.run+"/play", map[string]any{}); ok && p.text("reasonCode") == "PERMIT_OUTSTANDING" {
				l.try("POST", "/runs/"+l.run+"/simulate", map[string]any{"event": "expire_permit"}) // its executor is gone
			}
		case a == nil:
			if s, ok := l.try("POST", "/runs/"+l.run+"/session", map[string]any{}); ok && s.status == 200 {
				a = &agent{house: l.house, run: l.run}
				a.Origin, a.Token, a.HTTP = l.Origin, s.text("token"), l.http
			}
		default:
			if err := l.cycle(a); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("%w: %s", errTooLong, last)
}

// create makes the run. After a lost answer the list of runs tells whether it is there.
func (l *life) create() error {
	body := l.body(l.service, l.target, l.mode)
	body["instruction"] = l.instruction
	if a, ok := l.try("POST", "/runs", body); ok {
		if a.status != 201 {
			return fmt.Errorf("create: %s", a.body)
		}
		l.run = a.text("runId")
		return nil
	}
	for begin := time.Now(); time.Since(begin) < patience; {
		a, ok := l.try("GET", "/runs?limit=100", nil)
		if !ok {
			continue
		}
		list, _ := a.at("runs").([]any)
		for i := range list {
			if a.text("runs", i, "instruction") == l.instruction && a.text("runs", i, "status") != "failed" {
				l.run = a.text("runs", i, "runId")
				return nil
			}
		}
		return nil // it is not there: create again
	}
	return errTooLong
}

// cycle does the step behind those that are verified once the service was observed. However
// it ends, the next view says what became of it.
func (l *life) cycle(a *agent) error {
	ctx := l.t.Context()
	r, err := a.Get(ctx, "/api/v1/observation")
	if err != nil || r.Status != 200 {
		return nil
	}
	view, ok := l.try("GET", "/runs/"+l.run, nil)
	if !ok || view.text("status") != "ready" || view.text("observation", "observationId") != read(r.Status, nil, r.Body).text("observationId") {
		return nil
	}
	verified := 0
	list, _ := view.at("executions").([]any)
	for i := range list {
		if view.text("executions", i, "state") == "verified" {
			verified++
		}
	}
	if verified >= len(steps[l.service]) {
		return fmt.Errorf("every step is verified and the run goes on: %s", view.body)
	}
	id := steps[l.service][verified]
	report, err := reportOn(read(r.Status, nil, r.Body), id)
	if err != nil {
		return err
	}
	if r, err = a.Propose(ctx, report); err != nil || r.Status != 200 {
		return nil
	}
	turn := read(r.Status, nil, r.Body)
	token := turn.text("permit", "token")
	if token == "" {
		return fmt.Errorf("%s: no permit: %s", id, turn.body)
	}
	body, err := json.Marshal(map[string]any{"action": turn.at("permit", "action")})
	if err != nil {
		return err
	}
	if r, err = a.Operate(ctx, token, body); err == nil && r.Status == 200 {
		done := read(r.Status, nil, r.Body)
		if jws := done.text("receipt", "jws"); jws != "" {
			l.told[done.text("executionId")] = jws
		}
	}
	return nil
}

// wave is what lives at once while something happens to one of the replicas.
func (h *house) wave(n int) (lives []*life) {
	add := func(service, target, mode string, managed bool) {
		lives = append(lives, &life{house: h, service: service, target: target, mode: mode, managed: managed, instruction: fmt.Sprintf("Life %d of wave %d.", len(lives), n)})
	}
	add("merchant", "hosted", "bounded", false)
	add("merchant", "hosted", "exact", false)
	add("merchant", "hosted", "bounded", false)
	add("bank", "local", "exact", false)
	add("broker", "local", "bounded", false)
	add("merchant", "local", "exact", true)
	return lives
}

// chains are the events of every run that there is, the failed ones included.
func (h *house) chains() map[string][]evidence.Event {
	h.t.Helper()
	all, list := map[string][]evidence.Event{}, h.owner("GET", "/runs?limit=100", nil).is(h.t, "list", 200, "")
	runs, _ := list.at("runs").([]any)
	if list.at("nextCursor") != nil {
		h.t.Fatal("the list has another page")
	}
	for i := range runs {
		run := list.text("runs", i, "runId")
		all[run] = h.events(run)
	}
	return all
}

// account holds what the shop has done against the chains: every receipt that it has
// signed is in evidence, except of a session that is recorded as failed, every order is
// one of a run's execution, and no run has two.
func account(spent []replica.Spent, orders []replica.Order, lives []*life, chains map[string][]evidence.Event) (wrong []string) {
	home := map[string]string{} // run by receipt, and by the execution of a failed session
	for run, events := range chains {
		for _, e := range events {
			var d struct{ Receipt, ExecutionID, Phase string }
			_ = json.Unmarshal(e.Data, &d) // what has no such member says nothing
			switch {
			case e.Type == "hosted.session" && d.Phase == "failed":
				home[d.ExecutionID] = run
			case d.Receipt != "":
				home[d.Receipt] = run
			}
		}
	}
	byExecution := map[string]string{}
	for _, s := range spent {
		if byExecution[s.ExecutionID] = home[s.Receipt]; home[s.Receipt] == "" && home[s.ExecutionID] == "" {
			wrong = append(wrong, "a receipt of the shop is lost: "+s.ExecutionID+" "+s.Result)
		}
	}
	bought := map[string]int{}
	for _, o := range orders {
		bought[byExecution[o.ExecutionID]]++
	}
	for _, l := range lives {
		want := 0
		if l.target == "hosted" {
			want = 1
		}
		if bought[l.run] != want {
			wrong = append(wrong, fmt.Sprintf("run %s has %d orders, want %d", l.run, bought[l.run], want))
		}
		delete(bought, l.run)
		for execution, jws := range l.told {
			if home[jws] != l.run {
				wrong = append(wrong, "the agent was told a receipt that the chain does not have: "+execution)
			}
		}
	}
	for run, n := range bought {
		wrong = append(wrong, fmt.Sprintf("%d orders of the run %q that nobody wanted", n, run))
	}
	return wrong
}

// Design 1: three replicas behind a client that goes to each in turn, and in every wave of
// runs something happens to one of them in the middle of its requests: it is killed with
// -9 before a receipt is recorded, before anything is sent, or at any moment; then one
// after the other is cut off from the database, again and again. Clients go on as
// api/protocol.md says, the others settle what the dead one has left, and every run comes
// to its end with one effect, no receipt lost, a lawful chain, and a watcher who was shown
// all of it.
func TestOneReplicaKilled(t *testing.T) {
	h := newHouse(t)
	conn := h.sql()
	var all []*life
	waves := 0
	// wave has six runs live at once while something happens, until lived is closed.
	wave := func(what string, happens func(lived <-chan struct{})) {
		t.Helper()
		lives, begun := h.wave(waves), time.Now()
		all = append(all, lives...)
		waves++
		lived, failed := make(chan struct{}), make(chan error, len(lives))
		go func() {
			defer close(lived)
			each(lives, func(l *life) {
				if err := l.live(); err != nil {
					failed <- fmt.Errorf("%s: %s %s %s: %w", what, l.mode, l.service, l.target, err)
				}
			})
		}()
		happens(lived)
		<-lived
		t.Logf("%s: %s", what, time.Since(begun).Round(time.Millisecond))
		close(failed)
		for err := range failed {
			t.Error(err)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	ended := func(r *replica.Replica) bool {
		select {
		case <-r.Ended():
			return true
		default:
			return false
		}
	}
	for n, point := range []string{"before-receipt", "after-intent"} {
		h.replicas[n].Arm(replica.Fault{Point: point})
		for !ended(h.replicas[n]) && waves < 20 { // which replica a request meets is left to chance
			wave("killed at "+point, func(<-chan struct{}) {})
		}
		h.replicas[n].Wait()
		h.replicas[n].Restart(patient)
	}
	tick := time.NewTicker(10 * time.Millisecond) // the pace of the trouble; nothing waits for it
	defer tick.Stop()
	wave("killed at any moment", func(lived <-chan struct{}) {
		begun := h.front.Served()[h.replicas[2].Name]
		for h.front.Served()[h.replicas[2].Name] < begun+20 {
			select {
			case <-lived:
				t.Error("the runs came to their end before a replica was killed")
				return
			case <-tick.C:
			}
		}
		h.replicas[2].Kill()
	})
	h.replicas[2].Restart(patient)
	wave("cut off from the database", func(lived <-chan struct{}) {
		cuts := 0
		for n := 0; ; n++ {
			select {
			case <-lived:
				t.Logf("%d sessions were cut", cuts)
				return
			case <-tick.C:
				if n%10 == 0 {
					cuts += h.cutOff(conn, h.replicas[n/10%3])
				}
			}
		}
	})
	wave("all are back", func(<-chan struct{}) {})
	chains, streams := h.chains(), 0
	for _, l := range all {
		l.completed(l.run, l.service)
		same(t, l.watcher.reaches(len(chains[l.run])), chains[l.run])
		_, n := l.watcher.now()
		streams += n
		l.watcher.stop()
	}
	if streams <= len(all) {
		t.Error("no watcher had to come back")
	}
	spent, err := h.shop.Spent(t.Context())
	must(t, err)
	orders, err := h.shop.Orders(t.Context())
	must(t, err)
	for _, w := range account(spent, orders, all, chains) {
		t.Error(w)
	}
	h.shares()
	settled := map[string]int{}
	for _, events := range chains {
		for _, e := range events {
			switch {
			case e.Type == "hosted.receipt" && bytes.Contains(e.Data, []byte(`"look_up"`)):
				settled["a receipt found by a probe"]++
			case e.Type == "execution.unconfirmed" || bytes.Contains(e.Data, []byte(`"lease_expired"`)):
				settled[e.Type]++
			}
		}
	}
	t.Logf("%d runs, %d orders, %d receipts, %d watchers in %d streams; what others settled and found out: %v", len(chains), len(orders), len(spent), len(all), streams, settled)
	if settled["execution.unconfirmed"] == 0 || settled["a receipt found by a probe"] == 0 {
		t.Error("nothing was left to settle: nobody was killed before a receipt was recorded")
	}
	// Controls: the account notices a lost receipt and a second order.
	for run, events := range chains {
		if count(events, "hosted.receipt") == 0 {
			continue
		}
		less := map[string][]evidence.Event{run: nil}
		for other, events := range chains {
			if other != run {
				less[other] = events
			}
		}
		if wrong := account(spent, orders, all, less); !strings.Contains(strings.Join(wrong, "\n"), "is lost") {
			t.Error("control: a lost receipt is not noticed")
		}
		break
	}
	if wrong := account(spent, append(orders, orders[0]), all, chains); len(wrong) == 0 {
		t.Error("control: a second order is not noticed")
	}
}
