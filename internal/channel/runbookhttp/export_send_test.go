package runbookhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign/internal/channel/edge"
	"countersign/internal/channel/runbookhttp"
	"countersign/internal/runbook/control"
)

// exporter is a plane whose export is written by a function.
type exporter struct {
	plane
	write func(context.Context, io.Writer) error
}

func (e exporter) Export(ctx context.Context, _ string, w io.Writer) (bool, error) {
	return true, e.write(ctx, w)
}

func exporting(t *testing.T, log io.Writer, write func(context.Context, io.Writer) error) *edge.API {
	t.Helper()
	api, err := edge.New(edge.Config{Origin: origin, Title: "t", Version: "1", Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	runbookhttp.Register(api, exporter{write: write})
	return api
}

func get(t *testing.T, server *httptest.Server) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/api/v1/incident/evidence", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = strings.TrimPrefix(origin, "http://")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// L-14: an export is sent while it is made, so that it is never whole in memory: its
// beginning is read before its end exists.
func TestExportIsSentWhileItIsMade(t *testing.T) {
	part := bytes.Repeat([]byte("x"), 256<<10)
	read := make(chan struct{})
	server := httptest.NewServer(exporting(t, io.Discard, func(ctx context.Context, w io.Writer) error {
		if _, err := w.Write(part); err != nil {
			return err
		}
		select {
		case <-read:
		case <-ctx.Done():
			return ctx.Err()
		}
		_, err := w.Write([]byte("the end"))
		return err
	}))
	defer server.Close()
	response := get(t, server)
	body := bufio.NewReader(response.Body)
	if _, err := io.ReadFull(body, make([]byte, len(part))); err != nil {
		t.Fatal(err)
	}
	close(read)
	rest, err := io.ReadAll(body)
	if err != nil || string(rest) != "the end" || response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/json" ||
		response.Header.Get("Content-Disposition") != `attachment; filename="evidence-incident.json"` || response.ContentLength != -1 {
		t.Errorf("%d %v, %q, %v", response.StatusCode, response.Header, rest, err)
	}
}

// What fails before the first byte is a refusal; what fails behind it cuts the answer off,
// so that it is not taken for an export.
func TestExportThatFails(t *testing.T) {
	for what, c := range map[string]struct {
		before int
		err    error
		status int
		cut    bool
	}{
		"at once":            {0, control.ErrUnavailable, 503, false},
		"held back":          {60 << 10, control.ErrUnavailable, 503, false},
		"not whole":          {0, errors.New("evidence: an event is missing"), 500, false},
		"behind its first":   {128 << 10, errors.New("evidence: an event is missing"), 200, true},
		"control: it is one": {128 << 10, nil, 200, false},
	} {
		var log bytes.Buffer
		server := httptest.NewServer(exporting(t, &log, func(_ context.Context, w io.Writer) error {
			if _, err := w.Write(bytes.Repeat([]byte("x"), c.before)); err != nil {
				return err
			}
			return c.err
		}))
		response := get(t, server)
		body, err := io.ReadAll(response.Body)
		server.Close()
		if response.StatusCode != c.status || (err != nil) != c.cut || (c.err != nil) != strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("%s: %d, %d bytes, %v, logged %s", what, response.StatusCode, len(body), err, &log)
		}
		if isProblem := response.Header.Get("Content-Type") == "application/problem+json"; isProblem != (c.status >= 500) || isProblem && response.Header.Get("Content-Disposition") != "" {
			t.Errorf("%s: %v", what, response.Header)
		}
	}
}

// deadlines keeps the deadline that is set for writing.
type deadlines struct {
	*httptest.ResponseRecorder
	write time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

// L-14: one process sends four exports at once; who comes then is told when to come back,
// and the operator seldom. Each has a minute in which it must be read.
func TestExportsAtOnce(t *testing.T) {
	var log bytes.Buffer
	began, end := make(chan struct{}), make(chan struct{})
	api := exporting(t, &log, func(ctx context.Context, w io.Writer) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the ledger may be read for ever")
		}
		began <- struct{}{}
		<-end
		_, err := w.Write([]byte("{}"))
		return err
	})
	done := make(chan *deadlines)
	ask := func() *deadlines {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		api.ServeHTTP(w, httptest.NewRequest("GET", origin+"/api/v1/incident/evidence", nil))
		return w
	}
	start := time.Now()
	for range 4 {
		go func() { done <- ask() }()
		<-began
	}
	for range 50 {
		if w := ask(); w.Code != 503 || w.Header().Get("Retry-After") != "5" || !strings.Contains(w.Body.String(), `"control_plane_unavailable"`) {
			t.Fatalf("the fifth: %d %v %s", w.Code, w.Header(), w.Body)
		}
	}
	if lines := strings.Count(log.String(), "level=WARN"); lines < 1 || lines > 1+int(time.Since(start)/time.Second)+1 || strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the operator was told %d times: %s", lines, &log)
	}
	close(end)
	for range 4 {
		// The last that is set is for what net/http still does; see bounds.Exchanges.
		if w := <-done; w.Code != 200 || w.Body.String() != "{}" || w.write.IsZero() || w.write.After(time.Now().Add(time.Minute)) {
			t.Errorf("%d %s, to be read until %v", w.Code, w.Body, w.write)
		}
	}
	go func() { <-began }()
	if w := ask(); w.Code != 200 { // a place is free again
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

// L-14: that there is no room is expected, and anybody can bring it about: it is a warning,
// once a second at most, and no failure.
func TestFullIsToldSeldom(t *testing.T) {
	var log bytes.Buffer
	api, err := edge.New(edge.Config{Origin: origin, Title: "t", Version: "1", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	runbookhttp.Register(api, plane{err: control.ErrFull})
	start := time.Now()
	for range 100 {
		r := httptest.NewRequest("POST", origin+"/api/v1/incident", strings.NewReader(`{"operation":"snapshot","channel":"api"}`))
		r.Header.Set("Origin", origin)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if api.ServeHTTP(w, r); w.Code != 503 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines < 1 || lines > 2+int(time.Since(start)/time.Second) || strings.Count(log.String(), "level=WARN") != lines {
		t.Errorf("%d lines: %s", lines, &log)
	}
}
