package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"countersign/internal/channel"
)

type versionCommand struct{}

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
	_, err := fmt.Fprintf(s.out, "countersign %s\ncontract %s\n%s\n", version, channel.Version, runtime.Version())
	return err
}
