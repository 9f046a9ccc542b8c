package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/internal/client"
	"countersign/internal/keys"
)

// A freeze that waits ends when what was under way at the store has its outcome, or will
// get none: here the store's answer is held until the freeze has said that it is waited
// for, and then lost. What is unconfirmed then is looked up during the freeze.
func TestFreezeWaits(t *testing.T) {
	arrived, lose := make(chan bool, 1), make(chan struct{})
	i := installation{shop: func(store http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != "POST" || r.URL.Path != "/api/cart/items" {
				store.ServeHTTP(w, r)
				return
			}
			store.ServeHTTP(new(lost), r)
			arrived <- true
			select {
			case <-lose:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler)
		})
	}}
	i.start(t)
	control := filepath.Join(i.dir, "control")
	secret, err := keys.ReadSecret(filepath.Join(control, "owner.secret"))
	must(t, err)
	owner := client.Owner{Origin: i.origin, HTTP: client.New()}
	_, err = owner.SignIn(t.Context(), secret)
	must(t, err)
	type ended struct {
		out    string
		status int
	}
	agent := make(chan ended, 1)
	session := i.hand(t)
	go func() {
		out, status := agentPlays(session, "purchase")
		agent <- ended{out, status}
	}()
	select {
	case <-arrived:
	case a := <-agent:
		t.Fatalf("the agent ends with %d before it orders\n%s", a.status, a.out)
	}

	as := []string{"--origin", i.origin, "--dir", control}
	read, write := io.Pipe()
	var log bytes.Buffer
	froze := make(chan int, 1)
	go func() {
		status := execute(append([]string{"freeze", "--reason", "It orders and orders.", "--wait"}, as...), streams{Out: write, Err: &log})
		write.Close()
		froze <- status
	}()
	lines, once := bufio.NewScanner(read), sync.Once{}
	said := ""
	for lines.Scan() {
		said += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), "in flight: ") {
			once.Do(func() { close(lose) })
		}
	}
	if status := <-froze; status != statusDiffers || !strings.HasPrefix(said, "The workspace is now frozen: freeze 1 since ") ||
		!strings.Contains(said, "\nThe workspace is frozen: freeze 1 ") || strings.Count(said, "in flight: none; unconfirmed: 1\n") == 0 || !strings.Contains(log.String(), "unconfirmed: 1;") {
		t.Errorf("the freeze ends with %d:\n%s%s", status, said, &log)
	}
	if a := <-agent; a.status == statusDone {
		t.Errorf("the agent's answer was not lost\n%s", a.out)
	}

	stands := done(t, append([]string{"freeze"}, as...)...)
	_, line, _ := strings.Cut(stands, "\nunconfirmed ")
	var execution, run string
	if words := strings.Fields(line); len(words) > 4 {
		execution, run = words[0], strings.TrimSuffix(words[3], ":")
	}
	got, err := owner.Once(t.Context(), "POST", "/api/v1/owner/runs/"+run+"/probe", map[string]string{"executionId": execution})
	must(t, err)
	if got.Status != http.StatusOK {
		t.Fatalf("the look-up of %s in %s: %s", execution, run, got.Got())
	}
	if out := done(t, append([]string{"freeze", "--wait"}, as...)...); !strings.Contains(out, "in flight: none; unconfirmed: none; settled since the freeze: 1\n") {
		t.Errorf("after the look-up:\n%s", out)
	}
}

// lost is an answer that nobody gets.
type lost struct{ header http.Header }

func (l *lost) Header() http.Header {
	if l.header == nil {
		l.header = http.Header{}
	}
	return l.header
}
func (*lost) Write(b []byte) (int, error) { return len(b), nil }
func (*lost) WriteHeader(int)             {}

// done runs a command in this process, which must end with 0, and returns what it
// printed.
func done(t *testing.T, args ...string) string {
	t.Helper()
	var out, log bytes.Buffer
	if got := execute(args, streams{Out: &out, Err: &log}); got != statusDone {
		t.Errorf("%q ends with %d\n%s%s", args, got, &out, &log)
	}
	return out.String()
}
