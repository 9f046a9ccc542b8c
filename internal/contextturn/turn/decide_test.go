package turn_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/canon"
	"countersign/internal/contextturn/turn"
	"countersign/internal/machine"
)

// S-068: a turn is OPEN from its start on, and nobody has reported anything yet.
// S-077: it ends fifteen minutes later.
func TestStart(t *testing.T) {
	w := started(t)
	s := w.state()
	if !turn.IsID("trn_", s.ID) || s.Status != "OPEN" || s.OpenedAt != dawn || s.ExpiresAt.Sub(dawn) != 15*time.Minute || s.Reported != "" || s.CompletedAt != nil || s.Via != "http" || s.ClientRef != nil {
		t.Errorf("started: %+v", s)
	}
	if got := (turn.Binding{Project: s.Project, Client: s.Client, Profile: s.Profile, Environment: s.Environment}); got != by {
		t.Errorf("it belongs to %+v", got)
	}
	for left, want := range map[time.Duration]string{time.Millisecond: "OPEN", 0: "EXPIRED_OR_INCOMPLETE", -time.Hour: "EXPIRED_OR_INCOMPLETE"} {
		if got := s.At(s.ExpiresAt.Add(-left)); got != want {
			t.Errorf("%s before its end it is %s", left, got)
		}
	}
	w.lawful()

	id := runID
	other, transition, err := turn.Start(by, turn.ClientRef(text("order 7")), &id, subject, dawn, [32]byte{1})
	must(t, err)
	if other.Via != "supervision" || *other.Run != runID || *other.ClientRef != transition.Texts[0].Commit() || transition.Texts[0].Text != "order 7" || bytes.Contains(canon.MustMarshal(transition.Drafts[0].Data), []byte("order 7")) {
		t.Errorf("for a run: %+v, %+v", other, transition)
	}
	foreign := by
	foreign.Client = sharedID
	if _, _, err := turn.Start(foreign, turn.Label{}, nil, subject, dawn, [32]byte{1}); err == nil {
		t.Error("a shared token has a turn")
	}
}

// S-036: clientRef may be left out; it is redacted, and cut to 128 characters.
// S-062: so is a note, which is cut to 500; what is taken out of either is stored nowhere.
func TestLabels(t *testing.T) {
	if turn.ClientRef(nil).Text() != nil || turn.Note(nil).Text() != nil {
		t.Error("what was not given is there")
	}
	secret := "seif_" + strings.Repeat("Aa0_-", 9)
	for name, c := range map[string]struct {
		label turn.Label
		want  string
	}{
		"clientRef": {turn.ClientRef(text("for \x00" + secret + " " + strings.Repeat("\u00fc", 200))), "for [redacted:key] " + strings.Repeat("\u00fc", 128-19)},
		"note":      {turn.Note(text(secret + " " + strings.Repeat("\u00fc", 900))), "[redacted:key] " + strings.Repeat("\u00fc", 500-15)},
		"empty":     {turn.Note(text("")), ""},
	} {
		if got := c.label.Text(); got == nil || *got != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
	note := turn.Note(text("the key " + secret))
	s, first, err := turn.Start(by, turn.ClientRef(text(secret)), nil, subject, dawn, [32]byte{1})
	must(t, err)
	d := turn.Begin(s, dawn, [32]byte{2})
	if denial := d.Complete(turn.Failed, note); denial != nil {
		t.Fatal(denial)
	}
	second, err := d.Done()
	must(t, err)
	kept := canon.MustMarshal(s)
	for _, x := range []*machine.Transition{first, second} {
		if len(x.Texts) != 1 || x.Texts[0].Text != *turn.Note(&x.Texts[0].Text).Text() {
			t.Errorf("texts: %+v", x.Texts)
		}
		for _, d := range x.Drafts {
			kept = append(kept, canon.MustMarshal(d.Data)...)
		}
		kept = append(kept, x.Texts[0].Text...)
	}
	if bytes.Contains(kept, []byte(secret[:12])) || *s.Note != second.Texts[0].Commit() {
		t.Errorf("kept: %s", kept)
	}
}

// S-060: completed, cancelled and failed can be reported, and nothing else.
// S-069: completed with a delivery in the turn is COMPLETED_WITH_CONTEXT_DELIVERY.
// S-070: without one it is COMPLETED_WITHOUT_CONTEXT_DELIVERY.
// S-072: cancelled and failed are REPORTED_CANCELLED and REPORTED_FAILED, deliveries or not.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		reported   string
		deliveries int
		want       string
	}{
		{"completed", 0, "COMPLETED_WITHOUT_CONTEXT_DELIVERY"}, {"completed", 1, "COMPLETED_WITH_CONTEXT_DELIVERY"}, {"completed", 2, "COMPLETED_WITH_CONTEXT_DELIVERY"},
		{"cancelled", 0, "REPORTED_CANCELLED"}, {"cancelled", 1, "REPORTED_CANCELLED"}, {"failed", 0, "REPORTED_FAILED"}, {"failed", 1, "REPORTED_FAILED"},
	} {
		w := started(t)
		w.call(compass(0)) // an answer without an item is no delivery
		for range c.deliveries {
			w.call(compass(2))
		}
		if reason := w.after(time.Minute).complete(c.reported); reason != "" {
			t.Fatal(reason)
		}
		s := w.state()
		if s.Status != c.want || s.Deliveries != int64(c.deliveries) || s.Calls != int64(c.deliveries)+1 || s.Reported != c.reported || *s.CompletedAt != w.now || s.At(w.now.Add(time.Hour)) != c.want {
			t.Errorf("%s after %d deliveries: %+v", c.reported, c.deliveries, s)
		}
		w.lawful()
	}
	for _, reported := range []string{"", "COMPLETED", "done", "expired"} {
		d := turn.Begin(started(t).state(), dawn, [32]byte{1})
		if denial := d.Complete(reported, turn.Label{}); denial != nil {
			t.Fatal(denial)
		}
		if out, err := d.Done(); err == nil {
			t.Errorf("reported %q: %+v", reported, out)
		}
	}
}

