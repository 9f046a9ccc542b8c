package ledgertest

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"countersign/evidence"
	"countersign/internal/canon"
	"countersign/internal/ledger"
)

// A test binary that finds childVariable in its environment is a child: it
// opens the database it is told and commits until it is killed.
const childVariable = "COUNTERSIGN_LEDGERTEST_CHILD"

// childTask is what a child is told, and childLine one line of what it says.
type (
	childTask struct {
		Location string
		Point    string // stops for good here; empty: each worker waits to be resumed instead
		Hit      int    // at this hit of the point, from 1
		Acked    int    // hits count once so many commits were acknowledged
		Steps    int    // commits of each worker at most
		Winning  bool   // commits no Change that loses
		Lazy     bool   // negative control: answers before it writes
	}
	childLine struct {
		Key      string   `json:",omitempty"` // raw public key, base64url
		Plans    []string `json:",omitempty"` // ids
		Ack      string   `json:",omitempty"` // id whose Change was answered Stored
		Revision int64    `json:",omitempty"`
		Point    string   `json:",omitempty"` // reached, and waiting for the end
		Err      string   `json:",omitempty"`
	}
)

const childWorkers = 4

// Main runs the tests of an engine's package, or the child's work when this
// process is a child. It does not return. m is a *testing.M or wraps one.
func Main(m interface{ Run() int }, b Backend) {
	task := os.Getenv(childVariable)
	if task == "" {
		os.Exit(m.Run())
	}
	if err := runChild(b, task); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runChild(b Backend, text string) error {
	var task childTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	resumed := make(chan struct{})
	go func() { // the parent holds the other end: without it there is no child
		if _, err := os.Stdin.Read(make([]byte, 1)); err == nil {
			close(resumed)
			io.Copy(io.Discard, os.Stdin)
		}
		os.Exit(3)
	}()
	out := &childOutput{}
	var hits, acked int
	var mu sync.Mutex
	fault := func(point string) error {
		mu.Lock()
		stop := false
		if acked >= task.Acked && point == task.Point {
			hits++
			stop = hits == task.Hit
		}
		mu.Unlock()
		if stop {
			out.say(childLine{Point: point})
			select {}
		}
		return nil
	}
	ack := func(line childLine) {
		out.say(line)
		mu.Lock()
		acked++
		wait := task.Point == "" && acked >= task.Acked
		mu.Unlock()
		if wait {
			<-resumed
		}
	}
	ctx := context.Background()
	e, err := b.Open(ctx, task.Location, Options{Fault: fault})
	if err != nil {
		return err
	}
	if task.Lazy {
		e = lazy(nil, e)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	key := evidence.NewSigningKey(private)
	walks := make([]walk, childWorkers)
	ids := make([]string, childWorkers)
	for n := range walks {
		if walks[n], err = newWalk(ctx, e, key); err != nil {
			return err
		}
		ids[n] = walks[n].id
	}
	out.say(childLine{Key: canon.EncodeBase64(key.Public()), Plans: ids})
	var wg sync.WaitGroup
	errs := make([]error, childWorkers)
	for n, w := range walks {
		wg.Go(func() { errs[n] = w.work(ctx, ack, task) })
	}
	wg.Wait()
	return errors.Join(append(errs, e.Close())...)
}

// work commits the plan's Changes, each followed by one that loses unless all are
// to win, and says which were acknowledged.
func (w walk) work(ctx context.Context, ack func(childLine), task childTask) error {
	for range task.Steps {
		c, r, err := w.step(ctx, w.engine)
		if err != nil || r.Outcome != ledger.Stored {
			return errors.Join(err, r.Err())
		}
		ack(childLine{Ack: w.id, Revision: c.Writes[0].Revision + 1})
		if task.Winning {
			continue
		}
		if r := w.lose(ctx); r.Outcome != ledger.Conflict {
			return fmt.Errorf("a lost race: %v", r.Outcome)
		}
	}
	return nil
}

// childOutput writes whole lines to the parent.
type childOutput struct{ mu sync.Mutex }

func (o *childOutput) say(line childLine) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := os.Stdout.Write(append(text, '\n')); err != nil {
		os.Exit(3)
	}
}

// Child is a child process with an engine of its own that commits Changes of
// known content until it is killed. Its methods are called from one goroutine.
type Child struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  *bufio.Scanner
	stderr *strings.Builder

	key   ed25519.PublicKey
	plans []string
	acked map[string]int64
	total int
	point string

	unanswered int // stored and never acknowledged, by Audit
	ended      bool
}

