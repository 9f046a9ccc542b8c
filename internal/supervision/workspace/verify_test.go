package workspace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/authority"
	"countersign/internal/ledger"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/guardian"
	"countersign/internal/supervision/workspace"
)

// A verification goes through the server's own listener, does reads alone, leaves ended
// runs that no list shows, and says of each test what was expected and observed
// (H-203 to H-207).
func TestVerify(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		var mu sync.Mutex
		var asked []string
		h := newHouse(t, open, plan{around: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked = append(asked, r.Method+" "+r.URL.Path)
				mu.Unlock()
				next.ServeHTTP(w, r)
			})
		}})
		id := h.drafted()
		must(t, h.Verify(t.Context(), id, 1))
		g := h.shown(id)
		if !g.State.Verification.Passed || g.Status != "verified" || len(h.failed(id)) > 0 {
			t.Fatalf("%s, failed: %v", g.Status, h.failed(id))
		}
		for _, test := range g.Tests {
			if test.Expected != nil && (test.Observed == nil || *test.Observed != *test.Expected) {
				t.Errorf("%s: %+v, want %+v", test.Name, test.Observed, test.Expected)
			}
			if test.Name == "webmcp.native" && test.Result != "not_measured" {
				t.Errorf("native WebMCP: %s", test.Result)
			}
			if test.At < g.State.CreatedAt || test.At > g.Now {
				t.Errorf("%s at %s", test.Name, test.At)
			}
		}
		if !slices.Contains(asked, "POST /api/v1/operation") || !slices.Contains(asked, "GET /api/v1/owner/status") {
			t.Errorf("the server was asked %v", asked)
		}
		if got := h.synthetic(); !slices.Equal(got, []string{"revoked", "revoked"}) {
			t.Errorf("the synthetic runs are %v", got)
		}
		if views, err := h.gateway.List(t.Context(), "", 100); err != nil || len(views) != 0 {
			t.Errorf("%d runs are listed, %v", len(views), err)
		}
		for _, runID := range g.Runs {
			v, err := h.gateway.View(t.Context(), runID)
			must(t, err)
			if v.State.StateRevision != 0 && v.State.StateRevision != v.State.Observation.StateRevision || v.State.Budget.Spent != 0 || v.State.ModelCalls != 0 || v.State.OrderID != nil {
				t.Errorf("a synthetic run did more than read: %+v", v.State)
			}
			for _, x := range v.Executions {
				if x.OperationID != "merchant.catalog" {
					t.Errorf("executed %s", x.OperationID)
				}
			}
		}
	})
}

// holes are servers that each lack one protection, and the probes that must notice.
var holes = []struct {
	name   string
	hole   func(http.Handler) http.Handler
	notice []string
}{
	{"no token is needed", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/v1/observation" && r.Header.Get("Authorization") == "" {
				w.Write([]byte("{}"))
				return
			}
			next.ServeHTTP(w, r)
		})
	}, []string{"caller.no_token", "caller.owner_cookie"}},
	{"a run's token is passed over on owner routes", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/api/v1/owner/") {
				r.Header.Del("Authorization")
			}
			next.ServeHTTP(w, r)
		})
	}, []string{"caller.run_token_on_owner_route"}},
	{"no origin is checked", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/api/v1/owner/") {
				r.Header.Set("Origin", "http://"+r.Host)
			}
			next.ServeHTTP(w, r)
		})
	}, []string{"origin.foreign_read", "origin.foreign_change", "origin.missing"}},
	{"no permit is needed", lendPermits, []string{"permit.none"}},
	{"every key is a fresh one", func(next http.Handler) http.Handler {
		n := 0
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if key := r.Header.Get("X-Idempotency-Key"); key != "" {
				n++
				r.Header.Set("X-Idempotency-Key", key+strings.Repeat("x", n))
			}
			next.ServeHTTP(w, r)
		})
	}, []string{"idempotency.same_request", "idempotency.other_body"}},
	{"a repeated request is another result", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			kept := httptest.NewRecorder()
			next.ServeHTTP(kept, r)
			body := kept.Body.Bytes()
			if kept.Header().Get("Idempotency-Replayed") == "true" {
				body = append(body, ' ')
			}
			answer(w, kept, body)
		})
	}, []string{"idempotency.same_request"}},
	{"a receipt is left out", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			kept := httptest.NewRecorder()
			next.ServeHTTP(kept, r)
			body := kept.Body.Bytes()
			if r.URL.Path == "/api/v1/operation" && kept.Code == http.StatusOK {
				var m map[string]any
				if err := json.Unmarshal(body, &m); err != nil {
					panic(err)
				}
				m["receipt"] = nil
				body, _ = json.Marshal(m)
			}
			answer(w, kept, body)
		})
	}, []string{"receipt.read"}},
}

