package main

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is what the kernel says of one.
type process struct {
	pid, parent int
	state       string // Z and X are dead
	command     string // the subcommand of the program
}

// processes are all that there are.
func processes(t *testing.T) (list []process) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	for _, name := range stats {
		p, ok := look(name)
		if ok {
			list = append(list, p)
		}
	}
	return list
}

// look reads /proc/PID/stat; a process that has just gone is none.
func look(stat string) (p process, ok bool) {
	text, err := os.ReadFile(stat)
	if err != nil {
		return p, false
	}
	arguments, err := os.ReadFile(filepath.Join(filepath.Dir(stat), "cmdline"))
	if err != nil {
		return p, false
	}
	if words := strings.Split(string(arguments), "\x00"); len(words) > 1 {
		p.command = words[1]
	}
	pid, rest, _ := strings.Cut(string(text), " (")
	fields := strings.Fields(rest[strings.LastIndexByte(rest, ')')+1:])
	if p.pid, err = strconv.Atoi(pid); err != nil {
		return p, false
	}
	p.state = fields[0]
	p.parent, err = strconv.Atoi(fields[1])
	return p, err == nil
}

// alive reports whether the process runs or is stopped.
func alive(pid int) bool {
	p, ok := look(fmt.Sprintf("/proc/%d/stat", pid))
	return ok && p.state != "Z" && p.state != "X"
}

// await looks again and again until it is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !so(); time.Sleep(5 * time.Millisecond) { // the kernel tells nobody
		if time.Now().After(limit) {
			t.Fatalf("after 20 s still not: %s", what)
		}
	}
}

// actingDemo starts a demo and holds it while the agent acts: the test has the lock
// of the control plane's ledger, so that the agent waits for an answer. It returns
// the children by command.
func actingDemo(t *testing.T, name, dir string) (cmd *exec.Cmd, out io.Reader, children map[string]int) {
	t.Helper()
	cmd = program(t, "demo", "--json", "--dir", dir)
	cmd.Args[0] = name
	pipe, err := cmd.StdoutPipe()
	must(t, err)
	log := &tail{}
	cmd.Stderr = log
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "control", "countersign.db")+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	must(t, err)
	t.Cleanup(func() { db.Close() })
	buffered := bufio.NewReader(pipe)
	until := func(action string) {
		t.Helper()
		for {
			line, err := buffered.ReadBytes('\n')
			if err != nil {
				t.Fatalf("the demo ended before %q: %v\n%s", action, err, log)
			}
			var entry struct{ Action string }
			must(t, json.Unmarshal(line, &entry))
			if entry.Action == action {
				return
			}
		}
	}
	until("issue the run's token")
	held, err := db.Begin()
	must(t, err)
	t.Cleanup(func() { _ = held.Rollback() }) // the file may be gone
	until("observe")                          // what comes next is a commit
	children = map[string]int{}
	for _, p := range processes(t) {
		if p.parent == cmd.Process.Pid {
			children[p.command] = p.pid
		}
	}
	t.Cleanup(func() { // of those that the demo's end did not end
		for command, pid := range children {
			if p, ok := look(fmt.Sprintf("/proc/%d/stat", pid)); ok && p.command == command {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	for _, command := range []string{"serve", "store", "agent"} {
		if !alive(children[command]) {
			t.Fatalf("%s is not alive while the agent acts: %v", command, children)
		}
	}
	return cmd, buffered, children
}

// TestDemoKilled kills the demo with -9 while its agent acts. The kernel ends the
// children, the agent included, and the locks they hold become free.
func TestDemoKilled(t *testing.T) {
	t.Run("bound", func(t *testing.T) {
		dir := t.TempDir()
		cmd, out, children := actingDemo(t, "countersign", dir)
		for _, name := range []string{"control", "store"} {
			if !locked(t, dir, name) {
				t.Fatalf("the folder %s is free while the demo runs", name)
			}
		}
		must(t, cmd.Process.Kill())
		rest, err := io.ReadAll(out)
		must(t, err)
		if strings.Contains(string(rest), "result") {
			t.Error("a killed demo said how it ended")
		}
		_ = cmd.Wait()
		for command, pid := range children {
			await(t, command+" has ended", func() bool { return !alive(pid) })
		}
		for _, name := range []string{"control", "store"} {
			await(t, "the folder "+name+" is free", func() bool { return !locked(t, dir, name) })
		}
	})
	// Negative control: children that are not bound live on and work.
	t.Run("unbound", func(t *testing.T) {
		dir := t.TempDir()
		cmd, _, children := actingDemo(t, unbound, dir)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		for _, name := range []string{"control", "store"} {
			log, err := os.ReadFile(filepath.Join(dir, name+".log"))
			must(t, err)
			_, line, _ := strings.Cut(string(log), readyMark)
			origin, _, _ := strings.Cut(line, "\n")
			r, err := http.Get(strings.TrimSpace(origin) + "/healthz")
			must(t, err)
			r.Body.Close()
			if !locked(t, dir, name) {
				t.Errorf("the folder %s is free", name)
			}
		}
		if !alive(children["agent"]) {
			t.Error("the agent has ended")
		}
	})
}

// locked reports whether a server has the folder of that name.
func locked(t *testing.T, dir, name string) bool {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, name, "lock"))
	must(t, err)
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}
