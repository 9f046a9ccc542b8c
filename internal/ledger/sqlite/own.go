package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"maps"
	"slices"

	"countersign/internal/ledger"
)

// The engine's own small writes go through the writer like a Change.

// EraseText removes salt and text from the file for good, or returns
// ledger.ErrNotFound. The event keeps the commitment. When a read holds the WAL
// at that moment, the overwritten page leaves it at the next checkpoint instead.
func (l *Ledger) EraseText(ctx context.Context, key ledger.Key, commitment string) error {
	var erased int64
	err := l.do(ctx, func(t *tx) (err error) {
		erased, err = t.exec("", `DELETE FROM texts WHERE workspace = ? AND kind = ? AND subject = ? AND commitment = ?`,
			key.Workspace, key.Kind, key.ID, commitment)
		return err
	})
	if err != nil {
		return err
	}
	if erased == 0 {
		return ledger.ErrNotFound
	}
	return l.truncate(ctx)
}

// truncate empties the WAL into the file, from a connection of its own, since a
// checkpoint cannot run inside a transaction.
func (l *Ledger) truncate(ctx context.Context) error {
	db, err := sql.Open("sqlite", writerDSN(l.writer.path))
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	defer db.Close()
	var busy, frames, moved int
	if err := db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved); err != nil {
		return fmt.Errorf("sqlite: the text is erased, its old page may still be in the WAL: %w", err)
	}
	return nil
}

// CheckInstallation stores the key fingerprints the first time and afterwards
// refuses any set that is not the same.
func (l *Ledger) CheckInstallation(ctx context.Context, fingerprints map[string]string) error {
	if len(fingerprints) == 0 {
		return fmt.Errorf("sqlite: no key fingerprints")
	}
	known := make(map[string]string)
	err := l.do(ctx, func(t *tx) error {
		clear(known)
		err := t.each(`SELECT name, fingerprint FROM fingerprints`, func(row []driver.Value) error {
			known[row[0].(string)] = row[1].(string)
			return nil
		})
		if err != nil || len(known) > 0 {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(fingerprints)) {
			if _, err := t.exec("", `INSERT INTO fingerprints (name, fingerprint) VALUES (?, ?)`, name, fingerprints[name]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(known) == 0 {
		return err
	}
	for name, fingerprint := range fingerprints {
		if known[name] != fingerprint {
			return fmt.Errorf("sqlite: the %s key is not the one this ledger was made with", name)
		}
	}
	if len(known) != len(fingerprints) {
		return fmt.Errorf("sqlite: the ledger was made with %d keys, not %d", len(known), len(fingerprints))
	}
	return nil
}

// Ping commits one small row, so that nil means that a commit is possible.
func (l *Ledger) Ping(ctx context.Context) error {
	return l.do(ctx, func(t *tx) error {
		_, err := t.exec("", `INSERT INTO probe (one, at) VALUES (1, ?) ON CONFLICT DO UPDATE SET at = excluded.at`, l.clock.Now().UnixMilli())
		return err
	})
}
