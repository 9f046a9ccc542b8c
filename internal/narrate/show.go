package narrate

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// List writes a table of runs, in the order given.
func List(w io.Writer, runs []*View, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATUS\tOUTCOME\tSERVICE\tMODE\tSPENT\tBUDGET\tAGE")
	for _, v := range runs {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s %s\t%s\t%s\t%s\t%s\n", plain(v.RunID), plain(v.Status), plain(v.Outcome), plain(v.Service), plain(v.Target), plain(v.Mode),
			amount(v.SpentCents, v.Currency), amount(v.BudgetCents, v.Currency), Age(v.CreatedAt, now))
	}
	return t.Flush()
}

// Show writes a run: what it is, what to do when it does not go on, and its timeline
// by turns. origin is where its owner finds it.
func Show(w io.Writer, v *View, origin string, now time.Time) error {
	var b bytes.Buffer
	v.head(&b, origin, now)
	v.timeline(&b)
	_, err := w.Write(b.Bytes())
	return err
}

func (v *View) head(b *bytes.Buffer, origin string, now time.Time) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "  %-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(b, "Run %s\n", plain(v.RunID))
	line("status", "%s; outcome %s", plain(v.Status), plain(v.Outcome))
	if s := v.Stop; s != nil {
		line("stop", "%s from %s: %s", plain(s.ReasonCode), plain(s.Source), plain(s.Message))
		if a := v.Answer; a != nil {
			said := "explained"
			if a.Kind == "clarification" {
				said = "asked"
			}
			line(said, "%s: %s", plain(a.Source), plain(a.Text))
		}
		line("next", "%s", v.next(origin))
	}
	line("instruction", "%s", plain(v.Instruction))
	for _, c := range v.Clarified {
		line("clarified", "%s", plain(c))
	}
	line("service", "%s %s over %s; mode %s, execution %s, executor %s, guardian %s", plain(v.Service), plain(v.Target), plain(v.Channel),
		plain(v.Mode), plain(v.ExecutionMode), provider(v.Executor), provider(v.Interrogator))
	if v.Synthetic != "" {
		line("synthetic", "%s", plain(v.Synthetic))
	}
	var terms []string
	for _, name := range slices.Sorted(maps.Keys(v.Terms)) {
		terms = append(terms, fact(name, or(plain(v.TermTexts[name]), v.Terms.text(name)), v.Currency))
	}
	line("terms", "%s", strings.Join(terms, ", "))
	line("budget", "%s; spent %s, reserved %s", amount(v.BudgetCents, v.Currency), amount(v.SpentCents, v.Currency), amount(v.ReservedCents, v.Currency))
	for _, g := range v.Grants {
		line("grant", "%s", grant(g))
	}
	if p := v.Proposal; p != nil {
		line("proposal", "%s", proposal(p))
	}
	if p := v.PendingPermit; p != nil {
		line("permit", "%s%s, until %s", p.text("operationId"), charge(p.text("amountCents")), p.text("expiresAt"))
	}
	if s := v.Session; s != nil {
		line("token", "number %s, good until %s", s.text("generation"), s.text("expiresAt"))
	}
	line("created", "%s, %s ago; changed %s", plain(v.CreatedAt), Age(v.CreatedAt, now), plain(v.UpdatedAt))
	line("head", "%s", plain(v.Head))
}

// provider is a model provider by its name; replay is not one, and says so (L-7).
func provider(name string) string {
	if name == "replay" {
		return "replay (authored)"
	}
	return plain(name)
}

// next says what follows a stop. No command approves or decides for the owner.
func (v *View) next(origin string) string {
	id := plain(v.RunID)
	page := "on the run's page, " + origin + "/runs/" + id
	again := ", or by `countersign run retry " + id + "`"
	var step string
	switch v.Stop.Recovery {
	case "approve":
		step = "look at the exact effect and approve it " + page
	case "clarify":
		step = "say what is meant " + page
	case "retry":
		step = "mend the cause, then retry " + page + again
	case "reconcile":
		step = "do not repeat it; ask the store what became of it, or failing that state what you know, " + page
	case "none":
		return "nothing more happens in it; a new run is `countersign run create --body FILE`"
	default:
		step = plain(v.Stop.Recovery)
	}
	end := "end the run: `countersign run revoke " + id + "`"
	if v.Stop.ReasonCode == "FROZEN" {
		if v.Frozen {
			return "the workspace is frozen; it can be retried once the freeze is lifted, " + page + "; or " + end
		}
		step = "the freeze was lifted: an owner can retry it " + page + again
	}
	if len(v.Eligible) > 0 && !slices.ContainsFunc(v.Eligible, goesOn) {
		return "nothing that it waits for can come any more; " + end
	}
	return step + "; or " + end
}

