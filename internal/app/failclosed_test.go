package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/internal/app"
	"countersign/internal/channel/edge"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/guardian"
	"countersign/store"
)

// dependencies say of everything that app wires which play shows how it fails, or why
// nothing can.
var dependencies = map[string]struct{ play, none string }{
	"app.engine":       {play: "ledger"},
	"gateway.Ledger":   {play: "ledger"},
	"identity.Ledger":  {play: "ledger"},
	"attack.Ledger":    {play: "attacks"},
	"workspace.Ledger": {play: "policies"},
	"gateway.Service":  {play: "service"},
	"gateway.Guardian": {play: "guardian"},
	"hosted.Sender":    {play: "store"},
	"settle.Ledger":    {play: "ledger"},
	"managed.Executor": {play: "executor"},
	"managed.Contexts": {play: "contexts"},
	"perimeter.Ledger": {play: "context gateway"},
	"control.Ledger":   {play: "incidents"},
	"workspace.Runs":   {play: "verification"},
	"attack.Runs":      {play: "attacks"},

	"edge.Config.Ready":            {play: "ready"}, // the engine's Ping
	"control.Chains":               {none: "is the gateway's export, whose ledger has a row"},
	"control.Config.Fault":         {none: "nil in the product"},
	"control.Config.Freeze":        {none: "is the gateway's reader, whose ledger has a row"},
	"control.Config.MAC":           {none: "is a keyed hash and asks nobody"},
	"control.Config.Partial":       {none: "nil in the product"},
	"incidentpage.Plane":           {none: "is the incident's control plane, whose ledger has a row"},
	"perimeter.Config.Fault":       {none: "nil in the product"},
	"perimeter.Config.MAC":         {none: "is a keyed hash and asks nobody"},
	"projects.Perimeter":           {none: "is the context gateway, whose ledger has a row"},
	"traces.Chains":                {none: "is the gateway's export, whose ledger has a row"},
	"owner.Config.Hosting":         {play: "ready"},
	"workspace.Config.SignIn":      {none: "is made of identity.Owners, whose ledger has a row"},
	"attack.Config.SignIn":         {none: "is made of identity.Owners, whose ledger has a row"},
	"owner.Attacks":                {none: "is the attack runner, whose parts have rows"},
	"attack.Store":                 {none: "no server has one: only the command that attacks a store of its own does"},
	"edge.Config.Unavailable":      {none: "tells errors apart and asks nobody"},
	"edge.Server.Wrap":             {none: "puts counters and the proxies' word around the API and asks nobody"},
	"gateway.Config.Fault":         {none: "nil in the product"},
	"postgres.Options.Fault":       {none: "nil in the product"},
	"sqlite.Options.Fault":         {none: "nil in the product"},
	"postgres.Options.AfterCommit": {none: "adds one to a counter"},
	"sqlite.Options.AfterCommit":   {none: "adds one to a counter"},
}

// unshown names what is wired and has no row, and rows of what is not wired.
func unshown(list []string) (wrong []string) {
	for _, name := range list {
		row, ok := dependencies[name]
		switch {
		case !ok:
			wrong = append(wrong, name+" is wired and has no row")
		case (row.play == "") == (row.none == ""), row.play != "" && plays[row.play] == nil:
			wrong = append(wrong, "the row of "+name+" names no play")
		}
	}
	for name := range dependencies {
		if !slices.Contains(list, name) {
			wrong = append(wrong, name+" has a row and is not wired")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// Every dependency that app wires fails closed, in each way that there is: no permit, no
// effect, or an honest unknown; an answer that says a reason and nothing of the inside; a
// server that goes on, a lawful chain, and a run that goes on by its documented route when
// the dependency works again. The list is read off app's sources.
func TestDependencies(t *testing.T) {
	t.Run("wired", func(t *testing.T) {
		t.Parallel()
		for _, wrong := range unshown(wired(t)) {
			t.Error(wrong)
		}
		// Control: an interface and a function that are wired anew are found to have no row.
		more := wired(t, `package app
			import ("context"; "countersign/internal/supervision/admission"; "countersign/internal/supervision/workspace")
			func boundTo(p admission.Policies) { admission.Bind(context.Background(), p, admission.Request{}) }
			func signedBy(f func(context.Context) (string, func(context.Context) error, error)) any { return workspace.Config{SignIn: f} }`)
		if got := unshown(more); !slices.Equal(got, []string{"admission.Policies is wired and has no row"}) {
			t.Errorf("control: %v", got)
		}
	})
	for name, play := range plays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t)
		})
	}
}

