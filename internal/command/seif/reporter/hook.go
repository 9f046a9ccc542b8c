package reporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"countersign/contextclient"
	"countersign/contextclient/outbox"
	"countersign/internal/contextturn/turn"
)

// How long a hook may keep the program waiting that has called it. With a server that is dead or hangs that is less
// than 300 ms: the outbox takes a few, one attempt sendWithin at most.
const (
	sendWithin = 200 * time.Millisecond
	// inputWithin is how long it waits for its input, from its beginning.
	inputWithin = time.Second
	// storeWithin is how long it waits for its turn at the outbox, which only a crowd of hooks makes
	// longer than a few milliseconds. It is worth more than the 300 ms: what is not put in is lost.
	storeWithin = 2 * time.Second
)

// What a complaint says of a report that is not in the outbox, or not for certain.
const (
	notKept = "is lost"
	unknown = "may be lost"
)

// Hook is the PreToolUse hook of Claude Code, in a process that began at began: it reports that a tool
// of mcp__seif__ is about to be used. Whatever happens it returns within its time, has written nothing but at most
// one line to complain, and the process may end with status 0: it observes and never blocks.
func Hook(in io.Reader, complain io.Writer, began time.Time) {
	signal.Ignore(syscall.SIGPIPE) // whoever does not read the complaint is no reason to end with another status
	understood, said := make(chan struct{}), make(chan string, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				said <- "a defect of this program; the report " + unknown // p may hold what must not be shown
			}
		}()
		i, err := readIntention(in)
		if err != nil {
			said <- "not reported: " + err.Error()
			return
		}
		close(understood)
		said <- observe(i, began)
	}()
	var line string
	select {
	case line = <-said:
	case <-time.After(time.Until(began.Add(inputWithin))):
		line = lateEnd(understood, said)
	}
	if line != "" {
		fmt.Fprintln(complain, "countersign hook claude-code:", oneLine(line)) // nobody is left to hear of an error
	}
}

// lateEnd is what there is to complain of when inputWithin is over. An input that was understood is
// being stored or sent, each within its own bound; the one here is the last resort.
func lateEnd(understood <-chan struct{}, said <-chan string) string {
	select {
	case <-understood:
	default:
		return "not reported: the input did not end"
	}
	select {
	case line := <-said:
		return line
	case <-time.After(storeWithin + 2*sendWithin):
		return "no time is left; the report " + unknown
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// observe reports an intention and returns what there is to complain of.
func observe(i intention, began time.Time) string {
	switch {
	case !strings.HasPrefix(i.tool, "mcp__seif__"):
		return "" // of no interest here
	case i.event != "PreToolUse":
		return "not reported: this is for the event PreToolUse only"
	case os.Getenv(contextclient.TurnVariable) == "":
		return "not reported: no turn is named in " + contextclient.TurnVariable
	case !turn.IsTool(i.tool) || !turn.IsToolUseID(i.toolUseID) || turn.IsSecret(i.tool) || turn.IsSecret(i.toolUseID):
		return "not reported: the tool's name or the id of its use is not of the form that the protocol has, or looks like a secret"
	}
	var heard complaints
	place, err := FromEnvironment(outbox.Options{Told: heard.dropped, SendBound: sendWithin, NoSync: true})
	if IsEnvironment(err) {
		return "not reported: " + err.Error()
	}
	if err == nil {
		err = place.report(i)
		_, refused := errors.AsType[*outbox.RefusedError](err)
		_, waits := errors.AsType[*outbox.KeptError](err)
		switch {
		case err == nil:
			place.deliverRest(began)
			return heard.String()
		case refused, errors.Is(err, errNoTurn):
			return heard.with(fmt.Errorf("not reported: %w", err))
		case waits:
			return heard.with(fmt.Errorf("the report waits in the outbox: %w", err))
		}
	}
	// It could not be put into the file. It is sent all the same, with nothing to fall back on.
	bare := outbox.New(outbox.Options{SendBound: sendWithin})
	client, lost := clientWith(bare, sendWithin, nil)
	if lost == nil {
		lost = (&Place{Client: client, Box: bare}).report(i)
	}
	if lost != nil {
		return heard.with(fmt.Errorf("the report %s: %w; %w", notKept, err, lost))
	}
	if errors.Is(err, outbox.ErrFull) { // there may be room now
		place.deliverRest(began)
		return heard.String()
	}
	return heard.with(fmt.Errorf("reported, without an outbox: %w", err))
}

// errNoTurn is wrapped by errors about a turn's id that is not one.
var errNoTurn = errors.New("the environment names no turn")

// report puts a report into the outbox, which may take storeWithin, and sends it once. Its errors are those of [outbox.Outbox.Deliver].
func (p *Place) report(i intention) error {
	t, err := p.Client.TurnOfEnvironment()
	if err != nil {
		return fmt.Errorf("%w: %w", errNoTurn, err)
	}
	body, err := json.Marshal(map[string]string{"event": "pre_tool_use", "tool": i.tool, "toolUseId": i.toolUseID})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	e := outbox.Entry{Key: outbox.NewKey(), Path: "/context/turns/" + t.ID + "/observations", Body: body, By: p.by}
	return p.Box.Deliver(ctx, e, p.Send)
}

// deliverRest uses what is left of sendWithin for what waits already.
func (p *Place) deliverRest(began time.Time) {
	ctx, cancel := context.WithDeadline(context.Background(), began.Add(sendWithin))
	defer cancel()
	// What is not delivered stays where it is, for the next hook; what is dropped is told.
	_, _ = p.Box.Flush(ctx, p.Send)
}

// complaints are what an outbox has told.
type complaints struct {
	mu   sync.Mutex
	list []outbox.Dropped
}

func (c *complaints) dropped(d outbox.Dropped) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, d)
}

// with is an error and what else was told: the error says already that the server refused something.
func (c *complaints) with(err error) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	said := []string{err.Error()}
	for _, d := range c.list {
		if d.Status == 0 {
			said = append(said, d.String())
		}
	}
	return strings.Join(said, "; ")
}

// String is all of them.
func (c *complaints) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var said []string
	for _, d := range c.list {
		said = append(said, d.String())
	}
	return strings.Join(said, "; ")
}
