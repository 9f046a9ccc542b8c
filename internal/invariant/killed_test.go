package invariant_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/internal/app"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
)

// A test binary that finds childVariable in its environment is a server of its own
// process, which kills itself where it is told.
const childVariable = "COUNTERSIGN_INVARIANT_CHILD"

// task is what a child is told.
type task struct {
	Dir, Database, Shop, ShopKey string
	Point, Armed                 string // it dies at the point once the file Armed is there
}

func runChild(text string) int {
	go func() { // the parent holds the other end: without it there is no child
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	fmt.Fprintln(os.Stderr, "child:", serveChild(text))
	return 1
}

func serveChild(text string) error {
	var c task
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	key, err := dispatch.ParseKeys([]byte(c.ShopKey))
	if err != nil {
		return err
	}
	a, err := app.Open(context.Background(), app.Config{
		Dir: c.Dir, Database: c.Database, Addr: "127.0.0.1:0", Origin: origin, Store: &gateway.Store{Origin: c.Shop, Keys: key},
		Fault: func(point string) {
			if _, err := os.Stat(c.Armed); point != c.Point || err != nil {
				return
			}
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				panic(err)
			}
			select {} // the signal is on its way
		},
	})
	if err != nil {
		return err
	}
	fmt.Println(a.Addr())
	return a.Serve(context.Background())
}

