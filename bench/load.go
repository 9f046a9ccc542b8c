package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// acknowledged is a cycle that a killed child had acknowledged.
type acknowledged struct{ runID, permitID string }

// load is what one child did.
type load struct {
	rate float64       // cycles a second in the window
	p50  time.Duration // of one cycle
	acks []acknowledged
}

// start starts this program as a child that ends with ctx, and with the end of its input.
func (b *bench) start(ctx context.Context, args ...string) (cmd *exec.Cmd, in io.WriteCloser, out io.ReadCloser, err error) {
	cmd = exec.CommandContext(ctx, b.self, args...)
	cmd.Stderr = os.Stderr
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, nil, err
	}
	return cmd, in, out, cmd.Start()
}

// killed starts a child, lets it work to the end of its window and a little on,
// and kills it with signal 9.
func (b *bench) killed(ctx context.Context, o order) (_ *load, err error) {
	cmd, in, out, err := b.start(ctx, childArgument)
	if err != nil {
		return nil, err
	}
	if _, err := in.Write(append(encode(o), '\n')); err != nil {
		return nil, errors.Join(err, cmd.Process.Kill())
	}
	l, measured := &load{}, false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		text := lines.Text()
		kind, rest, _ := strings.Cut(text, " ")
		switch kind {
		case "ack":
			runID, permitID, _ := strings.Cut(rest, " ")
			l.acks = append(l.acks, acknowledged{runID, permitID})
		case "window":
			var n, length, middle int64
			if _, scanErr := fmt.Sscan(rest, &n, &length, &middle); scanErr != nil || length <= 0 {
				err = fmt.Errorf("unreadable window %q", text)
			}
			l.rate, l.p50, measured = float64(n)/time.Duration(length).Seconds(), time.Duration(middle), true
			if killErr := cmd.Process.Kill(); killErr != nil {
				err = errors.Join(err, killErr)
			}
		default:
			err = errors.Join(err, errors.New(text))
		}
	}
	waitErr := cmd.Wait() // ends as killed, which is what is wanted
	if err == nil && !measured {
		err = fmt.Errorf("the child ended before its window did: %w", waitErr)
	}
	return l, errors.Join(err, lines.Err())
}
