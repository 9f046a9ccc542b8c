package outbox

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Send sends one report once and returns the server's answer, or an error when none came
// that can be trusted to be the server's. It must end when ctx does. It is called without any lock held.
type Send func(ctx context.Context, e Entry) (Answer, error)

// Answer is what decides about a report.
type Answer struct {
	Status     int           // of HTTP
	Reason     string        // reasonCode of a problem, empty when there is none
	Detail     string        // what the problem says and advises, printable and without secrets; may be empty
	RetryAfter time.Duration // what the server asks for; zero when it asks for nothing
	// Keep says that a 4xx is about who has asked and not about the report, which stays: it may
	// succeed with another token.
	Keep bool
}

// String is the answer in the words of whoever is told of it.
func (a Answer) String() string {
	said := fmt.Sprint(a.Status)
	for _, s := range []string{a.Reason, a.Detail} {
		if s != "" {
			said += " " + s
		}
	}
	return said
}

// verdict is what an answer means for a report.
type verdict int

const (
	keep verdict = iota
	delivered
	refused
)

// Delivered reports whether the server has the report.
func (a Answer) Delivered() bool { return a.verdict() == delivered }

// Final reports whether the report is dropped.
func (a Answer) Final() bool { return a.verdict() == refused }

func (a Answer) verdict() verdict {
	switch s := a.Status; {
	case s >= 200 && s < 300:
		return delivered
	case s < 400 || s >= 500 || a.Keep:
		return keep
	case s == http.StatusRequestTimeout, s == http.StatusTooEarly, s == http.StatusTooManyRequests:
		return keep
	case s == http.StatusConflict && a.Reason == "idempotency_in_progress":
		return keep
	}
	return refused
}

// MinBackoff and MaxBackoff bound how long a report waits between two attempts, unless
// the server asks for more; no wish of it is obeyed beyond MaxRetryAfter.
const (
	MinBackoff    = 500 * time.Millisecond
	MaxBackoff    = time.Minute
	MaxRetryAfter = 5 * time.Minute
)

// backoff is how long to wait after so many attempts. chance is in [0, 1).
func backoff(attempts int, chance float64) time.Duration {
	longest := MaxBackoff
	if attempts < 7 { // 2^7 times the least is above the most
		longest = MinBackoff << attempts
	}
	return longest/2 + time.Duration(chance*float64(longest/2))
}
