package identity

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// MaxWrong is how many wrong secrets one remote address has in a minute.
	MaxWrong = 5
	// MaxWrongAll is how many the whole process has in a minute.
	MaxWrongAll = 100
)

// window is how long a failure counts: at now == failure + window it does not.
const window = time.Minute

// RateLimitError refuses an attempt to sign in. The next one after RetryAfter
// has passed is compared again.
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

// try calls right unless a bound was reached, and remembers when it says no. The
// lock is held throughout, so that attempts at once cannot pass the bound together.
func (f *failures) try(now time.Time, remote string, right func() bool, without check) error {
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
	case right():
		return nil
	}
	f.list = append(f.list, failure{now, remote})
	return ErrUnauthenticated
}
