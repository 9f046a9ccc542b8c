package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/scripted"
)

// scrape reads GET /metrics as a whole and by series.
func scrape(t *testing.T, addr string) (text string, series map[string]float64) {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/metrics")
	must(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET /metrics: %d %s", resp.StatusCode, raw)
	}
	series = map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(string(raw))); lines.Scan(); {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			at := strings.LastIndexByte(line, ' ')
			series[line[:at]], err = strconv.ParseFloat(line[at+1:], 64)
			must(t, err)
		}
	}
	return string(raw), series
}

func status(t *testing.T, method, url string) int {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	must(t, err)
	resp, err := client.New().Do(r)
	must(t, err)
	must(t, resp.Body.Close())
	return resp.StatusCode
}

// What happened on the main listener is counted on the other, exactly, and under
// labels that say nothing about whom it happened to.
func TestMetrics(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
		must(t, app.Init(ctx, dir, url))
		a, stop := serve(t, app.Config{Dir: dir, Addr: "localhost:0", Database: url, MetricsAddr: "127.0.0.1:0"})
		secret, err := keys.ReadSecret(filepath.Join(dir, "owner.secret"))
		must(t, err)
		owner := client.Owner{Origin: a.Origin(), HTTP: client.New()}
		session, err := owner.SignIn(ctx, secret)
		must(t, err)
		id, _, err := owner.CreateRun(ctx, localRun)
		must(t, err)
		issued, _, err := owner.IssueToken(ctx, id)
		must(t, err)
		agent := scripted.Agent{Consumer: client.Consumer{Origin: issued.Origin, Token: issued.Token, HTTP: client.New()}, Record: func(scripted.Entry) {}}
		must(t, agent.Play(ctx, "overreach"))
		for _, path := range []string{"/metrics", "/" + issued.Token, "//healthz"} {
			if got := status(t, "GET", a.Origin()+path); got != http.StatusNotFound {
				t.Errorf("GET %s on the main listener: %d, want 404", path, got)
			}
		}
		if got := status(t, "PURGE", a.Origin()+"/healthz"); got != http.StatusMethodNotAllowed {
			t.Errorf("an odd method: %d", got)
		}
		stream := openStream(t, a.Origin(), id, session.Cookies[0])

		text, got := scrape(t, a.MetricsAddr())
		for series, want := range map[string]float64{
			`countersign_http_requests_total{method="POST",route="/api/v1/owner/session",status="200"}`:           1,
			`countersign_http_requests_total{method="POST",route="/api/v1/owner/runs",status="201"}`:              1,
			`countersign_http_requests_total{method="POST",route="/api/v1/owner/runs/{id}/session",status="200"}`: 1,
			`countersign_http_requests_total{method="POST",route="/api/v1/turns",status="200"}`:                   2,
			`countersign_http_requests_total{method="POST",route="/api/v1/operation",status="200"}`:               1,
			`countersign_http_requests_total{method="GET",route="none",status="404"}`:                             3,
			`countersign_http_requests_total{method="other",route="/healthz",status="405"}`:                       1,
			`countersign_http_request_duration_seconds_count{method="POST",route="/api/v1/turns"}`:                2,
			`countersign_sse_streams_open`:                                            1,
			`countersign_decisions_total{reason="RELEVANT",verdict="ALLOW"}`:          1,
			`countersign_decisions_total{reason="ARGUMENT_MISMATCH",verdict="PAUSE"}`: 1,
			`countersign_executions_total{state="verified"}`:                          1,
			`countersign_executions_total{state="unconfirmed"}`:                       0,
			`countersign_ledger_commits_total{guard="",outcome="unknown"}`:            0,
			`countersign_ledger_queue_refusals_total`:                                 0,
			`countersign_ledger_commits_waiting`:                                      0,
		} {
			if value, there := got[series]; !there || value != want {
				t.Errorf("%s: %v, want %v", series, value, want)
			}
		}
		for series := range got { // a report has one decision, whether or not the guardian was asked
			if strings.HasPrefix(series, "countersign_decisions_total") && strings.Contains(series, "other") {
				t.Errorf("%s is a decision that nobody made", series)
			}
		}
		// Nothing ran beside the requests: each stored Change had a transaction.
		stored := got[`countersign_ledger_commits_total{guard="",outcome="stored"}`]
		if n := got[`countersign_ledger_transactions_total`]; stored < 6 || n < stored {
			t.Errorf("%v Changes stored in %v transactions", stored, n)
		}
		if timed := got[`countersign_ledger_commit_duration_seconds_count`]; timed < stored {
			t.Errorf("%v Changes stored, %v timed", stored, timed)
		}
		for _, name := range []string{"go_goroutines", "process_open_fds"} {
			if got[name] == 0 {
				t.Errorf("no %s", name)
			}
		}
		if !strings.Contains(text, `countersign_build_info{contract="0.1",go="go1.`) || !strings.Contains(text, fmt.Sprintf(`ledger=%q`, a.Engine())) {
			t.Error("no build info")
		}
		for what, value := range map[string]string{"the run's id": id, "a token": issued.Token, "the owner's secret": secret, "a cookie": session.Cookies[0].Value} {
			if strings.Contains(text, value) {
				t.Errorf("the metrics show %s", what)
			}
		}

		must(t, stream.Close())
		for tries := 0; ; tries++ { // until the server has seen that the client left
			_, got = scrape(t, a.MetricsAddr())
			if got["countersign_sse_streams_open"] == 0 {
				break
			}
			if tries == 10_000 {
				t.Fatal("a stream that was left counts as open")
			}
		}
		_, got = scrape(t, a.MetricsAddr()) // one scrape is no snapshot of all series
		if n := got[`countersign_http_requests_total{method="GET",route="/api/v1/owner/runs/{id}/events",status="200"}`]; n != 1 {
			t.Errorf("%v streams were answered, want 1", n)
		}
		for request, want := range map[[2]string]int{{"POST", "/metrics"}: http.StatusMethodNotAllowed, {"GET", "/"}: http.StatusNotFound, {"GET", "/api/v1/owner/runs"}: http.StatusNotFound} {
			if got := status(t, request[0], "http://"+a.MetricsAddr()+request[1]); got != want {
				t.Errorf("%s %s on the metrics listener: %d, want %d", request[0], request[1], got, want)
			}
		}
		addr := a.MetricsAddr()
		must(t, stop())
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Error("the metrics listener is open after the end")
		}
	})
}

