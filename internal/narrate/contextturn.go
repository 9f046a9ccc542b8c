package narrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// ContextTurn is what is told of a context turn.
type ContextTurn struct {
	ID           string  `json:"id"`
	Client       string  `json:"client"`
	ClientName   string  `json:"clientName"`
	Profile      string  `json:"profile"`
	Environment  string  `json:"environment"`
	Via          string  `json:"via"`
	RunID        *string `json:"runId"`
	Status       string  `json:"status"`
	Reported     *string `json:"reported"`
	OpenedAt     string  `json:"openedAt"`
	ExpiresAt    string  `json:"expiresAt"`
	CompletedAt  *string `json:"completedAt"`
	Deliveries   int64   `json:"deliveries"`
	Observations int64   `json:"observations"`
	ContextCalls int64   `json:"contextCalls"`
	LateReports  int64   `json:"lateReports"`
	Sentence     string  `json:"sentence"`
	ClientRef    *string `json:"clientRef"`
	Note         *string `json:"note"`
	Head         string  `json:"head"`
	Lines        []struct {
		Sequence      int64  `json:"sequence"`
		RecordedAt    string `json:"recordedAt"`
		EvidenceClass string `json:"evidenceClass"`
		Text          string `json:"text"`
		Type          string `json:"type"`
	} `json:"lines"`
}

// Boundary is a sentence on what a turn says and what it does not.
type Boundary struct{ Of, Sentence string }

// ParseContextTurn reads a context turn as it was answered.
func ParseContextTurn(raw []byte) (*ContextTurn, error) {
	var t ContextTurn
	return &t, parse(raw, &t, func() bool { return t.ID != "" && t.Status != "" }, "a context turn")
}

// ParseContextTurns reads a list of them.
func ParseContextTurns(list []json.RawMessage) ([]*ContextTurn, error) {
	return each(list, ParseContextTurn)
}

// ContextTurns writes a line for each turn.
func ContextTurns(w io.Writer, turns []*ContextTurn, now time.Time) error {
	var rows [][]string
	for _, t := range turns {
		rows = append(rows, []string{t.ID, t.Status, fmt.Sprint(t.Deliveries), fmt.Sprint(t.Observations), fmt.Sprint(t.ContextCalls), t.Environment, Age(t.OpenedAt, now), t.ClientName})
	}
	return table(w, "ID STATUS DELIVERIES OBSERVATIONS CALLS ENV AGE CLIENT", rows)
}

// ShowContextTurn writes a turn: what its status means, a line for each thing that was
// recorded with the class of its evidence, and the fixed sentences that apply to it.
func ShowContextTurn(w io.Writer, t *ContextTurn, boundaries []Boundary) error {
	var b bytes.Buffer
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "Context turn %s\n", plain(t.ID))
	line("status", "%s. %s", plain(t.Status), plain(t.Sentence))
	line("client", "%s (%s), profile %s, %s", plain(t.ClientName), plain(t.Client), plain(t.Profile), plain(t.Environment))
	if t.RunID != nil {
		line("run", "%s; supervision opened the turn", plain(*t.RunID))
	}
	if t.ClientRef != nil {
		line("clientRef", "%s [after redaction]", plain(*t.ClientRef))
	}
	line("opened", "%s, until %s", plain(t.OpenedAt), plain(t.ExpiresAt))
	if t.CompletedAt != nil && t.Reported != nil {
		line("report", "%s, at %s", plain(*t.Reported), plain(*t.CompletedAt))
	}
	if t.Note != nil {
		line("note", "%s [after redaction]", plain(*t.Note))
	}
	line("counts", "%s, %s, %s, %s", counted(t.ContextCalls, "context call"), deliveries(t.Deliveries), counted(t.Observations, "observation"), counted(t.LateReports, "late report"))
	for _, l := range t.Lines {
		fmt.Fprintf(&b, "  %3d  %s  %s [%s]\n", l.Sequence, clock(l.RecordedAt), or(plain(l.Text), plain(l.Type)), plain(l.EvidenceClass))
	}
	for _, b := range boundaries {
		line(b.Of, "%s", strings.TrimPrefix(b.Sentence, "Not observed: "))
	}
	line("head", "%s", plain(t.Head))
	_, err := w.Write(b.Bytes())
	return err
}

func deliveries(n int64) string {
	if n == 1 {
		return "1 delivery"
	}
	return fmt.Sprintf("%d deliveries", n)
}

