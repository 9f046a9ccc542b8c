package sqlite

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"countersign/internal/ledger"
)

// A ledger is either served or had alone.
func TestOffline(t *testing.T) {
	path := create(t)
	l, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := OpenOffline(t.Context(), path, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("alone while it is served: %v, %v", o, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o, err := OpenOffline(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("served while somebody has it alone: %v", err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, path, `DELETE FROM migrations WHERE number = 2`)
	if _, err := OpenOffline(t.Context(), path, nil); !errors.Is(err, ErrPending) {
		t.Errorf("with a pending migration: %v", err)
	}
}

// The former key's last instant is not before the newest event, and a replacement that
// was made already tells the instant it had.
func TestReplaceKey(t *testing.T) {
	path := create(t)
	edit(t, path, `INSERT INTO fingerprints VALUES ('evidence', 'first'), ('mac', 'm')`)
	newest := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	edit(t, path, fmt.Sprintf(`INSERT INTO subjects VALUES ('w', 'k', 'i', 1, 1, 'h', x'7b7d', x'00', NULL, %d)`, newest.UnixMilli()))
	o, err := OpenOffline(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := o.ReplaceKey(t.Context(), "evidence", "other", "second"); !errors.Is(err, ledger.ErrOtherKey) {
		t.Errorf("another key: %v", err)
	}
	for range 2 {
		if last, err := o.ReplaceKey(t.Context(), "evidence", "first", "second"); err != nil || !last.Equal(newest) {
			t.Errorf("%v, %v, want %v", last, err, newest)
		}
	}
	i, err := o.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"second": "in use", "first": "former", "fourth": "unknown"} {
		former, known := i.Knows(map[string]string{"evidence": key, "mac": "m"})
		if known != (want != "unknown") || (want == "former") != (len(former) == 1) {
			t.Errorf("%s: %v, %v", key, former, known)
		}
	}
}
