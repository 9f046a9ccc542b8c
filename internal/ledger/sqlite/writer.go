package sqlite

import (
	"errors"
	"fmt"

	"countersign/internal/ledger"
)

// errStopped is the cause of NotStored after a COMMIT whose fate is unknown.
var errStopped = errors.New("sqlite: stopped after a commit whose fate is unknown; restart the process")

// writer is the one goroutine that writes.
type writer struct {
	path        string
	ledger      *Ledger
	fault       func(string) error
	afterCommit func()

	tx       *tx // nil when the connection has to be opened anew
	group    []*job
	wake     []ledger.Key
	failed   chan struct{}
	done     chan struct{}
	closeErr error // readable once done is closed
}

func newWriter(path string, l *Ledger, o Options) *writer {
	return &writer{path: path, ledger: l, fault: o.Fault, afterCommit: o.AfterCommit, failed: make(chan struct{}), done: make(chan struct{})}
}

func (w *writer) run() {
	defer close(w.done)
	for ended := false; !ended; {
		w.group, ended = w.ledger.queue.next(w.group[:0])
		if len(w.group) > 0 {
			w.commit()
		}
		clear(w.group)
	}
	if w.tx != nil {
		w.closeErr = w.tx.close()
	}
}

// reopen replaces the connection. What was open on the old one is rolled back.
func (w *writer) reopen() error {
	w.discard()
	tx, err := openTx(w.path, w.fault)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	w.tx = tx
	return nil
}

// discard gives the connection up. Its errors say nothing new: it is closed
// because it failed.
func (w *writer) discard() {
	if w.tx != nil {
		_ = w.tx.close()
		w.tx = nil
	}
}

// commit writes one group and answers it.
func (w *writer) commit() {
	if w.tx == nil {
		if err := w.reopen(); err != nil {
			w.answerAll(ledger.NotStored, err)
			return
		}
	}
	if err := w.fill(); err != nil {
		w.discard()
		w.answerAll(ledger.NotStored, fmt.Errorf("sqlite: %w", err))
		return
	}
	if err := w.end(); err != nil {
		w.ledger.recent.forget()
		w.settle(err)
		return
	}
	w.answer()
}

// fill opens the transaction and applies the group. On an error nothing of it
// may be committed.
func (w *writer) fill() error {
	t := w.tx
	if err := t.at(beforeBegin); err != nil {
		return err
	}
	if _, err := t.exec(afterBegin, `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	now := w.ledger.clock.Now()
	for _, j := range w.group {
		if _, err := t.exec(afterSavepoint, `SAVEPOINT change`); err != nil {
			return err
		}
		var err error
		if j.result = stored; j.change == nil {
			err = j.run(t)
		} else {
			j.result, err = t.apply(j.change, now)
		}
		if err != nil {
			return err
		}
		if j.result.Outcome != ledger.Stored {
			if _, err := t.exec(afterRollback, `ROLLBACK TO change`); err != nil {
				return err
			}
		}
		if _, err := t.exec(afterRelease, `RELEASE change`); err != nil {
			return err
		}
	}
	return nil
}

// end commits. After an error the group may be stored or not. The fail points
// on both sides stand for a COMMIT that failed and for one whose success was
// not reported.
func (w *writer) end() error {
	t := w.tx
	if err := t.at(beforeCommit); err != nil {
		return err
	}
	if _, err := t.exec(afterCommitPoint, `COMMIT`); err != nil {
		return err
	}
	for _, j := range w.group {
		if j.change != nil && j.result.Outcome == ledger.Stored {
			w.ledger.recent.put(j.change)
		}
	}
	if w.afterCommit != nil {
		w.afterCommit()
	}
	return t.at(beforeAnswer)
}

// settle finds out, on a new connection, what became of a group whose COMMIT
// reported an error. A group is stored whole or not at all, so that Changes
// that disagree prove nothing.
func (w *writer) settle(cause error) {
	cause = fmt.Errorf("sqlite: commit: %w", cause)
	if err := w.reopen(); err != nil {
		w.stop(errors.Join(cause, err))
		return
	}
	told, there := 0, 0
	for _, j := range w.group {
		if j.change == nil || j.result.Outcome != ledger.Stored {
			continue
		}
		present, tells, err := w.tx.present(j.change)
		if err != nil {
			w.stop(errors.Join(cause, err))
			return
		}
		if tells {
			told++
		}
		if present {
			there++
		}
	}
	switch {
	case told == 0: // failed guards, which left no row either way, and what tells nothing
		for _, j := range w.group {
			if j.result.Outcome == ledger.Stored {
				j.result = ledger.Result{Outcome: ledger.Unknown, Cause: cause}
			}
		}
		w.answer()
	case there == told:
		w.answer()
	case there == 0:
		w.answerAll(ledger.NotStored, cause)
	default:
		w.stop(errors.Join(cause, errors.New("the group is there in part")))
	}
}

// stop answers Unknown and takes no further commits.
func (w *writer) stop(cause error) {
	w.ledger.queue.close(errStopped)
	close(w.failed)
	w.answerAll(ledger.Unknown, cause)
	for {
		var ended bool
		if w.group, ended = w.ledger.queue.take(w.group[:0]); len(w.group) > 0 {
			w.answerAll(ledger.NotStored, errStopped)
		}
		if ended {
			break
		}
	}
}

// answer gives each job its own result and then wakes the watchers.
func (w *writer) answer() {
	w.wake = w.wake[:0]
	for _, j := range w.group {
		if j.change != nil && j.result.Outcome == ledger.Stored {
			for i := range j.change.Writes {
				w.wake = append(w.wake, j.change.Writes[i].Key)
			}
		}
		j.answer <- j.result
	}
	w.ledger.hub.Wake(w.wake...)
}

func (w *writer) answerAll(outcome ledger.Outcome, cause error) {
	for _, j := range w.group {
		j.answer <- ledger.Result{Outcome: outcome, Cause: cause}
	}
}