// StartChild starts a child on the database, which commits with four workers.
// Once so many commits were acknowledged it stops for good at that hit of the
// point and waits to be killed; one that commits steps times with each worker
// before ends by itself. The child is killed when the test ends.
func StartChild(t testing.TB, location, point string, acked, hit, steps int) *Child {
	t.Helper()
	return startChild(t, childTask{Location: location, Point: point, Hit: hit, Acked: acked, Steps: steps})
}

func startChild(t testing.TB, told childTask) *Child {
	t.Helper()
	task, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	c := &Child{t: t, cmd: exec.Command(os.Args[0], "-test.run=^$"), acked: make(map[string]int64), stderr: new(strings.Builder)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(task))
	c.cmd.Stderr = c.stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(stdout)
	c.lines.Buffer(nil, 1<<20)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

// read takes one line and reports whether there was one.
func (c *Child) read() bool {
	if !c.lines.Scan() {
		return false
	}
	var line childLine
	if err := json.Unmarshal(c.lines.Bytes(), &line); err != nil {
		c.t.Errorf("child said %q", c.lines.Text())
		return false
	}
	switch {
	case line.Key != "":
		key, err := canon.DecodeBase64(line.Key)
		if err != nil {
			c.t.Errorf("child's key: %v", err)
		}
		c.key, c.plans = key, line.Plans
	case line.Ack != "":
		c.acked[line.Ack] = max(c.acked[line.Ack], line.Revision)
		c.total++
	case line.Point != "":
		c.point = line.Point
	}
	return true
}

// WaitPoint returns when the child stands at its point, or false when it ended
// without reaching it.
func (c *Child) WaitPoint() bool {
	for c.point == "" && c.read() {
	}
	return c.point != ""
}

// WaitAcked returns when so many commits were acknowledged, or false when the
// child ended before.
func (c *Child) WaitAcked(n int) bool {
	for c.total < n && c.read() {
	}
	return c.total >= n
}

// resume lets the workers of a child without a point go on.
func (c *Child) resume() {
	if _, err := c.stdin.Write([]byte{'\n'}); err != nil {
		c.t.Errorf("resume the child: %v", err)
	}
}

// Kill ends the child with SIGKILL, reads what it still said and reaps it.
func (c *Child) Kill() {
	if c.ended {
		return
	}
	c.ended = true
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Errorf("kill: %v", err)
	}
	for c.read() {
	}
	c.stdin.Close()
	if err := c.cmd.Wait(); err == nil && c.point != "" {
		c.t.Error("the child ended by itself")
	}
}

// Stderr is what the child complained about; complete after Kill.
func (c *Child) Stderr() string { return c.stderr.String() }

// Acked is the number of acknowledged commits read so far.
func (c *Child) Acked() int { return c.total }

// Audit compares the database with what the child was told: every acknowledged
// commit is there, an unacknowledged one is there whole or not at all, at most
// one of each worker, and every chain verifies. Then it continues every chain,
// as a restarted process would. Call it after Kill, and when nothing of the
// child is under way any more ([Backend.Gone]).
func (c *Child) Audit(ctx context.Context, e Engine) error {
	if len(c.plans) != childWorkers {
		return fmt.Errorf("the child told %d plans: %s", len(c.plans), c.Stderr())
	}
	for _, id := range c.plans {
		old := plan{id: id, key: evidence.SigningKey{ID: evidence.KeyID(c.key), Private: publicOnly(c.key)}}
		revision, err := old.audit(ctx, e)
		if err != nil {
			return err
		}
		if acked := c.acked[id]; revision != acked && revision != acked+1 {
			return fmt.Errorf("%s: %d commits were acknowledged and %d are there", id, acked, revision)
		} else if revision > acked {
			c.unanswered++
		}
		s, now, err := e.Load(ctx, old.subject())
		if errors.Is(err, ledger.ErrNotFound) {
			s, err = ledger.Subject{Key: old.subject(), Head: evidence.Genesis}, nil
		}
		if err != nil {
			return err
		}
		_, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			return err
		}
		change, err := plan{id: id, key: evidence.NewSigningKey(private)}.next(s, now)
		if err != nil {
			return err
		}
		if r := e.Commit(ctx, change); r.Outcome != ledger.Stored {
			return fmt.Errorf("%s: after the restart: %w", id, r.Err())
		}
	}
	return nil
}

