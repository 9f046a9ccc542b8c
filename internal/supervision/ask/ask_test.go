package ask_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"countersign/internal/supervision/ask"
)

// Whoever asks goes on at the end of the context and the grace, whatever is done with
// that end, and hears nothing of what comes later.
func TestWithin(t *testing.T) {
	broken := errors.New("broken")
	never := make(chan struct{})
	for name, c := range map[string]struct {
		grace time.Duration
		f     func(context.Context) (int, error)
		value int
		err   error
		after time.Duration
	}{
		"answers":                 {0, func(context.Context) (int, error) { return 7, nil }, 7, nil, 0},
		"fails":                   {0, func(context.Context) (int, error) { return 0, broken }, 0, broken, 0},
		"gives up with its time":  {time.Second, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, broken }, 0, broken, 5 * time.Second},
		"passes over its end":     {0, func(context.Context) (int, error) { <-never; return 7, nil }, 0, context.DeadlineExceeded, 5 * time.Second},
		"answers within grace":    {2 * time.Second, func(context.Context) (int, error) { time.Sleep(6 * time.Second); return 7, nil }, 7, nil, 6 * time.Second},
		"answers behind grace":    {time.Second, func(context.Context) (int, error) { time.Sleep(9 * time.Second); return 7, nil }, 0, context.DeadlineExceeded, 6 * time.Second},
		"never, in spite of time": {time.Second, func(context.Context) (int, error) { <-never; return 7, nil }, 0, context.DeadlineExceeded, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never = make(chan struct{})
				defer time.Sleep(time.Minute) // for who still runs
				defer close(never)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				begin := time.Now()
				value, err := ask.Within(ctx, c.grace, c.f)
				if took := time.Since(begin); value != c.value || !errors.Is(err, c.err) || took != c.after {
					t.Errorf("%d, %v after %s; want %d, %v after %s", value, err, took, c.value, c.err, c.after)
				}
			})
		})
	}
}

// A panic is an error that quotes no value, and says where.
func TestPanic(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"text":    {"the secret", "string"},
		"error":   {errors.New("the secret"), "*errors.errorString"},
		"runtime": {nil, "nil pointer"},
	} {
		_, err := ask.Within(t.Context(), 0, func(context.Context) (int, error) {
			if c.value == nil {
				var p *int
				return *p, nil
			}
			panic(c.value)
		})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "ask_test.go") || strings.Contains(err.Error(), "the secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
