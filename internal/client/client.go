// Package client is how programs outside speak to a running server: [Owner] with
// the owner's session, [Consumer] with a run's restricted token. It knows the wire
// and nothing of what is behind it.
package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// New makes a client that goes exactly where it is told: no proxy, no redirect.
func New() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: nil},
		Timeout:       30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Reply is an answer, whatever its status.
type Reply struct {
	Status  int
	Reason  string   // reasonCode of a problem
	Detail  string   // detail of a problem, without what would steer a terminal
	Errors  []string // of a problem: what is wrong with the request, by place
	Body    []byte
	Cookies []*http.Cookie
	After   time.Duration // Retry-After
	Ms      int64         // until the answer was read
}

// maxReply bounds an answer in bytes, above the largest export of a run.
const maxReply = 64 << 20

// Send sends one request and reads the whole answer.
func Send(client *http.Client, r *http.Request) (Reply, error) {
	start := time.Now()
	resp, err := client.Do(r)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return Reply{}, err
	}
	if len(body) > maxReply {
		return Reply{}, fmt.Errorf("the answer has more than %d bytes", maxReply)
	}
	out := Reply{Status: resp.StatusCode, Body: body, Cookies: resp.Cookies(), Ms: time.Since(start).Milliseconds()}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		out.After = time.Duration(seconds) * time.Second
	}
	if resp.StatusCode >= 400 {
		var problem struct {
			ReasonCode string `json:"reasonCode"`
			Detail     string `json:"detail"`
			Errors     []struct{ Location, Message string }
		}
		// A problem without a code stays one: the status says enough.
		_ = json.Unmarshal(body, &problem)
		out.Reason, out.Detail = strings.Map(printable, problem.ReasonCode), strings.Map(printable, problem.Detail)
		for _, e := range problem.Errors {
			out.Errors = append(out.Errors, strings.Map(printable, e.Location+": "+e.Message))
		}
	}
	return out, nil
}

// Got says in an error what an answer was: status, reason and detail.
func (r Reply) Got() string {
	got := strings.TrimSpace(fmt.Sprintf("got %d %s", r.Status, r.Reason))
	if r.Detail != "" {
		got += ": " + r.Detail
	}
	return got
}

func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return -1
	}
	return r
}
