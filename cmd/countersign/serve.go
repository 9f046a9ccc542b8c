package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"

	"countersign/dispatch"
	"countersign/internal/app"
	"countersign/internal/channel/owner"
	"countersign/internal/supervision/gateway"
)

type serveCommand struct {
	Dir    string `required:"" placeholder:"D" env:"COUNTERSIGN_DIR" help:"Folder that init created."`
	Addr   string `default:"localhost:8420" placeholder:"HOST:PORT" help:"Where to listen (${default}); port 0 picks a free one. Anything but loopback needs an https --origin."`
	Origin string `placeholder:"URL" env:"COUNTERSIGN_ORIGIN" help:"Public origin, as browsers and stores see it. Default: where it listens."`
	database
	StoreOrigin  string   `placeholder:"URL" help:"Origin of the hosted store. Default: target hosted is off."`
	StoreKey     string   `placeholder:"FILE" help:"receipt.pub of the hosted store; only receipts under these keys are believed."`
	TLSCert      string   `placeholder:"FILE" help:"Certificate chain (PEM) to serve https itself."`
	TLSKey       string   `placeholder:"FILE" help:"Its private key (PEM)."`
	TrustedProxy []string `placeholder:"CIDR" help:"Network of the proxies in front, such as 10.0.0.0/8; may be given several times. Only from there X-Forwarded-For says who the client is, and X-Forwarded-Proto that it came by https, which context turns of production need. Default: none."`
	Freeze       *string  `placeholder:"TEXT" help:"Freeze the workspace for this reason before the first request is answered; a freeze that stands stays."`
	Incident     bool     `help:"Serve the governed incident workflow at /incident, which anybody who reaches the origin may use without signing in. It is a simulation. Default: off."`
	MetricsAddr  string   `placeholder:"HOST:PORT" help:"Serve Prometheus metrics at /metrics there, without a credential. Default: off."`
}

func (serveCommand) Help() string {
	return `Opens what init created and serves it until SIGTERM or SIGINT, or the end of its terminal (SIGHUP, unless
nohup has it ignored); then streams end, running requests finish, and the status is 0, within 10 seconds. With
SQLite it holds the folder's lock.

It prints what it serves and then the line "countersign: ready at ORIGIN" to stderr.

--freeze is for a start after an incident: between the start and the freeze no agent gets anything. It freezes the
whole workspace, for every replica. Leave the flag out when you start again after the freeze was lifted.

--incident serves the governed incident workflow at ORIGIN/incident, a simulation that changes no production system.
Whoever reaches the origin may use it without signing in: at most 100 sessions an hour begin from one address, and
at most 1,000 are open, each for 24 hours.

Example: countersign serve --dir D --store-origin http://127.0.0.1:8421 --store-key S/keys/receipt.pub
Example: countersign serve --dir D --freeze "The machine was taken down"
Example: countersign serve --dir D --incident`
}

func (c *serveCommand) Run(ctx context.Context, s streams) error {
	config, err := c.config(s.Err)
	if err != nil {
		return err
	}
	app.SetCollector()
	a, err := app.Open(ctx, config)
	if err != nil {
		return mend(err, c.Dir, c.database)
	}
	c.announce(a, s.Err)
	return errors.Join(a.Serve(ctx), a.Close())
}

func (c *serveCommand) config(log io.Writer) (app.Config, error) {
	config := app.Config{
		Dir: c.Dir, Addr: c.Addr, Origin: c.Origin, TLSCert: c.TLSCert, TLSKey: c.TLSKey, MetricsAddr: c.MetricsAddr, Incident: c.Incident, Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	for _, network := range c.TrustedProxy {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return config, usage("--trusted-proxy: want a network such as 10.0.0.0/8 or 127.0.0.1/32")
		}
		config.TrustedProxies = append(config.TrustedProxies, prefix)
	}
	if c.Freeze != nil {
		if config.Freeze = *c.Freeze; config.Freeze == "" {
			return config, usage("--freeze: want a reason, which says why")
		}
	}
	var err error
	if config.Database, err = c.Address(); err != nil {
		return config, err
	}
	if (c.StoreOrigin == "") != (c.StoreKey == "") {
		return config, usage("--store-origin and --store-key belong together")
	}
	if c.StoreOrigin != "" {
		keys, err := readKeys(c.StoreKey, "--store-key", dispatch.ParseKeys)
		if err != nil {
			return config, err
		}
		config.Store = &gateway.Store{Origin: c.StoreOrigin, Keys: keys}
	}
	return config, nil
}

// announce says what is served.
func (c *serveCommand) announce(a *app.App, w io.Writer) {
	status := a.Status()
	fmt.Fprintf(w, "origin    %s\naddress   %s\nengine    %s\nfolder    %s\nkey       %s signs the evidence\n", a.Origin(), a.Addr(), a.Engine(), c.Dir, a.Fingerprint())
	for _, part := range []struct {
		name string
		list []owner.Capability
	}{{"channel", status.Channels}, {"target", status.Targets}, {"provider", status.Providers}} {
		for _, x := range part.list {
			state := "on"
			if !x.Available {
				state = "off: " + x.Reason
				if part.name == "channel" {
					state = "off for runs: " + x.Reason // a channel of incident receipts is what their caller says
				}
			}
			fmt.Fprintf(w, "%-9s %-8s %s\n", part.name, x.Name, state)
		}
	}
	if f := a.Frozen(); f.Frozen {
		fmt.Fprintf(w, "frozen    by freeze %d since %s; lift it: countersign unfreeze --origin %s --dir %s --epoch %d --reason TEXT\n", f.Epoch, f.Since, a.Origin(), quoted(c.Dir), f.Epoch)
	}
	if a.Incident() {
		fmt.Fprintf(w, "incident  %s/incident\n", a.Origin())
	} else {
		fmt.Fprintln(w, "incident  off: start with --incident")
	}
	if addr := a.MetricsAddr(); addr != "" {
		fmt.Fprintf(w, "metrics   http://%s/metrics\n", addr)
	}
	if os.Getenv(otlpEndpoint) != "" {
		fmt.Fprintf(w, "traces    off: not built; %s has no effect\n", otlpEndpoint)
	}
	fmt.Fprintln(w, readyMark+a.Origin())
}

// otlpEndpoint is where OpenTelemetry would send traces.
const otlpEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"

// readyMark begins the line that says where a server can be reached; the demo
// waits for it.
const readyMark = "countersign: ready at "
