package identity

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// MaxWrong is how many wrong secrets one remote address has in a minute until
	// the next one is a [RateLimitError].
	MaxWrong = 5
	// MaxWrongAll is how many the whole process has.
	MaxWrongAll = 100
)

// window is how long a failure counts: at now == failure + window it does not.
const window = time.Minute

// RateLimitError refuses a wrong secret after too many others. One after RetryAfter
// has passed is [ErrUnauthenticated] again.
type RateLimitError struct{ RetryAfter time.Duration }

func (e *RateLimitError) Error() string {
	return fmt.Sprintf("identity: too many wrong secrets, again in %s", e.RetryAfter)
}

type failure struct {
	at     time.Time
	remote string
}

// failures remembers the wrong secrets of the last minute, oldest first. It
// never holds more than MaxWrongAll.
type failures struct {
	mu   sync.Mutex
	list []failure
}

// count remembers a wrong secret, unless a bound was reached, and returns how it is
// refused. The lock is held throughout, so that attempts at once cannot pass the bound together.
func (f *failures) count(now time.Time, remote string, without check) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	// One of the future is from before the clock was set back.
	f.list = slices.DeleteFunc(f.list, func(x failure) bool { return now.Sub(x.at) >= window || now.Before(x.at) })
	var own []failure
	for _, x := range f.list {
		if x.remote == remote {
			own = append(own, x)
		}
	}
	switch {
	case len(own) >= MaxWrong && without != checkOwn:
		return &RateLimitError{window - now.Sub(own[0].at)}
	case len(f.list) >= MaxWrongAll && without != checkAll:
		return &RateLimitError{window - now.Sub(f.list[0].at)}
	}
	f.list = append(f.list, failure{now, remote})
	return ErrUnauthenticated
}
