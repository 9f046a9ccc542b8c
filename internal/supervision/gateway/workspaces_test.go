package gateway_test

import (
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/identity"
	"countersign/internal/ledger"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
)

// spareMethods of a gateway name nothing of the ledger's by an id, or are about what was
// read already.
var spareMethods = []string{
	"Key", "Recall", "RecallService", "Saw", "Stored", "Settle", "Settler", "SettleDue", "LearnEpoch", "Catalog", "Explain", "Ask", "Observation", "Watch", "Freeze", "IsFrozen", "Standing", "Dated",
	"Create", // with a policy's id, below
}

// everyMethod calls every method of a gateway with what names a run, and returns those by
// which it was found, with what they said.
func everyMethod(t *testing.T, g *gateway.Gateway, id, executionID, token string, entry *propose.Entry, text evidence.Commitment) (found []string, called int) {
	t.Helper()
	ctx := t.Context()
	v := reflect.ValueOf(g)
	for i := range v.NumMethod() {
		name, m := v.Type().Method(i).Name, v.Method(i).Type()
		var err error
		switch {
		case slices.Contains(spareMethods, name):
			continue
		case name == "Operate":
			_, err = g.Operate(ctx, gateway.OperateRequest{RunID: id, Key: "key-of-another-workspace", Body: []byte(`{"action":{"kind":"service","operationId":"merchant.catalog","targetRef":"tgt_x","args":{}}}`)})
		case name == "Propose":
			_, err = g.Propose(ctx, id, "", report(&records.Observation{Observed: run.Observed{ObservationID: executionID}}, entry))
		case name == "Authenticate":
			if _, err = g.Authenticate(ctx, token); errors.Is(err, identity.ErrUnauthenticated) {
				err = &authority.Denial{Reason: authority.NotFound}
			}
		case name == "ExportChain":
			err = g.ExportChain(ctx, g.Key(id), io.Discard)
		case name == "Outcome":
			if _, err = g.Outcome(ctx, executionID, id, 1, nil); errors.Is(err, records.ErrUnavailable) || errors.Is(err, ledger.ErrNotFound) {
				err = &authority.Denial{Reason: authority.NotFound}
			}
		case name == "Text":
			var read string
			if read, err = g.Text(ctx, id, text); err == nil && read == records.Erased {
				err = &authority.Denial{Reason: authority.NotFound}
			}
		case name == "List":
			var list []*records.View
			if list, err = g.List(ctx, "", 100); err == nil && len(list) == 0 {
				err = &authority.Denial{Reason: authority.NotFound}
			}
		case name == "Find":
			var list []records.Found
			if list, err = g.Find(ctx, "", "", 100); err == nil && len(list) == 0 {
				err = &authority.Denial{Reason: authority.NotFound}
			}
		case name == "Open", name == "Intents":
			read := g.Open
			if name == "Intents" {
				read = g.Intents
			}
			var list []records.Open
			if list, err = read(ctx); err == nil && len(list) == 0 {
				err = &authority.Denial{Reason: authority.NotFound}
			}
		case m.NumIn() < 2 || m.In(1).Kind() != reflect.String:
			t.Errorf("%s is new: say here how it names what it is about", name)
			continue
		default:
			args := []reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(id)}
			for n := 2; n < m.NumIn(); n++ {
				args = append(args, anything(m.In(n)))
			}
			out := v.Method(i).Call(args)
			err, _ = out[len(out)-1].Interface().(error)
		}
		called++
		if reason(err) != authority.NotFound {
			found = append(found, name)
		}
	}
	return found, called
}

// anything is a value of the type, and a function that does nothing.
func anything(t reflect.Type) reflect.Value {
	switch {
	case t.Kind() == reflect.Func:
		return reflect.MakeFunc(t, func([]reflect.Value) (out []reflect.Value) {
			for i := range t.NumOut() {
				out = append(out, reflect.Zero(t.Out(i)))
			}
			return out
		})
	case t == reflect.TypeFor[io.Writer]():
		return reflect.ValueOf(io.Discard).Convert(t)
	}
	return reflect.Zero(t)
}

// What is in one workspace is not found in the next of the same ledger, by no method of
// the gateway: reads, writes, tokens, sessions, texts, policies and lists.
func TestWorkspacesAreApart(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		h := newHouse(t, e)
		id := h.create(run.TargetLocal)
		h.do(id, "merchant.catalog")
		issued, err := h.IssueSession(t.Context(), id)
		must(t, err)
		o, entry := h.entry(id, "add:fieldwork-keyboard:1")
		_, err = h.Propose(t.Context(), id, "", report(o, entry))
		must(t, err)
		s := h.state(id)
		before := len(h.events(id))
		other := h.another(func(c *gateway.Config) { c.Workspace = "elsewhere" })
		found, called := everyMethod(t, other, id, s.Execution.ID, issued.Token, entry, s.Instruction)
		if len(found) > 0 || called < 25 {
			t.Errorf("%d methods were called, and the run was found by %s", called, strings.Join(found, ", "))
		}
		// Control: in its own workspace the same calls find it.
		if found, _ := everyMethod(t, h.another(), h.create(run.TargetLocal), s.Execution.ID, issued.Token, entry, s.Instruction); len(found) < 15 {
			t.Errorf("control: found only by %s", strings.Join(found, ", "))
		}
		secret := h.keys.Secret()
		cookie, _, err := identity.NewOwners(h.ledger, h.config.Workspace, secret).SignIn(t.Context(), secret, "127.0.0.1")
		must(t, err)
		if _, err := identity.NewOwners(h.ledger, "elsewhere", secret).Verify(t.Context(), cookie); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("an owner's session in another workspace: %v", err)
		}
		// The other settler leaves it alone, and its own finds it.
		h.clock.Move(authority.PermitLife)
		other.SettleDue(t.Context())
		if n := len(h.events(id)); n != before {
			t.Errorf("%d events, before %d", n, before)
		}
		h.SettleDue(t.Context())
		if n := len(h.events(id)); n == before {
			t.Error("control: the permit has not expired")
		}
		// A run of the other is its own, and is not in the lists here.
		theirs, err := other.Create(t.Context(), createRequest(run.TargetLocal))
		must(t, err)
		if _, err := h.Load(t.Context(), theirs); reason(err) != authority.NotFound {
			t.Errorf("a run of the other: %v", err)
		}
		h.verify(id)
	})
}
