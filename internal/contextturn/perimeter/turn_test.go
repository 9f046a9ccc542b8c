package perimeter_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/tools"
	"countersign/internal/contextturn/traces"
	"countersign/internal/contextturn/turn"
	"countersign/internal/identity"
	"countersign/internal/ledger"
)

// S-005: a start from a named client is in evidence.
// S-006: so are deliveries, correlated to the turn.
// S-007: and the completion that the client reports.
// S-044: the answer names interaction and turn.
// S-045: the recorder has what was delivered, the Build, the verdict and the turn.
func TestTurn(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		b := h.publish(project.Production, false, refunds...)
		by, _ := h.client(project.Required)
		started, err := h.Start(t.Context(), by, key(), nil)
		must(t, err)
		if v := started.Turn; v.Status != turn.Open || v.ExpiresAt.Sub(v.OpenedAt) != turn.Life || !turn.IsID("trn_", v.ID) {
			t.Errorf("%+v", v)
		}
		id := started.Turn.ID
		a, err := h.compass(by, id, "When are refunds paid to the card?")
		must(t, err)
		if *a.TurnID != id || a.Interaction.Build.Number != 1 || a.Interaction.Build.Digest != b.Digest {
			t.Errorf("%+v", a)
		}
		if _, err := h.compass(by, id, "How do I train a zebra?"); err != nil {
			t.Fatal(err)
		}
		_, err = h.Observe(t.Context(), by, id, key(), turn.Observation{Event: turn.PreToolUse, Tool: "mcp__seif__context_compass", ToolUseID: "toolu_1"})
		must(t, err)
		receipt, err := h.Complete(t.Context(), by, id, key(), turn.Completed, nil)
		must(t, err)
		if receipt.Status != turn.WithDelivery || receipt.Deliveries != 1 || receipt.Observations != 1 || receipt.Class != "reported" || receipt.Event.Sequence != 5 {
			t.Errorf("%+v", receipt)
		}
		if got, want := h.lawful(turn.Kind, id), []string{"contextturn.opened", "context.delivered", "context.answered", "contextturn.observed", "contextturn.completed"}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		list, _, err := h.Interactions(t.Context(), traces.InteractionQuery{Project: h.project})
		must(t, err)
		slices.SortFunc(list, func(a, b traces.InteractionView) int { return len(a.Items) - len(b.Items) }) // both may be of one millisecond
		if len(list) != 2 || list[1].ID != a.Interaction.ID || *list[1].Turn != id || *list[1].Verdict != turn.Covered || !list[1].Delivered || *list[0].Verdict != turn.Gap || list[0].Delivered {
			t.Errorf("%+v", list)
		}
		detail, err := h.Interaction(t.Context(), h.project, a.Interaction.ID)
		must(t, err)
		if !strings.Contains(string(detail.Answer), "within five days") || !strings.Contains(string(detail.Request), "paid to the card") {
			t.Errorf("%s\n%s", detail.Request, detail.Answer)
		}
	})
}

// S-035: the same start again is the same turn.
// S-063: the same completion again is the first receipt, even after the turn would have expired.
// S-064: its key is good for nothing else.
func TestRepeats(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		by, _ := h.client(project.Required)
		k, label := key(), "job 7"
		first, err := h.Start(t.Context(), by, k, &label)
		must(t, err)
		again, err := h.Start(t.Context(), by, k, &label)
		must(t, err)
		if !again.Replayed || again.Turn.ID != first.Turn.ID {
			t.Errorf("%+v, then %+v", first, again)
		}
		_, err = h.Start(t.Context(), by, k, nil)
		is(t, err, turn.IdempotencyConflict)
		other, id := h.start(by), first.Turn.ID
		done, note := key(), "went well"
		receipt, err := h.Complete(t.Context(), by, id, done, turn.Completed, &note)
		must(t, err)
		h.clock.Move(16 * 60 * 1e9)
		repeated, err := h.Complete(t.Context(), by, id, done, turn.Completed, &note)
		must(t, err)
		if !repeated.Replayed || repeated.Event != receipt.Event || repeated.Status != turn.WithoutDelivery {
			t.Errorf("%+v, then %+v", receipt, repeated)
		}
		for _, try := range []func() error{
			func() error { _, err := h.Complete(t.Context(), by, other, done, turn.Completed, &note); return err },
			func() error { _, err := h.Complete(t.Context(), by, id, done, turn.Failed, &note); return err },
			func() error {
				_, err := h.Observe(t.Context(), by, id, done, turn.Observation{Event: turn.PreToolUse, Tool: "mcp__seif__x", ToolUseID: "1"})
				return err
			},
			func() error { _, err := h.Start(t.Context(), by, done, nil); return err },
		} {
			is(t, try(), turn.IdempotencyConflict)
		}
		again, err = h.Start(t.Context(), by, k, &label)
		must(t, err)
		if again.Turn.Status != turn.WithoutDelivery {
			t.Errorf("a repeated start answers %s", again.Turn.Status)
		}
	})
}

