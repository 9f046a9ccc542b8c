package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"countersign/internal/command"
)

// untilEnded is a context that ends when the process is told to: by Ctrl-C, SIGTERM or the
// end of its terminal, or because nobody reads its output any more. Every command cleans
// up then. The streams are those to write to.
func untilEnded(s streams) (context.Context, streams, func()) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup asks that the command outlives its terminal
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	ctx, cancel := context.WithCancel(ctx)
	// A write to a standard stream that nobody reads ends a Go process by SIGPIPE, unless
	// the process takes that signal. It then gets the error. The signal itself says nothing:
	// sockets whose other end has gone send it too.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	s.Out, s.Err = command.Shown(&outlet{s.Out, cancel}), command.Shown(&outlet{s.Err, cancel})
	return ctx, s, func() {
		signal.Stop(pipe)
		cancel()
		stop()
	}
}

// outlet is a standard stream. It tells when nobody reads it any more.
type outlet struct {
	io.Writer
	unread func()
}

func (o *outlet) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.unread()
	}
	return n, err
}
