package replicas_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/evidence"
	"countersign/internal/replica"
)

// limit is how late a watcher at another replica may be.
const limit = 2 * time.Second

// patience is how long this test waits before it fails, however loaded the machine.
const patience = 2 * time.Minute

// arrival is one frame of a stream.
type arrival struct {
	sequence int64
	data     []byte
	at       time.Time
}

// watcher follows a run's events at one replica. When the stream ends it comes back with
// Last-Event-ID, as clients do.
type watcher struct {
	house *house // that reaches the replica alone
	run   string

	mu      sync.Mutex
	changed *sync.Cond
	frames  []arrival
	streams int
	err     error
	stop    context.CancelFunc
	ended   chan struct{}
}

// watch begins to follow at these replicas, behind what is seen already.
func (h *house) watch(run string, seen []arrival, places ...int) *watcher {
	h.t.Helper()
	w := &watcher{house: h.at(places...), run: run, frames: slices.Clone(seen), ended: make(chan struct{})}
	w.changed = sync.NewCond(&w.mu)
	ctx, stop := context.WithCancel(h.t.Context())
	w.stop = func() { stop(); <-w.ended }
	h.t.Cleanup(w.stop)
	go func() {
		defer close(w.ended)
		for ctx.Err() == nil {
			if err := w.follow(ctx); err != nil && ctx.Err() == nil {
				w.mu.Lock()
				w.err = err
				w.changed.Broadcast()
				w.mu.Unlock()
				return
			}
		}
	}()
	return w
}

// follow reads one stream to its end. A replica that cannot be asked is asked again.
func (w *watcher) follow(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, "GET", w.house.Origin+"/api/v1/owner/runs/"+w.run+"/events", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Cookie", w.house.cookie)
	w.mu.Lock()
	if n := len(w.frames); n > 0 {
		r.Header.Set("Last-Event-ID", strconv.FormatInt(w.frames[n-1].sequence, 10))
	}
	w.mu.Unlock()
	resp, err := w.house.front.Stream().Do(r)
	if err != nil {
		return nil // the replica is gone, or just cut off
	}
	defer resp.Body.Close()
	w.mu.Lock()
	w.streams++
	w.mu.Unlock()
	if resp.StatusCode == http.StatusServiceUnavailable {
		return nil
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the stream is answered with %d", resp.StatusCode)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var f arrival
	for lines.Scan() {
		switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
		case "id":
			if f.sequence, err = strconv.ParseInt(value, 10, 64); err != nil {
				return err
			}
		case "data":
			f.data, f.at = []byte(value), time.Now()
			w.mu.Lock()
			if n := len(w.frames); f.sequence != int64(n+1) {
				w.mu.Unlock()
				return fmt.Errorf("frame %d follows frame %d", f.sequence, n)
			}
			w.frames = append(w.frames, f)
			w.changed.Broadcast()
			w.mu.Unlock()
		}
	}
	return nil
}

// reaches waits until the watcher has seen the event with that sequence.
func (w *watcher) reaches(sequence int) []arrival {
	t := w.house.t
	t.Helper()
	late := time.AfterFunc(patience, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err == nil {
			w.err = fmt.Errorf("only %d of %d events have come", len(w.frames), sequence)
		}
		w.changed.Broadcast()
	})
	defer late.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.frames) < sequence && w.err == nil {
		w.changed.Wait()
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
	return slices.Clone(w.frames)
}

// now is what the watcher has seen until now, and in how many streams.
func (w *watcher) now() (frames []arrival, streams int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.frames), w.streams
}

