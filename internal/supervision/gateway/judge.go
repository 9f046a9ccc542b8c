package gateway

import (
	"context"
	"errors"
	"time"

	"countersign/evidence"
	"countersign/internal/supervision/ask"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/policy"
	"countersign/internal/supervision/propose"
	"countersign/internal/supervision/run"
)

// GuardianTimeout is how long a guardian may take to judge a report. It judges inside a
// decision, and the other requests for its run wait behind it.
const GuardianTimeout = 5 * time.Second

// Ask asks the guardian about a report that passed every hard check, takes its verdict
// in and returns how many microseconds it took. No answer is a PAUSE (G-10).
func (g *Gateway) Ask(ctx context.Context, d *decide.Deciding, r *propose.Report, review policy.Review, seen *run.Observed) int64 {
	start, id := time.Now(), d.State().ID
	text := func(c evidence.Commitment) (string, error) { return g.Text(ctx, id, c) }
	matter := d.Matter(r, review, seen, text)
	within, cancel := context.WithTimeout(ctx, g.Patience)
	defer cancel()
	verdict, err := g.judge(within, matter)
	micros := time.Since(start).Microseconds()
	if err != nil {
		g.Log.Warn("a guardian gave no verdict", "run", id, "turn", d.State().Turn.ID, "error", err)
		late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
		verdict = decide.NoVerdict(d.State().Config.Interrogator, late)
	}
	d.Judge(review, verdict)
	return micros
}

func (g *Gateway) judge(ctx context.Context, m decide.Matter) (decide.Verdict, error) {
	if g.Doors.Asked {
		return g.Guardian.Judge(m), nil
	}
	verdict, err := ask.Within(ctx, 0, func(context.Context) (decide.Verdict, error) { return g.Guardian.Judge(m), nil })
	if err == nil {
		err = ctx.Err() // what comes in the moment that its time is up is late
	}
	return verdict, err
}
