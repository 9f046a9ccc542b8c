package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/ledger"
)

// A test binary that finds verifyVariable in its environment is a control plane of its
// own process, which kills itself in the middle of the first operation.
const verifyVariable = "COUNTERSIGN_VERIFY_CHILD"

type verifyTask struct{ Dir, Database string }

func verifyChild(text string) int {
	go func() { // the parent holds the other end: without it there is no child
		io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	err := func() error {
		var task verifyTask
		if err := json.Unmarshal([]byte(text), &task); err != nil {
			return err
		}
		a, err := app.Open(context.Background(), app.Config{Dir: task.Dir, Database: task.Database, Addr: "localhost:0", Fault: func(point string) {
			if point != "after-intent" {
				return
			}
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				panic(err)
			}
			select {} // the signal is on its way
		}})
		if err != nil {
			return err
		}
		fmt.Println(a.Origin())
		return a.Serve(context.Background())
	}()
	fmt.Fprintln(os.Stderr, "child:", err)
	return 1
}

// kill -9 in the middle of a verification, with an intent stored and no answer: nothing
// of it counts, after a minute the next verification is done, and it ends the runs that
// were left.
func TestKilledVerification(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		d := &desk{t: t, dir: filepath.Join(t.TempDir(), "D"), clock: new(ledger.Clock)}
		must(t, app.Init(context.Background(), d.dir, url))
		task, err := json.Marshal(verifyTask{d.dir, url})
		must(t, err)
		self, err := os.Executable()
		must(t, err)
		child := exec.CommandContext(t.Context(), self)
		child.Env = append(os.Environ(), verifyVariable+"="+string(task))
		child.Stderr = os.Stderr
		stdin, err := child.StdinPipe()
		must(t, err)
		defer stdin.Close()
		stdout, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		first, err := bufio.NewReader(stdout).ReadString('\n')
		must(t, err)
		d.origin = strings.TrimSpace(first)
		d.signIn()
		id := d.draft()
		r, err := http.NewRequestWithContext(t.Context(), "POST", d.origin+"/api/v1/owner/workspace/guardians/"+id+"/verify", bytes.NewReader([]byte(`{"revision":1}`)))
		must(t, err)
		r.Header.Set("Content-Type", "application/json")
		for name, value := range d.headers() {
			r.Header.Set(name, value)
		}
		if response, err := client.New().Do(r); err == nil {
			response.Body.Close()
			t.Fatalf("the child answered %d", response.StatusCode)
		}
		if err := child.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}

		d.app, _ = serve(t, app.Config{Dir: d.dir, Addr: "localhost:0", Database: url, Clock: d.clock})
		d.origin = d.app.Origin()
		g := d.ask("GET", "/workspace/guardians/"+id, nil).is(t, "show", 200, "")
		if g.at("status") != "draft" || g.at("verification") != nil || g.at("verifying") != true {
			t.Errorf("after the kill: %s", g.body)
		}
		d.activate(id, 1).is(t, "activate", 409, "GUARDIAN_NOT_VERIFIED")
		d.move(2 * time.Minute)
		d.republish(id, 1)
		runs, err := d.app.Runs(t.Context(), ledger.Attribute{Name: "purpose", Value: "verification"})
		must(t, err)
		if len(runs) != 4 {
			t.Errorf("%d synthetic runs, want two of each verification", len(runs))
		}
		for _, run := range runs {
			if v := d.ask("GET", "/runs/"+run, nil).is(t, "a synthetic run", 200, ""); v.at("status") != "revoked" {
				t.Errorf("a synthetic run is %v", v.at("status"))
			}
			d.lawful("/runs/" + run + "/evidence")
		}
		d.lawful("/workspace/guardians/" + id + "/evidence")
	})
}
