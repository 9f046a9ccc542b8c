// Package seif has the commands that report to a context perimeter from beside an
// application, as one of its named clients: the hook of Claude Code, the delivery of what
// waits in the outbox, and the receipts of a local bridge.
package seif

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"countersign/contextclient/outbox"
	"countersign/internal/command"
	"countersign/internal/command/seif/reporter"
)

// environment is shown in the help of each command.
const environment = `

Who reports is in the environment, never in a flag: SEIF_BASE_URL (https://HOST/HANDLE/PROJECT, for staging with
/staging behind it; http only on this machine) and SEIF_CLIENT_TOKEN. What cannot be delivered waits in the outbox,
a file (0600, in a folder 0700) that holds no token: at SEIF_OUTBOX, an absolute path, else in the user's cache
folder, where each base address has its own, so that the next token of a client finds it. It takes 100 reports, refuses the next and says so, and drops a report after 24 hours, which it says and counts.`

// IsHook reports whether a command line is that of the hook of Claude Code, which is to end with status 0 whatever
// happens: another one may be taken for a decision about the tool.
func IsHook(args []string) bool {
	return len(args) >= 2 && args[0] == "hook" && args[1] == "claude-code" &&
		!slices.ContainsFunc(args[2:], func(a string) bool { return a == "--help" || a == "-h" || a == "--print-settings" })
}

// RunHook is the hook, in a process that began at began.
func RunHook(args []string, in io.Reader, complain io.Writer, began time.Time) {
	if len(args) > 2 {
		fmt.Fprintf(complain, "countersign hook claude-code: it takes no argument %s\n", command.Quoted(args[2]))
	}
	reporter.Hook(in, complain, began)
}

// patience bounds one request of a command that somebody waits for.
const patience = 10 * time.Second

// place is who reports. told hears of what is dropped.
func place(told func(outbox.Dropped)) (*reporter.Place, error) {
	p, err := reporter.FromEnvironment(outbox.Options{SendBound: patience, Told: told})
	if reporter.IsEnvironment(err) {
		return nil, command.Usage("%w", err)
	}
	return p, err
}

// flushAgain is how what waits is delivered later, from the environment that it was put in from.
func flushAgain() string {
	if path := os.Getenv(reporter.OutboxVariable); path != "" {
		return reporter.OutboxVariable + "=" + command.Quoted(path) + " countersign hook flush"
	}
	return "countersign hook flush"
}
