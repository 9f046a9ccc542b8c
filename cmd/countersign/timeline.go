package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"countersign/internal/scripted"
)

// timeline writes entries as they happen and numbers them.
type timeline struct {
	w      io.Writer
	json   bool
	colour bool
	steps  int
	err    error
}

// members describes the JSON lines to their readers.
const members = "With --json each line is an object with time, step, runId, actor, action, verdict, reasonCode, status, permitId, receiptId and ms; what does not apply is null."

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
func (t *timeline) add(e scripted.Entry) {
	t.steps++
	e.Step = t.steps
	if t.json {
		t.object(e)
		return
	}
	reason := e.ReasonCode
	if e.Status != 0 {
		reason = strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, reason))
	}
	clock := e.Time
	if at, err := time.Parse(time.RFC3339, e.Time); err == nil {
		clock = at.Local().Format(time.TimeOnly)
	}
	t.write(row, clock, e.Actor, e.Action, t.paint(e.Verdict), or(reason, "-"), short(e.PermitID), short(e.ReceiptID), fmt.Sprint(e.Ms))
}

const verdictWidth = 11

func pad(verdict string) string { return fmt.Sprintf("%-*s", verdictWidth, verdict) }

// paint colours a verdict: red what went wrong, yellow what was held back, green
// what went through.
func (t *timeline) paint(verdict string) string {
	colour := "32"
	switch verdict {
	case scripted.Refused, scripted.Skipped, "PAUSE", "TERMINATE", "paused":
		colour = "33"
	case scripted.NotRefused, scripted.Failed:
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
