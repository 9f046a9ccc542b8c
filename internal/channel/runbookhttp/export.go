package runbookhttp

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"countersign/internal/authority"
	"countersign/internal/channel/edge"
	"countersign/internal/runbook/control"
	"countersign/internal/runbook/incident"
)

// Bounds on exports, which anybody with a session may ask for.
const (
	MaxExports     = 4           // that one process sends at once
	ExportPatience = time.Minute // to read one; then the connection is cut
)

// held is how much of an export is made before the first byte is sent, and so within which
// what goes wrong is still a refusal.
const held = 64 << 10

// evidence sends the session's export while it is read from the ledger: no more than a part
// of it is in memory.
func (s *service) evidence(w http.ResponseWriter, r *http.Request) error {
	if err := s.admit(r); err != nil {
		return err
	}
	if unknown := unknownParameters(r.URL.RawQuery); len(unknown) > 0 {
		p := edge.Refuse(authority.InvalidRequest, "") // as every GET
		for _, name := range unknown {
			p.AtPlace(name, "unknown query parameter")
		}
		return p
	}
	session, err := SessionOf(r)
	if err != nil {
		return err
	}
	select {
	case s.exports <- struct{}{}:
		defer func() { <-s.exports }()
	default:
		return s.refusal(r.Context(), errExports)
	}
	ctx, cancel := context.WithTimeout(r.Context(), ExportPatience) // unlike a decision it ends with its client
	defer cancel()
	until := time.Now().Add(ExportPatience)
	if err := http.NewResponseController(w).SetWriteDeadline(until); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	out := &sending{w: w}
	part := bufio.NewWriterSize(out, held)
	found, err := s.plane.Export(ctx, session, part)
	if err == nil && found {
		err = part.Flush()
	}
	switch {
	case out.began && err != nil:
		// What was sent is no export. Cut off, it is not taken for one.
		if r.Context().Err() == nil && out.failed == nil {
			s.api.Log().ErrorContext(ctx, "an export of an incident session broke off", "cause", err.Error())
		}
		panic(http.ErrAbortHandler)
	case errors.Is(err, context.DeadlineExceeded):
		return s.refusal(ctx, errors.Join(control.ErrUnavailable, err))
	case err != nil:
		return s.refusal(ctx, err)
	case !found:
		return edge.Refuse(authority.NotFound, "The browser has no incident session: one begins with the first request that is sent by POST.")
	}
	return nil
}

// sending begins the answer with the first part of an export.
type sending struct {
	w      http.ResponseWriter
	began  bool
	failed error // the client does not read, or has left
}

func (s *sending) Write(p []byte) (n int, err error) {
	if !s.began {
		s.began = true
		s.w.Header().Set("Content-Type", "application/json")
		s.w.Header().Set("Content-Disposition", `attachment; filename="evidence-incident.json"`)
		s.w.WriteHeader(http.StatusOK)
	}
	n, s.failed = s.w.Write(p)
	return n, s.failed
}

// errExports means that as many exports are being sent as may be.
var errExports = errors.New("incident: too many exports at once")

func tooManyExports() *edge.Problem {
	return edge.Refuse(incident.ControlPlaneDown, "As many exports are being sent as this server sends at once, "+strconv.Itoa(MaxExports)+". Ask again after Retry-After.").With("Retry-After", "5")
}
