package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Options are those of an outbox. The zero value is usable.
type Options struct {
	// Told is called for each report that is dropped, and for a file that is set aside, by the
	// goroutine that found it, without any lock held. It may be called by several at once. Its panic is
	// logged and goes no further.
	Told func(Dropped)
	// SendBound bounds one attempt; 0 means ten seconds. It is a minute at most.
	SendBound time.Duration
	// NoSync leaves it to the system when the file gets to the disk: faster, and safe against the death of a
	// process, but a power cut may cost what the last seconds brought.
	NoSync bool

	now    func() time.Time
	chance func() float64 // in [0, 1)

	unmarked bool // of tests: what is being sent is not marked as such
}

// Dropped is a report that will not be delivered, or a file that was set aside.
type Dropped struct {
	Entry  Entry  // zero for a file
	Status int    // of the final answer; 0 when age ended it, and for a file
	Reason string // reasonCode of the final answer, if it had one
	Detail string // of the final answer, if it had one
	Aside  string // the name that an unreadable file has now
}

// String says it in one line.
func (d Dropped) String() string {
	switch {
	case d.Aside != "":
		return "the outbox was unreadable and is kept as " + d.Aside + "; what waited in it will not be delivered"
	case d.Status == 0:
		return fmt.Sprintf("a report to %s was dropped: not delivered within %v, %d attempts", d.Entry.Path, MaxAge, d.Entry.Attempts)
	}
	return fmt.Sprintf("a report to %s was dropped: the server refused it with %v", d.Entry.Path, Answer{Status: d.Status, Reason: d.Reason, Detail: d.Detail})
}

// Counts are those since the outbox was made; of a file, over all processes.
type Counts struct {
	Delivered int `json:"delivered"`
	Refused   int `json:"refused"` // by the server, finally
	Expired   int `json:"expired"` // after MaxAge
	Full      int `json:"full"`    // not taken in, because MaxEntries waited
}

// State is what an outbox holds at one moment.
type State struct {
	Entries []Entry // in the order they were put in
	Counts  Counts
}

// Outbox is a bounded outbox. It is safe for concurrent use.
type Outbox struct {
	store   store
	options Options
	added   chan struct{} // holds one when something was put in since Run looked
}

// store holds a state. update calls change at most once with what it holds, alone, and keeps the result when change
// says that it differs; aside names a file that had to be set aside first.
type store interface {
	update(ctx context.Context, change func(*State) (changed bool)) (aside string, err error)
	// look returns a copy of what it holds, without waiting for anybody.
	look() (*State, error)
}

// New makes an outbox in memory: it ends with the process.
func New(o Options) *Outbox { return assemble(&memory{}, o) }

// Open makes an outbox in the file at path, which is an absolute path. The file and its folder are created
// when the first report is put in (0600 and 0700). It fails with [ErrUnsupported] where
// the system has no flock(2).
func Open(path string, o Options) (*Outbox, error) {
	f, err := openFile(path, !o.NoSync)
	if err != nil {
		return nil, err
	}
	return assemble(f, o), nil
}

func assemble(s store, o Options) *Outbox {
	if o.Told == nil {
		o.Told = func(Dropped) {}
	}
	if o.SendBound <= 0 {
		o.SendBound = 10 * time.Second
	}
	o.SendBound = min(o.SendBound, time.Minute)
	if o.now == nil {
		o.now = time.Now
	}
	if o.chance == nil {
		o.chance = rand.Float64
	}
	return &Outbox{store: s, options: o, added: make(chan struct{}, 1)}
}

// grace is how long after its bound a send is still thought to be under way.
const grace = time.Second

// Add puts a report in, due at once. It returns [ErrFull], an error that wraps [ErrEntry],
// or what kept the store from being written; the report then is not in. A report that is in already is no error.
func (o *Outbox) Add(ctx context.Context, e Entry) error {
	_, err := o.put(ctx, e, false)
	return err
}

// Deliver puts a report in and sends it once. Without an error the server has it. With
// an error of type *[KeptError] it waits in the outbox; every other one means that it is not in it:
// those of [Outbox.Add], with nothing sent, and *[RefusedError], which is told too.
func (o *Outbox) Deliver(ctx context.Context, e Entry, send Send) error {
	e, err := o.put(ctx, e, true)
	if err != nil {
		return err
	}
	if e.Key == "" {
		return &KeptError{Err: errors.New("it is being sent already")}
	}
	return o.attempt(ctx, e, send)
}

// KeptError says that a report waits in the outbox to be tried again.
type KeptError struct {
	Answer Answer // zero when none came
	Err    error  // why none came, nil with an answer
}

func (e *KeptError) Error() string {
	if e.Err != nil {
		return "outbox: not delivered yet: " + e.Err.Error()
	}
	return "outbox: not delivered yet: got " + e.Answer.String()
}

// Unwrap returns why no answer came.
func (e *KeptError) Unwrap() error { return e.Err }

// RefusedError says that the server refused a report for good.
type RefusedError struct{ Answer Answer }

func (e *RefusedError) Error() string {
	return "outbox: the server refused it with " + e.Answer.String()
}