// S-071: a turn without a report expires after fifteen minutes, and the report that comes
// then changes a count alone.
// S-078: an expired or closed turn receives nothing more.
func TestExpiry(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		h.publish(project.Production, false, refunds...)
		by, _ := h.client(project.Required)
		id, closed := h.start(by), h.start(by)
		_, err := h.Complete(t.Context(), by, closed, key(), turn.Cancelled, nil)
		must(t, err)
		h.clock.Move(turn.Life)
		for turnID, reason := range map[string]string{id: turn.TurnExpired, closed: turn.TurnClosed} {
			_, err := h.compass(by, turnID, "refunds")
			is(t, err, reason)
			_, err = h.Observe(t.Context(), by, turnID, key(), turn.Observation{Event: turn.PreToolUse, Tool: "mcp__seif__x", ToolUseID: "1"})
			is(t, err, reason)
			for range 2 {
				k := key()
				for range 3 { // the same report again is counted once
					_, err = h.Complete(t.Context(), by, turnID, k, turn.Completed, nil)
					is(t, err, reason)
				}
			}
		}
		v, err := h.Turn(t.Context(), h.project, id)
		must(t, err)
		if v.Status != turn.Expired || v.LateReports != 2 || v.Reported != nil || v.Deliveries != 0 {
			t.Errorf("%+v", v.TurnView)
		}
		var classes []string
		for _, l := range v.Lines {
			classes = append(classes, l.Class)
		}
		if !slices.Equal(classes, []string{"observed", "not observed", "reported", "reported"}) {
			t.Errorf("classes: %q", classes)
		}
		if got, want := h.lawful(turn.Kind, id), []string{"contextturn.opened", "contextturn.expired", "contextturn.late", "contextturn.late"}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		if got := h.lawful(turn.Kind, closed); len(got) != 2 {
			t.Errorf("%q", got)
		}
	})
}

// L-16: a list by status shows what has expired as expired before anybody has recorded it,
// and the settler's record changes nothing of that.
func TestStatusNow(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		by, _ := h.client(project.Required)
		id := h.start(by)
		h.clock.Move(turn.Life)
		later := h.start(by)
		look := func() {
			t.Helper()
			for status, want := range map[string][]string{turn.Open: {later}, turn.Expired: {id}, "": {later, id}, turn.WithDelivery: {}} {
				list, next, err := h.Turns(t.Context(), traces.TurnQuery{Project: h.project, Status: status})
				must(t, err)
				got := []string{}
				for _, v := range list {
					got = append(got, v.ID)
				}
				if !slices.Equal(got, want) || next != "" {
					t.Errorf("%q: %q, %q", status, got, next)
				}
			}
		}
		look()
		must(t, h.Settle(t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: turn.Kind, ID: id}))
		must(t, h.Settle(t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: turn.Kind, ID: id}))
		look()
		if got := h.lawful(turn.Kind, id); len(got) != 2 || got[1] != "contextturn.expired" {
			t.Errorf("%q", got)
		}
	})
}

