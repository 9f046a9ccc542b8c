package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// module writes files into a new module m and makes it the working folder.
func module(t *testing.T, files map[string]string) {
	t.Helper()
	folder := t.TempDir()
	files["go.mod"] = "module m\n\ngo 1.26\n"
	for name, text := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
}

func tests(pkg, functions string) string {
	return "package " + pkg + "\n\nimport \"testing\"\n\n" + functions
}

// TestReport runs go test over packages that each do one thing wrong, and reads
// what the gate says of them.
func TestReport(t *testing.T) {
	module(t, map[string]string{
		"good/good_test.go": tests("good", `func TestGood(t *testing.T) { t.Log("talk of a good test") }`),
		"bare/bare_test.go": tests("bare", `func TestBare(t *testing.T) { t.Skip() }
func TestNow(t *testing.T) { t.SkipNow() }
func TestSaid(t *testing.T) { t.Skip("needs a moon") }`),
		"none/none.go":        "package none\n",
		"bad/bad_test.go":     tests("bad", `func TestBad(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Error("what went wrong") }) }`),
		"end/end_test.go":     tests("end", `func TestEnd(t *testing.T) { t.Log("last words"); panic("thrown") }`),
		"build/build_test.go": tests("build", `func TestBuild(t *testing.T) { undefined() }`),
		"one/one_test.go":     tests("one", `func TestLedger(t *testing.T) { for _, n := range []string{"a", "b", "c"} { t.Run(n, func(t *testing.T) {}) } }`),
		"two/two_test.go": tests("two", `func TestLedger(t *testing.T) {
	t.Run("a", func(t *testing.T) {})
	t.Run("b", func(t *testing.T) { t.Skip("not here") })
	t.Run("d", func(t *testing.T) {})
}`),
		"points/points_test.go": tests("points", `func TestLedger(t *testing.T) { t.Run("Own", func(t *testing.T) { t.Run("p", func(t *testing.T) {}) }) }`),
		"others/others_test.go": tests("others", `func TestLedger(t *testing.T) { t.Run("Own", func(t *testing.T) { t.Run("q", func(t *testing.T) {}) }) }`),
		"empty/empty_test.go":   tests("empty", `func TestLedger(t *testing.T) { t.Run("Own", func(t *testing.T) {}) }`),
		"kill/kill_test.go": tests("kill", `func TestKill(t *testing.T) {
	for i, engine := range []string{"all", "few"} {
		t.Run(engine, func(t *testing.T) {
			t.Run("first", func(t *testing.T) { t.Logf("fail point %q hit, 1 of 2: killed", "before it") })
			if i == 0 { t.Run("second", func(t *testing.T) { t.Logf("fail point %q hit, 2 of 2: killed", "after it") }) }
		})
	}
	t.Run("none", func(t *testing.T) { t.Log("killed at a fail point") })
	t.Run("odd", func(t *testing.T) { t.Logf("fail point %q hit, 1 of 1", "a"); t.Logf("fail point %q hit, 2 of 2", "b") })
	t.Run("same", func(t *testing.T) { t.Logf("fail point %q hit, 1 of 2", "a"); t.Logf("fail point %q hit, 2 of 2", "a") })
}`),
		"fuzz/fuzz_test.go": tests("fuzz", `func FuzzSeeded(f *testing.F) { f.Add("x"); f.Fuzz(func(*testing.T, string) {}) }
func FuzzEmpty(f *testing.F) { f.Fuzz(func(*testing.T, string) {}) }`),
	})
	for name, c := range map[string]struct {
		packages []string
		fails    bool // go test itself
		pairs    []twins
		targets  []target
		points   []pointList
		found    []string
		prints   []string
		silent   []string
	}{
		"good": {
			packages: []string{"./good", "./none"},
			prints:   []string{"ok  \tm/good\t", "?   \tm/none\t[no test files]", "1 tests in 1 packages: 1 passed, 0 failed, 0 skipped"},
			silent:   []string{"talk of a good test", "PASS"},
		},
		"skipped": {
			packages: []string{"./good", "./bare"},
			found:    []string{"m/bare TestBare was skipped without a reason", "m/bare TestNow was skipped without a reason"},
			prints:   []string{"skipped: m/bare TestSaid: needs a moon"},
		},
		"nothing ran": {packages: []string{"./none"}, found: []string{"no test ran"}},
		"failed": {
			packages: []string{"./bad", "./good"},
			fails:    true,
			prints:   []string{"--- FAIL: TestBad/sub", "what went wrong", "FAIL\tm/bad\t", "ok  \tm/good\t"},
		},
		"panicked":     {packages: []string{"./end"}, fails: true, prints: []string{"last words", "panic: thrown", "FAIL\tm/end\t"}},
		"not compiled": {packages: []string{"./build"}, fails: true, prints: []string{"undefined: undefined", "FAIL\tm/build [build failed]"}, found: []string{"no test ran"}},
		"twins differ": {
			packages: []string{"./one", "./two"},
			pairs:    []twins{{[2]string{"m/one", "m/two"}, "TestLedger", nil}},
			found: []string{
				"TestLedger/b ran on m/one and not on m/two",
				"TestLedger/c ran on m/one and not on m/two",
				"TestLedger/d ran on m/two and not on m/one",
			},
		},
		"a twin is missing": {
			packages: []string{"./one"},
			pairs:    []twins{{[2]string{"m/one", "m/two"}, "TestLedger", nil}},
			found:    []string{"m/two ran nothing below TestLedger"},
		},
		"twins with lists of their own": {
			packages: []string{"./points", "./others"},
			pairs:    []twins{{[2]string{"m/points", "m/others"}, "TestLedger", []string{"Own"}}},
		},
		"a list of its own is empty": {
			packages: []string{"./points", "./none", "./empty"},
			pairs:    []twins{{[2]string{"m/points", "m/empty"}, "TestLedger", []string{"Own"}}},
			found:    []string{"TestLedger/Own/... ran on m/points and not on m/empty"},
		},
		"fail points": {
			packages: []string{"./kill"},
			points:   killed("all", "few", "none", "odd", "same"),
			found: []string{
				"m/kill TestKill/few: 1 of 2 fail points were hit",
				"m/kill TestKill/none printed no fail point",
				"m/kill TestKill/odd prints 1 and 2 fail points",
				"m/kill TestKill/same: 1 of 2 fail points were hit",
			},
			prints: []string{
				"  all: 2 of 2: before it, after it\n", "  few: 1 of 2: before it\n", "  none: 0 of 0: \n",
			},
			silent: []string{"killed at a fail point", ": killed\n"},
		},
		"fail points of a list that is gone": {
			packages: []string{"./good"},
			points:   killed("all"),
			found:    []string{"m/kill TestKill/all printed no fail point"},
		},
		"fail points that are not listed": {
			packages: []string{"./kill"},
			points:   killed("all", "odd", "same"),
			found: []string{
				"m/kill TestKill/few/first prints fail points and is not listed in internal/testsuite/points.go",
				"m/kill TestKill/odd prints 1 and 2 fail points",
				"m/kill TestKill/same: 1 of 2 fail points were hit",
			},
		},
		"twins agree": {packages: []string{"./one"}, pairs: []twins{{[2]string{"m/one", "m/one"}, "TestLedger", nil}}},
		"no seed": {
			packages: []string{"./fuzz"},
			targets:  []target{{"m/fuzz", "FuzzSeeded", 1}, {"m/fuzz", "FuzzEmpty", 1}},
			found:    []string{"m/fuzz FuzzEmpty ran no seed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			r := newReport(&out)
			err := goTest(t.Context(), r, nil, append([]string{"-count=1"}, c.packages...)...)
			if (err != nil) != c.fails {
				t.Errorf("go test: %v, want an error: %v", err, c.fails)
			}
			r.summary(10)
			r.printPoints(c.points)
			if found := r.gate(c.pairs, c.targets, c.points); !slices.Equal(found, c.found) {
				t.Errorf("found %q, want %q", found, c.found)
			}
			for _, text := range c.prints {
				if !strings.Contains(out.String(), text) {
					t.Errorf("does not print %q", text)
				}
			}
			for _, text := range c.silent {
				if strings.Contains(out.String(), text) {
					t.Errorf("prints %q", text)
				}
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}

// killed are lists of fail points of the package kill.
func killed(names ...string) (lists []pointList) {
	for _, name := range names {
		lists = append(lists, pointList{name, testID{"m/kill", "TestKill/" + name}})
	}
	return lists
}

func TestSlowest(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out)
	for _, line := range []string{
		`{"Action":"run","Package":"m","Test":"TestA"}`,
		`{"Action":"run","Package":"m","Test":"TestA/slow"}`,
		`{"Action":"pass","Package":"m","Test":"TestA/slow","Elapsed":3}`,
		`{"Action":"pass","Package":"m","Test":"TestA/quick","Elapsed":1}`,
		`{"Action":"pass","Package":"m","Test":"TestA","Elapsed":4}`,
		`{"Action":"pass","Package":"m","Test":"TestB","Elapsed":2}`,
	} {
		r.line([]byte(line))
	}
	r.summary(2)
	_, slowest, _ := strings.Cut(out.String(), "slowest tests:\n")
	if want := "     3.00s  m TestA/slow\n     2.00s  m TestB\n"; slowest != want {
		t.Errorf("got\n%swant\n%s", slowest, want)
	}
}

// TestInterrupt ends the context in the middle of a test that has started a
// child which ignores the interrupt. go test, the test and the child must all be
// gone: the test and its child hold a pipe open, which closes with the last.
func TestInterrupt(t *testing.T) {
	shortGrace(t)
	module(t, map[string]string{"m_test.go": tests("m", `
import (
	"os"
	"os/exec"
)

func TestForever(t *testing.T) {
	pipe, err := os.OpenFile("pipe", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "trap '' INT; echo ready; while :; do sleep 600; done")
	cmd.Stdout, cmd.Stderr = pipe, os.Stderr
	t.Fatal(cmd.Run())
}`)})
	if err := syscall.Mkfifo("pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- goTest(ctx, newReport(new(bytes.Buffer)), nil, "-count=1", ".") }()

	pipe, err := os.OpenFile("pipe", os.O_RDWR, 0) // not to wait for a writer that may never come
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	ready := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(pipe, make([]byte, len("ready\n")))
		ready <- err
	}()
	select {
	case err := <-ready:
		if err != nil {
			t.Fatal(err)
		}
	case err := <-done:
		t.Fatalf("the run ended before its test began: %v", err)
	}
	reader, err := os.Open("pipe")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	pipe.Close() // leaves the test and its child as the only writers

	cancel()
	if err := <-done; err == nil {
		t.Error("an interrupted run reports no error")
	}
	if err := reader.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(reader); err != nil {
		t.Errorf("a process outlives the run: read %q, %v", rest, err)
	}
}

// shortGrace is for tests whose processes ignore the interrupt.
func shortGrace(t *testing.T) {
	before := grace
	t.Cleanup(func() { grace = before })
	grace = 200 * time.Millisecond
}

func TestUsage(t *testing.T) {
	t.Chdir("../..")
	for _, args := range [][]string{nil, {"unknown"}, {"test", "more"}} {
		var out, problems bytes.Buffer
		if status := run(t.Context(), &out, &problems, args); status != 2 {
			t.Errorf("%q: exit status %d, want 2", args, status)
		}
	}
	t.Chdir(t.TempDir())
	if status := run(t.Context(), new(bytes.Buffer), new(bytes.Buffer), []string{"check"}); status != 2 {
		t.Errorf("outside the module: exit status %d, want 2", status)
	}
}

// TestWithoutCluster looks at the configuration while the package would be
// installed, and after it.
func TestWithoutCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "createcluster.conf")
	const before = "create_main_cluster = true\n"
	if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("the installation failed")
	err := withoutCluster(file, func() error {
		during, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		lines := strings.Fields(strings.TrimSpace(string(during)))
		if last := strings.Join(lines[len(lines)-3:], " "); last != "create_main_cluster = false" {
			t.Errorf("the last setting is %q", last)
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("got %v, want the failure of the installation", err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != before {
		t.Errorf("afterwards the file holds %q (%v), want %q", after, err, before)
	}
}

func TestWaitKillsWhatIgnoresTheInterrupt(t *testing.T) {
	shortGrace(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := command(ctx, "sh", "-c", `trap "" INT; echo ready; sleep 600 & wait; sleep 600`)
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	line := make([]byte, len("ready\n"))
	if _, err := read.Read(line); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := wait(ctx, cmd); err == nil {
		t.Error("a killed command reports no error")
	}
	// The pipe closes when the last process of the group is gone.
	if n, err := read.Read(line); n != 0 || err == nil {
		t.Errorf("read %d bytes, %v; want the end of the pipe", n, err)
	}
}
