package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// grace is what a process group gets between SIGINT and SIGKILL.
var grace = 10 * time.Second

// command prepares a child in a process group of its own. When ctx ends the
// group gets SIGINT, so that test binaries can stop what they started; [wait]
// kills what is left of it.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = grace
	return cmd
}

// wait waits for a started command. If its context ended it also kills the
// processes that the command left in its group.
func wait(ctx context.Context, cmd *exec.Cmd) error {
	err := cmd.Wait()
	if ctx.Err() != nil {
		return errors.Join(err, ctx.Err(), killGroup(cmd))
	}
	return err
}

// killGroup kills the process group of a command that was started.
func killGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if err != nil && !errors.Is(err, syscall.ESRCH) { // ESRCH: the group is empty, which is what is wanted
		return fmt.Errorf("killing a process group: %w", err)
	}
	return nil
}

// stream runs a command and lets its output through.
func stream(ctx context.Context, out io.Writer, name string, args ...string) error {
	cmd := command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := wait(ctx, cmd); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// capture runs a command and returns its whole output, also when it fails.
func capture(ctx context.Context, name string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := stream(ctx, &out, name, args...)
	return out.Bytes(), err
}

// parts times the parts of a gate.
type parts struct {
	out   io.Writer
	names []string
	took  []time.Duration
}

// run runs one part and says how it went.
func (p *parts) run(name string, part func() error) error {
	fmt.Fprintf(p.out, "== %s\n", name)
	start := time.Now()
	err := part()
	took := time.Since(start)
	p.names, p.took = append(p.names, name), append(p.took, took)
	if err != nil {
		fmt.Fprintf(p.out, "== %s failed after %s\n", name, minutes(took))
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// print prints the time of every part.
func (p *parts) print() {
	fmt.Fprintln(p.out, "minutes per part:")
	var sum time.Duration
	for i, name := range p.names {
		fmt.Fprintf(p.out, "  %s  %s\n", minutes(p.took[i]), name)
		sum += p.took[i]
	}
	fmt.Fprintf(p.out, "  %s  together\n", minutes(sum))
}

// minutes formats a duration as minutes and seconds.
func minutes(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%2d:%02d", s/60, s%60)
}