// child serves the house in a process of its own that dies at the point once arm was
// called. The returned function waits for its end.
func (h *house) child(s *shop, point string) (arm, wait func()) {
	h.t.Helper()
	c := task{Dir: h.config.Dir, Database: h.config.Database, Shop: s.where.Origin, ShopKey: string(dispatch.FormatKeys(s.where.Keys)), Point: point, Armed: filepath.Join(h.t.TempDir(), "armed")}
	text, err := json.Marshal(c)
	must(h.t, err)
	self, err := os.Executable()
	must(h.t, err)
	child := exec.CommandContext(h.t.Context(), self)
	child.Env = append(os.Environ(), childVariable+"="+string(text))
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	must(h.t, err)
	stdout, err := child.StdoutPipe()
	must(h.t, err)
	must(h.t, child.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(h.t, err)
	h.addr = strings.TrimSpace(line)
	wait = func() {
		err := child.Wait()
		if exit, killed := errors.AsType[*exec.ExitError](err); !killed || exit.ExitCode() != -1 {
			h.t.Fatalf("the child was not killed: %v", err)
		}
		stdin.Close()
		h.http.CloseIdleConnections()
	}
	return func() { must(h.t, os.WriteFile(c.Armed, nil, 0o600)) }, wait
}

// A death is where a server dies after it has consumed an approval, and what is known of
// the effect then.
type death struct {
	point, target string
	sent          bool   // the shop got the request
	stop          string // for which the run has stopped; "" when it goes on by itself
}

var deaths = []death{
	{"after-intent", "hosted", false, "DISPATCH_UNCONFIRMED"},
	{"after-send", "hosted", true, "DISPATCH_UNCONFIRMED"},
	{"before-receipt", "hosted", true, "DISPATCH_UNCONFIRMED"},
	{"after-receipt", "hosted", true, ""},
	{"after-intent", "local", false, "EXECUTION_NOT_APPLIED"},
}

// A widow is a run whose server was killed in the middle of what its owner had approved.
type widow struct {
	*agent
	shop     *shop
	death    death
	proposal string
	slip     slip
	key      string
	before   int // effects there were before
}

// effects counts what was done, in the service's own ledger.
func (w *widow) effects() (n int) {
	w.t.Helper()
	if w.death.target == "hosted" {
		return w.shop.orders()
	}
	var state []byte
	must(w.t, w.ledger.QueryRow(fmt.Sprintf(`SELECT state FROM subjects WHERE workspace = '%s' AND kind = '%s' AND id = '%s'`, ledger.DefaultWorkspace, ledger.KindService, w.run)).Scan(&state))
	var bank struct{ Transactions []struct{} }
	must(w.t, json.Unmarshal(state, &bank))
	return len(bank.Transactions)
}

// kill has a run made, approved and killed with its server, and serves it again.
func kill(t *testing.T, database string, d death, edits ...func(*app.Config)) *widow {
	t.Helper()
	w := &widow{death: d, key: "op-of-the-first-approval"}
	clock := new(ledger.Clock)
	h := found(t, database, clock, append([]func(*app.Config){atShop(t, &w.shop)}, edits...)...)
	arm, wait := h.child(w.shop, d.point)
	h.signIn()
	if d.target == "hosted" {
		w.agent = h.hosted(w.shop, "exact")
		w.do(purchase...)
	} else {
		w.agent = h.employ("bank", "exact", 5000, nil)
		w.do("accounts", "transfer:acct_checking:payee_utility")
	}
	w.approve(ok)
	w.slip, w.before = w.allowed("submit:"), w.effects()
	arm()
	if a, err := h.try("POST", "/api/v1/operation", w.slip.body(), "Authorization", "Bearer "+w.token, "X-Step-Permit", w.slip.Token, "X-Idempotency-Key", w.key); err == nil {
		t.Fatalf("the child answers %s", a)
	}
	wait()
	clock.Move(11 * time.Second) // the lease of the dead is over
	h.serve()
	return w
}

// approve approves what the run has prepared, or had when it was approved first.
func (w *widow) approve(want string) {
	w.t.Helper()
	if p := w.view(w.run).Proposal; p != nil {
		w.proposal = p.ProposalID
	}
	got := w.owner("POST", "/runs/"+w.run+"/approve", map[string]any{"proposalId": w.proposal}).String()
	if got != want {
		w.t.Errorf("%s, %s: an approval is answered %s, want %s", w.death.target, w.death.point, got, want)
	}
}

// again asks for what the first approval was for once more, under its key and another.
func (w *widow) again() {
	w.t.Helper()
	now := w.effects()
	w.operate(w.slip, w.key)
	if a := w.attempt(w.slip); a.status == 200 {
		w.t.Errorf("%s, %s: the permit is good under another key", w.death.target, w.death.point)
	}
	if w.effects() != now {
		w.t.Errorf("%s, %s: asking again had an effect", w.death.target, w.death.point)
	}
}

// goOn takes the run to its end by its documented routes: what is unknown is asked for,
// what had no effect is tried again, and approved again when the first approval is over.
func (w *widow) goOn() {
	w.t.Helper()
	if _, reason := w.reached(w.run); reason == "DISPATCH_UNCONFIRMED" {
		w.act("probe", w.execution())
	}
	w.again()
	if at, _ := w.reached(w.run); at.category == "retry" {
		w.act("retry", nil)
	}
	if w.view(w.run).Status != "completed" {
		w.observe()
	}
	if w.view(w.run).Status == "completed" {
		return
	}
	w.config.Clock.Move(5 * time.Minute)
	w.agent.again(1, "submit:", func(map[string]any) {})
	w.approve(ok)
	w.do("submit:")
}

// H-146, H-147: a server dies between consuming an approval and answering. Whatever the
// owner approves after that, and whoever asks again, the service does it once, by its own
// ledger; the run comes to its end, and its export is lawful.
func TestApprovalIsExecutedOnce(t *testing.T) {
	engines(t, func(t *testing.T, database func() string) {
		for _, d := range deaths {
			t.Run(d.target+" "+d.point, func(t *testing.T) {
				w := kill(t, database(), d)
				if n := w.effects() - w.before; n != map[bool]int{true: 1}[d.sent] {
					t.Fatalf("%d effects when the server died", n)
				}
				refusal := map[string]string{"DISPATCH_UNCONFIRMED": "409 UNRESOLVED_EFFECT"}[d.stop]
				w.approve(first(given(refusal), rule{true, "409 RECOVERY_NOT_ELIGIBLE"}))
				if _, reason := w.reached(w.run); reason != d.stop {
					t.Errorf("the run has stopped for %q, want %q", reason, d.stop)
				}
				w.again()
				w.goOn()
				w.approve("409 RECOVERY_NOT_ELIGIBLE")
				w.again()
				v := w.view(w.run)
				if v.Status != "completed" || v.ReservedCents != 0 || w.effects()-w.before != 1 {
					t.Errorf("the run is %s with %d spent, %d reserved and %d effects", v.Status, v.SpentCents, v.ReservedCents, w.effects()-w.before)
				}
				budget := map[string]int{"hosted": 13700, "local": 5000}[d.target]
				witness, counts := newWitness("exact", budget), map[string]int{}
				for _, e := range v.Timeline {
					counts[e.Type]++
					for _, broken := range witness.see(e) {
						t.Error(broken)
					}
				}
				if witness.spent != budget {
					t.Errorf("%d spent, want %d", witness.spent, budget)
				}
				if err := lawful(w.house, w.run, counts); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// The control: where an owner's word that nothing happened is taken without asking the
// shop, a second approval is executed beside the first, and the count says so.
func TestApprovalIsExecutedOnceControl(t *testing.T) {
	for _, open := range []bool{false, true} {
		w := kill(t, "", death{"after-send", "hosted", true, "DISPATCH_UNCONFIRMED"}, func(c *app.Config) { c.Doors = decide.Doors{Statement: open, Machine: open} })
		w.approve("409 UNRESOLVED_EFFECT")
		w.state("not_applied")
		if open {
			w.act("retry", nil)
			w.do("add:fieldwork-keyboard:1", "checkout:addr_home")
			w.approve(ok)
			w.do("submit:")
		}
		if n, want := w.effects()-w.before, map[bool]int{false: 1, true: 2}[open]; n != want {
			t.Errorf("with the door open %v: %d orders, want %d", open, n, want)
		}
	}
}