// Interaction is what is told of a call of a context tool, or of what a bridge saw.
type Interaction struct {
	ID            string          `json:"id"`
	RecordedAt    string          `json:"recordedAt"`
	Tool          string          `json:"tool"`
	TurnID        *string         `json:"turnId"`
	Client        string          `json:"client"`
	ClientName    string          `json:"clientName"`
	Profile       string          `json:"profile"`
	Environment   string          `json:"environment"`
	EvidenceClass string          `json:"evidenceClass"`
	Text          string          `json:"text"`
	Notice        string          `json:"notice"`
	Request       json.RawMessage `json:"request"`
	Answer        json.RawMessage `json:"answer"`
	Seen          *struct {
		Kind   string `json:"kind"`
		Digest string `json:"digest"`
	} `json:"seen"`
	Build *struct {
		Digest string `json:"digest"`
	} `json:"build"`
	Items []struct {
		Ref    string `json:"ref"`
		SHA256 string `json:"sha256"`
	} `json:"items"`
}

// ParseInteraction reads an interaction as it was answered.
func ParseInteraction(raw []byte) (*Interaction, error) {
	var i Interaction
	return &i, parse(raw, &i, func() bool { return i.ID != "" && i.Tool != "" }, "an interaction")
}

// ParseInteractions reads a list of them.
func ParseInteractions(list []json.RawMessage) ([]*Interaction, error) {
	return each(list, ParseInteraction)
}

// Interactions writes a line for each interaction.
func Interactions(w io.Writer, list []*Interaction, now time.Time) error {
	var rows [][]string
	for _, i := range list {
		turn := ""
		if i.TurnID != nil {
			turn = *i.TurnID
		}
		rows = append(rows, []string{i.ID, turn, i.Environment, Age(i.RecordedAt, now), i.ClientName, i.Text})
	}
	return table(w, "ID TURN ENV AGE CLIENT WHAT", rows)
}

// ShowInteraction writes an interaction with what was asked and answered.
func ShowInteraction(w io.Writer, i *Interaction) error {
	var b bytes.Buffer
	line := func(name, text string) { fmt.Fprintf(&b, "  %-12s %s\n", name, plain(text)) }
	fmt.Fprintf(&b, "Interaction %s\n", plain(i.ID))
	line("what", i.Text+" ["+i.EvidenceClass+"]")
	line("recorded", i.RecordedAt)
	client := i.ClientName + " (" + i.Client + "), "
	if i.Profile != "" { // a bridge reads nothing, so that its profile says nothing
		client += "profile " + i.Profile + ", "
	}
	line("client", client+i.Environment)
	if i.Seen != nil {
		line("digest", i.Seen.Digest)
	}
	if i.TurnID != nil {
		line("turn", *i.TurnID)
	}
	if i.Build != nil {
		line("digest", i.Build.Digest)
	}
	for _, item := range i.Items {
		line("item", item.Ref+" sha256 "+item.SHA256)
	}
	for _, text := range []struct {
		name string
		raw  json.RawMessage
	}{{"asked", i.Request}, {"answered", i.Answer}} {
		if len(text.raw) > 0 && string(text.raw) != "null" {
			line(text.name, string(text.raw))
		}
	}
	line("boundary", i.Notice)
	_, err := w.Write(b.Bytes())
	return err
}

// Gap is what is told of something that was reported as missing.
type Gap struct {
	ID          string  `json:"id"`
	ClientName  string  `json:"clientName"`
	Environment string  `json:"environment"`
	Task        *string `json:"task"`
	Ref         *string `json:"ref"`
	Detail      *string `json:"detail"`
	ReportedAt  string  `json:"reportedAt"`
	Head        string  `json:"head"`
}

// ParseGaps reads a list of gaps.
func ParseGaps(list []json.RawMessage) ([]*Gap, error) {
	return each(list, func(raw []byte) (*Gap, error) {
		var g Gap
		return &g, parse(raw, &g, func() bool { return g.ID != "" }, "a gap")
	})
}

// missing is what a gap is about.
func (g *Gap) missing() string {
	switch {
	case g.Task != nil:
		return "task: " + *g.Task
	case g.Ref != nil:
		return "ref: " + *g.Ref
	}
	return "(the text was erased)"
}

// ShowGap writes a gap.
func ShowGap(w io.Writer, g *Gap) error {
	var b bytes.Buffer
	line := func(name, text string) { fmt.Fprintf(&b, "  %-12s %s\n", name, plain(text)) }
	fmt.Fprintf(&b, "Gap %s\n", plain(g.ID))
	line("missing", g.missing())
	if g.Detail != nil && *g.Detail != "" {
		line("detail", *g.Detail)
	}
	line("client", g.ClientName+", "+g.Environment)
	line("reported", g.ReportedAt)
	if g.Head != "" {
		line("head", g.Head)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Gaps writes a line for each gap.
func Gaps(w io.Writer, gaps []*Gap, now time.Time) error {
	var rows [][]string
	for _, g := range gaps {
		missing := g.missing()
		if g.Detail != nil && *g.Detail != "" {
			missing += " (" + *g.Detail + ")"
		}
		rows = append(rows, []string{g.ID, g.Environment, Age(g.ReportedAt, now), g.ClientName, missing})
	}
	return table(w, "ID ENV AGE CLIENT MISSING", rows)
}
