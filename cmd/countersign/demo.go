package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"countersign/internal/app"
	"countersign/internal/audit"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/scripted"
	"countersign/internal/supervision/run"
)

type demoCommand struct {
	Dir      string `placeholder:"D" help:"Folder for everything the demo makes: a new one, an empty one, or that of an earlier demo. Default: a new temporary one."`
	JSON     bool   `name:"json" help:"Print one JSON object a line; the last is {\"result\": \"ok\"}, or \"failed\" with a reason."`
	Wait     bool   `help:"Leave everything up at the end and print what a person needs to be the agent, until Ctrl-C. The evidence of the run that you play is exported then; with --incident nothing more is."`
	Incident bool   `help:"Show the governed incident workflow instead."`
}

func (demoCommand) Help() string {
	return `Starts this program three times more: as the control plane (SQLite, no model), as the storefront, and as
a scripted agent that holds a run's token and the origin, nothing else.

Run one buys a keyboard, and the agent tries on the way what must be refused. Run two alters an argument
and is paused. Evidence of both is exported to D/evidence.json and D/evidence-refused.json, the public key
to D/evidence.pub, and both are verified. With --wait the run that you play is exported to
D/evidence-yours.json.

With --incident it is the incident workflow alone, a simulation: an agent stages a mitigation and is refused; it has
no tool that approves, and its attempts through the API are refused (whoever controls the page can press its
button). The demo plays the person, which it says; the action is executed once and told again to a retry. The
evidence is D/evidence-incident.json, and --wait prints the address of the page; what is done there belongs to the
browser's own session, whose evidence the page has to download. In --json runId is then the session,
permitId the approval and receiptId the receipt; with --wait one line more has origin and page.

` + members + ` With --wait one line more has runId, origin, token and expiresAt.

The processes run as one user on one machine: they are not isolated from each other.

Example: countersign demo --dir D
Example: countersign demo --incident --wait

Status 0: everything came as it must, every overreach was refused with its code, every export verifies.`
}

// demo is one showing.
type demo struct {
	dir   string
	out   *timeline
	logs  map[string]*os.File
	store *child
	plane *child
	owner client.Owner
	runID string // of the run that is being shown, "" between them
	shown bool   // the servers are up: there is something to look at in dir
}

const (
	demoActor       = "demo"
	ownerActor      = "owner"
	verifierActor   = "verifier"
	demoInstruction = "Buy one Fieldwork keyboard for $137 total using the approved terms."
)

func (c *demoCommand) Run(ctx context.Context, s streams) error {
	d := &demo{dir: c.Dir, out: newTimeline(s.Out, c.JSON), logs: map[string]*os.File{}}
	if d.dir == "" {
		var err error
		if d.dir, err = os.MkdirTemp("", "countersign-demo-"); err != nil {
			return err
		}
	}
	show, wait := d.show, d.wait
	if c.Incident {
		show, wait = d.showIncident, d.waitIncident
	}
	if !c.Wait {
		wait = func(context.Context) error { return nil }
	}
	err := d.play(ctx, show, wait)
	if errors.Is(err, context.Canceled) {
		err = differs("demo: interrupted")
	}
	d.conclude(err)
	return errors.Join(err, d.out.err)
}

// conclude says how the demo ended, and where to look when there is something.
func (d *demo) conclude(err error) {
	result := map[string]string{"result": "ok"}
	if err != nil {
		result["result"], result["reason"] = "failed", err.Error()
	}
	if d.out.json {
		d.out.object(result)
	}
	where := ""
	if d.shown {
		where = " Everything is in " + d.dir + "."
	}
	d.out.say("\nResult: %s.%s", result["result"], where)
}

// play shows everything, waits, and leaves nothing running.
func (d *demo) play(ctx context.Context, show, wait func(context.Context) error) error {
	unlock, err := lockDemo(d.dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err = show(ctx); err == nil {
		err = wait(ctx)
	}
	return errors.Join(err, d.stop())
}

// lockDemo keeps a second demo out of the folder. It takes none that holds
// something and that no demo has made.
func lockDemo(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, mend(err, dir, database{})
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, mend(err, dir, database{})
	}
	lock := filepath.Join(dir, "demo.lock")
	if _, err := os.Lstat(lock); len(entries) > 0 && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("demo: %s is not empty and no demo made it; give --dir a new folder", dir)
	}
	f, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, mend(err, dir, database{})
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is in use by another demo; stop it or give another --dir", dir)
	}
	return func() { f.Close() }, nil
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

