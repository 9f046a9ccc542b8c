package evidence_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"countersign/evidence"
)

const ms = time.Millisecond

// A key's notAfter is its last instant, for events and for the export.
func TestNotAfter(t *testing.T) {
	older, newer := newKey(t), newKey(t)
	for _, tc := range []struct {
		name                     string
		olderEnds, newerEnds     time.Duration // after start; 0: no end
		lastOfOlder, lastOfNewer time.Duration
		exported                 time.Duration
		failed                   []string
	}{
		{"no ends", 0, 0, 50 * ms, 100 * ms, 200 * ms, nil},
		{"event just before", 51 * ms, 0, 50 * ms, 100 * ms, 200 * ms, nil},
		{"event at the end", 50 * ms, 0, 50 * ms, 100 * ms, 200 * ms, nil},
		{"event just after", 49 * ms, 0, 50 * ms, 100 * ms, 200 * ms, []string{"key order"}},
		{"event a nanosecond after", 50*ms - 1, 0, 50 * ms, 100 * ms, 200 * ms, []string{"key order"}},
		{"export just before", 60 * ms, 201 * ms, 50 * ms, 100 * ms, 200 * ms, nil},
		{"export at the end", 60 * ms, 200 * ms, 50 * ms, 100 * ms, 200 * ms, nil},
		{"export just after", 60 * ms, 199 * ms, 50 * ms, 100 * ms, 200 * ms, []string{"key order"}},
	} {
		c := &chain{subject: subject(run)}
		c.add(t, older, start, "a", map[string]any{"subject": c.subject})
		c.add(t, older, start.Add(tc.lastOfOlder), "b", nil)
		c.add(t, newer, start.Add(tc.lastOfNewer), "c", nil)
		keys := trust(older, newer)
		for i, end := range []time.Duration{tc.olderEnds, tc.newerEnds} {
			if end != 0 {
				keys[i].NotAfter = start.Add(end)
			}
		}
		if failed, report := verify(t, c.export(t, newer, start.Add(tc.exported)), keys, evidence.Options{}); !slices.Equal(failed, tc.failed) {
			t.Errorf("%s: failed %q, want %q: %+v", tc.name, failed, tc.failed, report.Results)
		}
	}
}

func TestKeyOrder(t *testing.T) {
	a, b, c := newKey(t), newKey(t), newKey(t)
	for _, tc := range []struct {
		events []evidence.SigningKey
		export evidence.SigningKey
		failed []string
	}{
		{[]evidence.SigningKey{a, a, b, c}, c, nil},
		{[]evidence.SigningKey{a, c, c}, c, nil},
		{[]evidence.SigningKey{c}, c, nil},
		{[]evidence.SigningKey{a}, c, nil},
		{[]evidence.SigningKey{a, b, a}, c, []string{"key order"}},
		{[]evidence.SigningKey{a, c, b}, c, []string{"key order"}},
		{[]evidence.SigningKey{a, b}, b, []string{"key order"}},
		{[]evidence.SigningKey{a, a}, a, []string{"key order"}},
	} {
		chain := &chain{subject: subject(run)}
		for i, k := range tc.events {
			chain.add(t, k, start, fmt.Sprint("e", i), map[string]any{"subject": chain.subject})
		}
		if failed, _ := verify(t, chain.export(t, tc.export, start), trust(a, b, c), evidence.Options{}); !slices.Equal(failed, tc.failed) {
			t.Errorf("%d events: failed %q, want %q", len(tc.events), failed, tc.failed)
		}
	}
}

func TestKnownHead(t *testing.T) {
	older, newer := newKey(t), newKey(t)
	c := manyShapes(t, run, older, newer)
	export := c.export(t, newer, start.Add(time.Hour))
	for _, e := range c.events {
		head := evidence.Link{Sequence: e.Sequence, Hash: e.Hash}
		failed, report := verify(t, export, trust(older, newer), evidence.Options{Head: head})
		if len(failed) > 0 || !report.Result(evidence.CheckKnownHead).OK {
			t.Errorf("head %s: failed %q", head, failed)
		}
		// Cut behind the event before, and signed anew: only the known head tells.
		shorter := &chain{subject: c.subject, events: c.events[:max(1, e.Sequence-1)]}
		failed, _ = verify(t, shorter.export(t, newer, start.Add(time.Hour)), trust(older, newer), evidence.Options{Head: head})
		if want := []string{"known head"}; e.Sequence > 1 && !slices.Equal(failed, want) {
			t.Errorf("cut before %s: failed %q", head, failed)
		}
		head.Hash = flip(head.Hash)
		failed, report = verify(t, export, trust(older, newer), evidence.Options{Head: head})
		if !slices.Equal(failed, []string{"known head"}) || !names(report, e.Sequence, e.ID) {
			t.Errorf("another head at %d: failed %q", e.Sequence, failed)
		}
	}
	_, report := verify(t, export, trust(older, newer), evidence.Options{})
	if slices.ContainsFunc(report.Results, func(r evidence.Result) bool { return r.Check == evidence.CheckKnownHead }) || report.Result(evidence.CheckKnownHead).OK {
		t.Error("a head that was not given was checked")
	}
}

