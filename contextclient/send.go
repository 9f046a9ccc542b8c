package contextclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"countersign/contextclient/outbox"
)

// maxAnswer bounds an answer in bytes.
const maxAnswer = 16 << 20

// request is one POST below /context/.
type request struct {
	op   string // path below /context/
	body []byte // JSON
	key  string // Idempotency-Key, if any
	turn string // X-SEIF-Turn-Id, if any
}

// send sends a request once and decodes a 2xx into answer, whose whole says whether it is what
// was asked for. Every error is an *[Error].
func (c *Client) send(ctx context.Context, r request, answer interface{ whole() bool }) error {
	status, body, err := c.post(ctx, r)
	if err != nil {
		return err
	}
	// A 200 of something on the way is no answer.
	if json.Unmarshal(body, answer) != nil || !answer.whole() {
		return &Error{Op: r.op, Status: status}
	}
	return nil
}

func (c *Client) post(ctx context.Context, r request) (status int, body []byte, err error) {
	unanswered := func(err error) error { return &Error{Op: r.op, cause: c.cause(err)} }
	defer func() {
		if p := recover(); p != nil { // of the transport
			err = &Error{Op: r.op, cause: c.panicked(p)}
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/context/"+r.op, bytes.NewReader(r.body))
	if err != nil {
		return 0, nil, unanswered(err)
	}
	c.authorize(req)
	req.Header.Set("Content-Type", "application/json")
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	if r.turn != "" {
		req.Header.Set("X-SEIF-Turn-Id", r.turn)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, unanswered(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		return 0, nil, c.refusal(r.op, resp)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("it has more than %d bytes", maxAnswer)
	}
	if err != nil {
		return 0, nil, unanswered(err)
	}
	return resp.StatusCode, body, nil
}

// refusal is an answer that is no 2xx. A body that is no problem leaves the status, which says enough.
func (c *Client) refusal(op string, resp *http.Response) error {
	const maxProblem = 64 << 10
	const maxErrors = 20
	var problem struct {
		ReasonCode, Detail string
		Errors             []struct{ Location, Message string }
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err == nil {
		_ = json.Unmarshal(body, &problem)
	}
	e := &Error{Op: op, Status: resp.StatusCode, ReasonCode: c.shown(problem.ReasonCode), Detail: c.shown(problem.Detail)}
	for i, at := range problem.Errors {
		if i < maxErrors {
			e.Errors = append(e.Errors, c.shown(at.Location+": "+at.Message))
		}
	}
	if seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16); err == nil {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// turnForm is what stands in paths and headers.
var turnForm = regexp.MustCompile(`^trn_[A-Za-z0-9_-]{1,64}$`)

// Send sends a report of an outbox once. It is an [outbox.Send], for programs that flush an
// outbox of their own.
func (c *Client) Send(ctx context.Context, e outbox.Entry) (outbox.Answer, error) {
	_, err := c.report(ctx, e)
	return answerOf(err)
}

// reported is what the server answers to a report.
type reported struct {
	turn        string // that it has to be about; empty for a report outside a turn
	Observation *Observation
	Receipt     *Receipt
}

func (r *reported) whole() bool {
	switch {
	case r.Receipt != nil:
		return r.Receipt.TurnID == r.turn
	case r.Observation != nil:
		return r.Observation.TurnID == r.turn
	}
	return false
}

var (
	errBehind   = errors.New("an older report of the turn has to go first")
	errNoReport = errors.New("contextclient: the outbox holds what is no report of a turn or a bridge")
)

// report sends a report, except for a completion that an observation of its turn has to
// precede: a closed turn takes none.
func (c *Client) report(ctx context.Context, e outbox.Entry) (*reported, error) {
	op, ok := strings.CutPrefix(e.Path, "/context/")
	turn, what := turnOf(e)
	if !ok {
		return nil, errNoReport
	}
	if what == "complete" {
		s, err := c.outbox.State(ctx)
		if err != nil {
			return nil, err
		}
		for _, older := range s.Entries {
			if older.Key == e.Key {
				break
			}
			if of, _ := turnOf(older); of == turn {
				return nil, errBehind
			}
		}
	}
	answer := &reported{turn: turn}
	if err := c.send(ctx, request{op: op, body: e.Body, key: e.Key}, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// turnOf is the turn that a report is of, and what it reports; empty for any other.
func turnOf(e outbox.Entry) (turn, what string) {
	rest, ok := strings.CutPrefix(e.Path, "/context/turns/")
	turn, what, _ = strings.Cut(rest, "/")
	if !ok || !turnForm.MatchString(turn) {
		return "", ""
	}
	return turn, what
}

// answerOf says to an outbox what a report has come to. A report whose token was refused stays.
func answerOf(err error) (outbox.Answer, error) {
	switch e, ok := errors.AsType[*Error](err); {
	case err == nil:
		return outbox.Answer{Status: http.StatusOK}, nil
	case errors.Is(err, errBehind): // it waits, and whatever else is due goes on
		return outbox.Answer{Status: http.StatusTooEarly}, nil
	case ok && e.Status >= 400:
		return outbox.Answer{Status: e.Status, Reason: e.ReasonCode, Detail: e.advice(), RetryAfter: e.RetryAfter, Keep: !e.final()}, nil
	}
	return outbox.Answer{}, err
}
