package contextclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"time"
	"unicode/utf8"

	"countersign/contextclient/outbox"
)

// Turn is a turn that was opened, as it was then. It is safe for concurrent use.
type Turn struct {
	Tools       `json:"-"`
	ID          string    `json:"id"`
	Status      string    `json:"status"`
	Environment string    `json:"environment"`
	Profile     string    `json:"profile"`
	OpenedAt    time.Time `json:"openedAt"`
	ExpiresAt   time.Time `json:"expiresAt"`
}

// StartOptions are what a start may say. The zero value says nothing.
type StartOptions struct {
	// ClientRef is an opaque label to find the turn by, at most 128 characters: no prompt, no personal data.
	ClientRef string `json:"clientRef,omitempty"`
}

const startAttempts = 3

// Start opens a turn. While no answer comes it asks again with the same key, three times
// in all: nothing of the turn has been handed out until it returns. All of it takes
// [Config].StartWithin at most, one attempt half of that. When it fails there is no turn,
// and the caller goes on without one or not at all.
func (c *Client) Start(ctx context.Context, o StartOptions) (*Turn, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.startWithin)
	defer cancel()
	key := outbox.NewKey()
	for attempt := 1; ; attempt++ {
		var started started
		once, end := context.WithTimeout(ctx, c.startWithin/2)
		err := c.send(once, request{op: "turns/start", body: body, key: key}, &started)
		end()
		if err == nil {
			t := started.Turn
			t.Tools = Tools{c, t.ID}
			return t, nil
		}
		pause := time.Duration(rand.Float64() * float64(outbox.MinBackoff<<attempt))
		if e, ok := errors.AsType[*Error](err); ok {
			pause = max(pause, e.RetryAfter)
			if !e.Temporary() {
				return nil, err
			}
		}
		if by, _ := ctx.Deadline(); attempt == startAttempts || pause >= time.Until(by) || ctx.Err() != nil {
			return nil, err
		}
		if waiting := c.wait(ctx, pause); waiting != nil {
			return nil, errors.Join(waiting, err)
		}
	}
}

type started struct{ Turn *Turn }

func (s *started) whole() bool { return s.Turn != nil && turnForm.MatchString(s.Turn.ID) }

// Turn is the turn with this id, which somebody else has opened for the same client. Only
// its ID is set.
func (c *Client) Turn(id string) (*Turn, error) {
	if !turnForm.MatchString(id) {
		return nil, errors.New("contextclient: not the id of a turn")
	}
	return &Turn{Tools: Tools{c, id}, ID: id}, nil
}

// TurnOfEnvironment is the turn that SEIF_TURN_ID names. It fails when there is none.
func (c *Client) TurnOfEnvironment() (*Turn, error) {
	t, err := c.Turn(os.Getenv(TurnVariable))
	if err != nil {
		return nil, fmt.Errorf("%w in %s", err, TurnVariable)
	}
	return t, nil
}

// Observation is an accepted report that a tool was about to be used. It is no evidence
// that the tool ran.
type Observation struct {
	ID            string    `json:"id"`
	TurnID        string    `json:"turnId"`
	Event         string    `json:"event"`
	Tool          string    `json:"tool"`
	ToolUseID     string    `json:"toolUseId"`
	RecordedAt    time.Time `json:"recordedAt"`
	EvidenceClass string    `json:"evidenceClass"`
}