func TestParseLink(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	if got, err := evidence.ParseLink("12:" + hash); err != nil || got != (evidence.Link{Sequence: 12, Hash: hash}) || got.String() != "12:"+hash {
		t.Errorf("got %v, %v", got, err)
	}
	for _, s := range []string{"", ":", "1", "1:", ":" + hash, "0:" + hash, "-1:" + hash, "01:" + hash, "+1:" + hash, "1 :" + hash, "1:" + strings.ToUpper(hash),
		"1:" + hash[1:], "1:" + hash + "0", "1:" + hash + ":", "1:" + hash + "\n", "99999999999999999999:" + hash, "1.0:" + hash} {
		if got, err := evidence.ParseLink(s); err == nil {
			t.Errorf("ParseLink(%q) = %v", s, got)
		}
	}
}

// many is a chain of n small events.
func many(t testing.TB, n int, key evidence.SigningKey) *chain {
	c := &chain{subject: subject(run)}
	for i := range n {
		c.add(t, key, start, fmt.Sprint("e", i), map[string]any{"subject": c.subject, "i": i})
	}
	return c
}

// The report is the same however many goroutines work on it, and Each sees
// every event once and in order.
func TestWorkers(t *testing.T) {
	key := newKey(t)
	c := many(t, 300, key) // several segments
	export := c.export(t, key, start)
	doc := open(t, export)
	for _, i := range []int{0, 127, 128, 256, 299} {
		doc.event(i)["type"] = "damaged"
	}
	damaged := doc.bytes(t)
	for _, export := range [][]byte{export, damaged} {
		var first *evidence.Report
		for _, workers := range []int{0, 1, 2, 7} {
			var seen []int64
			_, report := verify(t, export, trust(key), evidence.Options{Workers: workers, Each: func(e evidence.Event) error {
				seen = append(seen, e.Sequence)
				return nil
			}})
			if len(seen) != 300 || !slices.IsSorted(seen) {
				t.Errorf("%d workers: Each saw %d events", workers, len(seen))
			}
			if first == nil {
				first = report
			}
			if !reflect.DeepEqual(report, first) {
				t.Errorf("%d workers: another report", workers)
			}
		}
		hashes := first.Result(evidence.CheckHashes)
		if want := bytes.Count(export, []byte(`"damaged"`)); hashes.Failures != want || len(hashes.Findings) != want {
			t.Errorf("%d findings, want %d", hashes.Failures, want)
		}
	}
}

func TestEachEventIsWhatWasSealed(t *testing.T) {
	older, newer := newKey(t), newKey(t)
	c := manyShapes(t, run, older, newer)
	var got []evidence.Event
	verify(t, c.export(t, newer, start), trust(older, newer), evidence.Options{Each: func(e evidence.Event) error {
		got = append(got, e)
		return nil
	}})
	if !reflect.DeepEqual(got, c.events) {
		t.Error("Each was given other events than were sealed")
	}
	if s, err := got[0].Subject(); err != nil || s != c.subject {
		t.Errorf("the first event states %+v, %v", s, err)
	}
	for _, e := range got[1:] {
		if s, err := e.Subject(); err == nil {
			t.Errorf("event %d states %+v", e.Sequence, s)
		}
	}
}

