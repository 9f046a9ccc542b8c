package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/freeze"
	"countersign/internal/supervision/records"
)

// Frozen says how the workspace stood with its freeze when the installation was opened.
func (a *App) Frozen() records.Freeze { return a.frozen }

// startFrozen freezes the workspace if that was asked for, and notes how it stands. Until
// then nothing is answered.
func (a *App) startFrozen(ctx context.Context) (err error) {
	if a.config.Freeze != "" {
		if err := a.freeze(ctx, a.config.Freeze); err != nil {
			return err
		}
	}
	if a.frozen, err = a.gateway.Freeze(ctx); err != nil {
		return fmt.Errorf("it cannot be read whether the workspace is frozen: %w", err)
	}
	if a.frozen.Frozen {
		a.config.Log.WarnContext(ctx, "the workspace is frozen", "epoch", a.frozen.Epoch, "since", a.frozen.Since.String())
	}
	return nil
}

// freeze freezes the workspace as its owner, in a session of its own.
func (a *App) freeze(ctx context.Context, reason string) error {
	_, session, err := a.owners.SignIn(ctx, a.keys.Secret(), "serve --freeze")
	if err != nil {
		return fmt.Errorf("--freeze: %w", err)
	}
	_, err = a.policies.Freeze(ctx, reason, session.Hash)
	if denial, ok := errors.AsType[*authority.Denial](err); ok {
		err = refuse("--freeze: %s", strings.TrimPrefix(denial.Detail, "body.reason: "))
	} else if err != nil {
		err = fmt.Errorf("--freeze: %w", err)
	}
	return errors.Join(err, a.owners.SignOut(ctx, session))
}

// told is an engine whose log tells of each freeze and of its end: not why, which is free
// text, but in which owner's session.
type told struct {
	engine
	log *slog.Logger
}

func (l told) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	result := l.engine.Commit(ctx, c)
	for _, w := range c.Writes {
		for _, e := range w.Events {
			l.tell(ctx, e, result.Outcome)
		}
	}
	return result
}

func (l told) tell(ctx context.Context, e evidence.Event, outcome ledger.Outcome) {
	level, stored, unknown := slog.LevelWarn, "the workspace was frozen", "it is unknown whether the workspace was frozen"
	switch e.Type {
	case freeze.Frozen{}.EventType():
	case freeze.Unfrozen{}.EventType():
		level, stored, unknown = slog.LevelInfo, "the workspace was unfrozen", "it is unknown whether the workspace was unfrozen"
	default:
		return
	}
	switch outcome {
	case ledger.Stored:
	case ledger.Unknown:
		level, stored = slog.LevelWarn, unknown
	default:
		return
	}
	var d struct {
		Epoch   int64
		Session string
	}
	if err := json.Unmarshal(e.Data, &d); err != nil {
		l.log.ErrorContext(ctx, "an event of a freeze is unreadable", "event", e.ID, "error", err)
	}
	l.log.Log(ctx, level, stored, "epoch", d.Epoch, "session", d.Session)
}

// frozenWithin bounds the reading of a freeze for the metrics.
const frozenWithin = 2 * time.Second

// showFrozen adds whether the workspace is frozen, read from the ledger at each scrape, so
// that every replica tells it whichever was asked to freeze. Unreadable is NaN: a guess
// would be the wrong comfort.
func (m *metrics) showFrozen(r *records.Reader) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "countersign", Name: "frozen", Help: "1: the workspace is frozen; 0: it is not; NaN: the ledger could not be read.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), frozenWithin)
		defer cancel()
		switch frozen, err := r.IsFrozen(ctx); {
		case err != nil:
			return math.NaN()
		case frozen:
			return 1
		}
		return 0
	}))
}
