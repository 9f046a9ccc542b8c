package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/audit"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
	"countersign/internal/scripted"
)

// A test binary that finds rotateVariable in its environment rotates a key and ends
// itself with -9 at the point that it is told.
const rotateVariable = "COUNTERSIGN_APP_ROTATE"

type rotateTask struct{ Dir, Database, Key, Point string }

func rotateChild(text string) int {
	var task rotateTask
	err := json.Unmarshal([]byte(text), &task)
	if err == nil {
		_, _, err = app.Rotate(context.Background(), app.Rotation{Dir: task.Dir, Database: task.Database, Key: task.Key, Fault: func(point string) {
			if point == task.Point {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // until it arrives
			}
		}})
	}
	fmt.Fprintln(os.Stderr, "the child was not killed:", err)
	return 1
}

func killedAt(t *testing.T, task rotateTask) {
	t.Helper()
	text, err := json.Marshal(task)
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), rotateVariable+"="+string(text))
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("at %s: %v\n%s", task.Point, err, out)
	}
}

// copied is a copy of a folder with its permissions.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(to, os.DirFS(dir)))
	must(t, filepath.WalkDir(to, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			return os.Chmod(path, 0o700)
		}
		if err == nil && !strings.HasSuffix(path, ".pub") {
			return os.Chmod(path, 0o600)
		}
		return err
	}))
	return to
}

// opens opens an installation and returns the id of its evidence key.
func opens(t *testing.T, dir, url string) (string, error) {
	t.Helper()
	a, err := app.Open(t.Context(), app.Config{Dir: dir, Addr: "localhost:0", Database: url})
	if err != nil {
		return "", err
	}
	return a.Fingerprint(), a.Close()
}

func keyFile(t *testing.T, dir string) evidence.Keys {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "keys", "evidence.pub"))
	must(t, err)
	list, err := evidence.ParseKeys(text)
	must(t, err)
	return list
}

// verified reports whether an export holds under keys, integrity and lawfulness.
func verified(t *testing.T, export []byte, list evidence.Keys) bool {
	t.Helper()
	report, err := audit.Verify(bytes.NewReader(export), audit.Options{Keys: list})
	must(t, err)
	return report.OK()
}

// signers are the key ids of an export's events, without repetitions.
func signers(t *testing.T, export []byte) []string {
	t.Helper()
	var file struct{ Events []struct{ KeyID string } }
	must(t, json.Unmarshal(export, &file))
	var ids []string
	for _, e := range file.Events {
		ids = append(ids, e.KeyID)
	}
	return slices.Compact(ids)
}

// A run that began before a rotation goes on behind it. Its export verifies with the
// new list, and with the former key alone it does not, whether that key has an end or
// not: an old key proves nothing new. So it is with a run that was over before.
func TestRotate(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		ctx, dir := t.Context(), filepath.Join(t.TempDir(), "D")
		must(t, app.Init(ctx, dir, url))
		a, stop := serve(t, app.Config{Dir: dir, Addr: "localhost:0", Database: url})
		owner := signedIn(t, a.Origin(), dir)
		purchase := func(o *client.Owner) (id string, play func()) {
			id, _, err := o.CreateRun(ctx, localRun)
			must(t, err)
			session, _, err := o.IssueToken(ctx, id)
			must(t, err)
			return id, func() {
				t.Helper()
				agent := &scripted.Agent{Consumer: client.Consumer{Origin: session.Origin, Token: session.Token, HTTP: client.New()}, Record: func(scripted.Entry) {}}
				must(t, agent.Play(ctx, "purchase"))
			}
		}
		over, play := purchase(owner)
		play()
		going, goOn := purchase(owner)
		addr, old := strings.TrimPrefix(a.Origin(), "http://"), keyFile(t, dir)
		must(t, stop())

		former, next, err := app.Rotate(ctx, app.Rotation{Dir: dir, Database: url, Key: "evidence"})
		must(t, err)
		list := keyFile(t, dir)
		if len(list) != 2 || evidence.KeyID(list[0].Public) != former.ID() || !list[0].NotAfter.Equal(former.NotAfter) || evidence.KeyID(list[1].Public) != next.ID() || !list[1].NotAfter.IsZero() {
			t.Fatalf("the list is %v", list)
		}
		a, _ = serve(t, app.Config{Dir: dir, Addr: addr, Database: url}) // the token is good at that origin
		goOn()
		owner = signedIn(t, a.Origin(), dir)
		for id, want := range map[string][]string{over: {former.ID()}, going: {former.ID(), next.ID()}} {
			r, err := owner.Export(ctx, id)
			must(t, err)
			if got := signers(t, r.Body); !slices.Equal(got, want) {
				t.Errorf("signed by %v, want %v", got, want)
			}
			if !verified(t, r.Body, list) {
				t.Errorf("an export of a run signed by %v does not verify with the new list", want)
			}
			if verified(t, r.Body, old) || verified(t, r.Body, list[:1]) {
				t.Errorf("an export of a run signed by %v verifies with the former key alone", want)
			}
		}
	})
}

