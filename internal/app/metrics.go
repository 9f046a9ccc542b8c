package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"countersign/evidence"
	"countersign/internal/channel"
	"countersign/internal/channel/edge"
	"countersign/internal/ledger"
	"countersign/internal/supervision/records"
	"countersign/internal/supervision/run"
)

// metrics counts what an installation does. Labels come from fixed lists only:
// no id, no token and nothing that a client wrote is one.
type metrics struct {
	registry *prometheus.Registry

	requests *prometheus.CounterVec   // route, method, status
	duration *prometheus.HistogramVec // route, method; without streams
	streams  prometheus.Gauge

	commits      *prometheus.CounterVec // outcome, guard
	commitTime   prometheus.Histogram
	waiting      prometheus.Gauge
	refused      prometheus.Counter
	transactions prometheus.Counter

	decisions  *prometheus.CounterVec // verdict, reason
	executions *prometheus.CounterVec // state
}

// other stands for a value outside its list, which is no value of the product.
const other = "other"

func newMetrics(engine string) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "countersign", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "countersign", Name: name, Help: help})
	}
	one := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "countersign", Name: name, Help: help})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("http_requests_total", "Requests that were answered, by route pattern, method and status.", "route", "method", "status"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "countersign", Name: "http_request_duration_seconds", Help: "Time until a request was answered, streams left out.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"route", "method"}),
		streams: gauge("sse_streams_open", "Event streams that are open."),
		commits: counter("ledger_commits_total", "Changes by outcome; of a conflict also the guard that failed.", "outcome", "guard"),
		commitTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "countersign", Name: "ledger_commit_duration_seconds", Help: "Time from handing a Change to the ledger to its answer.",
			Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5},
		}),
		waiting:      gauge("ledger_commits_waiting", "Changes that wait for the ledger's answer, queued or being written."),
		refused:      one("ledger_queue_refusals_total", "Changes that a full queue refused."),
		transactions: one("ledger_transactions_total", "Database transactions that were committed; Changes divided by these is the size of a group."),
		decisions:    counter("decisions_total", "Decisions on reports, by verdict and reason code.", "verdict", "reason"),
		executions:   counter("executions_total", "Executions by the state in which they ended.", "state"),
	}
	m.registry.MustRegister(m.requests, m.duration, m.streams, m.commits, m.commitTime, m.waiting, m.refused, m.transactions, m.decisions, m.executions,
		buildInfo(engine), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, o := range []ledger.Outcome{ledger.Stored, ledger.NotStored, ledger.Unknown} {
		m.commits.WithLabelValues(outcome(o), "")
	}
	for _, state := range endStates {
		m.executions.WithLabelValues(state)
	}
	return m
}

// buildInfo is 1, with what is running as labels.
func buildInfo(engine string) prometheus.Collector {
	version, revision := Build()
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "countersign", Name: "build_info", Help: "Always 1; what is running.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "contract": channel.Version, "go": runtime.Version(), "ledger": engine},
	})
	g.Set(1)
	return g
}

// listenMetrics listens where the operator said. The host has to be spelled out:
// what is shown needs no credential, so nobody should open it to a network by
// leaving something out.
func listenMetrics(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || !isPort(port) {
		return nil, refuse("--metrics-addr: want HOST:PORT, such as localhost:9420, with a port from 0 to 65535; for every address say 0.0.0.0 or [::]")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--metrics-addr %s: %w", addr, err)
	}
	return l, nil
}

// serve answers GET /metrics, and nothing else, until ctx ends.
func (m *metrics) serve(ctx context.Context, l net.Listener, log *slog.Logger) error {
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorLog: errorLog, MaxRequestsInFlight: 4}))
	server := &http.Server{
		Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: errorLog,
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--metrics-addr: %w", err)
	}
	return nil
}

// methods are those that a label may name.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// noRoute is the route of a request that no pattern matches.
const noRoute = "none"

// handler counts the requests to next, whose routes have these patterns.
func (m *metrics) handler(next http.Handler, patterns []string) http.Handler {
	routes := http.NewServeMux()
	for _, p := range append(patterns, "/healthz", "/readyz") {
		routes.Handle(p, http.NotFoundHandler())
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, method := noRoute, r.Method
		if _, pattern := routes.Handler(r); pattern != "" && path.Clean(r.URL.Path) == r.URL.Path {
			route = pattern[strings.IndexByte(pattern, '/'):]
		}
		if !slices.Contains(methods, method) {
			method = other
		}
		a, start := &answer{ResponseWriter: w, streams: m.streams}, time.Now()
		defer func() { // a handler that panics has answered too
			m.requests.WithLabelValues(route, method, strconv.Itoa(max(a.status, http.StatusOK))).Inc()
			if a.streaming {
				m.streams.Dec()
				return
			}
			m.duration.WithLabelValues(route, method).Observe(time.Since(start).Seconds())
		}()
		next.ServeHTTP(a, r)
	})
}

// answer notes the status of an answer, and whether it is a stream.
type answer struct {
	http.ResponseWriter
	streams   prometheus.Gauge
	status    int // 0 until the answer begins
	streaming bool
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
		if a.Header().Get("Content-Type") == "text/event-stream" {
			a.streaming = true
			a.streams.Inc()
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController through.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// measured is an engine whose commits are counted.
type measured struct {
	engine
	m *metrics
}

func (l measured) Commit(ctx context.Context, c ledger.Change) ledger.Result {
	l.m.waiting.Inc()
	start := time.Now()
	result := l.engine.Commit(ctx, c)
	l.m.waiting.Dec()
	l.m.commitTime.Observe(time.Since(start).Seconds())
	l.m.commits.WithLabelValues(outcome(result.Outcome), string(result.Which)).Inc()
	if errors.Is(result.Cause, ledger.ErrQueueFull) {
		l.m.refused.Inc()
	}
	if result.Outcome == ledger.Stored {
		synthetic := func(a ledger.Attribute) bool {
			return a.Name == records.AttributePurpose && a.Value != records.PurposeOperation
		}
		for _, w := range c.Writes {
			if slices.ContainsFunc(w.Attributes, synthetic) {
				continue // nothing of a policy's verification or of an attack is operation (H-207)
			}
			for _, e := range w.Events {
				l.m.event(e)
			}
		}
	}
	return result
}

func outcome(o ledger.Outcome) string { return strings.ReplaceAll(o.String(), " ", "_") }

// endStates are the last states of an execution, each with an event of its name.
var endStates = []string{"verified", "mismatch", "not_applied", "unconfirmed", "voided"}

// event counts what a stored event tells.
func (m *metrics) event(e evidence.Event) {
	var d struct{ Verdict, Decision, ReasonCode string }
	switch e.Type {
	case "policy.checked", "guardian.decided":
		if err := json.Unmarshal(e.Data, &d); err != nil {
			d.Decision = other // the program sealed it: it is readable
		}
		if d.Verdict == run.CheckPassed {
			return // the guardian's decision is still to come
		}
		m.decisions.WithLabelValues(known(d.Verdict+d.Decision, run.Allow, run.Pause, run.Terminate), knownReason(d.ReasonCode)).Inc()
	default:
		if state, ended := strings.CutPrefix(e.Type, "execution."); ended && slices.Contains(endStates, state) {
			m.executions.WithLabelValues(state).Inc()
		}
	}
}

func known(value string, list ...string) string {
	if slices.Contains(list, value) {
		return value
	}
	return other
}

// knownReason is a code of the one table of reasons.
func knownReason(code string) string {
	if slices.ContainsFunc(edge.Reasons(), func(r edge.Reason) bool { return r.Code == code }) {
		return code
	}
	return other
}