// S-071: a turn that nobody completed in fifteen minutes is EXPIRED_OR_INCOMPLETE, for
// good: a report that comes later is counted and changes nothing else.
func TestExpiry(t *testing.T) {
	w := started(t)
	w.call(compass(1))
	if reason := w.after(15*time.Minute - time.Millisecond).observe(); reason != "" {
		t.Errorf("a millisecond before the end: %q", reason)
	}
	w.after(time.Millisecond).settle()
	if s := w.state(); s.Status != "EXPIRED_OR_INCOMPLETE" || s.Deliveries != 1 || s.CompletedAt != nil {
		t.Errorf("at the end: %+v", s)
	}
	w.settle()
	for n := range 102 {
		if reason := w.complete("completed"); reason != "turn_expired" {
			t.Errorf("late: %q", reason)
		}
		if s := w.state(); s.LateReports != int64(min(n+1, 100)) || s.Status != "EXPIRED_OR_INCOMPLETE" || s.Reported != "" || s.CompletedAt != nil {
			t.Fatalf("after %d late reports: %+v", n+1, s)
		}
	}
	w.lawful()

	w = started(t)
	if reason := w.after(time.Hour).complete("failed"); reason != "turn_expired" || w.types() != "contextturn.opened contextturn.expired contextturn.late" {
		t.Errorf("the first that happens after the end: %q, %s", reason, w.types())
	}
	w.lawful()
}

// S-078: a turn that is closed or has expired receives no context and no observation, and
// no second completion.
func TestClosed(t *testing.T) {
	for _, c := range []struct {
		end    func(*world)
		reason string
	}{
		{func(w *world) { w.complete("completed") }, "turn_closed"}, {func(w *world) { w.complete("cancelled") }, "turn_closed"}, {func(w *world) { w.complete("failed") }, "turn_closed"},
		{func(w *world) { w.after(15 * time.Minute) }, "turn_expired"},
	} {
		w := started(t)
		if reasons := w.call(compass(1)) + w.observe(); reasons != "" {
			t.Fatalf("control: %s", reasons)
		}
		c.end(w)
		before := w.state().At(w.now)
		asked := false
		for name, reason := range map[string]string{
			"a call": w.call(compass(1)), "an observation": w.observe(), "a completion": w.complete("completed"),
			"before a call": w.do(func(d *turn.Deciding) *authority.Denial { asked = true; return d.TakesCall() }),
		} {
			if reason != c.reason {
				t.Errorf("%s: %s gets %q, want %q", before, name, reason, c.reason)
			}
		}
		if s := w.state(); s.Deliveries != 1 || s.Calls != 1 || s.Observations != 1 || s.Status != before || !asked {
			t.Errorf("%s: %+v", before, s)
		}
		w.lawful()
	}
}

