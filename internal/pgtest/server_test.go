package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A test binary that finds this variable starts a server, says where, and waits.
const childVariable = "COUNTERSIGN_PGTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(Main(m))
	}
	s, err := Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.folder, s.socket)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

func query[T any](t *testing.T, url, sql string) (value T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// What is committed survives a crash of the server, fsync is on, the server is
// no superuser's process, and Stop leaves nothing behind.
func TestCrashAndRestart(t *testing.T) {
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	migrate := func(ctx context.Context, url string) error {
		runs++
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(context.Background())
		_, err = conn.Exec(ctx, `CREATE TABLE things (n INTEGER)`)
		return err
	}
	first, second := s.Database(t, migrate), s.Database(t, migrate)
	if runs != 1 || first == second {
		t.Errorf("%d migrations for two databases %s and %s", runs, first, second)
	}
	query[int](t, first, `INSERT INTO things VALUES (1) RETURNING n`)
	if n := query[int](t, second, `SELECT count(*) FROM things`); n != 0 {
		t.Error("two databases share a table")
	}
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		if on := query[string](t, first, `SHOW `+setting); on != "on" {
			t.Errorf("%s is %s", setting, on)
		}
	}
	if err := s.StopImmediate(); err != nil {
		t.Fatal(err)
	}
	if err := s.StopImmediate(); err == nil {
		t.Error("a stopped server is stopped again")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, first, `SELECT count(*) FROM things`); n != 1 {
		t.Errorf("%d rows after the crash, want 1", n)
	}
	if memory, err := inMemory(s.data()); err != nil || memory {
		t.Errorf("data in memory: %v, %v", memory, err)
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(s.data(), &stat); err != nil || stat.Uid == 0 {
		t.Errorf("data belong to user %d, %v", stat.Uid, err)
	}
	if err := s.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{s.folder, s.socket} {
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind: %v", folder, err)
		}
	}
}

// The server of a process that is killed ends too, and the next start removes
// what it left.
func TestDiesWithParent(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), childVariable+"=1")
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	folder, socket, _ := strings.Cut(strings.TrimSpace(line), " ")
	text, err := os.ReadFile(filepath.Join(folder, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	for syscall.Kill(pid, 0) == nil && !zombie(pid) { // the test's timeout bounds it
	}
	sweep(filepath.Dir(folder))
	for _, one := range []string{folder, socket} {
		if _, err := os.Stat(one); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind: %v", one, err)
		}
	}
}

// zombie says whether a process has ended and nobody has asked for its status.
func zombie(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(text), ") Z ")
}

func TestNoBinaries(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := binaries(filepath.Join(t.TempDir(), "*")); !errors.Is(err, ErrNoBinaries) || !strings.Contains(err.Error(), "make test") {
		t.Errorf("without binaries: %v", err)
	}
}

// The line that announces the server is found however the pipe cuts it.
func TestWatchedLog(t *testing.T) {
	const text = "LOG:  starting\nLOG:  database system is ready to accept connections\n"
	announced := len(text) - 1
	for size := 1; size <= len(text); size++ {
		file, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		log := &watchedLog{file: file, ready: make(chan struct{})}
		for at := 0; at < 2*len(text); at += size { // twice: a second line is no news
			chunk := (text + text)[at:min(at+size, 2*len(text))]
			if _, err := log.Write([]byte(chunk)); err != nil {
				t.Fatal(err)
			}
			ready := false
			select {
			case <-log.ready:
				ready = true
			default:
			}
			if ready != (at+len(chunk) >= announced) {
				t.Fatalf("chunks of %d: ready is %t after %d bytes", size, ready, at+len(chunk))
			}
		}
		written, err := os.ReadFile(file.Name())
		if err != nil || string(written) != text+text {
			t.Errorf("chunks of %d: the log holds %q, %v", size, written, err)
		}
		file.Close()
	}
}