func answer(w http.ResponseWriter, kept *httptest.ResponseRecorder, body []byte) {
	for name, values := range kept.Header() {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(kept.Code)
	w.Write(body)
}

// lendPermits gives an operation without a permit the newest one of its caller.
func lendPermits(next http.Handler) http.Handler {
	newest := map[string]string{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := r.Header.Get("Authorization")
		if r.URL.Path == "/api/v1/operation" && r.Header.Get("X-Step-Permit") == "" {
			r.Header.Set("X-Step-Permit", newest[caller])
		}
		if r.URL.Path != "/api/v1/turns" {
			next.ServeHTTP(w, r)
			return
		}
		kept := httptest.NewRecorder()
		next.ServeHTTP(kept, r)
		var turned struct{ Permit *struct{ Token string } }
		if err := json.Unmarshal(kept.Body.Bytes(), &turned); err != nil {
			panic(err)
		}
		if turned.Permit != nil {
			newest[caller] = turned.Permit.Token
		}
		answer(w, kept, kept.Body.Bytes())
	})
}

// Negative controls: a server that lacks one protection is found out, the revision is
// not verified and cannot be published.
func TestVerificationNotices(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		for _, c := range holes {
			t.Run(c.name, func(t *testing.T) {
				h := newHouse(t, open, plan{around: c.hole})
				id := h.drafted()
				must(t, h.Verify(t.Context(), id, 1))
				failed := h.failed(id)
				for _, name := range c.notice {
					if !slices.Contains(failed, name) {
						t.Errorf("%s has passed; failed: %v", name, failed)
					}
				}
				if h.shown(id).State.Verification.Passed {
					t.Error("the verification has passed")
				}
				is(t, "activate", h.Activate(t.Context(), id, 1), "GUARDIAN_NOT_VERIFIED")
				if got := h.synthetic(); slices.ContainsFunc(got, func(s string) bool { return s != "revoked" }) {
					t.Errorf("the synthetic runs are %v", got)
				}
			})
		}
	})
}

// is fails unless err is a denial with the reason.
func is(t *testing.T, what string, err error, reason string) {
	t.Helper()
	denial, ok := errors.AsType[*authority.Denial](err)
	if !ok || denial.Reason != reason {
		t.Errorf("%s: %v, want %s", what, err, reason)
	}
}