// S-073: observations counts accepted pre_tool_use events, to a bound, and no call makes
// or takes one.
// S-079: what a turn stores is bounded: 200 observations and 100 context calls.
func TestBounds(t *testing.T) {
	w := started(t)
	for n := range 200 {
		if reason := w.observe(); reason != "" || w.state().Observations != int64(n+1) || w.state().Calls != 0 {
			t.Fatalf("observation %d: %q, %+v", n+1, reason, w.state())
		}
	}
	for n := range 100 {
		if reason := w.call(compass(n % 2)); reason != "" || w.state().Calls != int64(n+1) || w.state().Observations != 200 {
			t.Fatalf("call %d: %q, %+v", n+1, reason, w.state())
		}
	}
	if one, two := w.observe(), w.call(compass(1)); one != "limit_reached" || two != "limit_reached" {
		t.Errorf("one more: %q, %q", one, two)
	}
	if s := w.state(); s.Observations != 200 || s.Calls != 100 || s.Deliveries != 50 {
		t.Errorf("at its bounds: %+v", s)
	}
	if reason := w.complete("completed"); reason != "" {
		t.Errorf("a full turn cannot be completed: %q", reason)
	}
	w.lawful()
	if len(w.raw) > 32<<10 {
		t.Errorf("the state has %d bytes", len(w.raw))
	}
}

// What a call came to is returned as it was stored; request and answer stand beside the
// chain.
func TestCall(t *testing.T) {
	w := started(t)
	var got *turn.Interaction
	w.do(func(d *turn.Deciding) (denial *authority.Denial) { got, denial = d.Call(compass(2)); return denial })
	s := w.state()
	if *got.Turn != s.ID || got.Project != projectID || got.Client != clientID || got.Profile != "support" || got.Environment != "production" || got.At != w.now || !turn.IsID("int_", got.ID) || got.Call.InteractionID != got.ID {
		t.Errorf("interaction: %+v", got)
	}
	if c := got.Call; c.Tool != "compass" || *c.Verdict != "covered" || len(c.Items) != 2 || *c.Build != build || c.Request != w.texts[0].Commit() || c.Answer != w.texts[1].Commit() || !c.Delivers() {
		t.Errorf("call: %+v", c)
	}
	if w.types() != "contextturn.opened context.delivered" || bytes.Contains(w.events[1].Data, []byte("refunds work")) {
		t.Errorf("%s: %s", w.types(), w.events[1].Data)
	}
	gap := "gap_" + hash("a")[:32]
	for _, a := range []turn.Answer{
		compass(0), {Tool: turn.Find, Build: &build}, {Tool: turn.ReportGap, Gap: &gap}, {Tool: turn.Test, Build: &build}, {Tool: turn.Doctor},
	} {
		w.call(a)
	}
	for _, tool := range []string{turn.Resolve, turn.Find, turn.Why} {
		w.call(turn.Answer{Tool: tool, Build: &build, Items: items(1)})
	}
	if s := w.state(); s.Calls != 9 || s.Deliveries != 4 {
		t.Errorf("of nine calls four delivered: %+v", s)
	}
	w.lawful()
}

