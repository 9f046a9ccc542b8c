package app

import (
	"countersign/internal/channel"
	"countersign/internal/channel/owner"
)

// status lists what this build can do and what this installation is missing.
func status(engine string, store bool) owner.Status {
	on := func(name string) owner.Capability { return owner.Capability{Name: name, Available: true} }
	off := func(name, reason string) owner.Capability { return owner.Capability{Name: name, Reason: reason} }
	const unbuilt = "not built"
	hosted := on("hosted")
	if !store {
		hosted = off("hosted", "no store is configured: --store-origin and --store-key")
	}
	return owner.Status{
		Version: channel.Version, Ledger: engine,
		Providers: []owner.Capability{on("replay"), off("openai", unbuilt)},
		Channels:  []owner.Capability{on("http"), off("browser", unbuilt), off("mcp", unbuilt), off("webmcp", unbuilt)},
		Targets:   []owner.Capability{on("local"), hosted},
		Browser:   off("browser", unbuilt),
	}
}
