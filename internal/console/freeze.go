package console

import (
	"cmp"
	"io"
	"net/http"
	"slices"

	"countersign/evidence"
	"countersign/internal/supervision/freeze"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
)

// standing is how the workspace stands with its freeze, as every page shows it.
type standing struct{ records.Freeze }

// Mark is what changes whenever the workspace is frozen or unfrozen.
func (s *standing) Mark() string { return cmp.Or(s.Head, "0") }

type freezeData struct {
	records.Freeze
	InFlight, Unconfirmed []records.Open
	MaxReason             int
	KeyID                 string
}

// freeze is the page on which everything is stopped, and let go on (L-8).
func (s *site) freeze(r *http.Request) (*page, error) {
	d := freezeData{MaxReason: freeze.MaxReason, KeyID: evidence.KeyID(s.Keys[len(s.Keys)-1].Public)}
	var err error
	if d.Freeze, err = s.Reader.Freeze(r.Context()); err != nil {
		return nil, err
	}
	open, err := s.Reader.Open(r.Context())
	if err != nil {
		return nil, err
	}
	slices.SortFunc(open, func(a, b records.Open) int { return cmp.Compare(a.DispatchedAt, b.DispatchedAt) })
	for _, x := range open {
		if x.State == run.ExecutionDispatched {
			d.InFlight = append(d.InFlight, x)
		} else {
			d.Unconfirmed = append(d.Unconfirmed, x)
		}
	}
	p := &page{Template: "freeze", Title: "Freeze", Section: "freeze", Live: livePath, Data: d}
	if d.Frozen {
		p.Title = "Frozen"
	}
	return p, nil
}

// mark tells the page's script whether the workspace was frozen or unfrozen since.
func (s *site) mark(w http.ResponseWriter, r *http.Request) {
	passed, ok := s.signedIn(w, r)
	if !ok {
		return
	}
	f, err := s.Reader.Freeze(passed.Context())
	if err != nil {
		s.api.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	io.WriteString(w, (&standing{f}).Mark()) // an error means that the client has left
}