// plays show dependencies failing.
var plays = map[string]func(*testing.T){
	"ledger": func(t *testing.T) {
		b := openBooth(t, []string{"app.engine"})
		refused := map[string]string{errs: "LEDGER_UNAVAILABLE", hangs: "LEDGER_UNAVAILABLE", panics: "INTERNAL", late: "LEDGER_UNAVAILABLE", garbles: "INTERNAL"}
		unstored := map[string]string{errs: "LEDGER_UNAVAILABLE", hangs: "LEDGER_UNAVAILABLE", panics: "LEDGER_UNAVAILABLE", late: "LEDGER_UNAVAILABLE", garbles: "LEDGER_UNAVAILABLE"}
		unknown := map[string]string{errs: "LEDGER_UNAVAILABLE", hangs: "LEDGER_UNAVAILABLE", panics: "INTERNAL", late: "LEDGER_UNAVAILABLE", garbles: "AUTHENTICATION_REQUIRED"}
		// What was begun is recorded in the next try.
		done := map[string]string{errs: "", hangs: "", panics: "", late: "", garbles: ""}
		b.local(point{name: "who asks", request: observing, where: "credential", want: unknown})
		for _, request := range []string{observing, reporting, operating} {
			b.local(point{name: request + ", reads", request: request, where: "read", want: refused})
			b.local(point{name: request + ", the first commit", request: request, where: "commit", want: unstored})
		}
		b.local(point{name: "operate, the second commit", request: operating, where: "commit", nth: 2, want: done})
		b.settling()
	},
	"service": func(t *testing.T) {
		b := openBooth(t, []string{"gateway.Service"})
		internal := map[string]string{errs: "INTERNAL", hangs: "INTERNAL", panics: "INTERNAL", late: "INTERNAL", garbles: "INTERNAL"}
		b.local(point{name: "looked at", request: observing, where: "see", want: internal})
		b.local(point{name: "its catalog", request: observing, where: "catalog", want: internal})
		b.local(point{name: "executing", request: operating, where: "execute", want: internal})
		b.local(point{name: "looked at afterwards", request: operating, where: "see", want: internal})
	},
	"guardian": func(t *testing.T) {
		b := openBooth(t, []string{"gateway.Guardian"})
		judging := point{name: "judging", request: reporting, decided: true, want: map[string]string{
			errs: "GUARDIAN_MALFORMED", hangs: "PROVIDER_TIMEOUT", panics: "PROVIDER_ERROR", late: "PROVIDER_TIMEOUT", garbles: "GUARDIAN_MALFORMED",
		}}
		b.local(judging)
		// Control: without the bound around who is asked, the same check finds a panic.
		open := openBooth(t, []string{"gateway.Guardian"}, func(c *app.Config) { c.Doors.Asked = true })
		if wrong := open.buyer(false).fail(judging, panics); !strings.Contains(strings.Join(wrong, "\n"), "INTERNAL") {
			t.Errorf("control: a guardian without a bound: %q", wrong)
		}
	},
	"store": func(t *testing.T) {
		b := openBooth(t, []string{"hosted.Sender"}, hostedBy(t))
		seen := map[string]string{errs: "HOSTED_UNREACHABLE", hangs: "HOSTED_UNREACHABLE", panics: "HOSTED_UNREACHABLE", late: "HOSTED_UNREACHABLE", garbles: "HOSTED_UNREACHABLE"}
		sent := map[string]string{errs: "DISPATCH_UNCONFIRMED", hangs: "DISPATCH_UNCONFIRMED", panics: "DISPATCH_UNCONFIRMED", late: "DISPATCH_UNCONFIRMED", garbles: "DISPATCH_UNCONFIRMED"}
		b.hosted(point{name: "looked at", request: observing, where: "GET", want: seen})
		mutating := point{name: "dispatched to", request: operating, where: "POST", want: sent}
		b.hosted(mutating)
		open := openBooth(t, []string{"hosted.Sender"}, hostedBy(t), func(c *app.Config) { c.Doors.Asked = true })
		if wrong := open.buyer(true).fail(mutating, panics); !strings.Contains(strings.Join(wrong, "\n"), "INTERNAL") {
			t.Errorf("control: a store without a bound: %q", wrong)
		}
	},
	"executor": func(t *testing.T) {
		b := openBooth(t, []string{"managed.Executor"})
		b.local(point{name: "proposing", request: stepping, decided: true, want: map[string]string{
			errs: "PROVIDER_ERROR", hangs: "PROVIDER_TIMEOUT", panics: "PROVIDER_ERROR", late: "PROVIDER_TIMEOUT", garbles: "PROVIDER_ERROR", // the authored one has no repair
		}})
	},
	"contexts":        attemptContexts,
	"incidents":       incidents,
	"context gateway": contextGateway,
	"policies": func(t *testing.T) {
		b := openBooth(t, []string{"app.engine"})
		for _, where := range []string{"read", "commit"} {
			for _, how := range ways {
				id := b.draft()
				b.f.set(how, where)
				r := b.verify(id, 1)
				if hits := b.f.mend(); hits == 0 {
					t.Errorf("%s, %s: was not met", where, how)
				}
				b.complain(how+" in "+where, b.refusal(r, "LEDGER_UNAVAILABLE", "INTERNAL"))
				b.activate(id, 1).is(t, "activate what was not verified", 409, "GUARDIAN_NOT_VERIFIED")
				b.verified(id)
			}
		}
	},
	"verification": func(t *testing.T) {
		b := openBooth(t, []string{"workspace.Runs"})
		for _, how := range ways {
			id := b.draft()
			b.f.set(how, "")
			r := b.verify(id, 1)
			if hits := b.f.mend(); hits == 0 {
				t.Errorf("%s: was not met", how)
			}
			if how == panics {
				b.complain(how, b.refusal(r, "INTERNAL"))
			} else if r.is(t, how, 200, ""); r.at("verification", "passed") != false || r.at("status") != "draft" || strings.Contains(string(r.body), hidden) {
				t.Errorf("%s: %s", how, r.body)
			}
			b.activate(id, 1).is(t, "activate what was not verified", 409, "GUARDIAN_NOT_VERIFIED")
			b.verified(id)
			b.lawful("/workspace/guardians/" + id + "/evidence")
		}
		for how, reason := range map[string]string{errs: "INTERNAL", hangs: "INTERNAL", panics: "INTERNAL"} {
			id := b.draft()
			b.f.set(how, "")
			r := b.ask("GET", "/workspace/guardians/"+id+"/evidence", nil)
			b.f.mend()
			b.complain("export, "+how, b.refusal(r, reason))
		}
	},
	"attacks": func(t *testing.T) {
		attack := map[string]any{"attackId": "B12", "service": "merchant"}
		for _, wired := range []string{"attack.Runs", "app.engine"} {
			b := openBooth(t, []string{wired})
			for _, how := range ways {
				b.f.set(how, map[string]string{"app.engine": "read"}[wired])
				r := b.ask("POST", "/attacks/run", attack)
				if hits := b.f.mend(); hits == 0 {
					t.Errorf("%s, %s: was not met", wired, how)
				}
				if r.status == 200 && (r.at("blocked") != false || r.at("outcome") != "not_carried_out" || wired == "attack.Runs" && r.at("got") != nil || strings.Contains(string(r.body), hidden)) {
					t.Errorf("%s, %s: an attack that was not carried out counts as blocked or open, or has an answer: %s", wired, how, r.body)
				} else if r.status != 200 {
					b.complain(wired+", "+how, b.refusal(r, "LEDGER_UNAVAILABLE", "INTERNAL"))
				}
			}
			if r := b.ask("POST", "/attacks/run", attack).is(t, "the attack afterwards", 200, ""); r.at("blocked") != true {
				t.Errorf("%s works again: %s", wired, r.body)
			}
		}
	},
	"ready": func(t *testing.T) {
		for _, how := range ways {
			f := &fault{}
			b := openBooth(t, nil, func(c *app.Config) {
				*c = app.WithSwap(*c, func(wired reflect.Type, d any) any {
					if e, ok := d.(app.Engine); ok {
						return &unready{e, f}
					}
					return d
				})
			})
			f.set(how, "")
			for path, want := range map[string]int{"/readyz": 503, "/healthz": 200} {
				if r := send(t, "GET", b.origin+path, nil, nil); r.status != want || strings.Contains(string(r.body), hidden) {
					t.Errorf("%s, %s: %d %s", how, path, r.status, r.body)
				}
			}
			if how != hangs && how != late { // those who ask how it is hosted wait for the engine's bound
				r := b.ask("GET", "/hosting", nil)
				if r.status == 200 && r.at("database", "connected") != false || strings.Contains(string(r.body), hidden) {
					t.Errorf("%s: hosting %d %s", how, r.status, r.body)
				}
			}
			f.mend()
			waitFor(t, how+": the server is ready again", func() bool { return send(t, "GET", b.origin+"/readyz", nil, nil).status == 200 })
			if r := b.ask("GET", "/hosting", nil); r.at("database", "connected") != true {
				t.Errorf("%s: hosting afterwards: %s", how, r.body)
			}
		}
	},
}