// put puts a report in, if wanted marked as being sent. The entry returned is as it is
// kept, or zero when it was to be marked and somebody is sending it already.
func (o *Outbox) put(ctx context.Context, e Entry, sending bool) (Entry, error) {
	e, err := checked(e, o.now())
	if err != nil {
		return Entry{}, err
	}
	_, err = o.update(ctx, func(s *State, now time.Time) (bool, error) {
		at := s.find(e.Key)
		switch {
		case at >= 0 && !s.Entries[at].same(&e):
			return false, fmt.Errorf("%w: its key belongs to another one", ErrEntry)
		case at < 0 && len(s.Entries) >= MaxEntries:
			s.Counts.Full++
			return true, ErrFull
		case at < 0:
			s.Entries = append(s.Entries, e)
			at = len(s.Entries) - 1
		}
		if !sending {
			return true, nil
		}
		if kept := &s.Entries[at]; kept.free(now) {
			o.begin(kept, now)
			e = *kept
		} else {
			e = Entry{}
		}
		return true, nil
	})
	if err != nil {
		return Entry{}, err
	}
	select {
	case o.added <- struct{}{}:
	default:
	}
	return e, nil
}

// begin marks an entry as being sent. Should nobody come back to it, it is due again
// when the mark ends.
func (o *Outbox) begin(e *Entry, now time.Time) {
	e.Attempts++
	if o.options.unmarked {
		return
	}
	e.SendingUntil = now.Add(o.options.SendBound + grace)
}

// attempt sends an entry that is marked as being sent, and settles it.
func (o *Outbox) attempt(ctx context.Context, e Entry, send Send) error {
	bounded, cancel := context.WithTimeout(ctx, o.options.SendBound)
	answer, err := send(bounded, e)
	cancel()
	return o.settle(ctx, e, answer, err)
}

// settleBound bounds how long the result of an attempt waits for the store when the caller's
// own time is over.
const settleBound = 50 * time.Millisecond

// settle keeps what an attempt has come to. When the store cannot be written the mark ends by
// itself and the report is sent again, under its key.
func (o *Outbox) settle(ctx context.Context, e Entry, answer Answer, sent error) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), settleBound)
		defer cancel()
	}
	what := answer.verdict()
	if sent != nil {
		what = keep
	}
	_, err := o.update(ctx, func(s *State, now time.Time) (bool, error) {
		at := s.find(e.Key)
		if at < 0 { // settled by somebody else after the mark had ended, or set aside
			return false, nil
		}
		switch what {
		case delivered:
			s.Counts.Delivered++
			s.remove(at)
		case refused:
			s.Counts.Refused++
			s.remove(at)
		case keep:
			kept := &s.Entries[at]
			kept.SendingUntil = time.Time{}
			kept.NotBefore = now.Add(max(backoff(kept.Attempts, o.options.chance()), min(answer.RetryAfter, MaxRetryAfter)))
		}
		return true, nil
	})
	switch {
	case what == refused:
		o.tell(Dropped{Entry: e, Status: answer.Status, Reason: answer.Reason, Detail: answer.Detail})
		return errors.Join(&RefusedError{answer}, err)
	case what == keep:
		return errors.Join(&KeptError{answer, sent}, err)
	}
	return nil // it has arrived; should its entry still be there, its key makes the repetition harmless
}

// InMemory reports whether what waits ends with the process.
func (o *Outbox) InMemory() bool {
	_, is := o.store.(*memory)
	return is
}

// State returns what the outbox holds, without what is too old.
func (o *Outbox) State(ctx context.Context) (State, error) {
	if s, err := o.store.look(); err == nil && len(s.Entries) == 0 {
		return *s, ctx.Err() // without a lock, which would leave a file where nothing was ever reported
	}
	var out State
	_, err := o.update(ctx, func(s *State, _ time.Time) (bool, error) {
		out = State{append([]Entry(nil), s.Entries...), s.Counts}
		return false, nil
	})
	return out, err
}

// update changes the state under its lock, after it has dropped what is too old, and tells
// what was dropped. An error of change does not undo what it has changed.
func (o *Outbox) update(ctx context.Context, change func(*State, time.Time) (changed bool, err error)) (expired int, err error) {
	var old []Entry
	var failed error
	aside, err := o.store.update(ctx, func(s *State) (changed bool) {
		now := o.now()
		old = s.expire(now)
		changed, failed = change(s, now)
		return changed || len(old) > 0
	})
	if aside != "" {
		o.tell(Dropped{Aside: aside})
	}
	if err != nil {
		return 0, err
	}
	for _, e := range old {
		o.tell(Dropped{Entry: e})
	}
	return len(old), failed
}

// tell calls Told, whose panic changes nothing of what has become of a report.
func (o *Outbox) tell(d Dropped) {
	defer func() {
		if recover() != nil {
			defer func() { _ = recover() }() // the logger's own; there is nobody left to tell
			slog.Error("Told of an outbox panicked, which is logged in its place", "dropped", d.String())
		}
	}()
	o.options.Told(d)
}

// now is the time of the wall clock, without the reading of the clock that stands still
// while the machine sleeps.
func (o *Outbox) now() time.Time { return o.options.now().UTC().Round(0) }

func (s *State) find(key string) int {
	for i := range s.Entries {
		if s.Entries[i].Key == key {
			return i
		}
	}
	return -1
}

func (s *State) remove(at int) { s.Entries = append(s.Entries[:at], s.Entries[at+1:]...) }

// expire takes out what is too old. A clock that was set back must not hold a report
// longer than it was meant to be held: no wait and no mark reaches further than MaxRetryAfter.
func (s *State) expire(now time.Time) (old []Entry) {
	var kept []Entry
	for _, e := range s.Entries {
		if e.CreatedAt.After(now) {
			e.CreatedAt = now
		}
		if e.NotBefore.After(now.Add(MaxRetryAfter)) {
			e.NotBefore = now
		}
		if e.SendingUntil.After(now.Add(MaxRetryAfter)) {
			e.SendingUntil = now
		}
		if now.Sub(e.CreatedAt) >= MaxAge && e.free(now) {
			old = append(old, e)
			continue
		}
		kept = append(kept, e)
	}
	s.Entries = kept
	s.Counts.Expired += len(old)
	return old
}
