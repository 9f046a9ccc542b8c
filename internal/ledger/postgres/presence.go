package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/internal/ledger"
)

// channel is the name of the notifications.
const channel = "countersign"

// presence is the session under which an opening is alive: it holds the lock of
// the holder's name and listens for notifications.
type presence struct {
	config *pgx.ConnConfig
	holder string
	conn   *pgx.Conn
}

func arrive(ctx context.Context, config *pgx.ConnConfig, holder string) (*presence, error) {
	p := &presence{config: config, holder: holder}
	if err := p.connect(ctx); err != nil {
		return nil, fmt.Errorf("postgres: presence: %w", err)
	}
	return p, nil
}

func (p *presence) connect(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		return err
	}
	// A former session of the same holder that the server has not given up yet
	// makes this wait; the holder is alive meanwhile.
	_, err = conn.Exec(ctx, `SELECT pg_advisory_lock($1), pg_advisory_lock_shared($2)`, lockKey("holder", p.holder), served)
	if err == nil {
		_, err = conn.Exec(ctx, `LISTEN `+channel)
	}
	if err != nil {
		_ = conn.Close(context.WithoutCancel(ctx)) // the first error says more
		return err
	}
	p.conn = conn
	return nil
}

// leave ends the session. When it still works the lock is freed before leave
// returns; the server would free it a moment later.
func (p *presence) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if !p.conn.IsClosed() {
		_, _ = p.conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`) // Close does it otherwise
	}
	_ = p.conn.Close(ctx)
}

// Holder names this opening as the holder of leases.
func (l *Ledger) Holder() string { return l.presence.holder }

// HolderAlive says whether the opening of that name still lives: whether its
// session holds its lock. A shared attempt disturbs no other attempt.
func (l *Ledger) HolderAlive(ctx context.Context, holder string) (bool, error) {
	if holder == l.Holder() {
		return true, nil // whatever became of the session that shows it to others
	}
	ctx, cancel := l.patiently(ctx)
	defer cancel()
	var free bool
	if err := l.reads.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock_shared($1)`, lockKey("holder", holder)).Scan(&free); err != nil {
		return false, fmt.Errorf("postgres: holder: %w", err)
	}
	return !free, nil
}

// attend keeps the presence alive and passes notifications on until ctx ends.
func (l *Ledger) attend(ctx context.Context) {
	p := l.presence
	for {
		n, err := p.conn.WaitForNotification(ctx)
		if err == nil {
			l.hear(n.Payload)
			continue
		}
		p.leave()
		for ctx.Err() == nil && p.connect(ctx) != nil {
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
		if ctx.Err() != nil {
			p.leave()
			return
		}
		l.hub.Wake(l.hub.Watched()...) // for what was missed
	}
}

// hear wakes the watchers that a notification is about.
func (l *Ledger) hear(payload string) {
	var keys []ledger.Key
	if json.Unmarshal([]byte(payload), &keys) != nil {
		keys = l.hub.Watched() // somebody else's words: look at everything
	}
	l.hub.Wake(keys...)
}
