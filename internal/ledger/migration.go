package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

var (
	// ErrPending is returned by Open for a ledger of an older program.
	ErrPending = errors.New("ledger: there are pending migrations; run `countersign migrate`")
	// ErrNewer is returned for a ledger of a newer program.
	ErrNewer = errors.New("ledger: it was migrated by a newer program; use that one")
)

// Migration is one numbered file of an engine, or what a database has recorded
// about one: then without SQL. A file that was released is never edited, which
// the checksum holds.
type Migration struct {
	Number   int
	Name     string // as in 0001_ledger
	SQL      string
	Checksum string // hex SHA-256 of SQL
}

// Migrations are all that a program knows or a database has recorded, in order.
// Numbers start at 1 and have no gap.
type Migrations []Migration

// ReadMigrations reads the folder migrations of an engine. The files are part of
// the program: it panics when they are out of order.
func ReadMigrations(files fs.FS) Migrations {
	paths, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		panic(err)
	}
	list := make(Migrations, 0, len(paths))
	for i, p := range paths {
		name := strings.TrimSuffix(path.Base(p), ".sql")
		if !strings.HasPrefix(name, fmt.Sprintf("%04d_", i+1)) {
			panic("ledger: migration out of order: " + name)
		}
		text, err := fs.ReadFile(files, p)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		list = append(list, Migration{i + 1, name, string(text), hex.EncodeToString(sum[:])})
	}
	return list
}

// Names returns the names in order.
func (ms Migrations) Names() []string {
	names := make([]string, len(ms))
	for i, m := range ms {
		names[i] = m.Name
	}
	return names
}

// Pending returns what a database with this record still needs. The record must
// be a prefix of ms, byte for byte; a longer one is [ErrNewer].
func (ms Migrations) Pending(recorded Migrations) (Migrations, error) {
	for i, m := range recorded {
		if i >= len(ms) || m.Number > len(ms) {
			return nil, fmt.Errorf("%w: %s", ErrNewer, m.Name)
		}
		if want := ms[i]; m.Number != want.Number || m.Name != want.Name || m.Checksum != want.Checksum {
			return nil, fmt.Errorf("ledger: migration %d of the database is not the %s of this program; use the program that made it", m.Number, want.Name)
		}
	}
	return ms[len(recorded):], nil
}

// Check returns nil for a database that has exactly ms, and [ErrPending] for one
// that lacks some.
func (ms Migrations) Check(recorded Migrations) error {
	pending, err := ms.Pending(recorded)
	if err == nil && len(pending) > 0 {
		err = fmt.Errorf("%w: %s", ErrPending, pending[0].Name)
	}
	return err
}
