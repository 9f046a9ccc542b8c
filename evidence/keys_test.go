package evidence_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
)

func TestParseKeys(t *testing.T) {
	// RFC 8032, section 7.1: the public keys of tests 1 and 2.
	const one, two = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw"
	end := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	for _, tc := range []struct {
		file, again string // again: how Format writes it, "" for the same
		ends        []time.Time
	}{
		{one + "\n", "", []time.Time{{}}},
		{one + " 2026-01-02T03:04:05.678Z\n" + two + "\n", "", []time.Time{end, {}}},
		{one + " 2026-01-02T03:04:05.678Z\n" + two + " 2027-01-01T00:00:00Z\n", one + " 2026-01-02T03:04:05.678Z\n" + two + " 2027-01-01T00:00:00.000Z\n", []time.Time{end, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{one + " 2026-01-02T04:04:05.678+01:00\n", one + " 2026-01-02T03:04:05.678Z\n", []time.Time{end}},
	} {
		keys, err := evidence.ParseKeys([]byte(tc.file))
		if err != nil || len(keys) != len(tc.ends) {
			t.Errorf("%q: %d keys, %v", tc.file, len(keys), err)
			continue
		}
		for i, k := range keys {
			if !k.NotAfter.Equal(tc.ends[i]) {
				t.Errorf("%q: key %d ends %s", tc.file, i, k.NotAfter)
			}
		}
		if got := evidence.KeyID(keys[0].Public); got != "21fe31dfa154a261" { // SHA-256 of the raw key
			t.Errorf("key id %s", got)
		}
		want := tc.again
		if want == "" {
			want = tc.file
		}
		if got := string(keys.Format()); got != want {
			t.Errorf("%q is written %q", tc.file, got)
		}
		again, err := evidence.ParseKeys(keys.Format())
		if err != nil || len(again) != len(keys) || !reflect.DeepEqual(again[0].Public, keys[0].Public) {
			t.Errorf("%q does not read back: %v", tc.file, err)
		}
	}
	for file, want := range map[string]string{
		"":                                       "line feed",
		one:                                      "line feed",
		"\n":                                     "line 1: want a key",
		one + "\n\n":                             "line 2: want a key",
		"\n" + one + "\n":                        "line 1: want a key",
		one + "\r\n":                             "line 1: want a key",
		one + "=\n":                              "line 1: want a key",
		one[1:] + "\n":                           "line 1: want a key",
		one + "A\n":                              "line 1: want a key",
		one[:42] + "p\n":                         "line 1: want a key", // set trailing bits
		strings.ReplaceAll(one, "_", "/") + "\n": "line 1: want a key",
		"# comment\n" + one + "\n":               "line 1: want a key",
		" " + one + "\n":                         "line 1: want a key",
		one + " \n":                              "line 1: want the end",
		one + "  2026-01-02T03:04:05Z\n":         "line 1: want the end",
		one + "\t2026-01-02T03:04:05Z\n":         "line 1: want a key",
		one + " 2026-01-02T03:04:05Z \n":         "line 1: want the end",
		one + " 2026-01-02\n":                    "line 1: want the end",
		one + " 2026-01-02T03:04:05\n":           "line 1: want the end",
		one + " 2026-01-02T3:04:05Z\n":           "line 1: want the end",
		one + " 2026-01-02T03:04:05,5Z\n":        "line 1: want the end",
		one + " 0001-01-01T00:00:00Z\n":          "line 1: want the end",
		one + " 1969-12-31T23:59:59Z\n":          "line 1: want the end",
		one + " 9999-12-31T23:59:59-01:00\n":     "line 1: want the end",
		one + " 2026-02-30T03:04:05Z\n":          "line 1: want the end",
		one + "\n" + two + "\n" + one + "\n":     "line 3: want each key once",
	} {
		if keys, err := evidence.ParseKeys([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseKeys(%q) = %v, %v, want %s", file, keys, err, want)
		}
	}
}