// A call outside a turn and a bridge's receipt are chains of one event.
func TestOne(t *testing.T) {
	shared := by
	shared.Client = sharedID
	a := compass(1)
	i, transition, err := turn.Outside(shared, a, subject, dawn, [32]byte{1})
	must(t, err)
	if !turn.IsID("int_", i.ID) || i.Call.InteractionID != i.ID || i.Turn != nil || i.Client != sharedID || i.At != dawn || len(transition.Texts) != 2 {
		t.Errorf("outside: %+v", i)
	}
	stored, err := turn.DecodeInteraction(canon.MustMarshal(i))
	must(t, err)
	r := turn.NewInteractionReplay()
	for _, e := range sealed(t, i.ID, transition.Drafts) {
		r.Apply(e)
	}
	if got := canon.MustMarshal(&r.State().Of); !r.Known() || len(r.Unlawful()) > 0 || !bytes.Equal(got, canon.MustMarshal(stored)) {
		t.Errorf("replayed: %s, %+v", got, r.Unlawful())
	}

	seen := turn.Seen{Kind: "file.write", Digest: hash("d")}
	receipt, transition, err := turn.Record(by, seen, subject, dawn, [32]byte{1})
	must(t, err)
	if !turn.IsID("brg_", receipt.ID) || receipt.Seen != seen || receipt.Client != clientID || receipt.At != dawn || len(transition.Texts) != 0 {
		t.Errorf("receipt: %+v", receipt)
	}
	bridged := turn.NewReceiptReplay()
	for _, e := range sealed(t, receipt.ID, transition.Drafts) {
		bridged.Apply(e)
	}
	again, err := turn.DecodeReceipt(canon.MustMarshal(receipt))
	must(t, err)
	if got := canon.MustMarshal(&bridged.State().Of); !bridged.Known() || len(bridged.Unlawful()) > 0 || !bytes.Equal(got, canon.MustMarshal(again)) {
		t.Errorf("replayed: %s, %+v", got, bridged.Unlawful())
	}

	if _, _, err := turn.Record(shared, seen, subject, dawn, [32]byte{1}); err == nil {
		t.Error("a shared token has a receipt")
	}
	if _, _, err := turn.Outside(by, turn.Answer{Tool: "guess"}, subject, dawn, [32]byte{1}); err == nil {
		t.Error("an eighth tool was called")
	}
}

func sealed(t *testing.T, id string, drafts []evidence.Draft) []evidence.Event {
	t.Helper()
	events, err := evidence.Seal(key, id, evidence.Link{Hash: evidence.Genesis}, dawn.Time(), drafts)
	must(t, err)
	return events
}

// A decision is never before the newest event.
func TestClockBehind(t *testing.T) {
	w := started(t)
	w.after(time.Minute).observe()
	if reason := w.after(-time.Hour).complete("completed"); reason != "" || *w.state().CompletedAt != dawn.Add(time.Minute) {
		t.Errorf("%q, %+v", reason, w.state())
	}
	w.lawful()
}

// A state of another machine is not read, and neither is one with something unknown.
func TestDecode(t *testing.T) {
	for name, read := range map[string]func([]byte) error{
		"turn":        func(b []byte) error { _, err := turn.DecodeState(b); return err },
		"interaction": func(b []byte) error { _, err := turn.DecodeInteraction(b); return err },
		"receipt":     func(b []byte) error { _, err := turn.DecodeReceipt(b); return err },
	} {
		for raw, want := range map[string]bool{`{"machine":1}`: true, `{"machine":2}`: false, `{}`: false, `{"machine":1,"more":1}`: false, "": false} {
			if err := read([]byte(raw)); (err == nil) != want {
				t.Errorf("%s %s: %v", name, raw, err)
			}
		}
	}
}

// Names have one form each.
func TestNames(t *testing.T) {
	fresh := authority.NewFresh([32]byte{1}, dawn)
	first, second := turn.NewID("trn_", fresh), turn.NewID("trn_", fresh)
	if !turn.IsID("trn_", first) || turn.IsID("int_", first) || first >= second || len(first) != 36 {
		t.Errorf("%s, %s", first, second)
	}
	for s, want := range map[string]bool{turnID: true, "trn_": false, turnID[:35]: false, turnID + "0": false, strings.ToUpper(turnID): false, turnID + "\n": false, "": false} {
		if turn.IsID("trn_", s) != want {
			t.Errorf("%q: %t", s, !want)
		}
	}
	long := strings.Repeat("a", 65)
	for s, want := range map[string]bool{
		"mcp__seif__context_compass": true, "mcp__seif__" + long[1:]: true, "mcp__seif__" + long: false, "mcp__seif__": false, "mcp__seif__A": false, "mcp__seif__a-b": false, "mcp__other__a": false, "xmcp__seif__a": false, "Bash": false, "mcp__seif__a\n": false,
	} {
		if turn.IsTool(s) != want {
			t.Errorf("tool %q: %t", s, !want)
		}
	}
	long = strings.Repeat("a", 129)
	for s, want := range map[string]bool{"toolu_01": true, "a.b:c-d_E9": true, long[1:]: true, long: false, "": false, "a b": false, "\u00e4": false, "a\n": false} {
		if turn.IsToolUseID(s) != want {
			t.Errorf("tool use id %q: %t", s, !want)
		}
	}
}

