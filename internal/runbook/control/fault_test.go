package control_test

import (
	"context"
	"errors"
	"testing"

	"countersign/internal/ledger"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// A request that ends with an error at any place was stored whole or not at all, and the
// error says which; sent again, an execution is the one that there is.,
//
func TestFaults(t *testing.T) {
	answered := func(o ledger.Outcome, stored bool) func(*house) {
		return func(h *house) {
			h.ledger.commit = func(ctx context.Context, c ledger.Change, commit func(context.Context, ledger.Change) ledger.Result) ledger.Result {
				if stored {
					if r := commit(ctx, c); r.Outcome != ledger.Stored {
						return r
					}
				}
				return ledger.Result{Outcome: o, Cause: errBroken}
			}
		}
	}
	at := func(point string) func(*house) {
		return func(h *house) {
			h.config.Fault = func(p string) error {
				if p == point {
					return errBroken
				}
				return nil
			}
			h.open()
		}
	}
	fails := func(read string) func(*house) { return func(h *house) { h.ledger.fails = read } }
	// later lets a read fail as soon as the commit is stored.
	later := func(read string) func(*house) {
		return func(h *house) {
			h.ledger.commit = func(ctx context.Context, c ledger.Change, commit func(context.Context, ledger.Change) ledger.Result) ledger.Result {
				r := commit(ctx, c)
				h.ledger.fails = read
				return r
			}
		}
	}
	onEach(t, func(t *testing.T, h *house) {
		for what, c := range map[string]struct {
			fault  func(*house)
			want   error
			stored bool
		}{
			"decided":                         {at(control.FaultDecided), errBroken, false},
			"stored":                          {at(control.FaultStored), control.ErrUnknown, true},
			"the commit is not stored":        {answered(ledger.NotStored, false), control.ErrUnavailable, false},
			"nobody knows, it is stored":      {answered(ledger.Unknown, true), control.ErrUnknown, true},
			"nobody knows, it is not stored":  {answered(ledger.Unknown, false), control.ErrUnknown, false},
			"the cookie is not read":          {fails("credential"), control.ErrUnavailable, false},
			"the session is not read":         {fails("load"), control.ErrUnavailable, false},
			"the record is not read":          {fails("record"), control.ErrUnavailable, false},
			"the session is not read, after":  {later("load"), control.ErrUnknown, true},
			"the receipts are not read after": {later("events"), control.ErrUnknown, true},
			"the freeze is not read": {func(h *house) {
				h.config.Freeze = func(context.Context) (bool, int64, error) { return false, 0, errBroken }
				h.open()
			}, control.ErrUnavailable, false},
		} {
			b := &browser{h: h}
			s := b.approved("restore-pool")
			before, config := b.now().Receipts.Total, h.config
			c.fault(h)
			r := incident.Request{Operation: incident.Execute, Channel: incident.API, Input: executing(s)}
			a, reason, err := b.ask(r, "")
			h.ledger.commit, h.ledger.fails, h.config = nil, "", config
			h.open()
			if a != nil || reason != "" || !errors.Is(err, c.want) || errors.Is(err, control.ErrUnknown) && errors.Is(err, control.ErrUnavailable) {
				t.Errorf("%s: %q, %v, want %v", what, reason, err, c.want)
			}
			now := b.now()
			if stored := now.Execution != nil; stored != c.stored || now.Receipts.Total-before != map[bool]int64{true: 1}[stored] {
				t.Errorf("%s: stored %v with %d receipts", what, stored, now.Receipts.Total-before)
			}
			again, reason := b.execute(s)
			is(t, what+", and again", again, reason, "", ok)
			if again.Replayed != c.stored || again.Snapshot.Version != 3 || again.Snapshot.Receipts.Total != now.Receipts.Total+1 {
				t.Errorf("%s: again is a replay %v at %d", what, again.Replayed, again.Snapshot.Version)
			}
			b.chain()
		}
		// The first request of a session: whoever is not told of it gets its cookie.
		for what, c := range map[string]struct {
			fault  func(*house)
			cookie bool
			stored bool
		}{
			"stored":                          {at(control.FaultStored), true, true},
			"the session is not read, after":  {later("load"), true, true},
			"the receipts are not read after": {later("events"), true, true},
			"nobody knows, it is stored":      {answered(ledger.Unknown, true), true, true},
			"nobody knows, it is not stored":  {answered(ledger.Unknown, false), true, false},
			"the commit is not stored":        {answered(ledger.NotStored, false), false, false},
			"decided":                         {at(control.FaultDecided), false, false},
		} {
			config := h.config
			c.fault(h)
			a, err := h.Do(t.Context(), "", "192.0.2.9", incident.Request{Operation: incident.Snapshot, Channel: incident.API}, "")
			h.ledger.commit, h.ledger.fails, h.config = nil, "", config
			h.open()
			if err == nil || (a != nil) != c.cookie || a != nil && (a.Cookie == "" || a.Snapshot != nil || a.Receipt != nil || !errors.Is(err, control.ErrUnknown)) {
				t.Errorf("the first request, %s: %+v, %v", what, a, err)
				continue
			}
			if a == nil {
				continue
			}
			s, err := h.Snapshot(t.Context(), a.Cookie)
			if err != nil || (s.Session != nil) != c.stored || s.Receipts.Total != map[bool]int64{true: 1}[c.stored] {
				t.Errorf("the first request, %s: its cookie names %+v, %v", what, s, err)
			}
		}
		// Reads that only some requests need.
		b := &browser{h: h}
		s := b.approved("restore-pool")
		for _, read := range []string{"find", "now"} {
			h.ledger.fails = read
			_, _, err := (&browser{h: h}).ask(incident.Request{Operation: incident.Snapshot, Channel: incident.API}, "")
			if !errors.Is(err, control.ErrUnavailable) {
				t.Errorf("a session begins without %s: %v", read, err)
			}
			if read == "find" {
				if _, _, err = b.ask(incident.Request{Operation: incident.Execute, Channel: incident.API, Input: executing(altered(s, "key"))}, ""); !errors.Is(err, control.ErrUnavailable) {
					t.Errorf("another key without %s: %v", read, err)
				}
			}
			h.ledger.fails = ""
		}
		h.ledger.fails = "events"
		if _, err := h.Snapshot(t.Context(), b.cookie); !errors.Is(err, control.ErrUnavailable) {
			t.Errorf("a snapshot without receipts: %v", err)
		}
		h.ledger.fails = ""
		b.executed(s)
	})
}

// The ledger conflicts on everything: the request is refused and leaves nothing. R-040.
func TestConflictForEver(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		s := b.approved("restore-pool")
		h.ledger.commit = func(context.Context, ledger.Change, func(context.Context, ledger.Change) ledger.Result) ledger.Result {
			return ledger.Result{Outcome: ledger.Conflict, Which: ledger.OnSubject}
		}
		a, reason := b.execute(s)
		is(t, "execute", a, reason, incident.ExecutionConflict, "")
		first := &browser{h: h}
		a, reason = first.read()
		is(t, "the first request of a session", a, reason, incident.ReceiptConflict, "")
		if first.cookie != "" || a.Snapshot.Session != nil {
			t.Error("a session began that is not there")
		}
		h.ledger.commit = nil
		b.executed(s)
		b.chain()
	})
}