// delay is how long after its own timestamp the middle one of the events behind from came.
// A timestamp is the time of the decision, which is before the commit, so that every
// delay is counted too long, and both clocks are this machine's. One event can be late
// because the machine is; that most are within the limit is what is asked for.
func delay(t *testing.T, frames []arrival, from int) time.Duration {
	t.Helper()
	var all []time.Duration
	for _, f := range frames[from:] {
		var e evidence.Event
		must(t, json.Unmarshal(f.data, &e))
		at, err := time.Parse(time.RFC3339, e.Timestamp)
		must(t, err)
		all = append(all, f.at.Sub(at))
	}
	slices.Sort(all)
	t.Logf("%d events came %s after they were decided, the last one %s", len(all), all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
	return all[len(all)/2]
}

// same fails unless the frames are the events of the export, byte by byte.
func same(t *testing.T, frames []arrival, events []evidence.Event) {
	t.Helper()
	if len(frames) != len(events) {
		t.Fatalf("%d frames, %d events", len(frames), len(events))
	}
	for i, e := range events {
		raw, err := json.Marshal(e)
		must(t, err)
		if !bytes.Equal(frames[i].data, raw) {
			t.Fatalf("frame %d: %s\nwant %s", i+1, frames[i].data, raw)
		}
	}
}

// sql is a session of the test's own in the installation's database.
func (h *house) sql() *pgx.Conn {
	h.t.Helper()
	conn, err := pgx.Connect(h.t.Context(), h.Database)
	must(h.t, err)
	h.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// cutOff ends every session that a replica has with the database, and returns how many
// once they are gone.
func (h *house) cutOff(conn *pgx.Conn, r *replica.Replica) (n int) {
	h.t.Helper()
	must(h.t, conn.QueryRow(h.t.Context(), `SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'countersign-' || $1`, r.Name).Scan(&n))
	return n
}

// troubled ends every session of a replica as soon as there is one, or all but the one
// that hears notifications, until over is called.
func (h *house) troubled(r *replica.Replica, deaf bool) (over func()) {
	h.t.Helper()
	conn, stop, stopped := h.sql(), make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := conn.Exec(h.t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'countersign-' || $1 AND ($2 OR query NOT LIKE 'LISTEN%')`, r.Name, deaf); err != nil {
				stopped <- err
				return
			}
		}
	}()
	return func() { h.t.Helper(); close(stop); must(h.t, <-stopped) }
}

// Design 1, 7, H-102: a watcher at one replica is shown what is committed through the
// others, within two seconds and without any request to his replica: by notifications,
// after the session that hears them was cut, by the poll when notifications are lost,
// after every session of the replica was cut. What comes while his replica is cut off
// without end he is shown when that is over, coming back with Last-Event-ID as often as it
// takes, and after his replica's death at another one. What he is shown in all is the export, gapless and in order. Control: a
// watcher at a replica that does not poll sees nothing while notifications are lost, and
// is over the limit when they come at last.
func TestWatcherElsewhere(t *testing.T) {
	unpolled := patient
	unpolled.Unpolled = true
	h := newHouse(t, patient, patient, unpolled)
	conn := h.sql()
	b := h.at(1) // everything is committed through the second replica
	run := b.create("merchant", "local", "bounded")
	agent := b.agent(run)
	a, twin, c := h.watch(run, nil, 0), h.watch(run, nil, 0), h.watch(run, nil, 2) // a and twin share a ring
	head := func() int { return len(told(t, b.exported(chain(run)))) }
	begun := head()
	for _, w := range []*watcher{a, twin, c} {
		w.reaches(begun)
	}
	before := h.replicas[0].Requests()

	// within has events committed, and fails unless the watcher is shown all of them in time.
	within := func(what string, commit func()) (from, to int) {
		t.Helper()
		from = head()
		commit()
		to = head()
		frames := a.reaches(to)
		if late := delay(t, frames, from); late > limit {
			t.Errorf("%s: the watcher is %s late, more than %s", what, late, limit)
		}
		return from, to
	}
	reads := func() { agent.cycle("merchant.catalog"); agent.cycle("product:fieldwork-keyboard") }
	_, to := within("notifications", reads)
	c.reaches(to)

	within("the session that listens was cut", func() { h.CutListener(h.replicas[0]); reads() })
	within("it is cut again and again", func() {
		for range 3 {
			h.CutListener(h.replicas[0])
			agent.cycle("merchant.catalog")
			h.CutListener(h.replicas[0])
		}
	})

	c.reaches(head())
	h.replicas[1].Arm(replica.Fault{Point: "before NOTIFY", Hold: true})
	from, to := within("notifications are lost", reads)
	<-time.After(limit) // no event stands for this: it is the limit that passes, for the control
	if frames, _ := c.now(); len(frames) != from {
		t.Errorf("control: without notification and poll a watcher has %d events, want %d", len(frames), from)
	}
	h.replicas[1].Release()
	if late := delay(t, c.reaches(to), from); late <= limit {
		t.Errorf("control: the watcher who was not woken is %s late, within the limit", late)
	}
	if n := h.replicas[0].Requests(); n != before {
		t.Errorf("the watcher's replica was asked %d times meanwhile", n-before)
	}

	within("every session of the replica was cut", func() {
		for _, id := range []string{"add:fieldwork-keyboard:1", "checkout:addr_home"} {
			if h.cutOff(conn, h.replicas[0]) == 0 {
				t.Error("no session was there to be cut")
			}
			agent.cycle(id)
		}
	})
	for _, deaf := range []bool{true, false} { // what he hears of cannot be read
		over := h.troubled(h.replicas[0], deaf)
		agent.cycle("merchant.catalog")
		agent.cycle("product:fieldwork-keyboard")
		over()
	}
	a.reaches(head())
	same(t, twin.reaches(head()), told(t, b.exported(chain(run))))
	seen, streams := a.now()
	_, more := twin.now()
	if n := h.replicas[0].Requests(); n != before+streams+more-2 {
		t.Errorf("the watchers' replica was asked %d times, and they have come back %d times", n-before, streams+more-2)
	}
	t.Logf("two watchers have come back %d times after their replica was cut off", streams+more-2)

	twin.stop()
	a.stop()
	h.replicas[0].Kill()
	a = h.watch(run, seen, 2)
	within("at another replica", func() { agent.cycle("merchant.checkout.submit") })
	events := b.events(run)
	same(t, a.reaches(len(events)), events)
	same(t, c.reaches(len(events)), events)
	h.completed(run, "merchant")
}
