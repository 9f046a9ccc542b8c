package seif

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"countersign/contextclient/outbox"
	"countersign/internal/command"
	"countersign/internal/contextturn/turn"
)

// Bridge are the commands of a local bridge.
type Bridge struct {
	Record record `cmd:"" help:"Record that the bridge has seen a file, a process or a request change."`
}

// Help is what kong shows.
func (Bridge) Help() string {
	return `A local bridge reports what it has seen itself: that a file was read or written, that a process began or ended, that a
request or a response passed. ` + turn.HonestyBridge + `

Example: countersign bridge record --kind process.exit --digest 5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5`
}

type record struct {
	Kind   string `required:"" enum:"file.read,file.write,process.start,process.exit,http.request,http.response" placeholder:"KIND" help:"file.read, file.write, process.start, process.exit, http.request or http.response."`
	Digest string `required:"" placeholder:"HEX" help:"SHA-256 of what it was, 64 lowercase hex digits. Nothing else of it leaves this machine."`
	JSON   bool   `name:"json" help:"Print the receipt as the server gave it."`
}

func (record) Help() string {
	return `An extension of ours to the protocol, for a named client of kind bridge. Prints the receipt, of the evidence class
bridge-observed. ` + turn.HonestyBridge + `

A receipt that cannot be delivered waits in the outbox: it is not recorded until it is delivered, which hook flush
does in the same environment and with the same token: with another one it would be recorded as another's. Giving the
command again makes a second receipt.` + environment + `

Example: countersign bridge record --kind file.write --digest e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855

Status 0: recorded. 1: the server refused it. 2: wrong usage or no client in the environment. 3: not recorded; it says
whether the receipt waits in the outbox.`
}

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (c *record) Run(ctx context.Context, s command.Streams) error {
	if !digestForm.MatchString(c.Digest) {
		return command.Usage("--digest: want 64 lowercase hex digits")
	}
	p, err := place(func(d outbox.Dropped) {
		if d.Status == 0 { // a refusal is this command's own, and said once
			fmt.Fprintln(s.Err, d)
		}
	})
	if err != nil {
		return err
	}
	raw, r, err := p.RecordTransition(ctx, c.Kind, c.Digest)
	kept, waits := errors.AsType[*outbox.KeptError](err)
	refused, isRefused := errors.AsType[*outbox.RefusedError](err)
	switch {
	case waits:
		return fmt.Errorf("not recorded yet, the receipt waits in %s: %w\nDeliver it later, in this environment: %s", p.Path, kept, flushAgain())
	case isRefused:
		return command.Differs("not recorded: the server refused it with %v", refused.Answer)
	case err != nil:
		return fmt.Errorf("not recorded, and not kept: %w", err)
	}
	if c.JSON {
		_, err = fmt.Fprintf(s.Out, "%s\n", raw)
		return err
	}
	_, err = fmt.Fprintf(s.Out, "%s  %s  %s  sha256 %s  recorded %s\n", command.Quoted(r.EvidenceClass), command.Quoted(r.ID), command.Quoted(r.Kind), command.Quoted(r.Digest), r.RecordedAt.UTC().Format("2006-01-02T15:04:05.000Z"))
	return err
}
