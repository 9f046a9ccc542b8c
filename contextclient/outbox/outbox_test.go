package outbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// clock is one that a test turns.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)} }

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) turn(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// told collects what an outbox tells.
type told struct {
	mu   sync.Mutex
	list []Dropped
}

func (d *told) add(one Dropped) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, one)
}

// onBoth runs a test with an outbox in memory and with one in a file.
func onBoth(t *testing.T, o Options, test func(t *testing.T, box *Outbox)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, New(o)) })
	t.Run("file", func(t *testing.T) {
		o.NoSync = true
		box, err := Open(filepath.Join(t.TempDir(), "own", "outbox"), o)
		if err != nil {
			t.Fatal(err)
		}
		test(t, box)
	})
}

func report(i int) Entry {
	return Entry{Key: fmt.Sprintf("report-number-%03d", i), Path: "/context/turns/trn_0/observations", Body: []byte(`{"tool":"mcp__seif__<x>"}`)}
}

func mustAdd(t *testing.T, box *Outbox, entries ...Entry) {
	t.Helper()
	for _, e := range entries {
		if err := box.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func state(t *testing.T, box *Outbox) State {
	t.Helper()
	s, err := box.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var errNetwork = errors.New("no route")

func unreachable(context.Context, Entry) (Answer, error) { return Answer{}, errNetwork }

func answers(a Answer) Send {
	return func(context.Context, Entry) (Answer, error) { return a, nil }
}

// What could not be delivered is delivered later: the same bytes to the same place under
// the same key, once.
// S-086: the outbox retries with the original idempotency key.
func TestDeliveredLaterUnderItsKey(t *testing.T) {
	c := newClock()
	onBoth(t, Options{now: c.read}, func(t *testing.T, box *Outbox) {
		want := report(1)
		err := box.Deliver(t.Context(), want, unreachable)
		if kept, ok := errors.AsType[*KeptError](err); !ok || !errors.Is(err, errNetwork) || kept.Answer.Status != 0 {
			t.Fatalf("%v, want that it is kept because of the network", err)
		}
		var sent []Entry
		send := func(_ context.Context, e Entry) (Answer, error) {
			sent = append(sent, e)
			return Answer{Status: 201}, nil
		}
		if f, err := box.Flush(t.Context(), send); err != nil || f != (Flushed{Waiting: 1}) {
			t.Fatalf("%+v, %v before it is due", f, err)
		}
		c.turn(time.Second)
		if f, err := box.Flush(t.Context(), send); err != nil || f != (Flushed{Delivered: 1}) {
			t.Fatalf("%+v, %v", f, err)
		}
		if len(sent) != 1 || !sent[0].same(&Entry{Key: want.Key, Method: "POST", Path: want.Path, Body: want.Body}) || sent[0].Attempts != 2 {
			t.Errorf("sent %+v", sent)
		}
		if s := state(t, box); len(s.Entries) != 0 || s.Counts.Delivered != 1 {
			t.Errorf("%+v is left", s)
		}
		if f, err := box.FlushAll(t.Context(), send); err != nil || f.Delivered != 0 || len(sent) != 1 {
			t.Errorf("%+v, %v: sent again", f, err)
		}
	})
}

// Which answers are final is a rule of the protocol's client.
func TestFinalAnswers(t *testing.T) {
	for _, c := range []struct {
		status int
		reason string
		want   string
	}{
		{200, "", "delivered"}, {201, "", "delivered"}, {204, "", "delivered"},
		{302, "", "kept"}, {307, "", "kept"},
		{408, "", "kept"}, {425, "", "kept"}, {429, "limit_reached", "kept"}, {409, "idempotency_in_progress", "kept"},
		{500, "", "kept"}, {501, "", "kept"}, {503, "", "kept"}, {599, "", "kept"},
		{400, "value_too_long", "refused"}, {401, "token_invalid", "refused"}, {403, "environment_mismatch", "refused"},
		{404, "turn_not_found", "refused"}, {409, "turn_closed", "refused"}, {409, "idempotency_conflict", "refused"},
		{409, "", "refused"}, {410, "turn_expired", "refused"}, {413, "too_large", "refused"}, {422, "", "refused"},
	} {
		d := &told{}
		box := New(Options{Told: d.add})
		err := box.Deliver(t.Context(), report(1), answers(Answer{Status: c.status, Reason: c.reason}))
		_, kept := errors.AsType[*KeptError](err)
		_, refused := errors.AsType[*RefusedError](err)
		got := map[bool]string{kept: "kept", refused: "refused", err == nil: "delivered"}[true]
		s := state(t, box)
		if got != c.want || kept != (len(s.Entries) == 1) {
			t.Errorf("%d %s: %s with %d left, want %s", c.status, c.reason, got, len(s.Entries), c.want)
		}
		if refused != (len(d.list) == 1) || refused != (s.Counts.Refused == 1) {
			t.Errorf("%d %s: told %v, counted %+v", c.status, c.reason, d.list, s.Counts)
		}
		if refused && (d.list[0].Entry.Key != report(1).Key || !strings.Contains(d.list[0].String(), fmt.Sprint(c.status))) {
			t.Errorf("told %v", d.list)
		}
	}
}

// A refusal of whoever asks leaves the report where it is, for somebody else to deliver it.
func TestKeptAnswer(t *testing.T) {
	onBoth(t, Options{}, func(t *testing.T, box *Outbox) {
		e := report(1)
		e.By = "one"
		err := box.Deliver(t.Context(), e, answers(Answer{Status: 401, Reason: "token_invalid", Detail: "It opens nothing.", Keep: true}))
		if _, kept := errors.AsType[*KeptError](err); !kept || !strings.Contains(err.Error(), "401 token_invalid It opens nothing.") {
			t.Errorf("%v", err)
		}
		var by string
		f, err := box.FlushAll(t.Context(), func(_ context.Context, e Entry) (Answer, error) { by = e.By; return Answer{Status: 200}, nil })
		if err != nil || f != (Flushed{Delivered: 1}) || by != "one" {
			t.Errorf("%+v, %v, put in by %q", f, err, by)
		}
	})
}

// Looking at an outbox that was never used leaves no file.
func TestLookLeavesNothing(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "own")
	box, err := Open(filepath.Join(folder, "outbox"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := state(t, box); len(s.Entries) != 0 {
		t.Error(s)
	}
	if f, err := box.FlushAll(t.Context(), unreachable); err != nil || f != (Flushed{}) {
		t.Errorf("%+v, %v", f, err)
	}
	if left, err := filepath.Glob(folder + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Half a second, doubled for each attempt, a minute at most.
func TestBackoff(t *testing.T) {
	const ms = time.Millisecond
	for attempts, longest := range []time.Duration{1: 1000 * ms, 2000 * ms, 4000 * ms, 8000 * ms, 16000 * ms, 32000 * ms, 60000 * ms, 60000 * ms, 60000 * ms} {
		if attempts == 0 {
			continue
		}
		least, most := backoff(attempts, 0), backoff(attempts, 0.999999)
		if least != longest/2 || most > longest || most < longest-ms {
			t.Errorf("after %d attempts %v to %v, want %v to %v", attempts, least, most, longest/2, longest)
		}
	}
	if got := backoff(1<<40, 0.5); got < MinBackoff || got > MaxBackoff {
		t.Error(got)
	}
}

// A report that failed is not tried before its time, and a Retry-After is obeyed.
func TestNotBefore(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer Answer
		wait   time.Duration // with chance 0
	}{
		{"a server error", Answer{Status: 503}, 500 * time.Millisecond},
		{"a wish for more", Answer{Status: 429, RetryAfter: 90 * time.Second}, 90 * time.Second},
		{"a wish without measure", Answer{Status: 429, RetryAfter: 18 * time.Hour}, MaxRetryAfter},
		{"a wish for less", Answer{Status: 503, RetryAfter: time.Millisecond}, 500 * time.Millisecond},
	} {
		k := newClock()
		box := New(Options{now: k.read, chance: func() float64 { return 0 }})
		_ = box.Deliver(t.Context(), report(1), answers(c.answer))
		k.turn(c.wait - time.Nanosecond)
		if f, err := box.Flush(t.Context(), answers(Answer{Status: 200})); err != nil || f.Delivered != 0 {
			t.Errorf("%s: %+v, %v too early", c.name, f, err)
		}
		k.turn(time.Nanosecond)
		if f, err := box.Flush(t.Context(), answers(Answer{Status: 200})); err != nil || f.Delivered != 1 {
			t.Errorf("%s: %+v, %v in time", c.name, f, err)
		}
	}
}

// A full outbox refuses the next report and says so; it drops none of the hundred that it has.
func TestFull(t *testing.T) {
	onBoth(t, Options{}, func(t *testing.T, box *Outbox) {
		for i := range 100 {
			mustAdd(t, box, report(i))
		}
		sent := 0
		err := box.Deliver(t.Context(), report(100), func(context.Context, Entry) (Answer, error) { sent++; return Answer{Status: 200}, nil })
		if !errors.Is(err, ErrFull) || sent != 0 {
			t.Fatalf("the 101st: %v, sent %d times", err, sent)
		}
		mustAdd(t, box, report(42)) // is in already
		s := state(t, box)
		if len(s.Entries) != 100 || s.Counts != (Counts{Full: 1}) {
			t.Fatalf("%d wait, counted %+v", len(s.Entries), s.Counts)
		}
		for i, e := range s.Entries {
			if want := report(i); e.Key != want.Key {
				t.Errorf("%s at %d", e.Key, i)
			}
		}
		if f, err := box.Flush(t.Context(), answers(Answer{Status: 200})); err != nil || f.Delivered != 100 {
			t.Fatalf("%+v, %v", f, err)
		}
		mustAdd(t, box, report(100))
	})
}

// What is 24 hours old is dropped, told and counted; a moment earlier it is not.
func TestTooOld(t *testing.T) {
	d, c := &told{}, newClock()
	onBoth(t, Options{Told: d.add, now: c.read}, func(t *testing.T, box *Outbox) {
		d.list = nil
		mustAdd(t, box, report(1))
		c.turn(time.Hour)
		mustAdd(t, box, report(2))
		c.turn(23*time.Hour - time.Nanosecond)
		if s := state(t, box); len(s.Entries) != 2 || len(d.list) != 0 {
			t.Fatalf("%+v, told %v", s, d.list)
		}
		c.turn(time.Nanosecond)
		f, err := box.Flush(t.Context(), answers(Answer{Status: 503}))
		if err != nil || f != (Flushed{Dropped: 1, Waiting: 1}) {
			t.Errorf("%+v, %v", f, err)
		}
		if s := state(t, box); len(s.Entries) != 1 || s.Entries[0].Key != report(2).Key || s.Counts != (Counts{Expired: 1}) {
			t.Errorf("%+v", s)
		}
		if len(d.list) != 1 || d.list[0].Entry.Key != report(1).Key || !strings.Contains(d.list[0].String(), "24h") {
			t.Errorf("told %v", d.list)
		}
	})
}

// A clock that is set back keeps no report longer and lets none wait for the old time.
func TestClockSetBack(t *testing.T) {
	c := newClock()
	box := New(Options{now: c.read})
	_ = box.Deliver(t.Context(), report(1), unreachable)
	c.turn(-30 * 24 * time.Hour)
	if f, err := box.Flush(t.Context(), answers(Answer{Status: 503})); err != nil || f.Waiting != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	if s := state(t, box); s.Entries[0].Attempts != 2 {
		t.Errorf("tried %d times", s.Entries[0].Attempts)
	}
	c.turn(24 * time.Hour)
	if s := state(t, box); len(s.Entries) != 0 {
		t.Errorf("%+v is kept for more than a day", s.Entries)
	}
}

// A clock that is set back by hours lets no report wait for hours: neither one that was put off nor
// one whose sender has died.
func TestClockSetBackByHours(t *testing.T) {
	for name, send := range map[string]Send{
		"put off":     answers(Answer{Status: 429, RetryAfter: 18 * time.Hour}),
		"unreachable": unreachable,
		"dead":        func(context.Context, Entry) (Answer, error) { panic("dies") },
	} {
		c := newClock()
		onBoth(t, Options{now: c.read}, func(t *testing.T, box *Outbox) {
			func() {
				defer func() { _ = recover() }()
				_ = box.Deliver(t.Context(), report(1), send)
			}()
			c.turn(-2 * time.Hour)
			if f, err := box.Flush(t.Context(), answers(Answer{Status: 200})); err != nil || f.Delivered != 1 {
				t.Errorf("%s: %+v, %v", name, f, err)
			}
			c.turn(2 * time.Hour)
		})
	}
}

// Told that panics takes nothing from whoever has delivered, and nothing of it is done twice.
func TestToldPanics(t *testing.T) {
	box := New(Options{Told: func(Dropped) { panic("told") }})
	err := box.Deliver(t.Context(), report(1), answers(Answer{Status: 410, Reason: "turn_expired"}))
	if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Answer.Reason != "turn_expired" {
		t.Error(err)
	}
	if s := state(t, box); len(s.Entries) != 0 || s.Counts.Refused != 1 {
		t.Errorf("%+v", s)
	}
}

// Whoever dies while it sends leaves a mark that ends by itself.
func TestMarkOfTheDead(t *testing.T) {
	c := newClock()
	onBoth(t, Options{now: c.read, SendBound: 2 * time.Second}, func(t *testing.T, box *Outbox) {
		func() {
			defer func() { _ = recover() }() // as far as the store knows, its process is gone
			_ = box.Deliver(t.Context(), report(1), func(context.Context, Entry) (Answer, error) { panic("dies") })
		}()
		c.turn(3*time.Second - time.Nanosecond)
		if f, err := box.FlushAll(t.Context(), answers(Answer{Status: 200})); err != nil || f.Delivered != 0 {
			t.Errorf("%+v, %v while it may still be under way", f, err)
		}
		if err := box.Deliver(t.Context(), report(1), answers(Answer{Status: 200})); err == nil {
			t.Error("sent a second time while it may still be under way")
		}
		c.turn(time.Nanosecond)
		if f, err := box.Flush(t.Context(), answers(Answer{Status: 200})); err != nil || f.Delivered != 1 {
			t.Errorf("%+v, %v afterwards", f, err)
		}
	})
}

// A flush goes on after an answer and stops when none comes.
func TestFlushStopsWithoutAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		second Send
		want   Flushed
		stops  bool
	}{
		"network": {unreachable, Flushed{Delivered: 1, Waiting: 3}, true},
		"429":     {answers(Answer{Status: 429}), Flushed{Delivered: 1, Waiting: 3}, true},
		"500":     {answers(Answer{Status: 500}), Flushed{Delivered: 3, Waiting: 1}, false},
		"404":     {answers(Answer{Status: 404}), Flushed{Delivered: 3, Dropped: 1}, false},
	} {
		box := New(Options{})
		mustAdd(t, box, report(1), report(2), report(3), report(4))
		f, err := box.Flush(t.Context(), func(ctx context.Context, e Entry) (Answer, error) {
			if e.Key == report(2).Key {
				return c.second(ctx, e)
			}
			return Answer{Status: 200}, nil
		})
		stopped := f.Unreachable != nil
		f.Unreachable = nil
		if err != nil || f != c.want || stopped != c.stops {
			t.Errorf("%s: %+v, %v, stopped %v", name, f, err, stopped)
		}
	}
}

// A caller that gives up does not lose what it has put in.
func TestCallerGivesUp(t *testing.T) {
	onBoth(t, Options{}, func(t *testing.T, box *Outbox) {
		ctx, cancel := context.WithCancel(t.Context())
		err := box.Deliver(ctx, report(1), func(ctx context.Context, _ Entry) (Answer, error) {
			cancel()
			<-ctx.Done()
			return Answer{}, ctx.Err()
		})
		if _, ok := errors.AsType[*KeptError](err); !ok {
			t.Errorf("%v", err)
		}
		if s := state(t, box); len(s.Entries) != 1 || !s.Entries[0].free(time.Now()) {
			t.Errorf("%+v", s)
		}
	})
}

// What is no report is not kept.
func TestNotAReport(t *testing.T) {
	token := "seif_" + strings.Repeat("A", 43)
	for name, change := range map[string]func(*Entry){
		"short key":        func(e *Entry) { e.Key = strings.Repeat("k", 15) },
		"long key":         func(e *Entry) { e.Key = strings.Repeat("k", 161) },
		"key with a slash": func(e *Entry) { e.Key = "0123456789abcde/" },
		"another method":   func(e *Entry) { e.Method = "DELETE" },
		"no path":          func(e *Entry) { e.Path = "" },
		"another host":     func(e *Entry) { e.Path = "//[::1]/context" },
		"a query":          func(e *Entry) { e.Path += "?x=1" },
		"no object":        func(e *Entry) { e.Body = []byte(`[1]`) },
		"null":             func(e *Entry) { e.Body = []byte(`null`) },
		"no JSON":          func(e *Entry) { e.Body = []byte(`{"a":`) },
		"large":            func(e *Entry) { e.Body = []byte(`{"a":"` + strings.Repeat("a", 4<<10) + `"}`) },
		"a client token":   func(e *Entry) { e.Body = []byte(`{"note":"` + token + `"}`) },
		"a token as owner": func(e *Entry) { e.By = token },
		"a long owner":     func(e *Entry) { e.By = strings.Repeat("b", 65) },
		"a token as path":  func(e *Entry) { e.Path = "/context/" + token },
	} {
		box := New(Options{})
		e := report(1)
		change(&e)
		if err := box.Add(t.Context(), e); !errors.Is(err, ErrEntry) {
			t.Errorf("%s: %v", name, err)
		}
		if s := state(t, box); len(s.Entries) != 0 {
			t.Errorf("%s is kept", name)
		}
	}
	box := New(Options{})
	mustAdd(t, box, report(1))
	other := report(1)
	other.Body = []byte(`{}`)
	if err := box.Add(t.Context(), other); !errors.Is(err, ErrEntry) {
		t.Errorf("another report under the same key: %v", err)
	}
	for range 100 {
		if k := NewKey(); !keyForm.MatchString(k) {
			t.Errorf("fresh key %q", k)
		}
	}
}

// Run sends what is put in at once, and what failed as soon as it may.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		box := New(Options{chance: func() float64 { return 0 }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- box.Run(ctx, func(context.Context, Entry) (Answer, error) {
				at = append(at, time.Since(start))
				if len(at) < 4 {
					return Answer{}, errNetwork
				}
				return Answer{Status: 200}, nil
			}, func(err error) { t.Error(err) })
		}()
		time.Sleep(10 * time.Second)
		mustAdd(t, box, report(1))
		time.Sleep(time.Hour)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		const s = time.Second
		if want := []time.Duration{10 * s, 10*s + s/2, 11*s + s/2, 13*s + s/2}; !slices.Equal(at, want) {
			t.Errorf("tried at %v, want %v", at, want)
		}
	})
}
