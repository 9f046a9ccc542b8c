package ledger

import (
	"errors"
	"testing"
	"testing/fstest"
)

func files(names ...string) fstest.MapFS {
	fs := fstest.MapFS{}
	for _, name := range names {
		fs["migrations/"+name+".sql"] = &fstest.MapFile{Data: []byte("-- " + name)}
	}
	return fs
}

// A database is this program's when its record is a prefix of what the program
// knows, byte for byte.
func TestMigrationsAgainstTheRecord(t *testing.T) {
	known := ReadMigrations(files("0001_ledger", "0002_next"))
	later := ReadMigrations(files("0001_ledger", "0002_next", "0003_later"))
	edited := append(Migrations{}, known...)
	edited[0].Checksum = later[1].Checksum
	renamed := append(Migrations{}, known...)
	renamed[1].Name = "0002_other"
	another := errors.New("another program's")
	for name, c := range map[string]struct {
		record  Migrations
		pending int
		want    error // of Pending
	}{
		"nothing":         {nil, 2, nil},
		"an older":        {known[:1], 1, nil},
		"the same":        {known, 0, nil},
		"a newer":         {later, 0, ErrNewer},
		"only a newer":    {later[2:], 0, ErrNewer},
		"a gap":           {known[1:], 0, another},
		"edited":          {edited, 0, another},
		"renamed":         {renamed, 0, another},
		"edited, pending": {edited[:1], 0, another},
	} {
		pending, err := known.Pending(c.record)
		got := err
		if err != nil && !errors.Is(err, ErrNewer) {
			got = another
		}
		if len(pending) != c.pending || !errors.Is(got, c.want) || c.pending > 0 && pending[0].Name != known[2-c.pending].Name {
			t.Errorf("%s: %d pending, %v", name, len(pending), err)
		}
		if err := known.Check(c.record); (err == nil) != (name == "the same") || errors.Is(err, ErrPending) != (c.pending > 0) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMigrationsOutOfOrder(t *testing.T) {
	for _, names := range [][]string{{"0002_ledger"}, {"0001_ledger", "0003_next"}, {"0001_ledger", "0001_next"}, {"ledger"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v is taken", names)
				}
			}()
			ReadMigrations(files(names...))
		}()
	}
}