// What the configuration is checked for, one thing at a time (H-206).
func TestConfiguration(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{})
		service, err := h.Register(t.Context(), workspace.ServiceRequest{Name: "Shop", Kind: "merchant", Environment: "staging"})
		must(t, err)
		for _, c := range []struct {
			name   string
			edit   func(*guardian.Policy)
			failed []string
		}{
			{"an unknown operation", func(p *guardian.Policy) { p.Operations = append(p.Operations, "merchant.rob") }, []string{"operations"}},
			{"a channel that is not built", func(p *guardian.Policy) { p.Channels = []string{"http", "mcp"} }, []string{"channel.mcp"}},
			{"a service that is registered for elsewhere", func(p *guardian.Policy) { p.ServiceID, p.Service = &service.ID, "" }, []string{"environment"}},
			{"nothing that only reads", func(p *guardian.Policy) { p.Operations = []string{"merchant.cart.add"} }, []string{
				"receipt.report", "permit.none", "permit.foreign", "receipt.read", "idempotency.same_request", "idempotency.other_body",
			}},
		} {
			t.Run(c.name, func(t *testing.T) {
				id := h.drafted(c.edit)
				must(t, h.Verify(t.Context(), id, 1))
				if got := h.failed(id); !slices.Equal(got, c.failed) {
					t.Errorf("failed: %v, want %v", got, c.failed)
				}
			})
		}
		t.Run("a service without an adapter", func(t *testing.T) {
			id := h.drafted(func(p *guardian.Policy) { p.Service, p.Operations = "bank", []string{"bank.accounts"} })
			is(t, "verify", h.Verify(t.Context(), id, 1), "NOT_IMPLEMENTED")
			if h.shown(id).State.Running != nil {
				t.Error("a verification was begun")
			}
		})
	})
}

// cut is a ledger whose commits stop being stored.
type cut struct {
	workspace.Ledger
	after int // commits that are still stored
	as    ledger.Result
}

func (c *cut) Commit(ctx context.Context, change ledger.Change) ledger.Result {
	if c.after--; c.after < 0 {
		return c.as
	}
	return c.Ledger.Commit(ctx, change)
}

// stubborn does not revoke, as a process that has ended does not.
type stubborn struct {
	workspace.Runs
	gone bool
}

func (s *stubborn) Revoke(ctx context.Context, id string) error {
	if s.gone {
		return errors.New("the process has ended")
	}
	return s.Runs.Revoke(ctx, id)
}

// A process that ends between the beginning and the end of a verification leaves nothing
// that counts. After a minute another one begins, and clears up the runs that were left.
func TestVerificationCut(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		lost := &cut{after: 2, as: ledger.Result{Outcome: ledger.NotStored, Cause: ledger.ErrClosed}} // draft and start
		runs := &stubborn{gone: true}
		h := newHouse(t, open, plan{
			ledger: func(l workspace.Ledger) workspace.Ledger { lost.Ledger = l; return lost },
			runs:   func(r workspace.Runs) workspace.Runs { runs.Runs = r; return runs },
		})
		id := h.drafted()
		if err := h.Verify(t.Context(), id, 1); !errors.Is(err, gateway.ErrUnavailable) {
			t.Fatalf("verify: %v, want ErrUnavailable", err)
		}
		lost.after, runs.gone = 1000, false
		g := h.shown(id)
		if g.State.Verification != nil || g.Status != "draft" || !g.State.Verifying(g.Now) {
			t.Fatalf("a half verification counts: %+v", g.State)
		}
		is(t, "activate", h.Activate(t.Context(), id, 1), "GUARDIAN_NOT_VERIFIED")
		is(t, "verify at once", h.Verify(t.Context(), id, 1), "IN_PROGRESS")
		if got := h.synthetic(); !slices.Equal(got, []string{"ready", "ready"}) {
			t.Fatalf("the runs that were left are %v", got)
		}
		h.clock.Move(time.Minute + time.Second)
		must(t, h.Verify(t.Context(), id, 1))
		if g := h.shown(id); !g.State.Verification.Passed {
			t.Errorf("the second verification: %v", h.failed(id))
		}
		if got := h.synthetic(); !slices.Equal(got, []string{"revoked", "revoked", "revoked", "revoked"}) {
			t.Errorf("the synthetic runs are %v", got)
		}
	})
}

// When it is unknown whether a commit was stored, that is said, and nothing counts.
func TestUnknownCommit(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		lost := &cut{after: 2, as: ledger.Result{Outcome: ledger.Unknown, Cause: ledger.ErrClosed}}
		h := newHouse(t, open, plan{ledger: func(l workspace.Ledger) workspace.Ledger { lost.Ledger = l; return lost }})
		id := h.drafted()
		if err := h.Verify(t.Context(), id, 1); !errors.Is(err, gateway.ErrUnknown) {
			t.Fatalf("verify: %v, want ErrUnknown", err)
		}
	})
}

