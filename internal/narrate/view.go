package narrate

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"countersign/internal/money"
)

// View is what is told of a RunView (requirement H-126).
type View struct {
	RunID         string            `json:"runId"`
	CreatedAt     string            `json:"createdAt"`
	UpdatedAt     string            `json:"updatedAt"`
	Service       string            `json:"service"`
	Target        string            `json:"target"`
	Channel       string            `json:"channel"`
	Mode          string            `json:"mode"`
	ExecutionMode string            `json:"executionMode"`
	Executor      string            `json:"executor"`
	Interrogator  string            `json:"interrogator"`
	Instruction   string            `json:"instruction"`
	Synthetic     string            `json:"synthetic"`
	Clarified     []string          `json:"clarifications"`
	Terms         data              `json:"terms"`
	TermTexts     map[string]string `json:"termTexts"`
	Status        string            `json:"status"`
	Outcome       string            `json:"outcome"`
	Stop          *stop             `json:"stopContext"`
	Frozen        bool              `json:"frozen"` // the workspace is
	Eligible      []string          `json:"eligible"`
	Answer        *answer           `json:"executorAnswer"`
	Currency      string            `json:"currency"`
	BudgetCents   string            `json:"budgetCents"`
	SpentCents    string            `json:"spentCents"`
	ReservedCents string            `json:"reservedCents"`
	Grants        []data            `json:"grants"`
	Proposal      data              `json:"proposal"`
	PendingPermit data              `json:"pendingPermit"`
	Session       data              `json:"session"`
	Head          string            `json:"head"`
	Timeline      []event           `json:"timeline"`
}

// answer is what the managed executor said in the attempt that stopped the run.
type answer struct {
	Kind   string `json:"kind"`
	Source string `json:"source"`
	Text   string `json:"text"`
}

type stop struct {
	Category   string `json:"category"`
	Source     string `json:"source"`
	ReasonCode string `json:"reasonCode"`
	Message    string `json:"message"`
	Recovery   string `json:"recovery"`
}

type event struct {
	Sequence  int64  `json:"sequence"`
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
	Data      data   `json:"data"`
}

// Parse reads a RunView.
func Parse(raw []byte) (*View, error) {
	var v View
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("narrate: the answer is no RunView: %w", err)
	}
	if v.RunID == "" || v.Status == "" {
		return nil, fmt.Errorf("narrate: the answer is no RunView: it has no runId or no status")
	}
	return &v, nil
}

// data is a JSON object, read by paths. What is not there is "".
type data map[string]any

// at returns what stands at a path, nil when nothing does.
func (d data) at(path ...string) any {
	var v any = map[string]any(d)
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// text returns the text, number or truth value at a path.
func (d data) text(path ...string) string {
	switch v := d.at(path...).(type) {
	case string:
		return plain(v)
	case float64:
		return fmt.Sprintf("%.0f", v)
	case bool:
		return fmt.Sprint(v)
	}
	return ""
}

// list returns the objects in the array at a path.
func (d data) list(path ...string) (objects []data) {
	array, _ := d.at(path...).([]any)
	for _, v := range array {
		if object, ok := v.(map[string]any); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

// texts returns the texts in the array at a path.
func (d data) texts(path ...string) (list []string) {
	array, _ := d.at(path...).([]any)
	for _, v := range array {
		if s, ok := v.(string); ok {
			list = append(list, plain(s))
		}
	}
	return list
}

// maxPlain bounds in characters what is shown of one text.
const maxPlain = 2000

// Plain is a text that somebody else wrote, in one line and without what would steer a
// terminal, of at most 2000 characters.
func Plain(s string) string { return plain(s) }

// plain is a text without what would steer a terminal. A line break is a space.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, s)
	if r := []rune(s); len(r) > maxPlain {
		return string(r[:maxPlain]) + "…"
	}
	return s
}

// amount is cents in dollars and cents, or what was given when it is no amount.
func amount(cents, currency string) string {
	c, err := money.Parse(cents)
	if err != nil {
		return plain(cents)
	}
	return c.Format(or(plain(currency), "USD"))
}

// Age is how long ago a time was, in its largest unit; "-" for a time that is none.
func Age(timestamp string, now time.Time) string {
	at, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return "-"
	}
	switch d := max(0, now.Sub(at)); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

// clock is the part of a timestamp that a timeline shows: UTC, milliseconds.
func clock(timestamp string) string {
	at, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return plain(timestamp)
	}
	return at.UTC().Format("15:04:05.000")
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
