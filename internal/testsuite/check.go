package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// contractTests are the tests of internal/channel that hold the published contract to what
// the server does. test runs the others.
var contractTests = []string{
	"TestDocumentInStep", "TestDocument", "TestExamplesFitSchemas", "TestExamples", "TestTexts", "TestReportSchema", "TestContractControl",
}

// check runs every gate that needs no database. All of them run, whatever the
// others found.
func check(ctx context.Context, out io.Writer) error {
	p := parts{out: out}
	defer p.print()
	var failed []string
	for _, part := range []struct {
		name string
		run  func() error
	}{
		{"format", func() error { return format(ctx) }},
		{"vet", func() error { return stream(ctx, out, "go", "vet", "./...") }},
		{"staticcheck", func() error {
			return stream(ctx, out, "go", "tool", "-modfile=tools/go.mod", "staticcheck", "./...")
		}},
		{"layers", func() error { return only(ctx, out, ".") }},
		{"contract", func() error {
			return errors.Join(only(ctx, out, "./api"), only(ctx, out, "./internal/channel", "-run=^("+strings.Join(contractTests, "|")+")$"))
		}},
		{"tampering", func() error { return tampering(ctx, out) }},
		{"fuzz", func() error { return fuzz(ctx, out) }},
	} {
		if ctx.Err() != nil {
			break
		}
		if err := p.run(part.name, part.run); err != nil {
			fmt.Fprintln(out, err)
			failed = append(failed, part.name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// format fails when gofmt would write a file differently.
func format(ctx context.Context) error {
	output, err := capture(ctx, "gofmt", "-l", ".")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	if len(output) > 0 {
		return fmt.Errorf("run gofmt -w on\n%s", output)
	}
	return nil
}

// tampering runs the sweep over the demo's evidence without the race detector,
// under which test runs a part of it.
func tampering(ctx context.Context, out io.Writer) error {
	return only(ctx, out, "./cmd/countersign", "-race=false", "-run=^TestTamperedDemo$")
}

// only runs tests of one package, of which there must be one.
func only(ctx context.Context, out io.Writer, pkg string, flags ...string) error {
	r := newReport(out)
	err := goTest(ctx, r, nil, append(append([]string{"-count=1"}, flags...), pkg)...)
	return errors.Join(err, findings(r.gate(nil, nil, nil)))
}