// Whoever asked may leave: the verification is done all the same, and the runs end.
func TestCallerLeaves(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		ctx, leave := context.WithCancel(t.Context())
		h := newHouse(t, open, plan{around: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				leave()
				next.ServeHTTP(w, r)
			})
		}})
		id := h.drafted()
		must(t, h.Verify(ctx, id, 1))
		if g := h.shown(id); g.Status != "verified" {
			t.Errorf("%s: %v", g.Status, h.failed(id))
		}
		if err := h.Verify(ctx, id, 1); !errors.Is(err, gateway.ErrUnavailable) {
			t.Errorf("a caller who had left before: %v, want ErrUnavailable", err)
		}
	})
}

// A server that does not answer fails every request, and the runs end nevertheless.
func TestNoAnswer(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{config: func(c *workspace.Config) { c.Base = "http://127.0.0.1:1" }})
		id := h.drafted()
		must(t, h.Verify(t.Context(), id, 1))
		g := h.shown(id)
		sent := 0
		for _, test := range g.Tests {
			if test.Expected != nil && (test.Result != "failed" || test.Observed != nil || test.Note == "") {
				t.Errorf("%s: %+v", test.Name, test)
			}
			if test.Note == "no answer" {
				sent++
			}
		}
		if sent == 0 || g.State.Verification.Passed {
			t.Errorf("%d unanswered, passed %t", sent, g.State.Verification.Passed)
		}
		if got := h.synthetic(); !slices.Equal(got, []string{"revoked", "revoked"}) {
			t.Errorf("the synthetic runs are %v", got)
		}
	})
}

// No run, no verification: what cannot be begun fails every test that needs it.
func TestNoRuns(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{runs: func(r workspace.Runs) workspace.Runs { return runless{r} }})
		id := h.drafted()
		must(t, h.Verify(t.Context(), id, 1))
		g := h.shown(id)
		i := slices.IndexFunc(g.Tests, func(test guardian.Test) bool { return test.Name == "runs.synthetic" })
		if test := g.Tests[i]; test.Result != "failed" || !strings.HasPrefix(test.Note, "FROZEN: ") {
			t.Errorf("%+v", test)
		}
		if g.State.Verification.Passed {
			t.Error("the verification has passed")
		}
	})
}

type runless struct{ workspace.Runs }

func (runless) Create(context.Context, gateway.CreateRequest) (string, error) {
	return "", &authority.Denial{Reason: authority.Frozen, Detail: "The workspace is frozen."}
}

// An export of either chain is what evidence says it is.
func TestExport(t *testing.T) {
	engines(t, func(t *testing.T, open func(*ledger.Clock) openLedger) {
		h := newHouse(t, open, plan{})
		is(t, "an inventory that is not there", h.ExportInventory(t.Context(), io.Discard), "NOT_FOUND")
		is(t, "a policy that is not there", h.ExportGuardian(t.Context(), "01980000-0000-7000-8000-000000000009", io.Discard), "NOT_FOUND")
		_, err := h.Register(t.Context(), workspace.ServiceRequest{Name: "Shop", Kind: "custom", Environment: "staging", Description: "Far away."})
		must(t, err)
		id := h.drafted()
		for _, export := range []func(io.Writer) error{
			func(w io.Writer) error { return h.ExportInventory(t.Context(), w) },
			func(w io.Writer) error { return h.ExportGuardian(t.Context(), id, w) },
		} {
			var b bytes.Buffer
			must(t, export(&b))
			r, err := evidence.Verify(&b, evidence.Keys{{Public: h.Signing.Public()}}, evidence.Options{})
			must(t, err)
			if !r.OK() {
				t.Errorf("%+v", r.Results)
			}
		}
	})
}
