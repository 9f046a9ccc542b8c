package ledgertest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Control is a negative control: a check that runs with one guard switched off
// and has to notice it.
type Control struct {
	Test  string // whose check it is
	Off   string // what is switched off
	Want  string // part of what the check must report
	Check func(testing.TB)
}

// RunControls runs each control as a subtest, which fails when its check
// reports nothing or something else only.
func RunControls(t *testing.T, controls []Control) {
	t.Helper()
	for _, c := range controls {
		t.Run(c.Test+": "+c.Off, func(t *testing.T) {
			reported := record(t, c.Check)
			if len(reported) == 0 {
				t.Fatal("the check notices nothing")
			}
			if !slices.ContainsFunc(reported, func(text string) bool { return strings.Contains(text, c.Want) }) {
				t.Fatalf("the check reports %q, want %q", reported, c.Want)
			}
		})
	}
}

// record runs a check, with its cleanups, and returns what it reports.
func record(t testing.TB, check func(testing.TB)) []string {
	r := &recorder{TB: t}
	r.run(func() { check(r) })
	for len(r.cleanups) > 0 {
		last := len(r.cleanups) - 1
		cleanup := r.cleanups[last]
		r.cleanups = r.cleanups[:last]
		r.run(cleanup)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reported
}

// recorder is a testing.TB that keeps what a check reports.
type recorder struct {
	testing.TB
	cleanups []func() // of the goroutine that checks

	mu       sync.Mutex
	reported []string
}

// run returns when f has, also by FailNow.
func (r *recorder) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (r *recorder) report(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reported = append(r.reported, text)
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.reported) > 0
}

func (r *recorder) Cleanup(f func())                  { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any)                 { r.report(fmt.Sprintln(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.report(fmt.Sprintf(format, args...)) }
func (r *recorder) Fail()                             { r.report("failed") }
func (r *recorder) Log(...any)                        {}
func (r *recorder) Logf(string, ...any)               {}

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
