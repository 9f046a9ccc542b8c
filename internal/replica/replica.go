package replica

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"countersign/internal/client"
	"countersign/internal/supervision/decide"
)

// Options of one process. The zero value is the product's.
type Options struct {
	Offset   time.Duration // of its clock
	Fault    Fault
	Doors    decide.Doors
	Without  string   // a check of the HTTP API that is left out, see edge.Config
	Incident bool     // serves the incident workflow
	Unlocked bool     // PostgreSQL: commits do not take the freeze lock
	Unpolled bool     // PostgreSQL: watched subjects are not polled
	Program  string   // the same tests, built in another way; "": the test's own program
	Env      []string // NAME=VALUE, beside the test's own
}

// Fault is where a process kills itself, or stands still.
type Fault struct {
	Point string // of gateway.Points, the engine's, the perimeter's or the incident control plane's; "" for nowhere
	Hit   int    // the pass of the point at which it does, from 1; 0 counts as 1
	Hold  bool   // it stands still, at that pass and at each later one, until Release
}

// Replica is one server process of an installation.
type Replica struct {
	Name string
	Addr string // where it listens, kept across restarts

	in      *Installation
	tb      testing.TB
	log     string // file
	options Options

	cmd     *exec.Cmd
	stdin   io.WriteCloser
	orders  chan line // Metrics and Done
	held    chan string
	exited  chan struct{}
	killed  string // the point at which it killed itself; read after exited
	asked   bool   // its end was wanted
	metrics string // address
}

// patience is how long a child may take to say something, however loaded the machine.
const patience = 2 * time.Minute

func (r *Replica) launch(o Options) {
	r.tb.Helper()
	t := task{Dir: r.in.Dir, Database: r.database(), Addr: r.Addr, Origin: r.in.Origin, Options: o}
	if s := r.in.shop; s != nil {
		t.Store, t.StoreKeys = s.Origin, s.keys
	}
	text, err := json.Marshal(t)
	must(r.tb, err)
	self, err := os.Executable()
	must(r.tb, err)
	// No context: the end of the test kills it, see below.
	r.cmd = exec.CommandContext(context.Background(), cmp.Or(o.Program, self))
	r.cmd.Env = append(append(os.Environ(), o.Env...), variable+"="+string(text))
	log, err := os.OpenFile(r.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(r.tb, err)
	defer log.Close() // the child has its own
	r.cmd.Stderr = log
	r.stdin, err = r.cmd.StdinPipe()
	must(r.tb, err)
	stdout, err := r.cmd.StdoutPipe()
	must(r.tb, err)
	first := r.exited == nil
	r.options, r.orders, r.held, r.exited, r.killed, r.asked = o, make(chan line, 1), make(chan string, 64), make(chan struct{}), "", false
	must(r.tb, r.cmd.Start())
	go r.listen(stdout)
	if first {
		r.tb.Cleanup(r.end)
	}
}

// listen takes what the child says until it ends.
func (r *Replica) listen(stdout io.Reader) {
	for s := bufio.NewScanner(stdout); s.Scan(); {
		var l line
		switch {
		case json.Unmarshal(s.Bytes(), &l) != nil: // what the testing package or a panic prints
		case l.Killed != "":
			r.killed = l.Killed
		case l.Held != "":
			r.held <- l.Held
		default:
			r.orders <- l
		}
	}
	_ = r.cmd.Wait() // how it ended is in ProcessState
	close(r.exited)
}

// session is what the database calls the sessions of the replica.
func (r *Replica) session() string { return "countersign-" + r.Name }

func (r *Replica) database() string {
	if r.in.Database == "" {
		return ""
	}
	u, err := url.Parse(r.in.Database)
	must(r.tb, err)
	q := u.Query()
	q.Set("application_name", r.session())
	u.RawQuery = q.Encode()
	return u.String()
}

// ready waits until the process serves, and returns false when it has killed itself at
// its fault before.
func (r *Replica) ready() bool {
	r.tb.Helper()
	select {
	case <-r.exited:
		if r.killed != "" {
			return false
		}
	case l := <-r.orders:
		r.orders <- l
	case <-time.After(patience):
	}
	l := r.hear()
	if r.metrics = l.Metrics; r.metrics == "" {
		r.tb.Fatalf("%s says %+v, want where it serves", r.Name, l)
	}
	return true
}

func (r *Replica) hear() line {
	r.tb.Helper()
	select {
	case l := <-r.orders:
		return l
	case <-r.exited:
	case <-time.After(patience):
	}
	r.tb.Fatalf("%s says nothing: %v\n%s", r.Name, r.cmd.ProcessState, r.tail())
	return line{}
}

func (r *Replica) tell(o order) {
	r.tb.Helper()
	text, err := json.Marshal(o)
	must(r.tb, err)
	_, err = r.stdin.Write(append(text, '\n'))
	must(r.tb, err)
	if l := r.hear(); !l.Done {
		r.tb.Fatalf("%s says %+v to an order", r.Name, l)
	}
}

// Arm sets the fault of the running process in place of the one it had.
func (r *Replica) Arm(f Fault) { r.tb.Helper(); r.tell(order{Arm: &f}) }

// Move moves the clock of the running process.
func (r *Replica) Move(d time.Duration) { r.tb.Helper(); r.tell(order{Move: d}) }

// Release lets go on whoever is held at a fault, and disarms it.
func (r *Replica) Release() { r.tb.Helper(); r.tell(order{Release: true}) }

// Held waits until somebody stands at the fault of the process. Each who comes there is
// told once.
func (r *Replica) Held() {
	r.tb.Helper()
	select {
	case <-r.held:
	case <-r.exited:
		r.tb.Fatalf("%s has ended: %v\n%s", r.Name, r.cmd.ProcessState, r.tail())
	case <-time.After(patience):
		r.tb.Fatalf("%s is held nowhere", r.Name)
	}
}

// Kill ends the process with -9 and returns when it is gone. One that has killed itself
// meanwhile is gone.
func (r *Replica) Kill() {
	r.tb.Helper()
	r.asked = true
	_ = r.cmd.Process.Kill() // it may have ended just now
	<-r.exited
}

// Stop ends the process with SIGTERM; its status has to be 0.
func (r *Replica) Stop() {
	r.tb.Helper()
	r.asked = true
	must(r.tb, r.cmd.Process.Signal(syscall.SIGTERM))
	<-r.exited
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		r.tb.Errorf("%s ended by SIGTERM with %v\n%s", r.Name, r.cmd.ProcessState, r.tail())
	}
}