// show does everything up to the verification.
func (d *demo) show(ctx context.Context) error {
	if err := d.start(ctx); err != nil {
		return err
	}
	d.out.say("The agent is scripted: it follows a written script and no model decides anything.\n")
	d.out.head()
	if err := d.signIn(ctx); err != nil {
		return err
	}
	bought, err := d.run(ctx, "one: buys, and tries on the way what must be refused", "purchase")
	if err != nil {
		return err
	}
	paused, err := d.run(ctx, "two: alters an argument, which pauses it", "overreach")
	if err != nil {
		return err
	}
	d.out.say("")
	if err := d.export(ctx, bought, "evidence.json"); err != nil {
		return err
	}
	if err := d.export(ctx, paused, "evidence-refused.json"); err != nil {
		return err
	}
	key, err := os.ReadFile(d.path("control/keys/evidence.pub"))
	if err == nil {
		err = replaceFile(d.path("evidence.pub"), key)
	}
	if err != nil {
		return err
	}
	first, err := d.verify("evidence.json", run.StatusCompleted, (*audit.Report).PrintShort)
	second, errSecond := d.verify("evidence-refused.json", run.StatusPaused, (*audit.Report).Print)
	d.out.say("%s%s", first, second)
	d.out.say("\nCheck it yourself:\n  %s verify %s --key %s --store-key %s", invocation(), quoted(d.path("evidence.json")), quoted(d.path("evidence.pub")), quoted(d.path(receiptKey)))
	return errors.Join(err, errSecond)
}

// receiptKey is the store's public key in the folder of the demo.
const receiptKey = "store/keys/receipt.pub"

// start brings up the store and the control plane.
func (d *demo) start(ctx context.Context) error {
	control, shop := d.path("control"), d.path("store")
	if err := d.init(ctx); err != nil {
		return err
	}
	var err error
	d.store, err = d.child("store", nil, "store", "--dir", shop, "--addr", "127.0.0.1:0", "--trust", filepath.Join(control, "keys", "dispatch.pub"), "--create")
	if err != nil {
		return err
	}
	shopOrigin, err := d.store.serve(ctx)
	if err != nil {
		return err
	}
	origin, err := d.control(ctx, "--store-origin", shopOrigin, "--store-key", filepath.Join(shop, "keys", "receipt.pub"))
	if err != nil {
		return err
	}
	d.out.say("countersign demo\n  control plane  %s  SQLite in %s\n  storefront     %s  another process with another key and another host name\n  logs           %s", origin, control, shopOrigin, d.path("*.log"))
	return nil
}

// init makes the control plane's folder, unless an earlier demo has.
func (d *demo) init(ctx context.Context) error {
	control := d.path("control")
	if err := app.Init(ctx, control, ""); err != nil && !errors.Is(err, keys.ErrExists) {
		return mend(err, control, database{})
	}
	return nil
}

// control brings up the control plane and returns its origin.
func (d *demo) control(ctx context.Context, flags ...string) (origin string, err error) {
	d.plane, err = d.child("control", nil, append([]string{"serve", "--dir", d.path("control"), "--addr", "localhost:0"}, flags...)...)
	if err != nil {
		return "", err
	}
	if origin, err = d.plane.serve(ctx); err != nil {
		return "", err
	}
	d.owner, d.shown = client.Owner{Origin: origin, HTTP: client.New()}, true
	return origin, nil
}

