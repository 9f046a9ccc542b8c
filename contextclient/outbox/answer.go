package outbox

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Send sends one report once and returns the server's answer, or an error when none came
// that can be trusted to be the server's. It must end when ctx does. It is called without any lock held.
type Send func(ctx context.Context, e Entry) (Answer, error)

// Answer is what decides about a report.
type Answer struct {
	Status     int           // of HTTP
	Reason     string        // reasonCode of a problem, empty when there is none
	RetryAfter time.Duration // what the server asks for; zero when it asks for nothing
}

// maxProblem bounds how much of a refusal is read.
const maxProblem = 16 << 10

// AnswerOf reads the status, Retry-After and, of a refusal, the reasonCode of a
// response. The body of a 2xx is left to the caller; it does not close the body.
func AnswerOf(r *http.Response) (Answer, error) {
	a := Answer{Status: r.StatusCode, RetryAfter: retryAfter(r.Header.Get("Retry-After"))}
	if r.StatusCode < 400 {
		return a, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxProblem))
	if err != nil {
		return a, err
	}
	var problem struct {
		ReasonCode string `json:"reasonCode"`
	}
	if json.Unmarshal(body, &problem) == nil { // a refusal without a code stays one: the status decides
		a.Reason = problem.ReasonCode
	}
	return a, nil
}

// retryAfter reads whole seconds, the one form that the server sends.
func retryAfter(value string) time.Duration {
	seconds, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, MaxAge)
}

// verdict is what an answer means for a report.
type verdict int

const (
	keep verdict = iota
	delivered
	refused
)

func (a Answer) verdict() verdict {
	switch s := a.Status; {
	case s >= 200 && s < 300:
		return delivered
	case s < 400 || s >= 500:
		return keep
	case s == http.StatusRequestTimeout, s == http.StatusTooEarly, s == http.StatusTooManyRequests:
		return keep
	case s == http.StatusConflict && a.Reason == "idempotency_in_progress":
		return keep
	}
	return refused
}

// MinBackoff and MaxBackoff bound how long a report waits between two attempts, unless
// the server asks for more.
const (
	MinBackoff = 500 * time.Millisecond
	MaxBackoff = time.Minute
)

// backoff is how long to wait after so many attempts. chance is in [0, 1).
func backoff(attempts int, chance float64) time.Duration {
	longest := MaxBackoff
	if attempts < 7 { // 2^7 times the least is above the most
		longest = MinBackoff << attempts
	}
	return longest/2 + time.Duration(chance*float64(longest/2))
}
