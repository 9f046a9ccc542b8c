package attacks

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/channel/owner"
	"countersign/internal/command"
	"countersign/internal/supervision/attack"
)

// head is the first object of a report: what it is a report of.
type head struct {
	Build         string        `json:"build"`
	Revision      string        `json:"revision"`
	Engine        string        `json:"engine"`
	StartedAt     evidence.Time `json:"startedAt"`
	CatalogDigest string        `json:"catalogDigest"`
	Label         string        `json:"label"`
}

// reported is a line of a report: what the API answers, and what an offline check of the
// evidence of its runs has found.
type reported struct {
	*owner.AttackResult
	EvidenceVerified bool `json:"evidenceVerified"`
}

// printer writes a report, for a person or as JSON, and keeps it.
type printer struct {
	command.Streams
	json bool
	keep *keep
}

// begin says what is attacked.
func (p *printer) begin(b *bench) error {
	_, digest := owner.AttackCatalog()
	h := head{Engine: b.plane.Engine(), StartedAt: evidence.TimeOf(time.Now()), CatalogDigest: digest, Label: attack.Label}
	h.Build, h.Revision = app.Build()
	fmt.Fprintf(p.Err, "countersign    %s, revision %s\ncontrol plane  %s, %s, from %s\ncatalog        %s\n%s\n\n", h.Build, h.Revision, b.plane.Origin(), b.where, h.StartedAt, digest, attack.Label)
	if err := p.object(h); err != nil || p.json {
		return err
	}
	_, err := fmt.Fprintf(p.Out, rowForm, "id", "title", "service", "decided by", "result", "answer")
	return err
}

// line prints a line.
func (p *printer) line(r *attack.Result, verified bool) error {
	if err := p.object(reported{owner.NewAttackResult(r), verified}); err != nil || p.json {
		return err
	}
	_, err := io.WriteString(p.Out, row(r))
	return err
}

// sum prints the last line, which is the same for all readers.
func (p *printer) sum(s *attack.Summary) error {
	if err := p.object(s); err != nil || p.json {
		return err
	}
	return object(p.Out, s)
}

// object keeps one JSON object, and prints it for programs.
func (p *printer) object(v any) error {
	if err := p.keep.report(v); err != nil || !p.json {
		return err
	}
	return object(p.Out, v)
}

// object prints one JSON object as a line.
func object(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(raw, '\n'))
	}
	return err
}

const rowForm = "%-3s %-37s %-8s %-17s %-7s %s\n"

// row is a line for a person. What was expected is told where it was not what came.
func row(r *attack.Result) string {
	by := r.DecidedBy
	if r.Failed != nil {
		by += fmt.Sprintf(" (%d)", r.Failed.Number)
	}
	result, answer := "blocked", answers(r)
	switch {
	case r.Outcome == attack.OutcomeNotCarriedOut:
		result, answer = "NOT CARRIED OUT", r.Problem
	case !r.Blocked():
		result, answer = "OPEN", fmt.Sprintf("%s; %d permits, %d effects", r.Problem, r.Permits, r.Effects)
	}
	return fmt.Sprintf(rowForm, r.AttackID, titled(r.Title, r.Target), r.Service, by, result, answer)
}

// titled names an attack, and the target where it is not the usual one.
func titled(title, target string) string {
	if target == "hosted" {
		title += " (hosted)"
	}
	return title
}

// answers are those of every shape, each once: "400 MALFORMED_PROPOSAL; 403
// PERMIT_MISMATCH". What an answer has in common with the one before it is left out.
func answers(r *attack.Result) string {
	var list []string
	before := ""
	for _, s := range r.Shapes {
		if s.Got == nil {
			continue
		}
		said := s.Got.String()
		kind := strings.TrimSuffix(said, s.Got.Code)
		if kind == before {
			said = s.Got.Code
		}
		if !slices.Contains(list, said) && !slices.Contains(list, kind+said) {
			list = append(list, said)
		}
		before = kind
	}
	return strings.Join(list, "; ")
}

// list prints the catalog.
func (c *Command) list(w io.Writer) error {
	const form = "%-3s %-37s %-9s %-38s %s\n"
	if !c.JSON {
		if _, err := fmt.Fprintf(w, form, "id", "title", "services", "expected", "decided by"); err != nil {
			return err
		}
	}
	catalog, _ := owner.AttackCatalog()
	for _, a := range catalog {
		if c.Service != "" && !slices.Contains(a.Services, c.Service) {
			continue
		}
		var err error
		if c.JSON {
			err = object(w, a)
		} else {
			services := strings.Join(a.Services, ", ")
			if len(a.Services) == 3 {
				services = "all three"
			}
			_, err = fmt.Fprintf(w, form, a.AttackID, titled(a.Title, a.Target), services, strings.Join(a.Expected, ", "), strings.Join(a.DecidedBy, ", "))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
