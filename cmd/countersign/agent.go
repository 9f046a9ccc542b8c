package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"countersign/internal/client"
	"countersign/internal/scripted"
)

type agentCommand struct {
	Origin    string `default:"http://localhost:8420" placeholder:"URL" env:"COUNTERSIGN_ORIGIN" help:"Origin of the control plane (${default})."`
	TokenFile string `placeholder:"FILE" help:"File with the run's token. Default: the variable COUNTERSIGN_TOKEN."`
	Script    string `enum:"purchase,overreach" default:"purchase" help:"purchase or overreach (${default})."`
	JSON      bool   `name:"json" help:"Print one JSON object a line."`
}

func (agentCommand) Help() string {
	return `A scripted agent: no model decides anything. It holds a run's restricted token and the origin, nothing
else, and speaks only the restricted HTTP API.

The script "purchase" buys what the run's terms say, and on the way tries what must be refused: a body
swapped under a live permit, a permit used twice, an owner's route, the shop directly, a purchase after the
end. A run of the target local has no shop to go to; those two steps are skipped.

The script "overreach" alters an argument, which pauses the run.

The token is never a flag: set COUNTERSIGN_TOKEN or give --token-file.

Example: countersign agent --token-file token

` + members + `

Status 0: everything came as expected. 1: something did not. 3: nobody answers at the origin.`
}

func (c *agentCommand) Run(ctx context.Context, s streams) error {
	token, err := c.token()
	if err != nil {
		return err
	}
	out := newTimeline(s.Out, c.JSON)
	out.say("This is a scripted agent: it follows the script %q and no model decides anything.\n", c.Script)
	out.head()
	a := &scripted.Agent{
		Consumer: client.Consumer{Origin: strings.TrimSuffix(c.Origin, "/"), Token: token, HTTP: client.New()},
		Record:   out.add,
	}
	err = a.Play(ctx, c.Script)
	if err != nil && ctx.Err() != nil {
		return errors.Join(differs("agent: interrupted"), out.err)
	}
	if unreached := errors.Is(err, client.ErrUnanswered) && out.steps == 0; err != nil && !unreached {
		err = differs("agent: %w", err)
	}
	return errors.Join(err, out.err)
}

// maxToken bounds what is read of a token file in bytes.
const maxToken = 4 << 10

func (c *agentCommand) token() (string, error) {
	token := os.Getenv("COUNTERSIGN_TOKEN")
	if c.TokenFile != "" {
		f, err := os.Open(c.TokenFile)
		if err != nil {
			return "", usage("--token-file: %w", err)
		}
		defer f.Close()
		raw, err := io.ReadAll(io.LimitReader(f, maxToken))
		if err != nil {
			return "", usage("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(raw))
	}
	if token == "" {
		return "", usage("agent: want a run's token in COUNTERSIGN_TOKEN or --token-file; its owner issues it: `countersign run token ID`")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", usage("agent: the token is not one")
	}
	return token, nil
}