// A rotation that is killed with -9 behind any step leaves the former key in use or
// nothing served, and whoever still has the former folder is refused as soon as that
// key's time may end. The next call finishes it with the key it had.
func TestRotateKilled(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		for _, key := range keys.Signing {
			t.Run(key, func(t *testing.T) {
				for i, point := range app.RotationPoints {
					t.Run(point, func(t *testing.T) {
						if url != "" {
							url = unmigrated(t)
						}
						killed(t, rotateTask{filepath.Join(t.TempDir(), "D"), url, key, point}, i >= 2, i == len(app.RotationPoints)-1)
						t.Logf("fail point %q hit, %d of %d", point, i+1, len(app.RotationPoints))
					})
				}
			})
		}
	})
}

func killed(t *testing.T, task rotateTask, known, done bool) {
	ctx := t.Context()
	must(t, app.Init(ctx, task.Dir, task.Database))
	id := changes(t, app.Config{Dir: task.Dir, Database: task.Database}, "")
	fingerprint := func(dir string) string {
		k, err := keys.Load(dir)
		must(t, err)
		return k.Fingerprints()[task.Key]
	}
	before, former := copied(t, task.Dir), fingerprint(task.Dir)
	killedAt(t, task)

	_, err := opens(t, task.Dir, task.Database)
	interrupted, is := errors.AsType[*keys.InterruptedError](err)
	switch {
	case known && !done:
		if !is || interrupted.Name != task.Key {
			t.Errorf("opening says %v, want that the rotation was interrupted", err)
		}
	case err != nil:
		t.Errorf("opening: %v", err)
	case (fingerprint(task.Dir) == former) == done:
		t.Errorf("the key in use is %s", fingerprint(task.Dir))
	}
	if task.Database != "" { // on SQLite the copy has a ledger of its own
		if _, err := opens(t, before, task.Database); errors.Is(err, app.ErrFormerKeys) != known || !known && err != nil {
			t.Errorf("a copy of the former folder: %v", err)
		}
		rotation := app.Rotation{Dir: before, Database: task.Database, Key: task.Key}
		if known {
			if _, _, err := app.Rotate(ctx, rotation); !errors.Is(err, app.ErrFormerKeys) || keys.Interrupted(before, task.Key) {
				t.Errorf("rotating in a copy of the former folder: %v", err)
			}
		}
	}
	if !done {
		_, next, err := app.Rotate(ctx, app.Rotation{Dir: task.Dir, Database: task.Database, Key: task.Key})
		must(t, err)
		if fingerprint(task.Dir) != next.ID() {
			t.Errorf("the key in use is %s, want %s", fingerprint(task.Dir), next.ID())
		}
	}
	k, err := keys.Load(task.Dir)
	must(t, err)
	if n := len(k.EvidenceList()) + len(k.DispatchList()); n != 3 || fingerprint(task.Dir) == former {
		t.Errorf("%d public keys, want 3", n)
	}
	changes(t, app.Config{Dir: task.Dir, Database: task.Database}, id) // an event under the keys in use
	a, stop := serve(t, app.Config{Dir: task.Dir, Addr: "localhost:0", Database: task.Database})
	r, err := signedIn(t, a.Origin(), task.Dir).Export(ctx, id)
	must(t, err)
	if !verified(t, r.Body, keyFile(t, task.Dir)) {
		t.Error("the run does not verify")
	}
	must(t, stop())
}

