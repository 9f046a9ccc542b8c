// Package asowner has the commands that act as the owner of a running server: each
// signs in with the owner's secret, does one thing and signs out.
package asowner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign/internal/channel/edge"
	"countersign/internal/client"
	"countersign/internal/command"
	"countersign/internal/keys"
)

// signedIn are the flags of every command that acts as the owner of a running server.
type signedIn struct {
	Origin     string `default:"http://localhost:8420" placeholder:"URL" env:"COUNTERSIGN_ORIGIN" help:"Origin of the running control plane (${default})."`
	Dir        string `placeholder:"D" env:"COUNTERSIGN_DIR" help:"Folder of the installation; its owner.secret signs in."`
	SecretFile string `placeholder:"FILE" env:"COUNTERSIGN_SECRET_FILE" help:"File with the owner's secret. Default: owner.secret in --dir."`
	JSON       bool   `name:"json" help:"Print one JSON object a line, and nothing else."`

	patience time.Duration // for how long signing in is tried again after a 503
	lists    string        // the command that shows what there is of what was asked for; "": run list
}

const ownerStatus = `

Status 0: done. 1: the server refused it as things are. 2: wrong usage, an unknown id, or a body that the server
does not take. 3: no server, no secret or the wrong one, no ledger or no store; the message says what mends it.`

// act signs in, does something as the owner and signs out.
func (c *signedIn) act(ctx context.Context, s command.Streams, do func(*client.Owner) error) error {
	secret, err := c.secret()
	if err != nil {
		return err
	}
	if u, err := edge.ParseOrigin(c.origin()); err != nil || u.Host == "" {
		return command.Usage("--origin: want an origin such as http://localhost:8420 or https://host, in lower case and without a path")
	}
	o := &client.Owner{Origin: c.origin(), HTTP: client.New()}
	if err = c.enter(ctx, o, secret); err == nil {
		err = do(o)
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), signOutTime)
		defer cancel()
		if out := o.SignOut(bounded); out != nil && err == nil {
			fmt.Fprintln(s.Err, "countersign: the session was not ended and is good for 12 hours:", out)
		}
	}
	if ctx.Err() != nil && err != nil {
		return command.Differs("interrupted: %w", err)
	}
	return c.explain(err)
}

// enter signs in. What a try that is answered 503 may have left is a session that nobody
// has the cookie of.
func (c *signedIn) enter(ctx context.Context, o *client.Owner, secret string) error {
	for end := time.Now().Add(c.patience); ; {
		_, err := o.SignIn(ctx, secret)
		refused, ok := errors.AsType[*client.RefusedError](err)
		if !ok || refused.Status != http.StatusServiceUnavailable || !time.Now().Before(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(waitStep):
		}
	}
}

// signOutTime is how long an answer to signing out is waited for.
const signOutTime = 5 * time.Second

func (c *signedIn) origin() string {
	return strings.TrimSuffix(cmp.Or(c.Origin, defaultOrigin), "/")
}

const defaultOrigin = "http://localhost:8420"

func (c *signedIn) secret() (string, error) {
	switch {
	case c.SecretFile != "":
		secret, err := keys.ReadSecret(c.SecretFile)
		if errors.Is(err, fs.ErrNotExist) {
			return "", command.Usage("--secret-file: %w", err)
		}
		return secret, err
	case c.Dir != "":
		secret, err := keys.ReadSecret(filepath.Join(c.Dir, "owner.secret"))
		if errors.Is(err, fs.ErrNotExist) {
			err = keys.ErrNotInitialized
		}
		return secret, command.Mend(err, c.Dir, command.Database{})
	}
	return "", command.Usage("want the owner's secret: --dir D, --secret-file FILE, COUNTERSIGN_DIR or COUNTERSIGN_SECRET_FILE")
}

// explain gives an error its exit status and says what to do next.
func (c *signedIn) explain(err error) error {
	refused, ok := errors.AsType[*client.RefusedError](err)
	if !ok {
		network, isNetwork := errors.AsType[net.Error](err)
		if isNetwork && network.Timeout() {
			return fmt.Errorf("no answer from %s: %w; a server that runs there hangs or is not reached: look at its log, or give --origin another", c.origin(), err)
		}
		if isNetwork {
			return fmt.Errorf("no answer from %s: %w; start the server there: `countersign serve --dir %s`, or give --origin another", c.origin(), err, cmp.Or(c.Dir, "D"))
		}
		return err
	}
	if refused.Reason == "" {
		return fmt.Errorf("%s answers %d without a reason code: it is no countersign server; give --origin", c.origin(), refused.Status)
	}
	text := fmt.Sprintf("%d %s: %s", refused.Status, refused.Reason, strings.Join(append(refused.Errors, refused.Detail), "; "))
	if next := c.adviceFor(refused.Reason); next != "" {
		text += " " + next
	}
	if refused.After > 0 {
		text += fmt.Sprintf(" Retry-After is %v.", refused.After)
	}
	switch status := refused.Status; {
	case status == http.StatusUnauthorized, status == http.StatusTooManyRequests, status >= 500 && status != http.StatusNotImplemented:
		return errors.New(text)
	case status == http.StatusConflict, status == http.StatusForbidden && refused.Reason != edge.OriginRejected:
		return command.Differs("%s", text)
	}
	return command.Usage("%s", text)
}

// adviceFor says what a person at a command line does about a refusal, beside its
// detail: where that has nothing of its own to say, it is the advice of the reason.
func (c *signedIn) adviceFor(reason string) string {
	switch reason {
	case "AUTHENTICATION_REQUIRED":
		return "Give --dir the folder that the server was started with, or --secret-file its owner.secret."
	case "NOT_FOUND":
		return "`countersign " + cmp.Or(c.lists, "run list") + "` shows what there is."
	case "RUN_NOT_READY":
		return "`countersign run show ID` says why and what follows."
	case "FROZEN":
		return "`countersign freeze` shows how the workspace stands."
	case "ORIGIN_REJECTED":
		return "Give --origin exactly what the server prints as its origin."
	}
	return ""
}

// again are the flags by which another command reaches the same server: what variables
// say goes without.
func (c *signedIn) again() string {
	flags := ""
	for _, f := range []struct{ flag, value, variable string }{
		{"--origin", c.Origin, "COUNTERSIGN_ORIGIN"}, {"--dir", c.Dir, "COUNTERSIGN_DIR"}, {"--secret-file", c.SecretFile, "COUNTERSIGN_SECRET_FILE"},
	} {
		if f.value != "" && f.value != os.Getenv(f.variable) && f.value != defaultOrigin {
			flags += " " + f.flag + " " + command.Quoted(f.value)
		}
	}
	return flags
}

// printLine writes JSON in one line.
func printLine(w io.Writer, raw []byte) error {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return fmt.Errorf("the answer is unreadable: %w", err)
	}
	_, err := fmt.Fprintf(w, "%s\n", &b)
	return err
}
