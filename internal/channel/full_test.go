package channel_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// gap says what is missing in sequences that have to be 1, 2, 3 and so on, to an end.
func gap(seen []int64, end int64) string {
	for i, n := range seen {
		if n != int64(i+1) {
			return fmt.Sprintf("event %d comes as number %d", n, i+1)
		}
	}
	if int64(len(seen)) != end {
		return fmt.Sprintf("%d events of %d", len(seen), end)
	}
	return ""
}

// A queue that is full refuses and loses nothing: with room for two commits and sixteen
// runs that each want more at once than there is room for, every request is answered as
// done or as refused, the chain has exactly what was answered as done, and everybody who
// watches a run, the one that reads nothing until the end too, sees each of its events
// once and in order.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	const runs, room, each = 16, 2, 6
	var held atomic.Bool
	release := make(chan struct{})
	h := newHouse(t, func(c *config) {
		c.queue = room
		c.fault = func(point string) error {
			if point == "before BEGIN" && held.Load() {
				<-release
			}
			return nil
		}
	})
	var ids []string
	var watchers []*stream
	for range runs {
		id := h.create("local")
		ids, watchers = append(ids, id), append(watchers, h.stream(id, ""))
	}
	var done [runs]atomic.Int64
	var refused atomic.Int64
	issue := func(i int) {
		response, err := h.client.Do(h.request("POST", ownerPrefix+"/runs/"+ids[i]+"/session", nil, h.asOwner(h.cookie)))
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		switch {
		case err != nil:
			t.Error(err)
		case response.StatusCode == http.StatusOK:
			done[i].Add(1)
		case response.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(body), "LEDGER_UNAVAILABLE"):
			refused.Add(1)
		default:
			t.Errorf("%d %s", response.StatusCode, body)
		}
	}
	// Nothing is written: one commit is under way, two wait, and the others are refused.
	held.Store(true)
	var first, rest sync.WaitGroup
	for i := range runs {
		first.Go(func() { issue(i) })
	}
	for refused.Load() < runs-room-1 {
		if t.Failed() || t.Context().Err() != nil {
			break
		}
		runtime.Gosched()
	}
	held.Store(false)
	close(release)
	first.Wait()
	if n := refused.Load(); n != runs-room-1 {
		t.Errorf("%d of %d are refused by a queue for %d", n, runs, room)
	}
	for i := range runs {
		rest.Go(func() {
			for range each {
				issue(i)
			}
		})
	}
	rest.Wait()
	var total int64
	for i, id := range ids {
		chain := h.exported(id)
		var issued int64
		for _, e := range chain {
			if e.Type == "session.issued" {
				issued++
			}
		}
		if issued != done[i].Load() {
			t.Errorf("run %d has %d tokens, and %d were answered", i, issued, done[i].Load())
		}
		total += issued
		end := chain[len(chain)-1].Sequence
		var seen []int64
		for int64(len(seen)) < end {
			n, _, _, more := watchers[i].frame()
			if !more {
				break
			}
			seen = append(seen, n)
		}
		if missing := gap(seen, end); missing != "" {
			t.Errorf("a watcher of run %d: %s", i, missing)
		}
	}
	if total+refused.Load() != runs*(each+1) {
		t.Errorf("%d done and %d refused of %d", total, refused.Load(), runs*(each+1))
	}
	// Control: what is lost or comes twice is seen.
	for _, seen := range [][]int64{{1, 2, 4}, {1, 2, 2}, {1, 2}} {
		if gap(seen, 3) == "" {
			t.Errorf("control: %v counts as whole", seen)
		}
	}
}