// Who leaves while another is decided, or while it is itself committed, loses no answer
// that was stored; who breaks holds nobody up..
func TestLeft(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := &browser{h: h}
		s := b.approved("restore-pool")
		r := incident.Request{Operation: incident.Execute, Channel: incident.API, Input: executing(s)}
		// One is committed while another waits behind it, and leaves.
		var waited error
		h.ledger.commit = func(ctx context.Context, c ledger.Change, commit func(context.Context, ledger.Change) ledger.Result) ledger.Result {
			gone, leave := context.WithCancel(ctx)
			leave()
			_, waited = h.Do(gone, b.cookie, "192.0.2.1", incident.Request{Operation: incident.Reset, Channel: incident.API, Input: resetting(2)}, "")
			return commit(ctx, c)
		}
		first, reason := b.execute(s)
		is(t, "the one that is decided", first, reason, "", ok)
		if !errors.Is(waited, control.ErrUnavailable) || !errors.Is(waited, context.Canceled) {
			t.Errorf("the one that left: %v", waited)
		}
		if n := len(b.chain()); n != 3 {
			t.Errorf("%d receipts, want 3", n)
		}
		// One leaves when it is stored.
		b.reset()
		s = b.approved("shift-traffic")
		r.Input = executing(s)
		ctx, leave := context.WithCancel(t.Context())
		h.ledger.commit = func(ctx context.Context, c ledger.Change, commit func(context.Context, ledger.Change) ledger.Result) ledger.Result {
			defer leave()
			return commit(ctx, c)
		}
		if _, err := h.Do(ctx, b.cookie, "192.0.2.1", r, ""); !errors.Is(err, control.ErrUnknown) {
			t.Errorf("who left when it was stored: %v", err)
		}
		h.ledger.commit = nil
		a, reason := b.execute(s)
		is(t, "again", a, reason, "", ok)
		if !a.Replayed {
			t.Error("it was executed twice")
		}
		// One breaks.
		h.ledger.commit = func(context.Context, ledger.Change, func(context.Context, ledger.Change) ledger.Result) ledger.Result {
			panic(errBroken)
		}
		func() {
			defer func() {
				if recover() != errBroken {
					t.Error("it does not break")
				}
			}()
			b.read()
		}()
		h.ledger.commit = nil
		a, reason = b.read()
		is(t, "after one that broke", a, reason, "", ok)
		b.chain()
	})
}