// While a server has the ledger open no key is replaced, and nothing is begun.
func TestRotateWhileServed(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		ctx, dir := t.Context(), filepath.Join(t.TempDir(), "D")
		must(t, app.Init(ctx, dir, url))
		_, stop := serve(t, app.Config{Dir: dir, Addr: "localhost:0", Database: url})
		rotation := app.Rotation{Dir: dir, Database: url, Key: "evidence"}
		if _, _, err := app.Rotate(ctx, rotation); !errors.Is(err, sqlite.ErrLocked) && !errors.Is(err, ledger.ErrServed) {
			t.Errorf("rotating: %v", err)
		}
		if keys.Interrupted(dir, "evidence") || len(keyFile(t, dir)) != 1 {
			t.Error("something was begun")
		}
		must(t, stop())
		// And the other way round.
		rotation.Fault = func(point string) {
			if point != app.RotationPoints[0] && point != app.RotationPoints[2] {
				return // they take as long as a server waits
			}
			if _, err := opens(t, dir, url); err == nil || !strings.Contains(err.Error(), "in use by another process") && !strings.Contains(err.Error(), "being replaced") && !strings.Contains(err.Error(), "interrupted") {
				t.Errorf("%s: a server opens the ledger: %v", point, err)
			}
		}
		_, _, err := app.Rotate(ctx, rotation)
		must(t, err)
		_, err = opens(t, dir, url) // control
		must(t, err)
	})
}

// A copy of the folder in which a rotation of its own was begun does not finish it once
// another copy has rotated the key.
func TestRotateInTwoCopies(t *testing.T) {
	ctx, url, dir := t.Context(), unmigrated(t), filepath.Join(t.TempDir(), "D")
	must(t, app.Init(ctx, dir, url))
	other := copied(t, dir)
	begun, err := keys.OpenRotation(other, "evidence")
	must(t, err)
	must(t, begun.Prepare())
	_, err = opens(t, other, url) // as before
	must(t, err)
	_, next, err := app.Rotate(ctx, app.Rotation{Dir: dir, Database: url, Key: "evidence"})
	must(t, err)
	if _, _, err := app.Rotate(ctx, app.Rotation{Dir: other, Database: url, Key: "evidence"}); !errors.Is(err, app.ErrFormerKeys) {
		t.Errorf("the other copy rotates: %v", err)
	}
	if id, err := opens(t, dir, url); err != nil || id != next.ID() {
		t.Errorf("the key in use is %s, want %s: %v", id, next.ID(), err)
	}
}

// Keys of another installation are not made the ledger's by rotating them.
func TestRotateForeign(t *testing.T) {
	ctx, url, root := t.Context(), unmigrated(t), t.TempDir()
	dir, other := filepath.Join(root, "D"), filepath.Join(root, "E")
	must(t, app.Init(ctx, dir, url))
	must(t, keys.Init(other))
	if _, _, err := app.Rotate(ctx, app.Rotation{Dir: other, Database: url, Key: "evidence"}); !errors.Is(err, app.ErrForeign) || keys.Interrupted(other, "evidence") {
		t.Errorf("rotating other keys: %v", err)
	}
	_, err := opens(t, dir, url)
	must(t, err)
}

// A clock that was set back does not end a key before what it signed, nor before an
// earlier key's end.
func TestRotateClockSetBack(t *testing.T) {
	engines(t, func(t *testing.T, url string) {
		ctx, dir := t.Context(), filepath.Join(t.TempDir(), "D")
		must(t, app.Init(ctx, dir, url))
		id := changes(t, app.Config{Dir: dir, Database: url}, "")
		var last time.Time
		for _, offset := range []time.Duration{-time.Hour, 0, -time.Hour} {
			clock := new(ledger.Clock)
			clock.Move(offset)
			former, _, err := app.Rotate(ctx, app.Rotation{Dir: dir, Database: url, Key: "evidence", Clock: clock})
			must(t, err)
			if former.NotAfter.Before(last) {
				t.Errorf("a key ends %s, an earlier one %s", former.NotAfter, last)
			}
			last = former.NotAfter
		}
		a, _ := serve(t, app.Config{Dir: dir, Addr: "localhost:0", Database: url})
		r, err := signedIn(t, a.Origin(), dir).Export(ctx, id)
		if err != nil || r.Status != http.StatusOK || !verified(t, r.Body, keyFile(t, dir)) {
			t.Errorf("the run does not verify: %d, %v", r.Status, err)
		}
	})
}