// publicOnly is a private key that knows only its public half: enough to audit.
func publicOnly(public ed25519.PublicKey) ed25519.PrivateKey {
	return append(make(ed25519.PrivateKey, ed25519.SeedSize), public...)
}

// For every fail point a child is killed with SIGKILL while one of its
// transactions stands there, at the third hit of the point after 20 commits were
// acknowledged, with four workers committing; and for every moment of a server
// while the transactions of all four are there. The points are printed; one that
// is not reached fails.
//
// SIGKILL shows process death: what was written to the kernel survives it
// without any flush. It does not show power loss.
func testKills(t *testing.T, b Backend) {
	n, of := 0, len(b.Points)+len(b.Moments)
	kill := func(point string, at func(testing.TB) string) {
		n++
		t.Run(point, func(t *testing.T) { t.Logf("fail point %q hit, %d of %d: %s", point, n, of, at(t)) })
	}
	for _, point := range b.Points {
		kill(point, func(t testing.TB) string { return killAt(t, b, point) })
	}
	for _, moment := range b.Moments {
		kill(moment.Name, func(t testing.TB) string { return killWithin(t, b, moment) })
	}
}

// killAcked is how many commits are acknowledged before a kill.
const killAcked = 20

// killAt kills a child at a fail point and audits what it left.
func killAt(t testing.TB, b Backend, point string) string {
	location := b.Create(t)
	child := startChild(t, childTask{Location: location, Point: point, Acked: killAcked, Hit: 3, Steps: 50, Lazy: b.weaken != nil})
	if !child.WaitPoint() {
		child.Kill()
		t.Fatalf("%s was not hit: %s", point, child.Stderr())
	}
	child.Kill()
	return auditKilled(t, b, location, child)
}

// Moment is a point of a commit that lies in a server, where no fault can be
// injected.
type Moment struct {
	Name string
	// Durable says that the transaction is stored already.
	Durable bool
	// Create makes a database for this moment alone; nil: [Backend.Create].
	Create func(t testing.TB) (location string)
	// Reach sees to it that transactions which write these subjects stand there,
	// calls resume, upon which each subject is written, and returns when as many
	// stand there. release lets them go on.
	Reach func(t testing.TB, location string, subjects []ledger.Key, resume func()) (release func())
}

// killWithin kills a child whose transactions stand at a moment of the server,
// lets the server go on, and audits what is left.
func killWithin(t testing.TB, b Backend, moment Moment) string {
	create := b.Create
	if moment.Create != nil {
		create = moment.Create
	}
	location := create(t)
	child := startChild(t, childTask{Location: location, Acked: killAcked, Steps: 50, Winning: true})
	if !child.WaitAcked(killAcked) {
		child.Kill()
		t.Fatalf("the child ended: %s", child.Stderr())
	}
	subjects := make([]ledger.Key, len(child.plans))
	for n, id := range child.plans {
		subjects[n] = runKey(id)
	}
	release := moment.Reach(t, location, subjects, child.resume)
	child.Kill()
	release()
	told := auditKilled(t, b, location, child)
	if moment.Durable && child.unanswered != len(subjects) {
		t.Errorf("%d commits are stored beyond what was acknowledged, want %d", child.unanswered, len(subjects))
	}
	return told
}

// auditKilled opens what a killed child left, audits it and says what is there.
func auditKilled(t testing.TB, b Backend, location string, child *Child) string {
	if b.Gone != nil {
		b.Gone(t, location)
	}
	e, err := b.Open(t.Context(), location, Options{})
	if err != nil {
		t.Fatalf("open after the kill: %v", err)
	}
	defer e.Close()
	if err := child.Audit(t.Context(), e); err != nil {
		t.Error(err)
	}
	if child.Acked() < killAcked {
		t.Errorf("%d commits were acknowledged, want %d before the kill", child.Acked(), killAcked)
	}
	return fmt.Sprintf("killed with %d commits acknowledged and %d more stored", child.Acked(), child.unanswered)
}