// unready fails when it is asked whether it can be written to.
type unready struct {
	app.Engine
	f *fault
}

func (u *unready) Ping(ctx context.Context) error {
	switch u.f.at("ping") {
	case errs, garbles:
		return errInside
	case panics:
		panic(hidden)
	case hangs, late:
		defer u.f.leave()
		u.f.hold()
	}
	return u.Engine.Ping(ctx)
}

// waitFor asks again and again until it is so. The test's own time bounds it.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// The requests in which something fails.
const (
	observing = "observe"
	reporting = "report"
	operating = "operate"
	stepping  = "step"
)

// point is one place in a cycle where a dependency fails.
type point struct {
	name    string
	request string
	where   string            // method of the dependency
	nth     int               // use of it; 0: all
	decided bool              // the answer is a decision or a stop, no refusal
	want    map[string]string // the reason for each way to fail; "" done all the same
}

// booth is a desk at which one dependency can fail.
type booth struct {
	*desk
	f     *fault
	store *store.Store
}

var stores sync.Map // *testing.T -> *store.Store, see hostedBy

// hostedBy gives the installation a store.
func hostedBy(t *testing.T) func(*app.Config) {
	return func(c *app.Config) {
		list, err := os.ReadFile(filepath.Join(c.Dir, "keys", "dispatch.pub"))
		must(t, err)
		trust, err := dispatch.ParseKeys(list)
		must(t, err)
		dir := filepath.Join(t.TempDir(), "store")
		must(t, store.Create(dir))
		server := httptest.NewUnstartedServer(nil)
		origin := "http://" + server.Listener.Addr().String()
		s, err := store.Open(dir, store.Options{Origin: origin, Trust: trust, Clock: c.Clock.Now, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		server.Config.Handler = s.Handler()
		server.Start()
		t.Cleanup(func() { server.Close(); s.Close() })
		c.Store = &gateway.Store{Origin: origin, Keys: []dispatch.TrustedKey{s.ReceiptKey()}}
		stores.Store(t, s)
	}
}

func openBooth(t *testing.T, interfaces []string, edits ...func(*app.Config)) *booth {
	t.Helper()
	b := &booth{f: &fault{}}
	first := func(c *app.Config) {
		*c = app.WithPatience(app.WithSwap(*c, b.f.in(interfaces...)), patience)
		c.Doors = decide.Doors{Window: true} // a busy machine would miss the second in which bytes have to leave
	}
	b.desk = openDesk(t, "", append([]func(*app.Config){first}, edits...)...)
	if s, ok := stores.Load(t); ok {
		b.store = s.(*store.Store)
	}
	return b
}

// complain reports what was found.
func (b *booth) complain(what string, wrong []string) {
	b.t.Helper()
	for _, w := range wrong {
		b.t.Errorf("%s: %s", what, w)
	}
}

// all lets the dependency fail in every way at a point of a purchase, which then goes on
// to its end.
func (b *booth) all(p point, hosted bool) {
	b.t.Helper()
	var u *buyer
	for _, how := range ways {
		if u == nil {
			u = b.buyer(hosted)
		}
		wrong := u.fail(p, how)
		if len(wrong) == 0 {
			wrong = u.recover()
		}
		b.complain(p.name+", "+how, wrong)
		if len(wrong) > 0 || u.completed {
			u = nil
		}
	}
	if u != nil {
		b.complain(p.name+", in the end", u.finish())
	}
}

func (b *booth) local(p point) {
	b.t.Helper()
	b.all(p, false)
}

func (b *booth) hosted(p point) {
	b.t.Helper()
	b.all(p, true)
}

// refusal says what is wrong with an answer that has to refuse for one of the reasons.
func (b *booth) refusal(r heard, reasons ...string) (wrong []string) {
	code, _ := r.at("reasonCode").(string)
	if !slices.Contains(reasons, code) {
		wrong = append(wrong, fmt.Sprintf("%d %s, want %v: %.300s", r.status, code, reasons, r.body))
	}
	i := slices.IndexFunc(edge.Reasons(), func(known edge.Reason) bool { return known.Code == code })
	if i < 0 || edge.Reasons()[i].Status != r.status || r.header.Get("Content-Type") != "application/problem+json" {
		wrong = append(wrong, fmt.Sprintf("%d %s %s is no refusal of the table", r.status, r.header.Get("Content-Type"), code))
	}
	return append(wrong, b.quiet(r)...)
}

// quiet says what an answer tells of the inside.
func (b *booth) quiet(r heard) (wrong []string) {
	for _, inside := range []string{hidden, "hunter2", "goroutine ", ".go:", "sqlite", "panic", "deadline"} {
		if strings.Contains(strings.ToLower(string(r.body)), inside) {
			wrong = append(wrong, fmt.Sprintf("the answer says %q: %.300s", inside, r.body))
		}
	}
	return wrong
}

// verified verifies the policy, now that everything works. A verification whose end could
// not be stored is given up after its time.
func (b *booth) verified(id string) {
	b.t.Helper()
	r := b.verify(id, 1)
	if r.at("reasonCode") == "IN_PROGRESS" {
		b.move(guardian.VerificationLife)
		r = b.verify(id, 1)
	}
	if r.is(b.t, "verify", 200, ""); r.at("verification", "passed") != true {
		b.t.Errorf("the verification afterwards: %v", failures(r))
	}
	b.activate(id, 1).is(b.t, "activate", 200, "")
}

// buyer is an agent on its way through a purchase.
type buyer struct {
	*booth
	*agent
	run       string
	hosted    bool
	completed bool
	key       int
}

func (b *booth) buyer(hosted bool) *buyer {
	b.t.Helper()
	body := map[string]string{}
	for name, value := range localRun {
		body[name] = value
	}
	if hosted {
		body["target"] = "hosted"
	}
	run := b.ask("POST", "/runs", body).is(b.t, "create", 201, "").at("runId").(string)
	u := &buyer{booth: b, agent: b.agent(run), run: run, hosted: hosted}
	for _, id := range []string{"merchant.catalog", "add:fieldwork-keyboard:1", prepare} {
		u.cycle(id)
	}
	return u
}

const prepare, submit = "checkout:addr_home", "merchant.checkout.submit"

// last is the entry that ends the purchase; what was prepared may have ended by now.
func (u *buyer) last() (observation any, entry map[string]any) {
	u.booth.t.Helper()
	if observation, entry = u.entry(submit); entry == nil {
		u.cycle(prepare)
		observation, entry = u.entry(submit)
	}
	if entry == nil {
		u.booth.t.Fatal("the purchase cannot be ended")
	}
	return observation, entry
}

func (u *buyer) ask(method, path string, body any, headers ...string) heard {
	u.booth.t.Helper()
	return u.agent.ask(method, path, body, headers...)
}

// entry is the entry of the current catalog with the id or the operation, or nil.
func (u *buyer) entry(id string) (observation any, entry map[string]any) {
	u.booth.t.Helper()
	seen := u.ask("GET", "/observation", nil).is(u.booth.t, "observe", 200, "")
	list, _ := seen.at("catalog").([]any)
	for _, e := range list {
		if e := e.(map[string]any); e["entryId"] == id || e["operationId"] == id {
			return seen.at("observationId"), e
		}
	}
	return seen.at("observationId"), nil
}

func actionOf(e map[string]any) map[string]any {
	return map[string]any{"kind": e["kind"], "operationId": e["operationId"], "targetRef": e["targetRef"], "args": e["args"]}
}

func (u *buyer) report(observation any, e map[string]any) heard {
	u.booth.t.Helper()
	effect := e["effect"].(map[string]any)
	return u.ask("POST", "/turns", map[string]any{
		"goalRestatement": "Buy one keyboard.", "selectedCandidateId": "1", "uncertainties": []string{},
		"candidates":     []any{map[string]any{"id": "1", "action": actionOf(e), "purpose": "Next.", "disposition": "proposed", "rejectionReason": nil}},
		"justification":  map[string]any{"summary": "Next.", "evidenceRefs": []any{observation}},
		"expectedEffect": map[string]any{"operationId": e["operationId"], "transactionProposalId": effect["transactionProposalId"], "disclosedFields": effect["disclosedFields"], "postconditions": effect["postconditions"]},
	})
}

func (u *buyer) operate(e map[string]any, permit string) heard {
	u.booth.t.Helper()
	u.key++
	return u.ask("POST", "/operation", map[string]any{"action": actionOf(e)}, "X-Step-Permit", permit, "X-Idempotency-Key", fmt.Sprintf("key-number-%08d", u.key))
}

func (u *buyer) cycle(id string) {
	u.booth.t.Helper()
	observation, e := u.entry(id)
	if e == nil {
		u.booth.t.Fatalf("the catalog has no %s", id)
	}
	permit, _ := u.report(observation, e).is(u.booth.t, "report on "+id, 200, "").at("permit", "token").(string)
	u.operate(e, permit).is(u.booth.t, id, 200, "")
}

// orders is how many orders the service has for the run, by its own ledger.
func (u *buyer) orders() int64 {
	u.booth.t.Helper()
	if u.hosted {
		cents, err := u.store.Charged(context.Background(), u.run)
		must(u.booth.t, err)
		if cents%13700 != 0 {
			u.booth.t.Errorf("the store has charged %d cents", cents)
		}
		return cents / 13700
	}
	s, _, err := u.app.Ledger().Load(context.Background(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindService, ID: u.run})
	must(u.booth.t, err)
	var state struct{ Order any }
	must(u.booth.t, json.Unmarshal(s.State, &state))
	if state.Order == nil {
		return 0
	}
	return 1
}

func (u *buyer) view() heard {
	u.booth.t.Helper()
	return u.desk.ask("GET", "/runs/"+u.run, nil).is(u.booth.t, "view", 200, "")
}

// fail lets the dependency fail at a point of the purchase's last cycle and says what is
// wrong with the answer and what stands behind it.
func (u *buyer) fail(p point, how string) (wrong []string) {
	b := u.booth
	b.t.Helper()
	var request func() heard
	switch p.request {
	case observing:
		b.clock.Move(31 * time.Second) // what was seen is too old by then
		request = func() heard { return u.ask("GET", "/observation", nil) }
	case reporting:
		observation, e := u.last()
		request = func() heard { return u.report(observation, e) }
	case operating:
		observation, e := u.last()
		permit := u.report(observation, e).is(b.t, "report", 200, "").at("permit", "token").(string)
		request = func() heard { return u.operate(e, permit) }
	case stepping:
		u.last()
		request = func() heard { return b.desk.ask("POST", "/runs/"+u.run+"/step", map[string]any{}) }
	}
	b.f.set(how, p.where)
	if p.nth > 0 {
		b.f.nth(p.nth)
	}
	r := request()
	// Nobody has let go by now of what hangs: the answer came without it.
	if hits := b.f.mend(); hits == 0 {
		wrong = append(wrong, "it was not met")
	}
	want := p.want[how]
	switch {
	case want == "":
		if r.status != 200 || r.at("state") != "verified" {
			wrong = append(wrong, fmt.Sprintf("%d, want it done: %.300s", r.status, r.body))
		}
	case p.decided:
		reason := r.at("decision", "reasonCode")
		if p.request == stepping {
			reason = r.at("stopContext", "reasonCode")
		}
		if r.status != 200 || reason != want || r.at("permit") != nil {
			wrong = append(wrong, fmt.Sprintf("%d, want a stop for %s: %.600s", r.status, want, r.body))
		}
		wrong = append(wrong, b.quiet(heard{body: []byte(fmt.Sprint(r.at("decision"), r.at("stopContext")))})...)
	default:
		wrong = append(wrong, b.refusal(r, want)...)
		if want == "DISPATCH_UNCONFIRMED" && r.at("effect") != "unknown" {
			wrong = append(wrong, "an unknown effect is not called so: "+string(r.body))
		}
	}
	atMost := map[bool]int64{true: 1}[want == "" || want == "DISPATCH_UNCONFIRMED"]
	if n := u.orders(); n > atMost {
		wrong = append(wrong, fmt.Sprintf("%d orders", n))
	}
	if s := send(b.t, "GET", b.origin+"/healthz", nil, nil); s.status != 200 {
		wrong = append(wrong, fmt.Sprintf("afterwards the server answers %d", s.status))
	}
	return wrong
}

// recover lets the run go on by its documented routes until it is ready or has completed,
// and says what is wrong then.
func (u *buyer) recover() (wrong []string) {
	t := u.booth.t
	t.Helper()
	var last string
	for range 20 {
		v := u.view()
		stop, _ := v.at("stopContext").(map[string]any)
		last = fmt.Sprint(v.at("status"), " ", stop)
		switch {
		case v.at("status") == "completed":
			u.completed = true
			if n := u.orders(); n != 1 {
				wrong = append(wrong, fmt.Sprintf("%d orders in the end", n))
			}
			u.lawful("/runs/" + u.run + "/evidence")
			return wrong
		case v.at("status") == "running": // its lease ends
			u.clock.Move(11 * time.Second)
		case v.at("status") == "ready":
			u.clock.Move(31 * time.Second) // nobody has the token of a permit whose answer was lost
			if n := u.orders(); n != 0 {
				wrong = append(wrong, fmt.Sprintf("%d orders, and the run goes on", n))
			}
			u.lawful("/runs/" + u.run + "/evidence")
			return wrong
		case stop["recovery"] == "retry":
			u.desk.ask("POST", "/runs/"+u.run+"/retry", map[string]any{}).is(t, "retry", 200, "")
		case stop["recovery"] == "clarify":
			u.desk.ask("POST", "/runs/"+u.run+"/clarify", map[string]any{"clarification": "Go on."}).is(t, "clarify", 200, "")
		case stop["recovery"] == "reconcile":
			list := v.at("executions").([]any)
			u.desk.ask("POST", "/runs/"+u.run+"/probe", map[string]any{"executionId": list[len(list)-1].(map[string]any)["executionId"]}).is(t, "probe", 200, "")
		default:
			return []string{"the run is over: " + last}
		}
	}
	return []string{"the run does not go on: " + last}
}

// finish ends the purchase.
func (u *buyer) finish() []string {
	t := u.booth.t
	t.Helper()
	observation, e := u.last()
	permit, _ := u.report(observation, e).is(t, "report in the end", 200, "").at("permit", "token").(string)
	u.operate(e, permit).is(t, "the purchase in the end", 200, "")
	if wrong := u.recover(); len(wrong) > 0 || u.completed {
		return wrong
	}
	return []string{"the run has not completed"}
}

// settling lets the ledger fail under the settler, whose panic would end the process.
func (b *booth) settling() {
	b.t.Helper()
	u := b.buyer(false)
	for i, how := range ways {
		observation, e := u.last()
		u.report(observation, e).is(b.t, "report", 200, "")
		b.f.set(how, "due")
		b.clock.Move(31 * time.Second) // the permit expires
		waitFor(b.t, how+": the settler meets it", func() bool {
			b.f.mu.Lock()
			defer b.f.mu.Unlock()
			return b.f.hits > 0
		})
		b.f.mend()
		waitFor(b.t, how+": the settler goes on", func() bool {
			events := string(b.desk.ask("GET", "/runs/"+u.run+"/evidence", nil).body)
			return strings.Count(events, `"permit.expired"`) == i+1
		})
	}
	b.complain("settling", u.finish())
}