// Every state has its sentence, and what is no state has none.
//
// S-012: a completed turn without a delivery says only that none was observed here.
// S-013: it says in so many words that nothing follows from that about the model.
func TestSentences(t *testing.T) {
	want := "The client reported completion, and no context delivery was observed through this perimeter during the turn. That says nothing about what the model used, answered or left aside."
	if got := turn.Sentence("COMPLETED_WITHOUT_CONTEXT_DELIVERY"); got != want {
		t.Errorf("without a delivery: %s", got)
	}
	seen := map[string]bool{}
	for _, s := range []string{turn.Open, turn.WithDelivery, turn.WithoutDelivery, turn.Expired, turn.ReportedCanceled, turn.ReportedFailed} {
		if turn.Sentence(s) == "" || seen[turn.Sentence(s)] {
			t.Errorf("%s: %q", s, turn.Sentence(s))
		}
		seen[turn.Sentence(s)] = true
	}
	if turn.Sentence("closed") != "" {
		t.Error("what is no state has a sentence")
	}
}

func TestEventTypes(t *testing.T) {
	want := "bridge.recorded context.answered context.delivered contextturn.completed contextturn.expired contextturn.late contextturn.observed contextturn.opened interaction.recorded"
	if got := strings.Join(turn.EventTypes(), " "); got != want {
		t.Error(got)
	}
}

// S-074 S-075 S-076: observed is what reached this gateway, whatever the tool answered;
// reported is what a client says of itself; a completion that the clock alone ruled out was
// not observed.
func TestClassOf(t *testing.T) {
	want := map[string]string{
		"contextturn.opened": "observed", "context.delivered": "observed", "context.answered": "observed", "contextturn.observed": "observed", "interaction.recorded": "observed",
		"contextturn.completed": "reported", "contextturn.late": "reported", "contextturn.expired": "not observed", "bridge.recorded": "bridge-observed", "run.created": "",
	}
	for _, eventType := range append(turn.EventTypes(), "run.created") {
		if class, known := want[eventType]; !known || turn.ClassOf(eventType) != class {
			t.Errorf("%s: %q, want %q", eventType, turn.ClassOf(eventType), class)
		}
	}
}

func TestBoundaries(t *testing.T) {
	all := turn.Boundaries(1, 1, true)
	if want := []turn.Boundary{
		{"perimeter", turn.HonestyPerimeter}, {"delivery", turn.HonestyDelivery}, {"observation", turn.HonestyObservation}, {"reported", turn.HonestyReported}, {"not observed", turn.HonestyNotObserved},
	}; !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
	if got := turn.Boundaries(0, 0, false); !slices.Equal(got, []turn.Boundary{all[0], all[4]}) {
		t.Errorf("of a turn in which nothing happened: %q", got)
	}
}

// What looks like a secret is not recorded, where evidence would hold it for good. The
// machine does not ask: a chain stays lawful whatever is found later.
func TestSecretIDs(t *testing.T) {
	s, _, err := turn.Start(by, turn.Label{}, nil, subject, dawn, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	secret := "seif_" + strings.Repeat("Aa0_-", 9)
	for _, o := range []turn.Observation{{Event: turn.PreToolUse, Tool: "mcp__seif__x", ToolUseID: secret[:48]}, {Event: turn.PreToolUse, Tool: "mcp__seif__seif_" + strings.Repeat("a1b2c", 9)[:43], ToolUseID: "1"}} {
		d := turn.Begin(s, dawn, [32]byte{2})
		if denial := d.Observe(o); denial == nil || denial.Reason != turn.BodyInvalid || strings.Contains(denial.Detail, o.ToolUseID) && o.ToolUseID != "1" {
			t.Errorf("%+v: %+v", o, denial)
		}
		if out, err := d.Done(); err != nil || len(out.Drafts) > 0 {
			t.Errorf("%+v, %v", out, err)
		}
	}
}
