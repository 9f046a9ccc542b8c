package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
)

// entry is one line of a timeline: who did what, and what came of it. The texts
// that do not apply are null in JSON, and so is a status of 0.
type entry struct {
	Time       string         `json:"time"`
	Step       int            `json:"step"`
	Actor      string         `json:"actor"`
	Action     string         `json:"action"`
	Verdict    string         `json:"verdict"`
	ReasonCode orNull[string] `json:"reasonCode"`
	Status     orNull[int]    `json:"status"` // HTTP status as received
	PermitID   orNull[string] `json:"permitId"`
	ReceiptID  orNull[string] `json:"receiptId"` // of the execution.receipt event
	Ms         int64          `json:"ms"`
}

// orNull is null in JSON when it is the zero value.
type orNull[T comparable] struct{ V T }

func (o orNull[T]) MarshalJSON() ([]byte, error) {
	var zero T
	if o.V == zero {
		return []byte("null"), nil
	}
	return json.Marshal(o.V)
}

func (o *orNull[T]) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &o.V) }

// timeline writes entries as they happen and numbers them.
type timeline struct {
	w      io.Writer
	json   bool
	colour bool
	steps  int
	err    error
}

// newTimeline writes for programs or for people; in colour only to a terminal.
func newTimeline(w io.Writer, asJSON bool) *timeline {
	t := &timeline{w: w, json: asJSON}
	if f, ok := w.(*os.File); ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		t.colour = isatty.IsTerminal(f.Fd())
	}
	return t
}

const row = "%-8s  %-14s  %-34s  %s  %-28s  %-7s  %-7s  %5s\n"

func (t *timeline) write(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

// object writes one JSON line that is no entry.
func (t *timeline) object(v any) {
	if t.err == nil {
		t.err = json.NewEncoder(t.w).Encode(v)
	}
}

// say writes a line for people only.
func (t *timeline) say(format string, args ...any) {
	if !t.json {
		t.write(format+"\n", args...)
	}
}

// head writes the heading of a table for people.
func (t *timeline) head() {
	if !t.json {
		t.write(row, "TIME", "WHO", "WHAT", pad("VERDICT"), "STATUS AND REASON", "PERMIT", "RECEIPT", "MS")
	}
}

// add writes an entry under the next number.
func (t *timeline) add(e entry) {
	t.steps++
	e.Step = t.steps
	if t.json {
		t.object(e)
		return
	}
	reason := e.ReasonCode.V
	if e.Status.V != 0 {
		reason = strings.TrimSpace(fmt.Sprintf("%d %s", e.Status.V, reason))
	}
	clock := e.Time
	if at, err := time.Parse(time.RFC3339, e.Time); err == nil {
		clock = at.Local().Format(time.TimeOnly)
	}
	t.write(row, clock, e.Actor, e.Action, t.paint(e.Verdict), or(reason, "-"), short(e.PermitID.V), short(e.ReceiptID.V), fmt.Sprint(e.Ms))
}

// now is the time of an entry.
func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// Verdicts of an entry beside those of a decision and the states of an execution.
const (
	verdictOK         = "ok"
	verdictRefused    = "refused"     // as it must be
	verdictNotRefused = "NOT REFUSED" // what must have been refused was not, or not so
	verdictFailed     = "FAILED"
)

const verdictWidth = 11

func pad(verdict string) string { return fmt.Sprintf("%-*s", verdictWidth, verdict) }

// paint colours a verdict: red what went wrong, yellow what was held back, green
// what went through.
func (t *timeline) paint(verdict string) string {
	colour := "32"
	switch verdict {
	case verdictRefused, "PAUSE", "TERMINATE", "paused":
		colour = "33"
	case verdictNotRefused, verdictFailed:
		colour = "31;1"
	}
	if !t.colour {
		return pad(verdict)
	}
	return "\x1b[" + colour + "m" + pad(verdict) + "\x1b[0m"
}

// short is the part of an id that tells it from others of the same moment.
func short(id string) string {
	if len(id) <= 6 {
		return or(id, "-")
	}
	return "…" + id[len(id)-6:]
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
