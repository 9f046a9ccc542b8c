package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"countersign/internal/testsuite/mutate"
)

// mutated lists the packages that make mutants, each with the packages whose
// tests must notice them.
var mutated = []struct {
	name  string
	tests []string
}{
	{"internal/authority", []string{"internal/authority", "internal/supervision/run"}},
	{"internal/machine", []string{"internal/machine"}},
	{"internal/supervision/propose", []string{"internal/supervision/propose", "internal/supervision/run"}},
	{"internal/supervision/stopcontext", []string{"internal/supervision/run"}},
	{"internal/supervision/state", []string{"internal/supervision/run"}},
	{"internal/supervision/run", []string{"internal/supervision/run", "internal/audit"}},
	{"internal/supervision/policy", []string{"internal/supervision/run"}},
	{"internal/supervision/chain", []string{"internal/supervision/run", "internal/audit"}},
	{"internal/supervision/decide", []string{"internal/supervision/run"}},
	{"internal/supervision/guardian", []string{"internal/supervision/guardian"}},
	{"internal/supervision/freeze", []string{"internal/supervision/freeze"}},
	{"internal/contextturn/redact", []string{"internal/contextturn/redact"}},
	{"internal/contextturn/turn", []string{"internal/contextturn/turn"}},
	{"internal/contextturn/project", []string{"internal/contextturn/project"}},
	{"internal/runbook/incident", []string{"internal/runbook/incident"}},
}

const explainedFile = "internal/testsuite/mutants.txt"

// mutants tests every mutant of the deciding packages.
func mutants(ctx context.Context, out io.Writer) error {
	file, err := os.Open(explainedFile)
	if err != nil {
		return err
	}
	defer file.Close()
	explained, err := mutate.ReadExplained(file)
	if err != nil {
		return fmt.Errorf("%s: %w", explainedFile, err)
	}
	var all []mutate.Result
	var found []string
	p := parts{out: out}
	defer p.print()
	for _, m := range mutated {
		err := p.run(m.name, func() error {
			made, err := mutate.Find(m.name, m.name)
			if err != nil {
				return err
			}
			if len(made.Mutants) == 0 {
				found = append(found, "no mutant of "+m.name)
				return nil
			}
			results, err := testMutants(ctx, out, made, m.tests)
			all = append(all, results...)
			return err
		})
		if err != nil {
			return err
		}
	}
	found = append(found, mutate.Judge(all, explained)...)
	slices.Sort(found)
	return findings(found)
}

func testMutants(ctx context.Context, out io.Writer, p *mutate.Package, tests []string) ([]mutate.Result, error) {
	var results []mutate.Result
	count := make(map[mutate.Outcome]int)
	said := time.Now()
	progress := func() {
		fmt.Fprintf(out, "  %d of %d: %d killed, %d survived\n",
			len(results), len(p.Mutants), count[mutate.Killed], count[mutate.Survived])
		said = time.Now()
	}
	err := p.Test(ctx, tests, func(r mutate.Result) {
		results = append(results, r)
		count[r.Outcome]++
		if r.Outcome == mutate.Survived {
			fmt.Fprintf(out, "  survived (line %d): %s\n", r.Line, r.ID)
		}
		if time.Since(said) > 15*time.Second {
			progress()
		}
	})
	progress()
	return results, err
}
