package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"countersign/internal/channel/bounds"
)

const (
	headerTimeout = 5 * time.Second
	// answerTimeout is longer than a provider call (60 s, H-176) and a dispatch
	// (8 s) together; streams set a deadline of their own for each write. The end of
	// the server cuts it short.
	answerTimeout = 90 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
	// shutdownGrace leaves the rest of the 10 s of SIGTERM to closing the ledger.
	shutdownGrace = 9 * time.Second
)

// Server serves an API on one listener.
type Server struct {
	API *API
	// CertFile and KeyFile, both or neither, make it speak TLS.
	CertFile, KeyFile string
	// Wrap, unless nil, puts a handler around the API, which sees every request
	// before any rule of the API does.
	Wrap func(http.Handler) http.Handler
	// Grace is how long requests may go on after the context has ended; 0 means 9 s.
	Grace time.Duration
}

// Serve answers requests until ctx ends. Then it takes no new connections, ends
// the streams, waits no longer for bodies that clients have not sent, lets running
// requests finish within the grace, and cuts what is left; it returns nil when
// nothing had to be cut. A client that does not read its answer loses it, which is
// nothing cut. Requests do not end with ctx.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var handler http.Handler = s.API
	if s.Wrap != nil {
		handler = s.Wrap(handler)
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.API.log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- s.listen(server, l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("edge: %w", err)
	case <-ctx.Done():
	}
	grace := s.Grace
	if grace <= 0 {
		grace = shutdownGrace
	}
	s.API.EndStreams()
	s.API.exchanges.End(time.Now().Add(grace - bounds.PollPause))
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := server.Shutdown(limit)
	if err != nil {
		err = fmt.Errorf("edge: requests were cut after %s: %w", grace, errors.Join(err, server.Close()))
	}
	<-failed // http.ErrServerClosed
	return err
}

func (s *Server) listen(server *http.Server, l net.Listener) error {
	if s.CertFile != "" || s.KeyFile != "" {
		return server.ServeTLS(l, s.CertFile, s.KeyFile)
	}
	return server.Serve(l)
}
