package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"countersign/internal/channel"
)

type versionCommand struct{}

// versionFlag does the same as the command, as --help does help.
type versionFlag bool

// BeforeReset is called by kong when the flag is there, before anything that is
// missing is complained about.
func (versionFlag) BeforeReset(app *kong.Kong, s streams) error {
	if err := (versionCommand{}).Run(s); err != nil {
		return err
	}
	app.Exit(statusDone)
	return nil
}

func (versionCommand) Help() string {
	return `Prints the program's version with the commit it was built from, the version of the contract, and Go's.

Example: countersign version`
}

func (versionCommand) Run(s streams) error {
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				version += " " + setting.Value
			}
		}
	}
	_, err := fmt.Fprintf(s.Out, "countersign %s\ncontract %s\n%s\n", version, channel.Version, runtime.Version())
	return err
}