// openStream follows the run's events and returns what ends that.
func openStream(t *testing.T, origin, id string, cookie *http.Cookie) io.Closer {
	t.Helper()
	r, err := http.NewRequest("GET", origin+"/api/v1/owner/runs/"+id+"/events", nil)
	must(t, err)
	r.AddCookie(cookie)
	resp, err := client.New().Do(r)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %d", resp.StatusCode)
	}
	return resp.Body
}

// Whoever wants metrics on a network says so; nothing opens by leaving a host out.
func TestMetricsAddress(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
	must(t, app.Init(ctx, dir, ""))
	for _, addr := range []string{":0", "0", "localhost"} {
		a, err := app.Open(ctx, app.Config{Dir: dir, Addr: "localhost:0", MetricsAddr: addr})
		if err == nil {
			a.Close()
			t.Fatalf("%q was opened", addr)
		}
		if !strings.Contains(err.Error(), "--metrics-addr") {
			t.Errorf("%q: %v", addr, err)
		}
	}
	a, err := app.Open(ctx, app.Config{Dir: dir, Addr: "localhost:0", MetricsAddr: "0.0.0.0:0"})
	must(t, err)
	if _, err := app.Open(ctx, app.Config{Dir: dir, Addr: "localhost:0", MetricsAddr: a.MetricsAddr()}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a taken port: %v", err)
	}
	must(t, a.Close())
	b, _ := serve(t, app.Config{Dir: dir, Addr: "localhost:0"})
	if got := b.MetricsAddr(); got != "" {
		t.Errorf("metrics at %s without being asked for", got)
	}
}

// answering is an engine that answers each Change with what it was given.
type answering struct {
	app.Engine
	result ledger.Result
}

func (a answering) Commit(context.Context, ledger.Change) ledger.Result { return a.result }

// Outcomes that a healthy installation does not have are told apart.
func TestMetricsOfOutcomes(t *testing.T) {
	m := app.NewMetrics(app.SQLite)
	ended := ledger.Change{Writes: []ledger.Write{{Events: []evidence.Event{{Type: "execution.verified", Data: []byte("{}")}}}}}
	for _, r := range []ledger.Result{
		{Outcome: ledger.Conflict, Which: ledger.OnPermit}, {Outcome: ledger.Conflict, Which: ledger.OnPermit}, {Outcome: ledger.Conflict, Which: ledger.OnSubject},
		{Outcome: ledger.NotStored, Cause: fmt.Errorf("wrapped: %w", ledger.ErrQueueFull)}, {Outcome: ledger.NotStored, Cause: io.EOF}, {Outcome: ledger.Unknown, Cause: io.EOF},
	} {
		if got := app.Measured(answering{result: r}, m).Commit(context.Background(), ended); got != r {
			t.Errorf("answered %+v, want %+v", got, r)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- app.ServeMetrics(ctx, m, l) }()
	_, got := scrape(t, l.Addr().String())
	for series, want := range map[string]float64{
		`countersign_ledger_commits_total{guard="permit",outcome="conflict"}`:  2,
		`countersign_ledger_commits_total{guard="subject",outcome="conflict"}`: 1,
		`countersign_ledger_commits_total{guard="",outcome="not_stored"}`:      2,
		`countersign_ledger_commits_total{guard="",outcome="unknown"}`:         1,
		`countersign_ledger_queue_refusals_total`:                              1,
		`countersign_executions_total{state="verified"}`:                       0, // nothing was stored
		`countersign_ledger_commit_duration_seconds_count`:                     6,
	} {
		if got[series] != want {
			t.Errorf("%s: %v, want %v", series, got[series], want)
		}
	}
	stop()
	must(t, <-served)
}
