package perimeter

import (
	"context"
	"encoding/hex"
	"errors"

	"countersign/internal/canon"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/traces"
	"countersign/internal/ledger"
)

// GapResult names a reported gap.
type GapResult struct {
	GapID string `json:"gapId"`
}

// newGap is what a report of a gap adds to a Change when the gap was not reported before.
type newGap struct {
	write  ledger.Write
	record *ledger.Record
}

// reportGap names the gap in the answer. The same report again is the same gap, whoever
// makes it: it is found by a keyed hash of what makes it that one, which tells nobody who
// guesses the text that he is right.
func (p *Perimeter) reportGap(ctx context.Context, by *Caller, a *answered) (*newGap, error) {
	principal, key := "gaps:"+by.Client.Project, hex.EncodeToString(p.MAC("gap", string(project.GapMaterial(by.Client.Project, *a.gap))))
	record, err := p.Ledger.Record(ctx, p.Workspace, principal, key)
	switch {
	case err == nil:
		return nil, a.name(record.Object)
	case !errors.Is(err, ledger.ErrNotFound):
		return nil, unavailable(err)
	}
	now, err := p.Now(ctx)
	if err != nil {
		return nil, err
	}
	g := &project.Gap{}
	d := project.BeginGap(g, now, ledger.Seed())
	if denial := d.Report(p.subject(), by.Client.Project, *a.gap); denial != nil {
		return nil, denial
	}
	t, err := d.Done()
	if err != nil {
		return nil, err
	}
	w, err := p.write(ledger.NewSubject(p.Key(project.KindGap, g.ID)), g, d.Now(), t.Drafts, t.Texts, []ledger.Attribute{{Name: traces.AttributeProject, Value: g.Project}})
	if err != nil {
		return nil, err
	}
	return &newGap{w, &ledger.Record{Workspace: p.Workspace, Principal: principal, Key: key, Fingerprint: key, Subject: w.Key, Object: g.ID, Sequence: 1}}, a.name(g.ID)
}

// name puts the gap's id into the answer.
func (a *answered) name(id string) error {
	result := &GapResult{id}
	raw, err := canon.Marshal(result)
	a.Gap, a.result, a.Answer.Answer = &id, result, string(raw)
	return err
}
