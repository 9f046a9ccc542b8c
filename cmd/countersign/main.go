// Command countersign is the control plane between AI agents and what they may
// do, the verifier of its evidence, and the example storefront and agent that it
// is shown with. One file holds one subcommand and its help.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"countersign/internal/command"
	"countersign/internal/command/asowner"
	"countersign/internal/command/attacks"
	"countersign/internal/command/evaluation"
	"countersign/internal/command/seif"
)

type commands struct {
	Demo     demoCommand        `cmd:"" help:"Run control plane, store and agent, and show what happens."`
	Init     initCommand        `cmd:"" help:"Create a folder with keys and an empty ledger."`
	Serve    serveCommand       `cmd:"" help:"Run the control plane."`
	Store    storeCommand       `cmd:"" help:"Run the example storefront."`
	Run      asowner.Run        `cmd:"" help:"Create, hand out, list, show, export, retry and revoke runs."`
	Freeze   asowner.Freeze     `cmd:"" help:"Freeze the workspace, so that nothing is issued or dispatched any more; show how it stands."`
	Unfreeze asowner.Unfreeze   `cmd:"" help:"Lift the freeze."`
	Project  asowner.Project    `cmd:"" help:"Create, list and show projects that hand out context; issue their shared tokens."`
	Client   asowner.Client     `cmd:"" help:"Create, list, rotate and revoke the clients of a project."`
	Context  asowner.Context    `cmd:"" help:"Publish a project's context; list, show and export what was recorded of it."`
	Hook     seif.Hook          `cmd:"" help:"Report from the hook of a runtime; deliver what waits in the outbox."`
	Bridge   seif.Bridge        `cmd:"" help:"Record what a local bridge has seen."`
	Agent    agentCommand       `cmd:"" help:"Run the scripted example agent."`
	Attack   attacks.Command    `cmd:"" help:"Attack a control plane of its own, and show what was blocked."`
	Eval     evaluation.Command `cmd:"" help:"Evaluate agents on versioned tasks; test the harness that does it."`
	Verify   verifyCommand      `cmd:"" help:"Verify exported evidence."`
	Key      keyCommand         `cmd:"" help:"List and replace the keys of a folder."`
	Migrate  migrateCommand     `cmd:"" help:"Apply pending migrations to a ledger."`
	Openapi  openapiCommand     `cmd:"" help:"Print the OpenAPI document."`
	Version  versionCommand     `cmd:"" help:"Print the version."`

	ShowVersion versionFlag `name:"version" help:"Print the version."`
}

// What commands have in common lies in package command.
type (
	streams  = command.Streams
	database = command.Database
)

const (
	statusDone     = command.Done
	statusDiffers  = command.NotHolding
	statusUsage    = command.WrongUsage
	statusNotReady = command.NotReady
)

var (
	usage      = command.Usage
	differs    = command.Differs
	mend       = command.Mend
	errDiffers = command.ErrDiffers
	quoted     = command.Quoted
)

// began is when the process began, nearly: a hook has little time.
var began = time.Now()

func main() {
	if seif.IsHook(os.Args[1:]) { // before anything that could end with another status
		seif.RunHook(os.Args[1:], os.Stdin, command.Shown(os.Stderr), began)
		return
	}
	os.Exit(execute(os.Args[1:], streams{Out: os.Stdout, Err: os.Stderr}))
}

// execute runs one command line and returns the exit status.
func execute(args []string, s streams) int {
	ctx, s, stop := untilEnded(s)
	defer stop()
	parser, err := newParser(ctx, s)
	if err != nil {
		fmt.Fprintln(s.Err, "countersign:", err)
		return statusUsage
	}
	if len(args) == 0 {
		err = errors.New("want a command: " + strings.Join(names(parser), ", "))
	}
	if len(args) > 0 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	var parsed *kong.Context
	if err == nil {
		parsed, err = parser.Parse(args)
	}
	if err != nil {
		fmt.Fprintln(s.Err, "countersign:", err)
		fmt.Fprintln(s.Err, "Run `countersign --help` or `countersign COMMAND --help`.")
		return statusUsage
	}
	err = parsed.Run()
	if err != nil && !errors.Is(err, errDiffers) {
		fmt.Fprintln(s.Err, "countersign:", err)
	}
	return command.StatusOf(err)
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
	parser, err := kong.New(&commands{},
		kong.Name("countersign"),
		kong.Description("An agent may ask; only the control plane commits.\n\nExit status: 0 done and as expected, 1 what was checked does not hold, 2 wrong usage or unreadable input, 3 not ready."),
		kong.Writers(s.Out, s.Err),
		kong.ConfigureHelp(kong.HelpOptions{NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
	if err == nil {
		preformat(parser.Model.Node)
	}
	return parser, err
}