// A turn belongs to its client, profile, environment and project; to anybody else it is
// not there (G-30).
func TestForeignTurns(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		h.publish(project.Production, false, refunds...)
		by, _ := h.client(project.Required)
		id := h.start(by)
		own, err := h.compass(by, id, "refunds")
		must(t, err)
		stranger, _ := h.client(project.Required)
		_, err = h.compass(stranger, id, "refunds")
		is(t, err, turn.TurnNotFound)
		_, err = h.Complete(t.Context(), stranger, id, key(), turn.Completed, nil)
		is(t, err, turn.TurnNotFound)
		_, err = h.Observe(t.Context(), stranger, id, key(), turn.Observation{Event: turn.PreToolUse, Tool: "mcp__seif__x", ToolUseID: "1"})
		is(t, err, turn.TurnNotFound)
		_, err = h.Call(t.Context(), stranger, h.start(stranger), tools.Request{Tool: turn.Why, InteractionID: &own.Interaction.ID})
		is(t, err, turn.ItemNotFound)
		answer, err := h.Call(t.Context(), by, id, tools.Request{Tool: turn.Why, InteractionID: &own.Interaction.ID})
		must(t, err)
		if s := answer.Result.(*perimeter.SelectionResult).Selection; len(s.Items) != 1 || s.Items[0].Ref != "refunds" || s.Items[0].Reason == "" {
			t.Errorf("%+v", s)
		}
	})
}

// S-017, S-025: a token that was rotated or revoked opens nothing, and a request that was let in
// before that stores nothing any more.
func TestRevokedMeanwhile(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		for _, end := range []func(id string) error{
			func(id string) error { _, _, err := h.RotateClient(t.Context(), h.project, id, session); return err },
			func(id string) error { _, err := h.RevokeClient(t.Context(), h.project, id, session); return err },
		} {
			by, token := h.client(project.Required)
			id := h.start(by)
			must(t, end(by.Client.ID))
			if _, err := h.Authenticate(t.Context(), token); !errors.Is(err, identity.ErrUnauthenticated) {
				t.Errorf("the old token: %v", err)
			}
			_, err := h.Start(t.Context(), by, key(), nil)
			is(t, err, turn.TokenInvalid)
			_, err = h.Complete(t.Context(), by, id, key(), turn.Completed, nil)
			is(t, err, turn.TokenInvalid)
			if got := h.lawful(turn.Kind, id); len(got) != 1 {
				t.Errorf("%q", got)
			}
		}
	})
}

// refusing is a ledger that stores nothing.
type refusing struct{ engine }

func (refusing) Commit(context.Context, ledger.Change) ledger.Result {
	return ledger.Result{Outcome: ledger.NotStored, Cause: errFault}
}

// G-33: context is handed out only when its record is stored; a record whose answer was
// lost after that stays. With the order given up the same call hands context out.
func TestRecordedFirst(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		h.publish(project.Production, false, refunds...)
		by, _ := h.client(project.Required)
		id := h.start(by)
		h.config.Fault = func(point string) error {
			if point != perimeter.FaultStored {
				t.Errorf("point %q", point)
			}
			return errFault
		}
		h.open()
		if a, err := h.compass(by, id, "refunds"); a != nil || !errors.Is(err, errFault) {
			t.Errorf("%+v, %v", a, err)
		}
		if got := h.lawful(turn.Kind, id); len(got) != 2 || got[1] != "context.delivered" {
			t.Errorf("%q", got)
		}
		h.config.Fault, h.config.Ledger = nil, refusing{h.ledger}
		h.open()
		if a, err := h.compass(by, id, "refunds"); a != nil || !errors.Is(err, perimeter.ErrUnavailable) {
			t.Errorf("%+v, %v", a, err)
		}
		h.config.Unrecorded = true
		h.open()
		if a, err := h.compass(by, id, "refunds"); a == nil {
			t.Errorf("the control hands nothing out: %v", err)
		}
	})
}

// Deliveries, observations and completions at once come to one order: the one receipt
// counts exactly what was stored before it.
func TestAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		h.publish(project.Production, false, refunds...)
		by, _ := h.client(project.Required)
		id := h.start(by)
		var mu sync.Mutex
		var receipts []*perimeter.Completed
		delivered := 0
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				if i%3 > 0 {
					_, err := h.compass(by, id, "refunds")
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						delivered++
					} else if !slices.Contains([]string{turn.TurnClosed, turn.IdempotencyInProgress}, reason(err)) {
						t.Error(err)
					}
					return
				}
				r, err := h.Complete(t.Context(), by, id, key(), turn.Completed, nil)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					receipts = append(receipts, r)
				} else if !slices.Contains([]string{turn.TurnClosed, turn.IdempotencyInProgress}, reason(err)) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(receipts) != 1 || int(receipts[0].Deliveries) != delivered {
			t.Errorf("%d receipts, %+v; %d were delivered", len(receipts), receipts, delivered)
		}
		h.lawful(turn.Kind, id)
	})
}

