package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"countersign/internal/supervision/gateway"
)

// A test binary that finds childVariable in its environment is a child: a shop or
// a control plane of its own process, which may be killed.
const childVariable = "COUNTERSIGN_GATEWAY_CHILD"

// task is what a child is told; exactly one member is set.
type task struct {
	Shop    *shopTask    `json:",omitempty"`
	Control *controlTask `json:",omitempty"`
	Step    *stepTask    `json:",omitempty"`
}

// line is one thing that a child says.
type line struct {
	Origin string `json:",omitempty"` // of a shop
	Manage string `json:",omitempty"` // where a shop is told what to do
	Run    string `json:",omitempty"` // of a control plane: the run it made
	Point  string `json:",omitempty"` // reached, and waiting for the end
	Err    string `json:",omitempty"`
	// Request is what a control plane is about to be asked.
	Request *gateway.OperateRequest `json:",omitempty"`
}

func runChild(text string) int {
	go func() { // the parent holds the other end: without it there is no child
		io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	var t task
	err := json.Unmarshal([]byte(text), &t)
	switch {
	case err != nil:
	case t.Shop != nil:
		err = t.Shop.serve()
	case t.Control != nil:
		err = t.Control.work()
	case t.Step != nil:
		err = t.Step.work()
	}
	if err != nil {
		say(line{Err: err.Error()})
		return 1
	}
	return 0
}

func say(l line) {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", text)
}

// child is a running child. Its methods are called from one goroutine.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan line
	ended bool
}

func startChild(t *testing.T, what task) *child {
	t.Helper()
	text, err := json.Marshal(what)
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	// No context: the end of the test kills it, see below.
	c := &child{t: t, cmd: exec.CommandContext(context.Background(), self), lines: make(chan line, 64)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	must(t, err)
	stdout, err := c.cmd.StdoutPipe()
	must(t, err)
	must(t, c.cmd.Start())
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			var l line
			if json.Unmarshal(s.Bytes(), &l) != nil {
				l = line{Err: s.Text()}
			}
			c.lines <- l
		}
	}()
	t.Cleanup(func() { stdin.Close(); c.kill() })
	return c
}

// next waits for what the child says next; false when it has ended.
func (c *child) next() (line, bool) {
	c.t.Helper()
	select {
	case l, ok := <-c.lines:
		if l.Err != "" {
			c.t.Fatalf("child: %s", l.Err)
		}
		return l, ok
	case <-time.After(time.Minute):
		c.t.Fatal("a child says nothing")
		return line{}, false
	}
}

// kill ends the child with -9 and waits for its end.
func (c *child) kill() {
	if !c.ended {
		c.ended = true
		c.cmd.Process.Kill()
		c.wait()
	}
}

// wait waits for the child's end.
func (c *child) wait() {
	for range c.lines {
	}
	c.cmd.Wait() // its status is that of a killed process
	c.ended = true
}
