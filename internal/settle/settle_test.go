package settle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/pgtest"
	"countersign/internal/settle"
)

// contextTurn is a kind beside that of runs.
const contextTurn = "contextturn"

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

type engine interface {
	settle.Ledger
	Commit(context.Context, ledger.Change) ledger.Result
	Load(context.Context, ledger.Key) (ledger.Subject, time.Time, error)
	Close() error
}

func onEach(t *testing.T, f func(*testing.T, engine)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "countersign.db")
		must(t, sqlite.Create(t.Context(), path))
		l, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		must(t, err)
		defer l.Close()
		f(t, l)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		l, err := postgres.Open(t.Context(), pgtest.Database(t, postgres.Migrate), postgres.Options{})
		must(t, err)
		defer l.Close()
		f(t, l)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// due stores a subject that is due since a while ago; what is older comes first.
func due(t *testing.T, e engine, key ledger.Key, ago time.Duration) {
	t.Helper()
	must(t, e.Commit(t.Context(), ledger.Change{Writes: []ledger.Write{{
		Key: key, Head: evidence.Genesis, State: []byte(`{}`), Due: time.Now().Add(-ago),
	}}}).Err())
}

func here(kind, id string) ledger.Key {
	return ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: kind, ID: id}
}

// firstPage is a ledger that a settler does not turn the pages of.
type firstPage struct{ engine }

func (f firstPage) Due(ctx context.Context, after ledger.Overdue, limit int) ([]ledger.Overdue, error) {
	if after != (ledger.Overdue{}) {
		return nil, nil
	}
	return f.engine.Due(ctx, after, limit)
}

// What has been due for longer and cannot be settled does not keep back what can: more
// than a page of a kind that nobody knows, of another workspace, and of subjects whose
// settling fails or panics. Each is asked for once a round. Without turning the page,
// which is the control, the last ones are not reached.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, e engine) {
		for n := range 60 {
			due(t, e, here("unheard-of", fmt.Sprint(n)), 4*time.Hour)
			due(t, e, ledger.Key{Workspace: "elsewhere", Kind: ledger.KindRun, ID: fmt.Sprint(n)}, 3*time.Hour)
			due(t, e, here(contextTurn, fmt.Sprintf("bad%d", n)), 2*time.Hour)
		}
		turn, run := here(contextTurn, "good"), here(ledger.KindRun, "good")
		due(t, e, turn, time.Hour)
		due(t, e, run, time.Minute)
		due(t, e, here(ledger.KindRun, "later"), -time.Hour)

		var asked []ledger.Key
		settled := func(ctx context.Context, key ledger.Key) error {
			asked = append(asked, key)
			switch {
			case key.ID == "bad7":
				panic("bad")
			case strings.HasPrefix(key.ID, "bad"):
				return errors.New("bad")
			}
			s, _, err := e.Load(ctx, key)
			if err != nil {
				return err
			}
			return e.Commit(ctx, ledger.Change{Writes: []ledger.Write{{Key: key, Revision: s.Revision, Head: s.Head, State: s.State}}}).Err()
		}
		kinds := settle.Kinds{ledger.KindRun: settled, contextTurn: settled}
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))

		settle.New(firstPage{e}, ledger.DefaultWorkspace, logger, kinds).Round(t.Context())
		if slices.Contains(asked, run) {
			t.Error("control: the last one is reached on the first page")
		}
		asked = nil
		settle.New(e, ledger.DefaultWorkspace, logger, kinds).Round(t.Context())
		if len(asked) != 62 || asked[60] != turn || asked[61] != run {
			t.Errorf("%d were asked for, at last %v", len(asked), asked[max(0, len(asked)-2):])
		}
		if n := strings.Count(log.String(), "settling failed"); n != 60 {
			t.Errorf("%d failures were logged", n)
		}
		asked = nil
		settle.New(e, ledger.DefaultWorkspace, logger, kinds).Round(t.Context())
		if len(asked) != 60 || slices.Contains(asked, turn) || slices.Contains(asked, run) {
			t.Errorf("%d were asked for in the next round", len(asked))
		}
	})
}
