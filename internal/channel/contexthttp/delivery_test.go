package contexthttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"countersign/internal/contextturn/perimeter"
	"countersign/internal/ledger"
)

// wire is a TCP proxy that counts the bytes of every answer and can cut it short.
type wire struct {
	listener net.Listener
	to       string
	cut      atomic.Int64 // bytes of each connection's answers that are let through; negative: all
	mu       sync.Mutex
	passed   []*bytes.Buffer // of each connection
	wg       sync.WaitGroup
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &wire{listener: l, to: to}
	w.cut.Store(-1)
	w.wg.Go(w.accept)
	t.Cleanup(func() { l.Close(); w.wg.Wait() })
	return w
}

func (w *wire) accept() {
	for {
		c, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.wg.Go(func() { w.carry(c) })
	}
}

// carry carries one connection. What it lets through is kept.
func (w *wire) carry(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer s.Close()
	passed := &bytes.Buffer{}
	w.mu.Lock()
	w.passed = append(w.passed, passed)
	w.mu.Unlock()
	go io.Copy(s, c) // ends with the connections
	left, piece := w.cut.Load(), make([]byte, 1024)
	for left != 0 {
		n, err := s.Read(piece)
		if left > 0 {
			n = int(min(int64(n), left))
			left -= int64(n)
		}
		w.mu.Lock()
		passed.Write(piece[:n])
		w.mu.Unlock()
		if _, wrong := c.Write(piece[:n]); wrong != nil || err != nil {
			return
		}
	}
}

// seen is everything that came through.
func (w *wire) seen() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all strings.Builder
	for _, b := range w.passed {
		all.Write(b.Bytes())
	}
	return all.String()
}

// client sends each request over a connection of its own through the wire.
func (w *wire) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", w.listener.Addr().String())
	}}}
}

var interactionID = regexp.MustCompile(`int_[0-9a-f]{32}`)

// unrecorded are the interactions of which a byte came through and no record is there, and
// whether context came through that no record could be of.
func (h *house) unrecorded(seen string) (list []string) {
	h.t.Helper()
	for _, id := range interactionID.FindAllString(seen, -1) {
		if _, err := h.p.Interaction(h.t.Context(), h.project, id); err != nil {
			list = append(list, id)
		}
	}
	return list
}

// recorded is how many calls the turn has had.
func (h *house) recorded(id string) int {
	h.t.Helper()
	d, err := h.p.Turn(h.t.Context(), h.project, id)
	must(h.t, err)
	return int(d.ContextCalls)
}

// A delivery is committed before the first byte of its answer leaves (G-33): when the
// request ends between the two there is a record and no byte; when the commit fails there
// is neither; when the client is cut off after any number of bytes, what it got is of a
// record.
func TestRecordBeforeBytes(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		token := h.required()
		id := h.open(token)
		w := newWire(t, h.addr)
		compass := func() (answer, error) {
			return h.send(w.client(), h.request(token, base+"/compass", task, "X-SEIF-Turn-Id", id))
		}
		got, err := compass()
		must(t, err)
		got.is(t, "compass", "200")
		if !strings.Contains(w.seen(), marker) || len(h.unrecorded(w.seen())) != 0 || h.recorded(id) != 1 {
			t.Fatalf("an answer is not seen, or has no record: %s", w.seen())
		}
		size := len(w.seen())

		// The request ends after the commit.
		before := len(w.seen())
		failing.Store(true)
		got, err = compass()
		failing.Store(false)
		must(t, err)
		got.is(t, "failed after the commit", "500 INTERNAL")
		if came := w.seen()[before:]; strings.Contains(came, marker) || interactionID.MatchString(came) || h.recorded(id) != 2 {
			t.Errorf("failed after the commit: %d records, and %s came", h.recorded(id), came)
		}

		// The commit fails.
		before = len(w.seen())
		h.failAt(func(point string) error { return errors.New("the disk is gone") })
		got, err = compass()
		h.failAt(nil)
		must(t, err)
		if got.status != 503 {
			t.Errorf("the commit fails: %s", got)
		}
		if came := w.seen()[before:]; strings.Contains(came, marker) || interactionID.MatchString(came) {
			t.Errorf("the commit fails: %s came", came)
		}

		// The client is cut off after some bytes; the first of them has come.
		calls, stride := h.recorded(id), max(1, size/40)
		cut := 0
		for n := 1; n < size; n += stride {
			w.cut.Store(int64(n))
			if _, err := compass(); err == nil {
				t.Errorf("%d of %d bytes are a whole answer", n, size)
			}
			cut++
		}
		w.cut.Store(-1)
		if list := h.unrecorded(w.seen()); len(list) > 0 {
			t.Errorf("bytes without a record: %v", list)
		}
		if n := h.recorded(id); n != calls+cut {
			t.Errorf("%d calls are recorded, want %d", n, calls+cut)
		}
		h.ask(token, "/turns/"+id+"/complete", completed).is(t, "complete", "200")
	}, func(c *perimeter.Config) { c.Fault = fail })
}

// failing makes the point between commit and answer one where requests end.
var failing atomic.Bool

func fail(string) error {
	if failing.Load() {
		return errors.New("a failure between commit and answer")
	}
	return nil
}

// failed is a ledger that stores no interaction while it is set.
type failed struct {
	perimeter.Ledger
	on atomic.Bool
}

func (f *failed) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	if f.on.Load() {
		return ledger.Result{Outcome: ledger.NotStored, Cause: errors.New("the disk is gone")}
	}
	return f.Ledger.Commit(ctx, c)
}

// Negative control of TestRecordBeforeBytes: a perimeter that hands out what it could not
// record lets bytes through that have no record, and the test's check finds them.
func TestRecordBeforeBytesControl(t *testing.T) {
	for _, open := range []bool{false, true} {
		h := newHouse(t, openSQLite, func(c *perimeter.Config) { c.Ledger, c.Unrecorded = &failed{Ledger: c.Ledger}, open })
		token := h.required()
		id := h.open(token)
		w := newWire(t, h.addr)
		h.config.Ledger.(*failed).on.Store(true)
		got, err := h.send(w.client(), h.request(token, base+"/compass", task, "X-SEIF-Turn-Id", id))
		must(t, err)
		if found := len(h.unrecorded(w.seen())) > 0; found != open || strings.Contains(w.seen(), marker) != open || (got.status == 200) != open {
			t.Errorf("handing out what is not recorded %v: %s, found %v\n%s", open, got, found, w.seen())
		}
	}
}
