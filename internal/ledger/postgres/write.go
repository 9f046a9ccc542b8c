package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"countersign/internal/ledger"
	"countersign/internal/ledger/postgres/statement"
)

// write is one writer: it takes transactions from the queue until the queue is
// closed and empty.
func (l *Ledger) write() {
	for {
		group := l.queue.take()
		if group == nil {
			return
		}
		l.commit(group)
		l.queue.done(len(group))
	}
}

// attempts bounds how often a Change that is alone meets a row which its
// statement could not see, a deadlock or the like.
const attempts = 5

// commit writes a group and answers each of its Changes.
func (l *Ledger) commit(group []*job) {
	if err := l.fault(beforeBegin); err != nil {
		answerAll(group, notStored(err))
		return
	}
	var results []ledger.Result
	err := l.try(group, &results)
	if err == nil {
		l.answer(group, results)
		return
	}
	for attempt := 1; len(group) == 1 && repeatable(err) && attempt < attempts; attempt++ {
		if err = l.try(group, &results); err == nil {
			l.answer(group, results)
			return
		}
	}
	var lost *lostError
	switch {
	case errors.As(err, &lost):
		// Where one session ended, others mostly have: none is used untried.
		l.writes.Reset()
		l.reads.Reset()
		l.answer(group, l.resolve(group, lost))
	case len(group) > 1 && rolledBack(err):
		for i := range group {
			l.commit(group[i : i+1])
		}
	default:
		answerAll(group, notStored(err))
	}
}

func notStored(err error) ledger.Result {
	return ledger.Result{Outcome: ledger.NotStored, Cause: fmt.Errorf("postgres: %w", err)}
}

func answerAll(group []*job, r ledger.Result) {
	for _, j := range group {
		j.answered <- r
	}
}

// answer wakes the watchers of what was stored and answers the callers.
func (l *Ledger) answer(group []*job, results []ledger.Result) {
	var keys []ledger.Key
	for i, j := range group {
		if results[i].Outcome == ledger.Stored {
			for n := range j.change.Writes {
				keys = append(keys, j.change.Writes[n].Key)
			}
		}
	}
	l.hub.Wake(keys...)
	l.outbox.Add(keys)
	for i, j := range group {
		j.answered <- results[i]
	}
}

// lostError says that a transaction was sent and its answer never came.
type lostError struct {
	cause error
	fence int64 // the lock that its session holds
}

func (e *lostError) Error() string { return "the connection was lost: " + e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }

// try runs the transaction of a group once. Its error is a [lostError] when the
// transaction may have been stored; any other error means that it was not.
func (l *Ledger) try(group []*job, results *[]ledger.Result) error {
	ctx, cancel := context.WithTimeout(context.Background(), commitLimit+2*time.Second)
	defer cancel()
	conn, err := l.writes.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // a connection that is closed by then is thrown away
	c := conn.Conn()
	fence, err := fenceOf(c)
	if err != nil {
		return err
	}
	waited := l.unblocking(c)
	verdict, err := l.send(ctx, c, group)
	waited()
	if err == nil && l.options.AfterCommit != nil {
		l.options.AfterCommit()
	}
	if err == nil {
		err = l.fault(beforeAnswer)
	}
	if err != nil {
		if rolledBack(err) || pgconn.SafeToRetry(err) {
			return err
		}
		// Nothing more may come from this session, whatever the error was.
		return &lostError{errors.Join(err, cut(c)), fence}
	}
	*results = verdict
	return nil
}

// cut closes a connection without a word.
func cut(c *pgx.Conn) error {
	if c.IsClosed() {
		return nil
	}
	err := c.PgConn().Conn().Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ctx) // marks it closed; the network side is gone
	return err
}

// send runs the transaction and returns what became of each Change.
func (l *Ledger) send(ctx context.Context, c *pgx.Conn, group []*job) ([]ledger.Result, error) {
	var batch pgx.Batch
	locks := l.queueLocks(&batch, group)
	changes := make([]*ledger.Change, len(group))
	for i, j := range group {
		changes[i] = j.change
	}
	sql, args := statement.Compile(changes, l.options.Clock.Offset())
	batch.Queue(sql, args...)
	answer := c.SendBatch(ctx, &batch) // one implicit transaction: everything up to one Sync
	if err := l.fault(afterSend); err != nil {
		return nil, err
	}
	for range locks {
		if _, err := answer.Exec(); err != nil {
			return nil, errors.Join(err, answer.Close())
		}
	}
	rows, err := answer.Query()
	if err != nil {
		return nil, errors.Join(err, answer.Close())
	}
	failed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[statement.Failed])
	// The server commits at the end of the batch; Close reads that answer.
	if err := errors.Join(err, answer.Close()); err != nil {
		return nil, err
	}
	return statement.Results(changes, failed), l.fault(afterCommit)
}

// queueLocks queues the locks that must be held before the statement's snapshot
// is taken, and returns how many statements they are.
func (l *Ledger) queueLocks(batch *pgx.Batch, group []*job) (n int) {
	var shared []int64
	for _, j := range group {
		workspace := j.change.Scope()
		switch {
		case l.options.Unlocked:
		case slices.ContainsFunc(j.change.Writes, func(w ledger.Write) bool { return freezes(w.Key) }):
			batch.Queue(`SELECT pg_advisory_xact_lock($1)`, lockKey("freeze", workspace))
			n++
		case j.change.Freezable:
			shared = append(shared, lockKey("freeze", workspace))
		}
		if slices.ContainsFunc(j.change.Guards, func(g ledger.Guard) bool { return g.Revision == 0 }) {
			batch.Queue(`DO $$ BEGIN LOCK TABLE subjects IN SHARE ROW EXCLUSIVE MODE; END $$`) // LOCK alone wants an explicit BEGIN
			n++
		}
	}
	slices.Sort(shared)
	if shared = slices.Compact(shared); len(shared) > 0 {
		batch.Queue(`SELECT pg_advisory_xact_lock_shared(key) FROM unnest($1::int8[]) AS key`, shared)
		n++
	}
	return n
}

// rolledBack says that the server itself reported the end of the transaction
// without a commit. A session that the server ended (FATAL) may have ended
// behind the commit.
func rolledBack(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.SeverityUnlocalized == "ERROR"
}

// repeatable says that the same statement may fare better now.
func repeatable(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) || !rolledBack(err) {
		return false
	}
	switch e.Code {
	case "23505", // unique_violation: a row that the snapshot did not see
		"40001", // serialization_failure
		"40P01", // deadlock_detected
		"0A000": // feature_not_supported: a cached plan that a migration outdated
		return true
	}
	return false
}
