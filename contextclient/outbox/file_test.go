package outbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// adding, in the environment, makes the test binary a process that puts reports into a
// file until it is killed, and prints each key when it is in.
const adding = "OUTBOX_TEST_ADDS_TO"

func TestMain(m *testing.M) {
	if path := os.Getenv(adding); path != "" {
		addUntilKilled(path)
	}
	os.Exit(m.Run())
}

func addUntilKilled(path string) {
	box, err := Open(path, Options{NoSync: true})
	for err == nil {
		e := Entry{Key: NewKey(), Path: "/context/turns/trn_0/complete", Body: []byte(`{"status":"completed"}`)}
		if err = box.Add(context.Background(), e); err == nil {
			fmt.Println(e.Key)
		}
		if errors.Is(err, ErrFull) {
			_, err = box.Flush(context.Background(), answers(Answer{Status: 200}))
			fmt.Println("emptied")
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func inFolder(t *testing.T) string { return filepath.Join(t.TempDir(), "own", "outbox") }

func openBox(t *testing.T, path string, o Options) *Outbox {
	t.Helper()
	o.NoSync = true
	box, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// kill -9 at any moment leaves a file that can be read, with everything that was said to
// be in it, and nothing beside it that grows.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	path := inFolder(t)
	d := &told{}
	box := openBox(t, path, Options{Told: d.add})
	for round := range 6 {
		if _, err := box.FlushAll(t.Context(), answers(Answer{Status: 200})); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), adding+"="+path)
		var problems bytes.Buffer
		cmd.Stderr = &problems
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in := map[string]bool{}
		lines := bufio.NewScanner(out)
		for n := 0; n < 3+round*24 && lines.Scan(); n++ { // more than fit at once
			in[lines.Text()] = true
			if lines.Text() == "emptied" {
				clear(in)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it had said before it died
			in[lines.Text()] = true
			if lines.Text() == "emptied" {
				clear(in)
			}
		}
		_ = cmd.Wait() // killed
		s := state(t, box)
		for _, e := range s.Entries {
			delete(in, e.Key)
		}
		if len(in) > 0 || problems.Len() > 0 || len(d.list) > 0 {
			t.Fatalf("round %d: %d reports that were in are gone; %s; told %v", round, len(in), &problems, d.list)
		}
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(names) > 3 {
		t.Errorf("%v, %v beside the file", names, err)
	}
}

// Of a report that several flushers find at once, one sends it. Control: without the mark
// several do.
func TestOneSenderAtATime(t *testing.T) {
	t.Parallel()
	const flushers, reports = 8, 20
	sent := func(unmarked bool) (total, together int) {
		path := inFolder(t)
		for i := range reports {
			mustAdd(t, openBox(t, path, Options{}), report(i))
		}
		var mu sync.Mutex
		under := map[string]int{}
		first := make(chan struct{})
		send := func(_ context.Context, e Entry) (Answer, error) {
			mu.Lock()
			total++
			under[e.Key]++
			together = max(together, under[e.Key])
			if total == flushers {
				close(first)
			}
			mu.Unlock()
			<-first // until all of them have one
			mu.Lock()
			under[e.Key]--
			mu.Unlock()
			return Answer{Status: 200}, nil
		}
		var all sync.WaitGroup
		for range flushers {
			box := openBox(t, path, Options{unmarked: unmarked}) // as a process of its own
			all.Go(func() {
				if _, err := box.Flush(t.Context(), send); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		return total, together
	}
	if total, together := sent(false); total != reports || together != 1 {
		t.Errorf("sent %d times, %d at once", total, together)
	}
	if _, together := sent(true); together < 2 {
		t.Error("without the mark none was sent twice: the test shows nothing")
	}
}

// The file is the owner's alone; what is not is refused and left as it is.
func TestPrivateFile(t *testing.T) {
	t.Parallel()
	type place struct{ folder, path string }
	keep := func(path string, mode os.FileMode) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, mode))
	}
	for name, spoil := range map[string]func(place) error{
		"a file that others read":    func(p place) error { return keep(p.path, 0o640) },
		"a file that others write":   func(p place) error { return keep(p.path, 0o602) },
		"a folder that others read":  func(p place) error { return os.Chmod(p.folder, 0o750) },
		"a folder that others write": func(p place) error { return os.Chmod(p.folder, 0o707) },
		"a link": func(p place) error {
			return errors.Join(keep(p.path+"x", 0o600), os.Symlink(p.path+"x", p.path))
		},
		"a link to nothing": func(p place) error { return os.Symlink(p.path+"x", p.path) },
		"a lock by a link":  func(p place) error { return os.Symlink(p.path+"x", p.path+".lock") },
		"a folder by a link": func(p place) error {
			return errors.Join(os.Rename(p.folder, p.folder+"x"), os.Symlink(p.folder+"x", p.folder))
		},
		"a folder":                func(p place) error { return os.Mkdir(p.path, 0o700) },
		"a pipe":                  func(p place) error { return syscall.Mkfifo(p.path, 0o600) },
		"a file of another owner": func(p place) error { return errors.Join(keep(p.path, 0o600), asRoot(t, p.path)) },
		"a folder of another":     func(p place) error { return asRoot(t, p.folder) },
	} {
		t.Run(name, func(t *testing.T) {
			path := inFolder(t)
			p := place{filepath.Dir(path), path}
			if err := errors.Join(os.Mkdir(p.folder, 0o700), spoil(p)); err != nil {
				if errors.Is(err, errNotRoot) {
					t.Skip("only root can give a file away")
				}
				t.Fatal(err)
			}
			if err := openBox(t, path, Options{}).Add(t.Context(), report(1)); !errors.Is(err, ErrFile) {
				t.Errorf("%v", err)
			}
			if raw, err := os.ReadFile(p.path + "x"); err == nil && len(raw) > 0 {
				t.Error("written through the link")
			}
		})
	}
	t.Run("made so", func(t *testing.T) {
		path := inFolder(t)
		mustAdd(t, openBox(t, path, Options{}), report(1))
		for name, want := range map[string]os.FileMode{filepath.Dir(path): 0o700 | os.ModeDir, path: 0o600, path + ".lock": 0o600} {
			if info, err := os.Stat(name); err != nil || info.Mode() != want {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
	})
	for _, path := range []string{"outbox", "./outbox", "", filepath.Join(t.TempDir(), "outbox") + "/"} {
		if _, err := Open(path, Options{}); !errors.Is(err, ErrFile) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

var errNotRoot = errors.New("not root")

func asRoot(t *testing.T, path string) error {
	t.Helper()
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	return os.Chown(path, 65534, 65534)
}

// A file that is not as it was written is kept under another name, which is told, and the
// outbox goes on.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	path := inFolder(t)
	mustAdd(t, openBox(t, path, Options{}), report(1), report(2))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := parse(whole); err != nil || len(s.Entries) != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	for n := range len(whole) {
		if _, err := parse(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are taken", n, len(whole))
		}
	}
	for name, content := range map[string][]byte{
		"empty":          {},
		"text":           []byte("nothing of the kind\n"),
		"cut":            whole[:len(whole)-9],
		"a changed byte": bytes.Replace(whole, []byte("report-number-001"), []byte("report-number-009"), 1),
		"zeros":          make([]byte, len(whole)),
		"too large":      append(bytes.Clone(whole), make([]byte, maxFile)...),
	} {
		d := &told{}
		box := openBox(t, path, Options{Told: d.add})
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		mustAdd(t, box, report(3))
		if len(d.list) != 1 || !strings.Contains(d.list[0].String(), d.list[0].Aside) {
			t.Fatalf("%s: told %v", name, d.list)
		}
		if kept, err := os.ReadFile(d.list[0].Aside); err != nil || !bytes.Equal(kept, content) {
			t.Errorf("%s is not kept: %v", name, err)
		}
		if s := state(t, box); len(s.Entries) != 1 || s.Entries[0].Key != report(3).Key {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Whoever cannot get the lock in its time is told so, and nothing is kept or sent.
func TestLockIsHeld(t *testing.T) {
	t.Parallel()
	path := inFolder(t)
	box := openBox(t, path, Options{})
	mustAdd(t, box, report(1))
	unlock, err := box.store.(*file).lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	sent := false
	err = box.Deliver(ctx, report(2), func(context.Context, Entry) (Answer, error) { sent = true; return Answer{Status: 200}, nil })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "lock") || sent {
		t.Errorf("%v, sent %v", err, sent)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if s := state(t, box); len(s.Entries) != 1 {
		t.Errorf("%+v", s)
	}
}
