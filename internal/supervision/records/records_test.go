package records_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/audit"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
)

// export writes a run's evidence with a reader, audits it and returns both.
func (h *house) export(r *records.Reader, id string) (string, *audit.Report) {
	h.t.Helper()
	var b bytes.Buffer
	must(h.t, r.Export(h.t.Context(), id, &b))
	report, err := audit.Verify(bytes.NewReader(b.Bytes()), audit.Options{Keys: evidence.Keys{{Public: h.keys.Evidence().Public()}}})
	must(h.t, err)
	return b.String(), report
}

// Design 2: erased text reads "(erased)" wherever it was shown, what was not erased
// is shown on, and the chain still verifies.
func TestErasedText(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		id := h.create()
		h.read(id)
		before, err := h.View(t.Context(), id)
		must(t, err)
		if before.Instruction != instruction || before.Decision.Explanation == "" || before.Observation.View == nil {
			t.Fatalf("nothing to erase: %+v", before)
		}
		whole, _ := h.export(h.Reader, id)
		s := before.State
		for _, c := range []*evidence.Commitment{&s.Instruction, s.Decision.Explanation, before.Observation.Observed.View} {
			must(t, h.ledger.EraseText(t.Context(), h.Key(id), c.Text))
		}
		for _, r := range []*records.Reader{h.Reader, h.reader(h.ledger)} { // with and without memory
			v, err := r.View(t.Context(), id)
			must(t, err)
			if v.Instruction != "(erased)" || v.Decision.Explanation != "(erased)" || *v.Observation.View != "(erased)" {
				t.Errorf("instruction %q, explanation %q, view %q", v.Instruction, v.Decision.Explanation, *v.Observation.View)
			}
			if !slices.EqualFunc(v.Timeline, before.Timeline, func(a, b records.Line) bool { return a.EventID == b.EventID }) {
				t.Error("the timeline has changed")
			}
		}
		left, report := h.export(h.Reader, id)
		if !report.Verified {
			t.Errorf("%+v", report)
		}
		for _, text := range []string{instruction, before.Decision.Explanation} {
			if !strings.Contains(whole, text) || strings.Contains(left, text) {
				t.Errorf("%q: exported %t before and %t after", text, strings.Contains(whole, text), strings.Contains(left, text))
			}
		}
		if !strings.Contains(left, "It serves the purchase.") {
			t.Error("a text that was not erased is not exported")
		}
	})
}

// A text that cannot be read is not an erased one.
func TestTextUnavailable(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		id := h.create()
		r := h.reader(&hooked{Ledger: h.ledger, text: errors.New("the disk is away")})
		if v, err := r.View(t.Context(), id); !errors.Is(err, records.ErrUnavailable) {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// G-16: an export is the chain up to the head at which it began. Whatever is
// appended while it is written stays out, its texts too.
func TestExportWhileEventsAreAppended(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		id := h.create()
		h.read(id)
		appended := 0
		l := &hooked{Ledger: h.ledger, hook: func() { h.read(id); appended++ }}
		text, report := h.export(h.reader(l), id)
		head := l.refs[0]
		if !report.Verified {
			t.Errorf("%+v", report)
		}
		var got struct {
			Count  int64            `json:"count"`
			Head   string           `json:"head"`
			Events []evidence.Event `json:"events"`
			Texts  map[string]any   `json:"texts"`
		}
		must(t, json.Unmarshal([]byte(text), &got))
		if got.Count != head.Sequence || got.Head != head.Head || int64(len(got.Events)) != head.Sequence {
			t.Errorf("%d of %d events up to %s, want %d up to %s", len(got.Events), got.Count, got.Head, head.Sequence, head.Head)
		}
		if newest := h.subject(id).Sequence; appended < 4 || newest <= head.Sequence {
			t.Errorf("%d appends while it was written, newest %d", appended, newest)
		}
		// The control: texts of later events were there to be exported.
		if len(l.read) <= len(got.Texts) || len(got.Texts) == 0 {
			t.Errorf("%d texts were read and %d exported", len(l.read), len(got.Texts))
		}
		if _, report := h.export(h.Reader, id); !report.Verified {
			t.Errorf("afterwards: %+v", report)
		}
	})
}

