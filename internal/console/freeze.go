package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"countersign/evidence"
	"countersign/internal/console/frame"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/freeze"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
)

type freezeData struct {
	records.Freeze
	InFlight, Unconfirmed, Settled []records.Open // Settled have their outcome since the freeze
	Stopped                        []line         // runs that met a freeze, newest first
	More                           bool           // there are more of them, or there may be
	MaxReason                      int
	KeyID                          string
}

// stoppedRuns is how many of the runs that met a freeze are listed.
const stoppedRuns = 50

// freeze is the page on which everything is stopped, and let go on (L-8).
func (s *site) freeze(r *http.Request) (*frame.Page, error) {
	d := freezeData{MaxReason: freeze.MaxReason, KeyID: evidence.KeyID(s.Keys[len(s.Keys)-1].Public)}
	var err error
	if d.Freeze, err = s.Reader.Freeze(r.Context()); err != nil {
		return nil, err
	}
	open, err := s.Reader.Intents(r.Context())
	if err != nil {
		return nil, err
	}
	if d.Stopped, d.More, err = s.stopped(r.Context()); err != nil {
		return nil, err
	}
	slices.SortFunc(open, func(a, b records.Open) int { return cmp.Compare(a.DispatchedAt, b.DispatchedAt) })
	for _, x := range open {
		switch x.State {
		case run.ExecutionDispatched:
			d.InFlight = append(d.InFlight, x)
		case run.ExecutionUnconfirmed:
			d.Unconfirmed = append(d.Unconfirmed, x)
		default:
			d.Settled = append(d.Settled, x)
		}
	}
	p := &frame.Page{Template: "freeze", Title: "Freeze", Section: "freeze", Live: livePath, Data: d}
	if d.Frozen {
		p.Title = "Frozen"
	}
	return p, nil
}

// stopped finds the newest runs that met a freeze and are paused for it. Only so many of the
// paused runs are looked at.
func (s *site) stopped(ctx context.Context) (list []line, more bool, err error) {
	found, more, err := s.newest(ctx, run.StatusPaused, "", waitingRuns)
	if err != nil {
		return nil, false, err
	}
	for _, f := range found {
		l, _, err := s.summary(ctx, f.ID)
		if err != nil {
			return nil, false, err
		}
		if !decide.MetFreeze(l.State) {
			continue
		}
		if len(list) == stoppedRuns {
			return list, true, nil
		}
		list = append(list, l)
	}
	return list, more, nil
}
