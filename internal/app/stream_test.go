package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"countersign/internal/app"
	"countersign/internal/canon"
	"countersign/internal/client"
	"countersign/internal/keys"
)

// comments notes when a comment of a stream is sent.
type comments struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
	at []time.Time
}

func (c *comments) SetWriteDeadline(time.Time) error { return nil }

func (c *comments) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range strings.Count("\n"+string(b), "\n:") {
		c.at = append(c.at, time.Now())
	}
	return c.ResponseRecorder.Write(b)
}

// G-15: a stream of the product has a comment every 15 s and not earlier, on a
// clock that only this test moves.
func TestHeartbeat(t *testing.T) {
	// What packages make once for the whole process must not be made in the bubble.
	warm := filepath.Join(t.TempDir(), "D")
	must(t, app.Init(t.Context(), warm, ""))
	a, err := app.Open(t.Context(), app.Config{Dir: warm, Addr: "127.0.0.1:0"})
	must(t, err)
	must(t, a.Close())
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		dir := filepath.Join(t.TempDir(), "D")
		must(t, app.Init(ctx, dir, ""))
		a, err := app.Open(ctx, app.Config{Dir: dir, Addr: "127.0.0.1:0"})
		must(t, err)
		secret, err := keys.ReadSecret(filepath.Join(dir, "owner.secret"))
		must(t, err)
		var cookie *http.Cookie
		request := func(method, path, body string) *http.Request {
			r := httptest.NewRequestWithContext(ctx, method, a.Origin()+"/api/v1/owner"+path, strings.NewReader(body))
			r.Header.Set("Origin", a.Origin())
			r.Header.Set("X-Halfspan-Owner", "1")
			if body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			if cookie != nil {
				r.AddCookie(cookie)
			}
			return r
		}
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, request("POST", "/session", `{"secret":"`+secret+`"}`))
		cookie = w.Result().Cookies()[0]
		w = httptest.NewRecorder()
		a.Handler().ServeHTTP(w, request("POST", "/runs", `{"service":"merchant","target":"local","channel":"http","mode":"bounded","budgetCents":"13700","instruction":"Buy one keyboard."}`))
		if w.Code != http.StatusCreated {
			t.Fatalf("create: %d %s", w.Code, w.Body)
		}
		var run struct{ RunID string }
		must(t, json.Unmarshal(w.Body.Bytes(), &run))

		begin := time.Now()
		c := &comments{ResponseRecorder: httptest.NewRecorder()}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.Handler().ServeHTTP(c, request("GET", "/runs/"+run.RunID+"/events", ""))
		}()
		time.Sleep(46 * time.Second)
		stop()
		<-ended
		var after []time.Duration
		for _, at := range c.at {
			after = append(after, at.Sub(begin))
		}
		if want := []time.Duration{15 * time.Second, 30 * time.Second, 45 * time.Second}; !slices.Equal(after, want) {
			t.Errorf("comments after %v, want %v\n%s", after, want, c.Body)
		}
		must(t, a.Close())
	})
}

// G-15: with two replicas over one database, a stream of one shows what the other
// commits: the same events as the export, in their order, none twice.
func TestReplicaStream(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	url, dir := unmigrated(t), filepath.Join(t.TempDir(), "D")
	must(t, app.Init(ctx, dir, url))
	a, _ := serve(t, app.Config{Dir: dir, Addr: "localhost:0", Database: url})
	b, _ := serve(t, app.Config{Dir: dir, Addr: "localhost:0", Database: url})
	owner := signedIn(t, a.Origin(), dir)
	id, _, err := owner.CreateRun(ctx, localRun)
	must(t, err)

	secret, err := keys.ReadSecret(filepath.Join(dir, "owner.secret"))
	must(t, err)
	watcher := &client.Owner{Origin: b.Origin(), HTTP: client.New()}
	r, err := watcher.SignIn(ctx, secret)
	must(t, err)
	request, err := http.NewRequestWithContext(ctx, "GET", b.Origin()+"/api/v1/owner/runs/"+id+"/events", nil)
	must(t, err)
	request.AddCookie(r.Cookies[0])
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	frames := bufio.NewScanner(response.Body)
	frames.Buffer(nil, 1<<20)
	seen := 0
	// follow reads as many frames as the run has events and compares them.
	follow := func() (added int) {
		t.Helper()
		before := seen
		r, err := owner.Export(ctx, id)
		must(t, err)
		var export struct{ Events []json.RawMessage }
		must(t, json.Unmarshal(r.Body, &export))
		for seen < len(export.Events) && frames.Scan() {
			data, found := strings.CutPrefix(frames.Text(), "data: ")
			if !found {
				continue
			}
			if !equalJSON(t, []byte(data), export.Events[seen]) {
				t.Fatalf("frame %d: %s\nwant %s", seen+1, data, export.Events[seen])
			}
			seen++
		}
		if seen < len(export.Events) {
			t.Fatalf("the stream ended with %d events of %d: %v", seen, len(export.Events), frames.Err())
		}
		return seen - before
	}
	if follow() == 0 {
		t.Fatal("nothing was there at first")
	}
	// The stream stands at the head now, so that only what the other replica commits
	// can bring it further.
	_, _, err = owner.IssueToken(ctx, id)
	must(t, err)
	if follow() == 0 {
		t.Error("the other replica's commits are not shown")
	}
}

func equalJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	x, err := canon.Canonical(a)
	must(t, err)
	y, err := canon.Canonical(b)
	must(t, err)
	return bytes.Equal(x, y)
}