// brokenPipe takes some bytes.
type brokenPipe struct{ left int }

func (w *brokenPipe) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

func TestExportFails(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		id := h.create()
		if err := h.Export(t.Context(), id, &brokenPipe{100}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a reader that goes away: %v", err)
		}
		if err := h.Export(t.Context(), "no-such-run", io.Discard); reason(err) != authority.NotFound {
			t.Errorf("no such run: %v", err)
		}
	})
}

// Design 1: a view shows what time has brought about, and stores nothing of it.
func TestViewIsSettled(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		id := h.create()
		p := h.allow(id)
		look := func() *run.State {
			t.Helper()
			before := h.subject(id)
			v, err := h.View(t.Context(), id)
			must(t, err)
			c, err := h.Capabilities(t.Context(), id)
			must(t, err)
			list, err := h.List(t.Context(), "", 1)
			must(t, err)
			for _, s := range []*run.State{c.State, list[0].State} {
				if s.Status != v.State.Status || (s.Permit == nil) != (v.State.Permit == nil) {
					t.Errorf("view %s, another way %s", v.State.Status, s.Status)
				}
			}
			after := h.subject(id)
			if after.Revision != before.Revision || after.Head != before.Head || v.Head != before.Link().String() || int64(len(v.Timeline)) != before.Sequence {
				t.Errorf("looking changed the run: %+v, before %+v; view at %s with %d lines", after, before, v.Head, len(v.Timeline))
			}
			return v.State
		}
		if s := look(); s.Permit == nil {
			t.Error("a live permit is not shown")
		}
		h.clock.Move(30 * time.Second)
		if s := look(); s.Permit != nil || s.Status != run.StatusReady {
			t.Errorf("30 s later: %s with permit %+v", s.Status, s.Permit)
		}
		// A process that hangs after its claim.
		p = h.allow(id)
		hanging := h.config
		hanging.Fault = func(string) { runtime.Goexit() }
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			gateway.New(hanging).Operate(t.Context(), request(id, p))
		}()
		<-ended
		if s := look(); s.Status != run.StatusRunning || s.Execution.State != run.ExecutionDispatched {
			t.Errorf("under way: %s, %s", s.Status, s.Execution.State)
		}
		h.clock.Move(10 * time.Second)
		if s := look(); s.Status != run.StatusReady || s.Execution.State != run.ExecutionNotApplied || s.Lease != nil {
			t.Errorf("after its lease: %s, %s, %+v", s.Status, s.Execution.State, s.Lease)
		}
		h.clock.Move(time.Hour)
		if s := look(); s.Status != run.StatusPaused || s.Stop.ReasonCode != authority.GrantExpired {
			t.Errorf("after its grant: %s, %+v", s.Status, s.Stop)
		}
	})
}

// Events come in pages of a thousand, strictly after a sequence; the highest
// sequence comes with each page.
func TestEventPages(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		id := h.create()
		h.fill(id, 2300)
		for _, c := range []struct {
			after       int64
			first, last int64 // 0: none
		}{
			{0, 1, 1000}, {1, 2, 1001}, {1000, 1001, 2000}, {1300, 1301, 2300}, {2000, 2001, 2300}, {2299, 2300, 2300}, {2300, 0, 0}, {2301, 0, 0}, {1 << 53, 0, 0},
		} {
			page, highest, err := h.Events(t.Context(), id, c.after)
			if err != nil || highest != 2300 {
				t.Errorf("after %d: highest %d, %v", c.after, highest, err)
			}
			if len(page) == 0 {
				if c.first != 0 {
					t.Errorf("after %d: nothing", c.after)
				}
				continue
			}
			if page[0].Sequence != c.first || page[len(page)-1].Sequence != c.last || int64(len(page)) != c.last-c.first+1 {
				t.Errorf("after %d: %d to %d, want %d to %d", c.after, page[0].Sequence, page[len(page)-1].Sequence, c.first, c.last)
			}
		}
		if _, _, err := h.Events(t.Context(), "no-such-run", 0); reason(err) != authority.NotFound {
			t.Errorf("no such run: %v", err)
		}
		v, err := h.View(t.Context(), id)
		must(t, err)
		for i, line := range v.Timeline {
			if line.Sequence != int64(i+1) {
				t.Fatalf("line %d is of event %d", i, line.Sequence)
			}
		}
		if len(v.Timeline) != 2300 {
			t.Errorf("a timeline of %d", len(v.Timeline))
		}
	})
}

