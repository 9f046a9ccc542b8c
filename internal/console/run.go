package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/console/frame"
	"countersign/internal/supervision/decide"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
	"countersign/internal/supervision/stopcontext"
)

// shownItems is how many entries of a timeline stand on one page, so that a run with
// thousands of events stays usable.
const shownItems = 40

type runData struct {
	*records.View
	Proposal   *proposal
	Approve    *action // stands with the proposal
	Actions    []action
	Unresolved string // what nobody knows, in words; "" when all is known
	Stated     string // the finding of the owner, on which the newest execution rests; "" on none
	Left       string // of the budget
	Grants     []grant
	Items      []item // newest first
	Total      int    // of items
	Newer      string // paths of the other pages, "" where there is none
	Older      string
	KeyID      string
	Counts     []count
}

// Waits reports whether the proposal waits for approval, which says why the run is
// paused.
func (d *runData) Waits() bool { return d.Proposal != nil && d.Proposal.Waits }

// AfterFreeze says what a run waits for that met a freeze, "" for any other.
func (d *runData) AfterFreeze() string {
	if !decide.MetFreeze(d.State) {
		return ""
	}
	return stopcontext.AfterFreeze(d.Frozen)
}

// S is the run's state.
func (d *runData) S() *run.State { return d.State }

type grant struct {
	authority.Grant
	Uses []term
	Live bool
}

// count is how many proposals came so far.
type count struct {
	Word string
	N    int
}

// run is one run: what it waits for, what was granted, and all that happened.
func (s *site) run(r *http.Request) (*frame.Page, error) {
	id := r.PathValue("id")
	if !authority.IsID(id) {
		return nil, &authority.Denial{Reason: authority.NotFound, Detail: "There is no such run."}
	}
	until := 0
	if u := r.URL.Query().Get("until"); u != "" {
		var err error
		if until, err = strconv.Atoi(u); err != nil || until < 1 {
			return nil, &authority.Denial{Reason: authority.InvalidRequest, Detail: "query.until: not the number of an entry"}
		}
	}
	v, err := s.Reader.View(r.Context(), id)
	if err != nil {
		return nil, err
	}
	words := func(c evidence.Commitment) (string, error) { return s.Reader.Text(r.Context(), id, c) }
	prepared, err := newProposal(v, words)
	if err != nil {
		return nil, err
	}
	d := &runData{View: v, Proposal: prepared, KeyID: evidence.KeyID(s.Keys[len(s.Keys)-1].Public)}
	d.Actions = actionsOf(d)
	if len(d.Actions) > 0 && d.Actions[0].Name == decide.RouteApprove {
		d.Approve, d.Actions = &d.Actions[0], d.Actions[1:]
	}
	d.budget()
	if v.Outcome == outcomeUnconfirmed {
		d.Unresolved = unresolved(v)
	}
	if x := v.State.Execution; x != nil && x.State == run.ExecutionReconciled {
		d.Stated = x.Finding
	}
	if err := s.fillTimeline(r.Context(), d, until); err != nil {
		return nil, err
	}
	p := &frame.Page{Template: "run", Title: "Run " + frame.Short(id), Section: "runs", Now: v.Now, Live: "/api/v1/owner/runs/" + id + "/events", Data: d}
	if n := len(v.Timeline); n > 0 {
		p.Head = v.Timeline[n-1].Sequence
	}
	return p, nil
}

// unresolved says what was sent and is not known to have happened or not.
func unresolved(v *records.View) string {
	for _, x := range v.Executions {
		if x.State == run.ExecutionUnconfirmed || x.State == run.ExecutionDispatched {
			return fmt.Sprintf("%s over %s was dispatched at %s, and there is no receipt.", x.OperationID, amount(x.AmountCents, v.State.Currency), frame.Stamp(x.DispatchedAt))
		}
	}
	return "The opening of the session at the store was dispatched, and there is no receipt."
}

func (d *runData) budget() {
	s := d.State
	left := s.Budget.Limit - s.Budget.Spent - s.Budget.Reserved
	d.Left = spellMoney(max(left, 0), s.Currency)
	for _, g := range s.Grants {
		shown := grant{Grant: g, Live: g.Live(d.Now)}
		for _, operation := range g.Operations {
			used := fmt.Sprintf("%d used", s.Used[g.ID][operation])
			if limit, counted := g.MaxUses[operation]; counted {
				used = fmt.Sprintf("%d of %d used", s.Used[g.ID][operation], limit)
			}
			shown.Uses = append(shown.Uses, term{operation, used})
		}
		d.Grants = append(d.Grants, shown)
	}
}

// fillTimeline fills in the page of the timeline that ends with the entry of a number,
// counted from the oldest; 0 is the newest page.
func (s *site) fillTimeline(ctx context.Context, d *runData, until int) error {
	c, err := newChart(d.Timeline, d.State.Currency)
	if err != nil {
		return err
	}
	d.Total = len(c.items)
	d.count(c)
	end := len(c.items)
	if until > 0 && until < end {
		end = until
		d.Newer = "/runs/" + d.State.ID
		if end+shownItems < d.Total {
			d.Newer += fmt.Sprint("?until=", end+shownItems)
		}
	}
	begin := max(0, end-shownItems)
	if begin > 0 {
		d.Older = fmt.Sprintf("/runs/%s?until=%d", d.State.ID, begin)
	}
	d.Items = slices.Clone(c.items[begin:end])
	slices.Reverse(d.Items)
	for _, i := range d.Items {
		if i.Turn != nil {
			i.Turn.finish()
			if err := s.readProse(ctx, d.State.ID, i.Turn.Steps); err != nil {
				return err
			}
			continue
		}
		shown := []step{*i.Event}
		if err := s.readProse(ctx, d.State.ID, shown); err != nil {
			return err
		}
		*i.Event = shown[0]
	}
	return nil
}

// count adds up how far the proposals came: decisions and effects are never one
// number (H-219).
func (d *runData) count(c *chart) {
	n := map[string]int{}
	for _, i := range c.items {
		if i.Turn == nil {
			continue
		}
		for _, r := range i.Turn.Reached {
			if r.Yes {
				n[r.Word]++
			}
		}
	}
	for _, word := range []string{"proposed", "allowed", "permitted", "dispatched", "verified"} {
		d.Counts = append(d.Counts, count{word, n[word]})
	}
}
