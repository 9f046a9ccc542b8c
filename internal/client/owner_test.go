package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"countersign/internal/client"
)

// A list is followed from page to page, to the bound that was given and no further.
func TestRuns(t *testing.T) {
	const there = 250
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		begin, _ := strconv.Atoi(r.URL.Query().Get("cursor")) // 0 for the first page
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil || limit < 1 || limit > 100 {
			t.Errorf("limit %q", r.URL.RawQuery)
		}
		end := min(begin+min(limit, 90), there) // an answer may hold fewer than were asked for
		var list []string
		for i := begin; i < end; i++ {
			list = append(list, fmt.Sprintf(`{"n":%d}`, i))
		}
		next := "null"
		if end < there {
			next = fmt.Sprintf("%q", strconv.Itoa(end))
		}
		fmt.Fprintf(w, `{"runs":[%s],"nextCursor":%s}`, strings.Join(list, ","), next)
	}))
	defer server.Close()
	owner := client.Owner{Origin: server.URL, HTTP: client.New()}
	for most, want := range map[int]struct {
		runs, pages int
		more        bool
	}{1: {1, 1, true}, 90: {90, 1, true}, 100: {100, 2, true}, 249: {249, 3, true}, 250: {250, 3, false}, 1000: {250, 3, false}} {
		asked = nil
		runs, more, err := owner.Runs(t.Context(), most)
		if err != nil || len(runs) != want.runs || more != want.more || len(asked) != want.pages {
			t.Errorf("%d: %d runs, more %v, %d pages, %v; want %+v", most, len(runs), more, len(asked), err, want)
		}
		for i, raw := range runs {
			if string(raw) != fmt.Sprintf(`{"n":%d}`, i) {
				t.Fatalf("%d: run %d is %s", most, i, raw)
			}
		}
	}
}

// Looking ends at the run that says so, and it is told whether others follow, on its page
// or on the next.
func TestEachRunEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := `{"runs":[1,2],"nextCursor":"x"}`
		if r.URL.Query().Get("cursor") == "x" {
			page = `{"runs":[3,4],"nextCursor":null}`
		}
		io.WriteString(w, page)
	}))
	defer server.Close()
	owner := client.Owner{Origin: server.URL, HTTP: client.New()}
	for last, want := range map[string]bool{"1": true, "2": true, "3": true, "4": false, "none": false} {
		looked := ""
		more, err := owner.EachRun(t.Context(), 100, func(view json.RawMessage) (bool, error) {
			looked += string(view)
			return string(view) != last, nil
		})
		if err != nil || more != want || !strings.HasSuffix(looked, strings.TrimPrefix(last, "none")) || !strings.HasPrefix("1234", looked) {
			t.Errorf("until %s: looked at %s, more %v, %v", last, looked, more, err)
		}
	}
	broken := errors.New("unreadable")
	if _, err := owner.EachRun(t.Context(), 100, func(json.RawMessage) (bool, error) { return true, broken }); err != broken {
		t.Errorf("an error is %v", err)
	}
}

// A list that does not go on where it says so is an error, not an endless loop.
func TestRunsThatGoInCircles(t *testing.T) {
	for _, page := range []string{`{"runs":[],"nextCursor":"x"}`, `{"runs":[{}],"nextCursor":"x"}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(page)) }))
		owner := client.Owner{Origin: server.URL, HTTP: client.New()}
		if runs, _, err := owner.Runs(t.Context(), 1000); err == nil {
			t.Errorf("%s: %d runs", page, len(runs))
		}
		server.Close()
	}
}

// Of several at once one has the file, whole; the others leave nothing behind.
func TestSaveNew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	var wg sync.WaitGroup
	outcome := make(chan error, 8)
	for i := range 8 {
		wg.Go(func() { outcome <- client.SaveNew(path, []byte(strings.Repeat(strconv.Itoa(i), 1<<16))) })
	}
	wg.Wait()
	close(outcome)
	saved := 0
	for err := range outcome {
		if err == nil {
			saved++
		} else if !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil || saved != 1 || len(raw) != 1<<16 || strings.Trim(string(raw), string(raw[:1])) != "" {
		t.Errorf("%d saved, %d bytes, %v", saved, len(raw), err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}
