package postgres

import (
	"context"
	"errors"
	"net"
	neturl "net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"countersign/internal/ledger"
	"countersign/internal/pgtest"
)

// relay stands between a ledger and its server. While it is silent it takes what comes
// and passes nothing on, in either direction; new connections too are only taken.
type relay struct {
	url string

	mu     sync.Mutex
	open   *sync.Cond
	silent bool
}

func newRelay(t *testing.T, url string) *relay {
	t.Helper()
	server, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Del("host")
	query.Del("port")
	u.Host, u.RawQuery = listener.Addr().String(), query.Encode()
	r := &relay{url: u.String()}
	r.open = sync.NewCond(&r.mu)
	network, address := pgconn.NetworkAddress(server.Host, server.Port)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial(network, address)
			if err != nil {
				near.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				conns.Go(func() { r.pass(way[0], way[1]) })
			}
		}
	})
	t.Cleanup(func() {
		listener.Close()
		r.be(false)
		conns.Wait()
	})
	return r
}

// pass copies until one end closes, and then closes both.
func (r *relay) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		for r.silent {
			r.open.Wait()
		}
		r.mu.Unlock()
		if _, wrote := to.Write(b[:n]); wrote != nil || err != nil {
			return
		}
	}
}

func (r *relay) be(silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = silent
	r.open.Broadcast()
}

const hashOfX = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"

// A server that is reached and does not answer holds up no read beyond the ledger's
// patience, though its caller would wait for ever, and the ledger goes on when the
// server speaks again. A ledger of more patience, which is the control, is still waiting
// by then.
func TestReadsOfASilentServer(t *testing.T) {
	r := newRelay(t, pgtest.Database(t, Migrate))
	opened := func(patience time.Duration) *Ledger {
		l, err := open(t.Context(), r.url, Options{})
		if err != nil {
			t.Fatal(err)
		}
		l.patience = patience
		l.start()
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	l, patient := opened(2*time.Second), opened(time.Hour)
	key := runKey()
	mustStore(t, l, write(key, 0, `{}`))
	reads := map[string]func(context.Context, *Ledger) error{
		"Now":    func(ctx context.Context, l *Ledger) error { _, err := l.Now(ctx); return err },
		"Load":   func(ctx context.Context, l *Ledger) error { _, _, err := l.Load(ctx, key); return err },
		"Events": func(ctx context.Context, l *Ledger) error { _, err := l.Events(ctx, key, 0, 1); return err },
		"Text":   func(ctx context.Context, l *Ledger) error { _, err := l.Text(ctx, key, "x"); return err },
		"Texts":  func(ctx context.Context, l *Ledger) error { _, err := l.Texts(ctx, key); return err },
		"Record": func(ctx context.Context, l *Ledger) error {
			_, err := l.Record(ctx, key.Workspace, "p", "k")
			return err
		},
		"Fate": func(ctx context.Context, l *Ledger) error { _, err := l.Fate(ctx, key.Workspace, "p"); return err },
		"Credential": func(ctx context.Context, l *Ledger) error {
			_, _, err := l.Credential(ctx, key.Workspace, "h")
			return err
		},
		"SealedValue": func(ctx context.Context, l *Ledger) error { _, err := l.SealedValue(ctx, key, "n"); return err },
		"Due":         func(ctx context.Context, l *Ledger) error { _, err := l.Due(ctx, ledger.Overdue{}, 1); return err },
		"HolderAlive": func(ctx context.Context, l *Ledger) error { _, err := l.HolderAlive(ctx, "nobody"); return err },
		"PutBlobs": func(ctx context.Context, l *Ledger) error {
			return l.PutBlobs(ctx, []ledger.Blob{{Workspace: key.Workspace, Hash: hashOfX, Type: "text/plain", Bytes: []byte("x")}})
		},
		"Blobs": func(ctx context.Context, l *Ledger) error {
			_, err := l.Blobs(ctx, key.Workspace, []string{hashOfX})
			return err
		},
		"Missing": func(ctx context.Context, l *Ledger) error {
			_, err := l.Missing(ctx, key.Workspace, []string{hashOfX})
			return err
		},
		"Ping": func(ctx context.Context, l *Ledger) error { return l.Ping(ctx) },
		"Installation": func(ctx context.Context, l *Ledger) error {
			return l.CheckInstallation(ctx, map[string]string{"k": "f"})
		},
		"EraseText": func(ctx context.Context, l *Ledger) error { return l.EraseText(ctx, key, "x") },
		"Find": func(ctx context.Context, l *Ledger) error {
			_, err := l.Find(ctx, ledger.Query{Workspace: key.Workspace, Kind: key.Kind})
			return err
		},
		"revisions": func(ctx context.Context, l *Ledger) error {
			_, err := l.revisions(ctx, []ledger.Key{key})
			return err
		},
	}
	type ended struct {
		name string
		err  error
	}
	ask := func(ctx context.Context, l *Ledger) <-chan ended {
		answers := make(chan ended, len(reads))
		for name, read := range reads {
			go func() { answers <- ended{name, read(ctx, l)} }()
		}
		return answers
	}
	r.be(true)
	leave, cancel := context.WithCancel(context.Background())
	defer cancel()
	control, bounded := ask(leave, patient), ask(context.Background(), l)
	for range reads {
		if a := <-bounded; !errors.Is(a.err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the end of its time", a.name, a.err)
		}
	}
	if len(control) > 0 {
		a := <-control
		t.Errorf("control: %s has ended too: %v", a.name, a.err)
	}
	cancel()
	for range reads {
		<-control
	}
	r.be(false)
	spoken := ask(context.Background(), l)
	for range reads {
		if a := <-spoken; a.err != nil && !errors.Is(a.err, ledger.ErrNotFound) {
			t.Errorf("%s when the server speaks again: %v", a.name, a.err)
		}
	}
}