func reason(err error) string {
	text, _, _ := strings.Cut(err.Error(), ":")
	return text
}

// S-014: a client without the opt-in gets context outside of turns, and each delivery has a
// chain of its own.
func TestOutsideTurns(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		h.publish(project.Production, false, refunds...)
		_, token, err := h.SharedToken(t.Context(), h.project, project.Production, "support", session)
		must(t, err)
		shared := h.enter(token)
		plain, _ := h.client(project.Absent)
		if !shared.Shared() || shared.Required() || plain.Shared() || plain.Required() {
			t.Errorf("%+v, %+v", shared, plain)
		}
		for _, by := range []*perimeter.Caller{shared, plain} {
			a, err := h.compass(by, "", "refunds")
			must(t, err)
			if a.TurnID != nil {
				t.Errorf("%+v", a)
			}
			if got := h.lawful(turn.KindInteraction, a.Interaction.ID); !slices.Equal(got, []string{"interaction.recorded"}) {
				t.Errorf("%q", got)
			}
		}
	})
}

// S-089: what a bridge reports is stored once for its key and labelled as the bridge's word.
func TestBridge(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		_, token, err := h.CreateClient(t.Context(), h.project, project.ClientRequest{Name: "bridge", Kind: project.Bridge, Profile: "local", Environment: project.Production}, session)
		must(t, err)
		by, k, digest := h.enter(token), key(), strings.Repeat("ab", 32)
		first, err := h.RecordBridge(t.Context(), by, k, "file.write", digest)
		must(t, err)
		again, err := h.RecordBridge(t.Context(), by, k, "file.write", digest)
		must(t, err)
		if first.Class != "bridge-observed" || again.ID != first.ID || !again.Replayed {
			t.Errorf("%+v, %+v", first, again)
		}
		_, err = h.RecordBridge(t.Context(), by, k, "file.read", digest)
		is(t, err, turn.IdempotencyConflict)
		h.lawful(turn.KindBridge, first.ID)
		list, _, err := h.Interactions(t.Context(), traces.InteractionQuery{Project: h.project})
		must(t, err)
		if len(list) != 1 || list[0].Class != "bridge-observed" || list[0].Seen.Kind != "file.write" {
			t.Errorf("%+v", list)
		}
	})
}

// S-062: of a note what is left after redaction is stored, and compared, and nothing else.
func TestRedacted(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		by, _ := h.client(project.Required)
		id, k := h.start(by), key()
		note := "mail to someone@example.org"
		_, err := h.Complete(t.Context(), by, id, k, turn.Failed, &note)
		must(t, err)
		v, err := h.Turn(t.Context(), h.project, id)
		must(t, err)
		if v.Note == nil || strings.Contains(*v.Note, "someone") || !strings.HasPrefix(*v.Note, "mail to [redacted:") {
			t.Errorf("%v", v.Note)
		}
		other := "mail to nobody@example.org"
		if again, err := h.Complete(t.Context(), by, id, k, turn.Failed, &other); err != nil || !again.Replayed {
			t.Errorf("%+v, %v", again, err)
		}
		s, _, err := h.ledger.Load(t.Context(), ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: turn.Kind, ID: id})
		must(t, err)
		must(t, h.ledger.EraseText(t.Context(), s.Key, state(t, s.State).Note.Text))
		if v, err = h.Turn(t.Context(), h.project, id); err != nil || v.Note != nil {
			t.Errorf("%v, %v", v, err)
		}
		h.lawful(turn.Kind, id)
	})
}

func state(t *testing.T, raw []byte) *turn.State {
	t.Helper()
	s, err := turn.DecodeState(raw)
	must(t, err)
	return s
}
