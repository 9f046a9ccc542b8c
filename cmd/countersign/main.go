// Command countersign is the control plane between AI agents and what they may
// do, the verifier of its evidence, and the example storefront and agent that it
// is shown with. One file holds one subcommand and its help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"countersign/internal/app"
)

// Exit statuses of every command.
const (
	statusDone     = 0 // done, and as expected
	statusDiffers  = 1 // what was checked does not hold
	statusUsage    = 2 // wrong usage or unreadable input
	statusNotReady = 3 // something that has to be there is not
)

type commands struct {
	Demo    demoCommand    `cmd:"" help:"Run control plane, store and agent, and show what happens."`
	Init    initCommand    `cmd:"" help:"Create a folder with keys and an empty ledger."`
	Serve   serveCommand   `cmd:"" help:"Run the control plane."`
	Store   storeCommand   `cmd:"" help:"Run the example storefront."`
	Run     runCommand     `cmd:"" help:"Create, hand out, list, show, export and revoke runs."`
	Agent   agentCommand   `cmd:"" help:"Run the scripted example agent."`
	Verify  verifyCommand  `cmd:"" help:"Verify exported evidence."`
	Migrate migrateCommand `cmd:"" help:"Apply pending migrations to a ledger."`
	Openapi openapiCommand `cmd:"" help:"Print the OpenAPI document."`
	Version versionCommand `cmd:"" help:"Print the version."`

	ShowVersion versionFlag `name:"version" help:"Print the version."`
}

// streams are where a command writes: results to out, all else to err.
type streams struct{ out, err io.Writer }

func main() { os.Exit(execute(os.Args[1:], streams{os.Stdout, os.Stderr})) }

// execute runs one command line and returns the exit status.
func execute(args []string, s streams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parser, err := newParser(ctx, s)
	if err != nil {
		fmt.Fprintln(s.err, "countersign:", err)
		return statusUsage
	}
	if len(args) == 0 {
		err = errors.New("want a command: " + strings.Join(names(parser), ", "))
	}
	if len(args) > 0 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	var command *kong.Context
	if err == nil {
		command, err = parser.Parse(args)
	}
	if err != nil {
		fmt.Fprintln(s.err, "countersign:", err)
		fmt.Fprintln(s.err, "Run `countersign --help` or `countersign COMMAND --help`.")
		return statusUsage
	}
	err = command.Run()
	if err != nil && !errors.Is(err, errDiffers) {
		fmt.Fprintln(s.err, "countersign:", err)
	}
	return statusOf(err)
}

// names are those of the commands, in the order of the help.
func names(parser *kong.Kong) []string {
	var list []string
	for _, c := range parser.Model.Children {
		list = append(list, c.Name)
	}
	return list
}

func newParser(ctx context.Context, s streams) (*kong.Kong, error) {
	return kong.New(&commands{},
		kong.Name("countersign"),
		kong.Description("An agent may ask; only the control plane commits.\n\nExit status: 0 done and as expected, 1 what was checked does not hold, 2 wrong usage or unreadable input, 3 not ready."),
		kong.Writers(s.out, s.err),
		kong.ConfigureHelp(kong.HelpOptions{NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
}

// errDiffers is the error of a check that failed and has said so itself.
var errDiffers = errors.New("what was checked does not hold")

// exitError is an error with the exit status that it ends the process with.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usage is for input that cannot be read or makes no sense.
func usage(format string, args ...any) error {
	return &exitError{statusUsage, fmt.Errorf(format, args...)}
}

// differs is for a check that failed.
func differs(format string, args ...any) error {
	return &exitError{statusDiffers, fmt.Errorf(format, args...)}
}

// statusOf is the exit status of an error. What is nobody's usage and no check
// is a state, key, port or database that is not ready.
func statusOf(err error) int {
	switch {
	case err == nil:
		return statusDone
	case errors.Is(err, errDiffers):
		return statusDiffers
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.status
	}
	if _, ok := errors.AsType[*app.ConfigError](err); ok {
		return statusUsage
	}
	return statusNotReady
}
