package main

import (
	"context"
	"fmt"
	"time"
)

// checksAgainstPeers is row 6. All four sides start from the same Go values and
// end with a reason; the reasons have to agree on every question first.
func checksAgainstPeers(ctx context.Context, b *bench) ([]line, error) {
	m, err := beforeSubmit(ctx, b.dir)
	if err != nil {
		return nil, err
	}
	celSide, err := newCEL()
	if err != nil {
		return nil, fmt.Errorf("cel-go: %w", err)
	}
	cedarSide, err := newCedar()
	if err != nil {
		return nil, fmt.Errorf("cedar-go: %w", err)
	}
	opaSide, err := newOPA(ctx)
	if err != nil {
		return nil, fmt.Errorf("OPA: %w", err)
	}
	sides := []side{{"ours", ours}, celSide, cedarSide, opaSide}
	for _, s := range sides {
		if err := agree(m, s.name, s.judge); err != nil {
			return nil, err
		}
	}
	lines := []line{
		{row: 6, name: "hard checks / cel-go", aim: atMost(1.0 / 5)},
		{row: 6, name: "hard checks / cedar-go", aim: atMost(1.0 / 10)},
		{row: 6, name: "hard checks / OPA", aim: atMost(1.0 / 80)},
	}
	took := make([][]float64, len(sides))
	for range b.pairs {
		for i, s := range sides {
			d := perCall(b.window/4, func() {
				if reason, err := s.judge(m); err != nil || reason != "" {
					panic(fmt.Sprintf("%s: %q, %v", s.name, reason, err)) // agree has shown otherwise
				}
			})
			took[i] = append(took[i], float64(d))
		}
	}
	for i := range lines {
		for pair := range took[0] {
			lines[i].pairs = append(lines[i].pairs, took[0][pair]/took[i+1][pair])
		}
		lines[i].note = fmt.Sprintf("ours %v, peer %v; %d questions answered alike",
			time.Duration(median(took[0])), time.Duration(median(took[i+1])), len(questions))
	}
	return lines, nil
}
