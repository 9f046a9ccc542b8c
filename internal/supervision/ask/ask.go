// Package ask puts a bound around a question to somebody whose answer is not to be
// relied on: a guardian, an executor, a store. Whatever they do, who asks goes on.
package ask

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// Within returns what f returns, or ctx's error when f has not returned by the end of ctx
// and grace more, even if f passes over the end of its context: an answer that comes later
// is thrown away. A panic of f is an error. f may still run after Within has returned, so
// it must not share what its caller changes.
func Within[T any](ctx context.Context, grace time.Duration, f func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	heard := make(chan answer, 1)
	go func() {
		var a answer
		a.err = Safely(func() (err error) {
			a.value, err = f(ctx)
			return err
		})
		heard <- a
	}()
	select {
	case a := <-heard:
		return a.value, a.err
	case <-ctx.Done():
	}
	end := time.NewTimer(grace)
	defer end.Stop()
	select {
	case a := <-heard:
		return a.value, a.err
	case <-end.C:
		var none T
		return none, ctx.Err()
	}
}

// Safely returns what f returns, and a panic of f as an error, for what runs where a panic
// would end the process.
func Safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	return f()
}

// panicked names the type of a value alone, which may quote anything; what the runtime
// says does not.
func panicked(v any) error {
	what := fmt.Sprintf("%T", v)
	if err, ok := v.(runtime.Error); ok {
		what = err.Error()
	}
	return fmt.Errorf("ask: whoever was asked panicked: %s\n%s", what, debug.Stack())
}
