package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// covered lists the packages that decide, permit, record and verify. At least
// floor percent of the statements of each must be executed by tests.
var covered = []string{
	"countersign/internal/canon",
	"countersign/internal/money",
	"countersign/internal/pubkey",
	"countersign/evidence",
	"countersign/dispatch",
	"countersign/internal/authority",
	"countersign/internal/machine",
	"countersign/internal/supervision/propose",
	"countersign/internal/supervision/stopcontext",
	"countersign/internal/supervision/state",
	"countersign/internal/supervision/run",
	"countersign/internal/supervision/policy",
	"countersign/internal/supervision/chain",
	"countersign/internal/supervision/decide",
	"countersign/internal/supervision/guardian",
	"countersign/internal/supervision/freeze",
	"countersign/internal/contextturn/redact",
	"countersign/internal/contextturn/turn",
	"countersign/internal/contextturn/project",
	"countersign/internal/runbook/incident",
}

const floor = 95.0

// cover measures the core by its own tests alone, as the gate of test does: that the rest
// of the suite passes through a line shows little of it.
func cover(ctx context.Context, out io.Writer) error {
	folder, err := os.MkdirTemp("", "countersign-cover-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	profile := filepath.Join(folder, "profile")
	args := append([]string{"test", "-count=1", "-coverprofile=" + profile, "-coverpkg=" + strings.Join(covered, ",")}, covered...)
	if err := stream(ctx, out, "go", args...); err != nil {
		return err
	}
	return coverageGate(out, profile)
}

// coverageGate prints the coverage of every package of the core and fails when
// one is below the floor or not in the profiles, which count together.
func coverageGate(out io.Writer, profiles ...string) error {
	packages := make(map[string]map[string]block)
	for _, profile := range profiles {
		if err := readProfile(profile, packages); err != nil {
			return err
		}
	}
	var found []string
	for _, name := range covered {
		blocks := packages[name]
		all, hit := 0, 0
		var missed []string
		for at, b := range blocks {
			all += b.statements
			if b.executed {
				hit += b.statements
			} else if b.statements > 0 {
				missed = append(missed, at)
			}
		}
		if all == 0 {
			found = append(found, name+" has no statement in the coverage profile")
			continue
		}
		percent := 100 * float64(hit) / float64(all)
		fmt.Fprintf(out, "  %5.1f %%  %s\n", percent, name)
		if percent < floor {
			found = append(found, fmt.Sprintf("%s: %.1f %% of statements covered, at least %.0f wanted", name, percent, floor))
			slices.Sort(missed)
			for _, at := range missed {
				fmt.Fprintf(out, "           not executed: %s\n", at)
			}
		}
	}
	return findings(found)
}

type block struct {
	statements int
	executed   bool
}

// readProfile adds what a coverage profile says: per package, each block by its place. A
// profile over several test binaries holds a block once for each of them.
func readProfile(profile string, packages map[string]map[string]block) error {
	file, err := os.Open(profile)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "mode: ") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return fmt.Errorf("coverage profile: unreadable line %q", line)
		}
		source, _, ok := strings.Cut(fields[0], ":")
		statements, err := strconv.Atoi(fields[1])
		if !ok || err != nil {
			return fmt.Errorf("coverage profile: unreadable line %q", line)
		}
		name := path.Dir(source)
		if packages[name] == nil {
			packages[name] = make(map[string]block)
		}
		b := packages[name][fields[0]]
		b.statements, b.executed = statements, b.executed || fields[2] != "0"
		packages[name][fields[0]] = b
	}
	return lines.Err()
}
