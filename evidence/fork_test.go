package evidence_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"countersign/evidence"
)

func TestFork(t *testing.T) {
	older, newer := newKey(t), newKey(t)
	whole := manyShapes(t, run, older, newer)
	cut := func(n int) *chain { return &chain{subject: whole.subject, events: whole.events[:n]} }
	// parted holds the first n events and two others behind them.
	parted := func(n int) *chain {
		c := cut(n)
		c.events = append([]evidence.Event(nil), c.events...)
		first := map[string]any{}
		if n == 0 {
			first["subject"] = whole.subject
		}
		c.add(t, newer, start.Add(time.Minute), "other", first)
		c.add(t, newer, start.Add(time.Minute), "more", map[string]any{})
		return c
	}
	resigned := manyShapes(t, run, newer, newer)
	resigned.texts = nil
	for name, tc := range map[string]struct {
		a, b   *chain
		common int64
		forks  bool
	}{
		"the same":                 {whole, whole, 12, false},
		"one goes on":              {cut(7), whole, 7, false},
		"the other goes on":        {whole, cut(1), 1, false},
		"parted behind event 5":    {whole, parted(5), 5, true},
		"parted at once":           {parted(0), whole, 0, true},
		"both parted, equally":     {parted(3), parted(3), 5, false},
		"parted and longer":        {cut(6), parted(5), 5, true},
		"the same, other signer":   {whole, resigned, 12, false},
		"parted behind the last":   {whole, parted(12), 12, false},
		"parted behind the eighth": {parted(8), whole, 8, true},
	} {
		a, b := tc.a.export(t, newer, start.Add(time.Hour)), tc.b.export(t, newer, start.Add(2*time.Hour))
		d, err := evidence.Fork(bytes.NewReader(a), bytes.NewReader(b))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d.Common != tc.common || (d.Fork != nil) != tc.forks || d.Counts != [2]int64{int64(len(tc.a.events)), int64(len(tc.b.events))} {
			t.Errorf("%s: %+v", name, d)
		}
		if d.Fork != nil && (d.Fork[0].Hash != tc.a.events[tc.common].Hash || d.Fork[1].Hash != tc.b.events[tc.common].Hash) {
			t.Errorf("%s: the fork is shown at %d and %d", name, d.Fork[0].Sequence, d.Fork[1].Sequence)
		}
		// The lie that only a comparison finds: each history verifies by itself.
		for _, export := range [][]byte{a, b} {
			if failed, _ := verify(t, export, trust(older, newer), evidence.Options{}); len(failed) > 0 {
				t.Errorf("%s: failed %q", name, failed)
			}
		}
	}
}

func TestForkRefuses(t *testing.T) {
	key := newKey(t)
	good := many(t, 3, key).export(t, key, start)
	for _, change := range []func(s *evidence.Subject){
		func(s *evidence.Subject) { s.ID = "another" },
		func(s *evidence.Subject) { s.Kind = "policy" },
		func(s *evidence.Subject) { s.Workspace = "another" },
	} {
		other := &chain{subject: subject(run)}
		change(&other.subject)
		other.add(t, key, start, "a", map[string]any{"subject": other.subject})
		if _, err := evidence.Fork(bytes.NewReader(good), bytes.NewReader(other.export(t, key, start))); !errors.Is(err, evidence.ErrOtherSubject) {
			t.Errorf("%+v: %v", other.subject, err)
		}
	}
	text := string(good)
	var format *evidence.FormatError
	for name, bad := range map[string]string{
		"nothing":     "",
		"no events":   text[:20],
		"bad event":   strings.Replace(text, `"type":"e2"`, `"type":""`, 1),
		"bad head":    strings.Replace(text, `"head":"`, `"head":"x`, 1),
		"bad texts":   strings.Replace(text, `"texts":{}`, `"texts":{"x":1}`, 1),
		"no line end": text[:len(text)-1],
	} {
		for _, pair := range [][2]string{{bad, text}, {text, bad}} {
			if _, err := evidence.Fork(strings.NewReader(pair[0]), strings.NewReader(pair[1])); !errors.As(err, &format) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	broken := errors.New("disk on fire")
	if _, err := evidence.Fork(bytes.NewReader(good), io.MultiReader(strings.NewReader(text[:500]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a failing reader: %v", err)
	}
}