var (
	toolForm      = regexp.MustCompile(`^mcp__seif__[a-z0-9_]{1,64}$`)
	toolUseIDForm = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,128}$`)
)

// Observe reports that a tool of mcp__seif__ is about to be used, and nothing else of it. It
// puts the report into the outbox, whatever ctx says, and sends it once; ctx ends only that
// attempt, which takes no longer than any request. An error that is [ErrQueued] says that the
// report waits there; after every other one it is not reported.
func (t *Turn) Observe(ctx context.Context, tool, toolUseID string) (Observation, error) {
	if !toolForm.MatchString(tool) {
		return Observation{}, errors.New("contextclient: only tools of mcp__seif__ are observed")
	}
	if !toolUseIDForm.MatchString(toolUseID) {
		return Observation{}, errors.New("contextclient: not an id of a tool use")
	}
	r, err := t.report(ctx, "observations", map[string]string{"event": "pre_tool_use", "tool": tool, "toolUseId": toolUseID})
	if err != nil {
		return Observation{}, err
	}
	if r.Observation == nil {
		return Observation{}, errOther
	}
	return *r.Observation, nil
}

// Status is how a model's call ended, as the application reports it.
type Status string

// The three statuses.
const (
	Completed Status = "completed"
	Cancelled Status = "cancelled"
	Failed    Status = "failed"
)

// maxNote is how many characters the server takes; it keeps 500.
const maxNote = 2000

// Receipt is what the server says of a completion. Event is where it stands in the
// turn's evidence.
type Receipt struct {
	TurnID        string    `json:"turnId"`
	Reported      Status    `json:"reported"`
	Status        string    `json:"status"`
	Deliveries    int       `json:"deliveries"`
	Observations  int       `json:"observations"`
	ReportedAt    time.Time `json:"reportedAt"`
	EvidenceClass string    `json:"evidenceClass"`
	Event         struct {
		ID        string `json:"id"`
		Sequence  int64  `json:"sequence"`
		Hash      string `json:"hash"`
		Signature string `json:"signature"`
		KeyID     string `json:"keyId"`
	} `json:"event"`
}

// Complete reports how the model's call ended, with a technical note if there is one: no
// output, no personal data, no secrets. It goes through the outbox as in [Turn.Observe]. With a
// ctx that has ended already it is sent all the same, since that is how a cancelled call is
// reported. The first completion that the server takes stands.
func (t *Turn) Complete(ctx context.Context, status Status, note string) (Receipt, error) {
	switch status {
	case Completed, Cancelled, Failed:
	default:
		return Receipt{}, fmt.Errorf("contextclient: the status is %s, %s or %s", Completed, Cancelled, Failed)
	}
	if utf8.RuneCountInString(note) > maxNote {
		return Receipt{}, fmt.Errorf("contextclient: the note has more than %d characters", maxNote)
	}
	body := map[string]string{"status": string(status)}
	if note != "" {
		body["note"] = note
	}
	r, err := t.report(ctx, "complete", body)
	if err != nil {
		return Receipt{}, err
	}
	if r.Receipt == nil {
		return Receipt{}, errOther
	}
	return *r.Receipt, nil
}

var errOther = errors.New("contextclient: the server answered to something else")

// report puts a report of the turn into the outbox, sends it once, and returns the answer.
func (t *Turn) report(ctx context.Context, what string, body any) (*reported, error) {
	c := t.client
	if c == nil {
		return nil, errors.New("contextclient: this turn belongs to no client")
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	// The report is kept whatever becomes of whoever waits; only an attempt ends with ctx. A
	// ctx that has ended is no reason to wait for the network until the next attempt.
	caller, alive := ctx, ctx.Err() == nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.http.Timeout)
	defer cancel()
	entry := outbox.Entry{Key: outbox.NewKey(), Path: "/context/turns/" + t.ID + "/" + what, Body: raw}
	var answer *reported
	var sent error
	send := func(ctx context.Context, e outbox.Entry) (outbox.Answer, error) {
		if alive {
			attempt, leave := context.WithCancel(ctx)
			defer leave()
			defer context.AfterFunc(caller, leave)()
			ctx = attempt
		}
		r, err := c.report(ctx, e)
		if e.Key == entry.Key {
			answer, sent = r, err
		}
		return answerOf(err)
	}
	err = c.outbox.Deliver(ctx, entry, send)
	if errors.Is(sent, errBehind) {
		_, err = c.outbox.FlushAll(ctx, send)
	}
	switch e, ok := errors.AsType[*Error](sent); {
	case answer != nil:
		return answer, nil
	case ok && e.final():
		return nil, sent // it is out of the outbox again
	case sent != nil:
		return nil, fmt.Errorf("%w: %w", ErrQueued, sent)
	}
	return nil, err // it was not put in
}