// goesOn reports whether an owner's route could let a stopped run go on or find out
// what it waits for.
func goesOn(route string) bool {
	return route != "revoke" && route != "simulate"
}

// timeline writes one line an event. What belongs to a turn stands below the turn's
// heading, and says so when another turn has begun meanwhile.
func (v *View) timeline(b *bytes.Buffer) {
	fmt.Fprintf(b, "\nTimeline, times in UTC as recorded\n  %4s  %-12s  %s\n", "SEQ", "TIME", "WHAT HAPPENED")
	t := turns{of: map[string]int{}, operation: map[string]string{}}
	belongs := t.all(v.Timeline)
	day, open := "", 0
	for i, e := range v.Timeline {
		if d, _, _ := strings.Cut(plain(e.Timestamp), "T"); d != day {
			day = d
			fmt.Fprintf(b, "        %s\n", day)
		}
		turn := belongs[i]
		if turn > open {
			open = turn
			fmt.Fprintf(b, "        Turn %d: %s\n", turn, title(e))
		}
		indent, behind := "", ""
		if turn > 0 {
			indent = "  "
		}
		if turn > 0 && turn < open {
			behind = fmt.Sprintf(" (turn %d)", turn)
		}
		fmt.Fprintf(b, "  %4d  %-12s  %s%s%s\n", e.Sequence, clock(e.Timestamp), indent, t.tell(e), behind)
	}
}

// turns knows which turn the events of a run belong to.
type turns struct {
	count     int
	of        map[string]int    // turn, permit or execution id to the turn's number
	operation map[string]string // permit or execution id to the operation
}

// all returns the turn of each event. What names no turn and stands between two events
// of one, as the observation that an execution ends with, belongs to it.
func (t *turns) all(timeline []event) []int {
	list := make([]int, len(timeline))
	last := -1
	for i, e := range timeline {
		if list[i] = t.turn(e); list[i] == 0 {
			continue
		}
		if last >= 0 && list[last] == list[i] {
			for between := last + 1; between < i; between++ {
				list[between] = list[i]
			}
		}
		last = i
	}
	return list
}

// turn returns the number of the turn that an event names, 0 for none.
func (t *turns) turn(e event) int {
	ids := []string{e.Data.text("turnId"), e.Data.text("executionId"), e.Data.text("permitId"), e.Data.text("permit", "permitId")}
	if id := e.Data.text("permit", "bindings", "turnId"); id != "" {
		ids[0] = id
	}
	number := 0
	for _, id := range ids {
		if n := t.of[id]; id != "" && n > 0 {
			number = n
			break
		}
	}
	if number == 0 && ids[0] != "" {
		t.count++
		number = t.count
	}
	operation := or(e.Data.text("operationId"), e.Data.text("permit", "bindings", "operationId"))
	for _, id := range ids {
		operation = or(operation, t.operation[id])
	}
	for _, id := range ids {
		if id != "" && number > 0 {
			t.of[id] = number
		}
		if id != "" && operation != "" {
			t.operation[id] = operation
		}
	}
	return number
}

// title is the heading of the turn that begins with an event.
func title(e event) string {
	return or(selected(e.Data).text("operationId"), plain(e.Type)) + ", " + e.Data.text("turnId")
}

// tell is the line of an event.
func (t *turns) tell(e event) string {
	words, known := lines[e.Type]
	if !known {
		return unknown(e)
	}
	return words(e.Data, or(t.operation[e.Data.text("executionId")], t.operation[e.Data.text("permitId")]))
}

// unknown shows an event of another program's: its type, and what most events have.
func unknown(e event) string {
	text := plain(e.Type)
	for _, name := range []string{"reasonCode", "cause"} {
		if value := e.Data.text(name); value != "" {
			text += ", " + name + " " + value
		}
	}
	return text
}