// What Verify starts ends with it, whichever way it ends.
func TestVerifyEnds(t *testing.T) {
	key := newKey(t)
	export := many(t, 600, key).export(t, key, start)
	before := runtime.NumGoroutine()
	stop, broken := errors.New("enough"), errors.New("disk on fire")
	calls := 0
	for name, tc := range map[string]struct {
		r    io.Reader
		o    evidence.Options
		keys evidence.Keys
		want error
	}{
		"Each stops it": {bytes.NewReader(export), evidence.Options{Workers: 3, Each: func(e evidence.Event) error {
			if calls++; calls == 3 {
				return stop
			}
			return nil
		}}, trust(key), stop},
		"reading fails at once":          {iotest.ErrReader(broken), evidence.Options{}, trust(key), broken},
		"reading fails between events":   {io.MultiReader(bytes.NewReader(export[:len(export)/2]), iotest.ErrReader(broken)), evidence.Options{}, trust(key), broken},
		"reading fails in the manifest":  {io.MultiReader(bytes.NewReader(export[:len(export)-100]), iotest.ErrReader(broken)), evidence.Options{}, trust(key), broken},
		"reading fails behind the texts": {io.MultiReader(bytes.NewReader(export[:len(export)-4]), iotest.ErrReader(broken)), evidence.Options{}, trust(key), broken},
		"reading fails behind the end":   {io.MultiReader(bytes.NewReader(export), iotest.ErrReader(broken)), evidence.Options{}, trust(key), broken},
		"no key":                         {bytes.NewReader(export), evidence.Options{}, nil, nil},
	} {
		report, err := evidence.Verify(tc.r, tc.keys, tc.o)
		if err == nil || report != nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, %v", name, report, err)
		}
		var format *evidence.FormatError
		if errors.As(err, &format) {
			t.Errorf("%s is blamed on the export: %v", name, err)
		}
	}
	if calls != 3 {
		t.Errorf("Each was called %d times", calls)
	}
	// A goroutine that has told of its end may take a moment to be gone.
	for tries := 0; runtime.NumGoroutine() > before; tries++ {
		if tries == 1_000_000 {
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
		runtime.Gosched()
	}
	// A reader that gives one byte at a time makes no difference.
	small := many(t, 3, key).export(t, key, start)
	if report, err := evidence.Verify(iotest.OneByteReader(bytes.NewReader(small)), trust(key), evidence.Options{}); err != nil || !report.OK() {
		t.Errorf("byte by byte: %v", err)
	}
}

func TestFindingsAreCapped(t *testing.T) {
	key, alien := newKey(t), newKey(t)
	_, report := verify(t, many(t, 50, alien).export(t, alien, start), trust(key), evidence.Options{})
	r := report.Result(evidence.CheckSignatures)
	if r.OK || r.Failures != 50 || len(r.Findings) != evidence.MaxFindings {
		t.Errorf("%d failures, %d findings", r.Failures, len(r.Findings))
	}
	if k := report.Result(evidence.CheckKeys); k.Failures != 51 { // every event and the export
		t.Errorf("%d keys do not match", k.Failures)
	}
}

// Every report says what it does not show (H-154, H-156 and the verifier's own
// limits).
func TestCannotShow(t *testing.T) {
	key := newKey(t)
	_, report := verify(t, many(t, 1, key).export(t, key, start), trust(key), evidence.Options{})
	all := strings.Join(report.CannotShow, "\n")
	for _, say := range []string{"complete only up to exportedAt", "no other run was left out", "fork a chain undetected", "neither that an explanation is true nor that an authority still holds", "times at which events were recorded"} {
		if !strings.Contains(all, say) {
			t.Errorf("nothing says %q", say)
		}
	}
	report.CannotShow[0] = "changed"
	_, again := verify(t, many(t, 1, key).export(t, key, start), trust(key), evidence.Options{})
	if again.CannotShow[0] == "changed" {
		t.Error("reports share their sentences")
	}
	if (&evidence.Report{}).OK() {
		t.Error("a report without checks is OK")
	}
}

// Memory does not grow with the number of events.
func TestVerifyIsFlat(t *testing.T) {
	key := newKey(t)
	c := many(t, 100, key)
	export := c.export(t, key, start)
	peak := func(events int) uint64 {
		// The same 100 events over and over: a damaged chain is checked as a sound one is.
		prefix, list, _ := bytes.Cut(export, []byte(`"events":[`))
		list, suffix, _ := bytes.Cut(list, []byte(`],"exportedAt"`))
		readers := []io.Reader{bytes.NewReader(prefix), strings.NewReader(`"events":[`), bytes.NewReader(list)}
		for range events/100 - 1 {
			readers = append(readers, strings.NewReader(","), bytes.NewReader(list))
		}
		readers = append(readers, strings.NewReader(`],"exportedAt"`), bytes.NewReader(suffix))
		var high uint64
		n := 0
		_, err := evidence.Verify(io.MultiReader(readers...), trust(key), evidence.Options{Each: func(evidence.Event) error {
			if n++; n%250 == 0 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				high = max(high, m.HeapAlloc)
			}
			return nil
		}})
		if err != nil || n != events {
			t.Fatalf("%d events, %v", n, err)
		}
		return high
	}
	few, lots := peak(500), peak(3_000)
	if lots > few+3<<19 {
		t.Errorf("500 events: %d bytes live, 3,000 events: %d", few, lots)
	}
}
