package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/console/frame"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

const (
	// listRuns is how many runs a page of the list has (H-091).
	listRuns = 100
	// waitingRuns is how many paused runs are looked at for what waits, and endedRuns
	// how many of each way to end, in which an effect may be unconfirmed.
	waitingRuns = 500
	endedRuns   = 100
	// maxFind is how many runs are found at once.
	maxFind = 100
)

// line is a run in a list.
type line struct {
	ID          string
	State       *run.State
	Outcome     string
	Instruction string
	Since       evidence.Time // of the newest event
}

// summary reads what a list shows of a run. No history is read for it.
func (s *site) summary(ctx context.Context, id string) (line, evidence.Time, error) {
	c, err := s.Reader.Settled(ctx, id)
	if err != nil {
		return line{}, 0, err
	}
	text, err := s.Reader.Text(ctx, id, c.State.Instruction)
	return line{id, c.State, c.State.Outcome(), text, c.State.UpdatedAt}, c.Now, err
}

// newest finds the newest n runs and tells whether there are more.
func (s *site) newest(ctx context.Context, status, before string, n int) (found []records.Found, more bool, err error) {
	for {
		next, err := s.Reader.Find(ctx, status, before, min(n+1-len(found), maxFind))
		if err != nil {
			return nil, false, err
		}
		found = append(found, next...)
		switch {
		case len(found) > n:
			return found[:n], true, nil
		case len(next) == 0:
			return found, false, nil
		}
		before = found[len(found)-1].ID
	}
}

type runsData struct {
	Lines []line
	Next  string // path of the next page, "" on the last one
	Older bool   // this is not the first page
}

// runs is the list of all runs, newest first.
func (s *site) runs(r *http.Request) (*frame.Page, error) {
	before := r.URL.Query().Get("before")
	if before != "" && !authority.IsID(before) {
		return nil, &authority.Denial{Reason: authority.InvalidRequest, Detail: "query.before: not the id of a run"}
	}
	found, more, err := s.newest(r.Context(), "", before, listRuns)
	if err != nil {
		return nil, err
	}
	d := runsData{Older: before != ""}
	if more {
		d.Next = "/runs?before=" + found[listRuns-1].ID
	}
	p := &frame.Page{Template: "runs", Title: "Runs", Section: "runs", Live: livePath}
	for _, f := range found {
		l, now, err := s.summary(r.Context(), f.ID)
		if err != nil {
			return nil, err
		}
		d.Lines, p.Now = append(d.Lines, l), now
	}
	p.Data = d
	return p, nil
}

type waiting struct {
	line
	Wants   string        // what the owner can do about it: the name of a route
	Next    string        // that in words
	Expires evidence.Time // when it no longer can be done, 0: never
}

type approvalsData struct {
	Waiting []waiting
	// Stopped counts the runs that wait for the end of the freeze that stands: nothing can
	// be done about each of them.
	Stopped int
	Epoch   int64 // of that freeze
	// There are more runs that are paused, or have ended, than were looked at.
	Cut, CutEnded bool
}

// approvals is what waits for the owner, oldest first: runs that are paused and can
// be helped, and effects that nobody knows of, in runs that have ended too.
func (s *site) approvals(r *http.Request) (*frame.Page, error) {
	p := &frame.Page{Template: "approvals", Title: "Approvals", Section: "approvals", Live: livePath}
	freeze, err := s.Reader.Freeze(r.Context())
	if err != nil {
		return nil, err
	}
	d := approvalsData{Epoch: freeze.Epoch}
	for _, status := range []string{run.StatusPaused, run.StatusRevoked, run.StatusTerminated, run.StatusFailed} {
		ended := status != run.StatusPaused
		limit := waitingRuns
		if ended {
			limit = endedRuns
		}
		found, more, err := s.newest(r.Context(), status, "", limit)
		if err != nil {
			return nil, err
		}
		d.Cut, d.CutEnded = d.Cut || more && !ended, d.CutEnded || more && ended
		for _, f := range found {
			l, now, err := s.summary(r.Context(), f.ID)
			if err != nil {
				return nil, err
			}
			p.Now = now
			if w, ok := waits(l, now, freeze.Frozen); ok {
				d.Waiting = append(d.Waiting, w)
			} else if freeze.Frozen && decide.MetFreeze(l.State) {
				d.Stopped++
			}
		}
	}
	if n := len(d.Waiting); n > 0 {
		p.Title = fmt.Sprintf("(%d) Approvals", n)
	}
	slices.SortStableFunc(d.Waiting, func(a, b waiting) int { return cmp.Compare(a.Since, b.Since) })
	p.Data = d
	return p, nil
}

// waits tells what a run waits for, if the owner can do something about it in a workspace
// that is frozen or not. What is under way waits for nobody.
func waits(l line, now evidence.Time, frozen bool) (waiting, bool) {
	if l.Outcome != outcomeUnconfirmed && l.State.Status != run.StatusPaused {
		return waiting{}, false
	}
	eligible := decide.Eligible(l.State, now, frozen)
	for _, route := range []string{decide.RouteApprove, decide.RouteClarify, decide.RouteRetry, decide.RouteReconcile, decide.RouteProbe} {
		if !slices.Contains(eligible, route) {
			continue
		}
		w := waiting{line: l, Wants: route, Next: wants[route].Next}
		if decide.MetFreeze(l.State) {
			w.Next = stopcontext.AfterFreeze(frozen)
		}
		switch route {
		case decide.RouteApprove:
			w.Expires = l.State.Proposal.ExpiresAt
		case decide.RouteClarify, decide.RouteRetry:
			w.Expires = l.State.GrantsEnd()
		}
		return w, true
	}
	return waiting{}, false
}

// outcomeUnconfirmed overrides every other outcome of a run (G-01).
const outcomeUnconfirmed = "unconfirmed_effect"
