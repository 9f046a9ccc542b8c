package channel_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/identity"
	"countersign/internal/ledger"
)

// stream is an open answer of /events.
type stream struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Scanner
}

func (h *house) stream(run, after string) *stream {
	h.t.Helper()
	edits := []edit{h.asOwner(h.cookie)}
	if after != "" {
		edits = append(edits, set("Last-Event-ID", after))
	}
	ctx, stop := context.WithTimeout(h.t.Context(), time.Minute)
	h.t.Cleanup(stop)
	response, err := h.client.Do(h.request("GET", ownerPrefix+"/runs/"+run+"/events", nil, edits...).WithContext(ctx))
	must(h.t, err)
	h.t.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return &stream{h.t, response, lines}
}

// frame reads the next event, over comments; false at the end of the stream.
func (s *stream) frame() (id int64, event string, data []byte, more bool) {
	s.t.Helper()
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "id":
			n, err := strconv.ParseInt(value, 10, 64)
			must(s.t, err)
			id = n
		case "event":
			event = value
		case "data":
			data = append(data, value...)
		case "":
			if data != nil {
				return id, event, data, true
			}
		}
	}
	return 0, "", nil, false
}

// comment reads until the next comment.
func (s *stream) comment() bool {
	for s.lines.Scan() {
		if strings.HasPrefix(s.lines.Text(), ":") {
			return true
		}
	}
	return false
}

func (h *house) exported(run string) []evidence.Event {
	h.t.Helper()
	var export struct{ Events []evidence.Event }
	must(h.t, json.Unmarshal(h.owner("GET", "/runs/"+run+"/evidence", nil).body, &export))
	return export.Events
}

// H-102 G-15: the frames are the export's events, resuming is strictly behind,
// and new events come without asking.
func TestEvents(t *testing.T) {
	t.Parallel()
	// No heartbeat helps here: what is new comes because the stream was woken.
	h := newHouse(t, func(c *config) { c.heartbeat = time.Hour })
	c := h.agent("local")
	c.cycle("merchant.catalog")
	events := h.exported(c.run)
	whole := h.stream(c.run, "")
	if whole.response.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("content type %q", whole.response.Header.Get("Content-Type"))
	}
	same := func(s *stream, want evidence.Event) {
		t.Helper()
		id, event, data, more := s.frame()
		encoded, err := json.Marshal(want)
		must(t, err)
		if !more || id != want.Sequence || event != want.Type || !bytes.Equal(data, encoded) {
			t.Fatalf("frame %d %s %s\nwant %s", id, event, data, encoded)
		}
	}
	for _, want := range events {
		same(whole, want)
	}
	resumed := map[int]*stream{}
	for _, after := range []int{0, 1, len(events) - 1, len(events)} {
		s := h.stream(c.run, fmt.Sprint(after))
		for _, want := range events[after:] {
			same(s, want)
		}
		resumed[after] = s
	}
	c.cycle("product:fieldwork-keyboard")
	later := h.exported(c.run)[len(events):]
	if len(later) == 0 {
		t.Fatal("a cycle wrote nothing")
	}
	for _, want := range later {
		same(whole, want)
		same(resumed[len(events)], want)
	}
	// The data is what a verifier needs: the same bytes fold into the same chain.
	for _, bad := range []string{fmt.Sprint(len(events) + len(later) + 1), "-1", "x", "1.0", "01", "+1", "9223372036854775808", " 1 x", "1e3"} {
		h.owner("GET", "/runs/"+c.run+"/events", nil, set("Last-Event-ID", bad)).is(t, "Last-Event-ID "+bad, 400, "INVALID_REQUEST")
	}
}

// onceLooked answers about a credential what it was at first, which leaves the
// check at a stream's heartbeat without effect.
type onceLooked struct {
	identity.Ledger
	first sync.Map
}

func (o *onceLooked) Credential(ctx context.Context, workspace, hash string) (ledger.Credential, time.Time, error) {
	type looked struct {
		c   ledger.Credential
		now time.Time
	}
	if known, ok := o.first.Load(hash); ok {
		l := known.(looked)
		return l.c, l.now, nil
	}
	c, now, err := o.Ledger.Credential(ctx, workspace, hash)
	if err == nil {
		o.first.Store(hash, looked{c, now})
	}
	return c, now, err
}

// G-15 G-20: the owner's session is looked at again at every heartbeat; a stream
// outlives neither signing out nor the session's 12 hours.
func TestStreamEndsWithSession(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *house){
		"signed out": func(h *house) { h.owner("DELETE", "/session", nil).is(h.t, "sign out", 204, "") },
		"expired":    func(h *house) { h.clock.Move(12 * time.Hour) },
	} {
		for _, unchecked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unchecked %t", name, unchecked), func(t *testing.T) {
				h := newHouse(t, standing, func(c *config) { c.heartbeat, c.unchecked = 20*time.Millisecond, unchecked })
				run := h.create("local")
				streams := []*stream{h.stream(run, ""), h.stream(run, "")}
				for _, s := range streams {
					for range 3 {
						if !s.comment() {
							t.Fatal("the stream ended while the session was good")
						}
					}
				}
				end(h)
				for _, s := range streams {
					n := 0
					for n < 50 && s.comment() {
						n++
					}
					// Negative control: a stream that is not looked at goes on.
					if goesOn := n == 50; goesOn != unchecked {
						t.Errorf("%d comments after the session's end", n)
					}
					if err := s.lines.Err(); err != nil {
						t.Errorf("the stream was cut: %v", err)
					}
				}
			})
		}
	}
}