// child prepares this program as another process that writes its log in the
// folder.
func (d *demo) child(name string, env []string, args ...string) (*child, error) {
	if d.logs[name] == nil {
		f, err := os.OpenFile(d.path(name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		d.logs[name] = f
	}
	return newChild(name, env, d.logs[name], args...)
}

// step records what somebody other than the agent did.
func (d *demo) step(actor, what, verdict string, r client.Reply) {
	d.out.add(scripted.Entry{Time: scripted.Now(), RunID: d.runID, Actor: actor, Action: what, Verdict: verdict, ReasonCode: r.Reason, Status: r.Status, Ms: r.Ms})
}

// did records an owner's request.
func (d *demo) did(what string, r client.Reply, err error) error {
	verdict := scripted.OK
	if err != nil {
		verdict = scripted.Failed
	}
	d.step(ownerActor, what, verdict, r)
	if err != nil {
		return differs("demo: %w", err)
	}
	return nil
}

func (d *demo) signIn(ctx context.Context) error {
	secret, err := keys.ReadSecret(d.path("control/owner.secret"))
	if err != nil {
		return err
	}
	r, err := d.owner.SignIn(ctx, secret)
	return d.did("sign in", r, err)
}

// create makes a run and issues its token.
func (d *demo) create(ctx context.Context) (string, client.Session, error) {
	d.runID = ""
	id, r, err := d.owner.CreateRun(ctx, map[string]string{
		"service": "merchant", "target": "hosted", "channel": "http", "mode": "bounded", "budgetCents": "13700", "instruction": demoInstruction,
	})
	d.runID = id
	if err := d.did("create a run, at most $137.00", r, err); err != nil {
		return "", client.Session{}, err
	}
	session, r, err := d.owner.IssueToken(ctx, id)
	return id, session, d.did("issue the run's token", r, err)
}

// run lets the agent play a script in a new run.
func (d *demo) run(ctx context.Context, title, script string) (string, error) {
	d.out.say("\nRun %s", title)
	id, session, err := d.create(ctx)
	if err != nil {
		return "", err
	}
	c, err := d.child("agent", []string{"COUNTERSIGN_TOKEN=" + session.Token, "COUNTERSIGN_ORIGIN=" + session.Origin}, "agent", "--script", script, "--json")
	if err != nil {
		return "", err
	}
	return id, d.follow(ctx, c, script)
}

// follow shows what the agent reports until it ends; it must end well.
func (d *demo) follow(ctx context.Context, c *child, script string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	c.cmd.Stdout = write
	err = c.start()
	write.Close() // the child has its own
	if err != nil {
		return err
	}
	ended := context.AfterFunc(ctx, func() { _ = c.cmd.Process.Signal(syscall.SIGTERM) })
	defer ended()
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		var e scripted.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			_ = c.cmd.Process.Kill() // it may have ended just now
			return differs("demo: the agent wrote what is no entry: %w", err)
		}
		e.RunID = or(e.RunID, d.runID) // it learns the run's id from its first answer
		d.out.add(e)
	}
	<-c.exited
	if err := errors.Join(lines.Err(), ctx.Err()); err != nil {
		return err
	}
	if c.err != nil {
		return differs("demo: the agent's script %s did not go as it must (%w)\n%s", script, c.err, c.tail.String())
	}
	return nil
}

// export writes a run's evidence to a file of the folder.
func (d *demo) export(ctx context.Context, runID, name string) error {
	d.runID = runID
	r, err := d.owner.Export(ctx, runID)
	if err := d.did("export "+name, r, err); err != nil {
		return err
	}
	return replaceFile(d.path(name), r.Body)
}

// replaceFile puts content at path; whoever opens it finds the old file or the
// whole new one.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // without effect after the rename
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// verify checks an export with the key beside it, as the verify command would,
// and that the run came to the end that it should have. It returns the report for
// people.
func (d *demo) verify(name, status string, print func(*audit.Report, io.Writer, string) error) (string, error) {
	start := time.Now()
	d.runID = "" // the report says whose evidence it is
	command := verifyCommand{Keys: []string{d.path("evidence.pub")}}
	if d.store != nil {
		command.StoreKey = d.path(receiptKey)
	}
	options, err := command.options()
	if err != nil {
		return "", err
	}
	report, err := verifyFile(d.path(name), options)
	if err != nil {
		return "", err
	}
	good := report.OK() && report.Lawfulness.Status == status
	verdict := "verified"
	if !good {
		verdict = scripted.Failed
	}
	d.step(verifierActor, "verify "+name, verdict, client.Reply{Ms: time.Since(start).Milliseconds()})
	var text strings.Builder
	err = print(report, &text, "\n"+d.path(name))
	if !good {
		err = differs("demo: %s does not verify as the evidence of what is %s", name, status)
	}
	return text.String(), err
}

// stop ends the servers, the control plane first: it may still ask the store.
func (d *demo) stop() error {
	var errs []error
	for _, c := range []*child{d.plane, d.store} {
		if c != nil && c.cmd.Process != nil {
			errs = append(errs, c.stop())
		}
	}
	for _, f := range d.logs {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
