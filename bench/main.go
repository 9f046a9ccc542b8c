// Command bench prints the ratios that docs/performance.md explains: countersign
// against the same work done bare, against other programs, and against the floors
// of the machine it runs on. Both sides of a ratio are measured in the same run
// and by turns; the figure is the median of the pairs.
//
// A number counts only if in the same run the chains that it made verified, their
// replay was lawful, no permit was claimed twice, and every cycle that was
// acknowledged was there after kill -9. Otherwise the table says that it does not
// count, and why.
//
// It uses loopback only, ends every process it starts, and stops by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"countersign/internal/pgtest"
)

// bench is one run of the program.
type bench struct {
	dir    string // for ledgers and exports; on the disk whose flushes count
	pairs  int
	window time.Duration // of one side of one pair
	quick  bool
	self   string // this program, for its children
	floors floors

	server    *pgtest.Server // of row 4
	databases int            // made on it
}

// row is a row of the table of design.md.
type row struct {
	number  int
	measure func(context.Context, *bench) ([]line, error)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == childArgument {
		os.Exit(child(os.Stdin, os.Stdout))
	}
	if len(os.Args) > 2 && os.Args[1] == watchArgument {
		os.Exit(watchChild(os.Args[2], os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := execute(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func execute(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "tiny windows and one pair, to see that everything runs; no number counts")
	only := flags.String("rows", "1,2,3,4,5,6,7,8,9,10", "the rows to measure")
	parent := flags.String("dir", "", "folder on the disk to measure (default: the system's for temporary files)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b := &bench{pairs: minPairs, window: 1500 * time.Millisecond, quick: *quick}
	if b.quick {
		b.pairs, b.window = 1, 200*time.Millisecond
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(*parent, "countersign-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.floors, err = measureFloors(b.dir, b.window/5); err != nil {
		return err
	}
	start := time.Now()
	var lines []line
	var failed error // of rows; the others are printed all the same
	for _, r := range rows {
		if !strings.Contains(","+*only+",", fmt.Sprintf(",%d,", r.number)) {
			continue
		}
		fmt.Fprintf(os.Stderr, "row %d ...\n", r.number)
		measured, err := r.measure(ctx, b)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("row %d: %w", r.number, err))
			measured = []line{{row: r.number, name: "the measurement failed", problems: []string{err.Error()}}}
		}
		lines = append(lines, measured...)
	}
	fmt.Println(machineLine(b.floors))
	fmt.Printf("%d pairs, windows of %v, %v in all\n\n", b.pairs, b.window, time.Since(start).Round(time.Second))
	return errors.Join(printTable(os.Stdout, lines), failed)
}