// H-091: runs are listed newest first, older than a cursor.
func TestListPages(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		var ids []string
		for range 5 {
			ids = append(ids, h.create())
		}
		// Newest first is by id. Two of one millisecond have no other order than that.
		slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
		for _, c := range []struct {
			before string
			limit  int
			want   []string
		}{
			{"", 2, ids[:2]}, {ids[1], 2, ids[2:4]}, {ids[3], 2, ids[4:]}, {ids[4], 2, nil}, {"", 100, ids}, {"", 5, ids},
			{"0", 5, nil}, {"g", 5, ids}, // cursors that name no run
		} {
			views, err := h.List(t.Context(), c.before, c.limit)
			must(t, err)
			var got []string
			for _, v := range views {
				got = append(got, v.State.ID)
			}
			if !slices.Equal(got, c.want) || views == nil {
				t.Errorf("%d before %q: %v, want %v", c.limit, c.before, got, c.want)
			}
		}
	})
}

// What Load returns may be decided on: a decision that is not stored changes
// nothing that others get.
func TestLoadedStateIsTheCallersOwn(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		id := h.create()
		for _, to := range []func(){func() {}, func() { h.read(id) }, func() { h.allow(id) }} {
			to()
			want := string(h.subject(id).State)
			for range 3 {
				c, err := h.Load(t.Context(), id)
				must(t, err)
				if got, err := c.State.Encode(); err != nil || string(got) != want {
					t.Fatalf("%s, %v, want %s", got, err, want)
				}
				d := decide.Begin(c.State, c.Now.Add(30*time.Second), [32]byte{1}, false, decide.Doors{})
				if denial := d.IssueSession("http://localhost:8420"); denial != nil {
					t.Fatal(denial)
				}
				if denial := d.Revoke(); denial != nil {
					t.Fatal(denial)
				}
				if got, err := c.State.Encode(); err != nil || string(got) == want {
					t.Fatalf("nothing was decided: %v", err)
				}
			}
		}
	})
}

// What is remembered counts only for the very revision and head that the ledger
// names, and never grows beyond its bound.
func TestMemory(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		id := h.create()
		older := h.subject(id)
		h.allow(id)
		newer := h.subject(id)
		var shown ledger.Subject
		r := h.reader(&hooked{Ledger: h.ledger, load: func(key ledger.Key) ledger.Subject {
			s := shown
			s.Key = key
			return s
		}})
		load := func(s ledger.Subject, id string) {
			t.Helper()
			shown = s
			c, err := r.Load(t.Context(), id)
			must(t, err)
			got, err := c.State.Encode()
			must(t, err)
			if !bytes.Equal(got, s.State) {
				t.Errorf("revision %d is shown as another", s.Revision)
			}
		}
		load(newer, id)
		load(older, id) // of a read that was overtaken
		if s, _ := r.Recall(id); s.Revision != newer.Revision {
			t.Errorf("revision %d was remembered instead of %d", s.Revision, newer.Revision)
		}
		load(newer, id)
		forked := older
		forked.Revision, forked.Head = newer.Revision, strings.Repeat("f", 64)
		load(forked, id)

		for i := range records.MaxRemembered + 100 {
			load(older, fmt.Sprintf("run-%d", i))
		}
		if n := r.Remembered(); n != records.MaxRemembered {
			t.Errorf("%d subjects are remembered, want %d", n, records.MaxRemembered)
		}
		for i := range 100 {
			load(newer, fmt.Sprintf("run-%d", i))
		}
	})
}
