package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is this program started again as another process.
type child struct {
	name   string
	cmd    *exec.Cmd
	ready  chan string   // the origin it serves
	exited chan struct{} // closed when it has ended
	err    error         // then how
	tail   tail
}

// bind has children end with this process however it ends. Tests leave it out.
var bind = dieWithParent

// newChild prepares a child. It gets exactly this environment, and its stderr
// goes to log.
func newChild(name string, env []string, log io.Writer, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{name: name, cmd: exec.Command(self, args...), ready: make(chan string, 1), exited: make(chan struct{})}
	c.cmd.Args[0] = os.Args[0]             // the name that this process goes by
	c.cmd.Env = append([]string{}, env...) // not nil, which would inherit
	c.cmd.Stderr = io.MultiWriter(log, &c.tail, &readyWatch{found: c.ready})
	// A group of its own: Ctrl-C reaches this process alone, which ends the
	// children in their order.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	bind(c.cmd.SysProcAttr)
	return c, nil
}

// start starts the child.
func (c *child) start() error {
	started := make(chan error)
	go func() {
		// The kernel counts the end of the starting thread as the parent's end.
		runtime.LockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.exited)
		}
	}()
	return <-started
}

// serve starts a server and waits until it says where it is ready.
func (c *child) serve(ctx context.Context) (origin string, err error) {
	if err := c.start(); err != nil {
		return "", err
	}
	select {
	case origin := <-c.ready:
		return origin, nil
	case <-c.exited:
		return "", fmt.Errorf("the process %s did not start:\n%s", c.name, c.tail.String())
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// stopGrace is longer than the 10 s in which a server ends on SIGTERM.
const stopGrace = 12 * time.Second

// stop ends the child and waits for it.
func (c *child) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-c.exited:
	case <-time.After(stopGrace):
		_ = c.cmd.Process.Kill() // it may have ended just now
		<-c.exited
	}
	if c.err != nil {
		return fmt.Errorf("the process %s did not end well: %w", c.name, c.err)
	}
	return nil
}

// tail keeps the last lines that a child wrote, for the error that says why it
// did not start.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailSize = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-tailSize):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}

// readyWatch looks for the line that begins with readyMark.
type readyWatch struct {
	found chan string
	line  []byte
}

func (w *readyWatch) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		w.line = append(w.line, part...)
		if part[len(part)-1] != '\n' {
			continue
		}
		if origin, ok := strings.CutPrefix(string(w.line), readyMark); ok {
			select {
			case w.found <- strings.TrimSpace(origin):
			default:
			}
		}
		w.line = w.line[:0]
	}
	return len(p), nil
}
