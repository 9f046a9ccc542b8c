package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// blockedFor is how long a transaction waits for others before silent ones among them
// are ended.
const blockedFor = 2 * time.Second

// unblocking looks after the transaction that c is about to run, until the returned
// function is called. A writer sends a transaction at once and whole; where only its
// beginning arrived, because its host or what stands between fell silent, the server goes
// on waiting for the rest with every lock held, and no timeout of the server ends that.
// Who is kept waiting then ends that session. Nothing is lost by it: whoever sent the
// transaction looks up what became of it, as after every lost connection.
func (l *Ledger) unblocking(c *pgx.Conn) (done func()) {
	pid, over := c.PgConn().PID(), make(chan struct{})
	timer := time.AfterFunc(l.blocked, func() {
		again := time.NewTicker(l.blocked)
		defer again.Stop()
		for {
			l.unblock(pid)
			select {
			case <-over:
				return
			case <-again.C:
			}
		}
	})
	return func() {
		timer.Stop()
		close(over)
	}
}

// unblock ends the sessions for which pid waits and which themselves wait for their
// client in the middle of a statement's messages. A session in which a person has left a
// transaction open is idle between statements, and stays.
func (l *Ledger) unblock(pid uint32) {
	ctx, cancel := context.WithTimeout(context.Background(), commitLimit)
	defer cancel()
	// What goes wrong here the blocked transaction is told by its own timeout.
	_, _ = l.reads.Exec(ctx, `
		SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
		WHERE a.pid = ANY (pg_blocking_pids($1::int4)) AND a.state = 'active' AND a.wait_event = 'ClientRead'
		  AND a.query_start < clock_timestamp() - $2::int8 * interval '1 microsecond'`, int32(pid), l.blocked.Microseconds())
}