// Ended is closed when the process has ended, however.
func (r *Replica) Ended() <-chan struct{} { return r.exited }

// Wait waits for the end of a process that kills itself at its fault, and returns the
// point.
func (r *Replica) Wait() string {
	r.tb.Helper()
	select {
	case <-r.exited:
	case <-time.After(patience):
		r.tb.Fatalf("%s goes on; want its end at %+v", r.Name, r.options.Fault)
	}
	if r.killed == "" {
		r.tb.Fatalf("%s did not kill itself: %v\n%s", r.Name, r.cmd.ProcessState, r.tail())
	}
	return r.killed
}

// Killed is the point at which the process, which has ended, killed itself; "" when it
// did not.
func (r *Replica) Killed() string { <-r.exited; return r.killed }

// Restart starts the process again after its end and returns when it serves. It is false
// when the process has killed itself at its fault before that.
func (r *Replica) Restart(o Options) bool {
	r.tb.Helper()
	if !r.ended() {
		r.tb.Fatalf("%s is running", r.Name)
	}
	r.stdin.Close()
	r.checkEnd()
	r.launch(o)
	return r.ready()
}

func (r *Replica) ended() bool {
	select {
	case <-r.exited:
		return true
	default:
		return false
	}
}

// end ends what is left at the end of the test.
func (r *Replica) end() {
	if !r.ended() {
		r.Kill()
	}
	r.stdin.Close()
	r.checkEnd()
	if r.tb.Failed() {
		r.tb.Logf("%s, end of its log:\n%s", r.Name, r.tail())
	}
}

// checkEnd fails the test when the process ended by itself, or was seen racing.
func (r *Replica) checkEnd() {
	r.tb.Helper()
	if !r.asked && r.killed == "" {
		r.tb.Errorf("%s ended by itself: %v\n%s", r.Name, r.cmd.ProcessState, r.tail())
	}
	text, err := os.ReadFile(r.log)
	must(r.tb, err)
	if bytes.Contains(text, []byte("WARNING: DATA RACE")) {
		r.tb.Errorf("%s has a race:\n%s", r.Name, text)
	}
}

// tail is the end of what the process has logged.
func (r *Replica) tail() string {
	text, err := os.ReadFile(r.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// Count sums a series of the running process's /metrics, which is named without
// countersign_, over the lines whose labels hold each of these texts, such as
// `state="verified"`.
func (r *Replica) Count(series string, labels ...string) int {
	r.tb.Helper()
	request, err := http.NewRequestWithContext(r.tb.Context(), "GET", "http://"+r.metrics+"/metrics", nil)
	must(r.tb, err)
	h := client.New()
	defer h.CloseIdleConnections()
	reply, err := client.Send(h, request)
	must(r.tb, err)
	sum := 0.0
	for line := range strings.Lines(string(reply.Body)) {
		end := strings.LastIndexByte(line, ' ')
		family, held, _ := strings.Cut(line[:max(end, 0)], "{")
		if family != "countersign_"+series || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(held, l) }) {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(line[end+1:]), 64)
		must(r.tb, err)
		sum += n
	}
	return int(sum)
}

// Requests is how many requests the running process has answered since its start, by its
// own count at /metrics.
func (r *Replica) Requests() int { r.tb.Helper(); return r.Count("http_requests_total") }

// Client reaches this replica alone.
func (r *Replica) Client() *http.Client { return r.in.Front(r).Client() }
