package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoBinaries says that this machine has no PostgreSQL server.
var ErrNoBinaries = errors.New("pgtest: no PostgreSQL server binaries in PATH or /usr/lib/postgresql/*/bin; `make test` installs them")

// startLimit bounds initdb and each start or stop of a server.
const startLimit = 60 * time.Second

// Server is a private PostgreSQL server. Its methods are not safe for
// concurrent use; its databases are.
type Server struct {
	bin    string
	folder string // data, log and lock
	socket string
	lock   *os.File
	out    *os.File            // the log
	as     *syscall.Credential // nil: the user who runs the tests

	process *os.Process
	exited  chan struct{}
	number  int // of databases made
	ready   bool
	url     string // of an existing server; empty for a private one
}

// Start creates and starts a server. Its owner calls Stop.
func Start() (*Server, error) {
	bin, err := binaries("/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	base, err := diskFolder()
	if err != nil {
		return nil, err
	}
	sweep(base)
	s := &Server{bin: bin, as: as}
	if err := s.create(base); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	if err := s.Restart(); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// create makes the folders and the cluster.
func (s *Server) create(base string) (err error) {
	if s.folder, err = os.MkdirTemp(base, folderPrefix); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	// A socket's path may have at most 107 bytes, so it has a folder of its own.
	if s.socket, err = os.MkdirTemp("/tmp", socketPrefix); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	if s.lock, err = hold(s.folder, s.socket); err != nil {
		return err
	}
	if s.out, err = os.OpenFile(s.log(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	for _, folder := range []string{s.folder, s.socket} {
		if s.as != nil {
			if err := os.Chown(folder, int(s.as.Uid), int(s.as.Gid)); err != nil {
				return fmt.Errorf("pgtest: %w", err)
			}
		}
	}
	// Without --no-sync initdb flushes a thousand files; a cluster that is lost
	// in a crash of the machine is no loss here. The server itself does flush.
	init := s.command("initdb", "--pgdata", s.data(), "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if out, err := run(ctx, init); err != nil {
		return fmt.Errorf("pgtest: initdb: %w\n%s", err, out)
	}
	return nil
}

// Restart starts the server again after Stop, StopImmediate or a crash, with
// the same data and the same URLs.
func (s *Server) Restart() error {
	if s.running() {
		return errors.New("pgtest: the server is running")
	}
	log := &watchedLog{file: s.out, ready: make(chan struct{})}
	cmd := s.command("postgres", "-D", s.data(), "-k", s.socket, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=", "-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "full_page_writes=on",
		"-c", "max_connections=300", "-c", "shared_buffers=128MB", "-c", "max_wal_size=2GB")
	cmd.Stdout, cmd.Stderr = log, log
	exited := make(chan struct{})
	if err := startBound(cmd, exited); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	s.process, s.exited = cmd.Process, exited
	return s.await(log.ready)
}

// await returns when the server has said that it is ready, and answers.
func (s *Server) await(ready <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	select {
	case <-ready:
	case <-s.exited:
		return fmt.Errorf("pgtest: the server did not start:\n%s", s.logTail())
	case <-ctx.Done():
		return fmt.Errorf("pgtest: the server is not ready:\n%s", s.logTail())
	}
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("pgtest: the server does not answer: %w\n%s", err, s.logTail())
	}
	return conn.Close(ctx)
}

// StopImmediate stops the server as a crash would: no checkpoint, connections
// cut, recovery from the write-ahead log at the next start.
func (s *Server) StopImmediate() error { return s.signal(syscall.SIGQUIT) }

// Shutdown stops the server after cutting its connections and writing a
// checkpoint. Its data stay.
func (s *Server) Shutdown() error { return s.signal(syscall.SIGINT) }

func (s *Server) signal(sig syscall.Signal) error {
	if !s.running() {
		return errors.New("pgtest: the server is not running")
	}
	if err := s.process.Signal(sig); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(startLimit):
		return fmt.Errorf("pgtest: the server does not stop:\n%s", s.logTail())
	}
}

// Stop ends the server, running or not, and removes its data.
func (s *Server) Stop() error {
	var err error
	if s.running() {
		err = s.StopImmediate()
	}
	return errors.Join(err, s.remove())
}

func (s *Server) running() bool {
	if s.process == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

func (s *Server) remove() error {
	err := errors.Join(os.RemoveAll(s.folder), os.RemoveAll(s.socket))
	for _, f := range []*os.File{s.out, s.lock} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// port only names the socket file: the server listens on no network.
const port = 5432

// URL returns the URL of one of the server's databases.
func (s *Server) URL(database string) string {
	if s.url != "" {
		u, err := url.Parse(s.url)
		if err != nil {
			panic(err) // borrow has parsed it
		}
		u.Path = "/" + database
		return u.String()
	}
	q := url.Values{"host": {s.socket}, "port": {strconv.Itoa(port)}}
	return "postgres://postgres@/" + database + "?" + q.Encode()
}

// Bin returns the path of a program of the server's distribution, such as
// pgbench.
func (s *Server) Bin(program string) string { return filepath.Join(s.bin, program) }

func (s *Server) data() string { return filepath.Join(s.folder, "data") }
func (s *Server) log() string  { return filepath.Join(s.folder, "log") }

func (s *Server) logTail() string {
	b, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// command prepares a program of the distribution as the unprivileged user, in a
// process group of its own so that a terminal's interrupt goes to the tests.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(s.Bin(program), args...)
	cmd.Dir = s.folder
	cmd.Env = []string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return cmd
}

// run is cmd.CombinedOutput bound to the parent's life and to ctx.
func run(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	exited := make(chan struct{})
	if err := startBound(cmd, exited); err != nil {
		return "", err
	}
	select {
	case <-exited:
	case <-ctx.Done():
		err := cmd.Process.Kill()
		<-exited
		return out.String(), errors.Join(ctx.Err(), err)
	}
	if !cmd.ProcessState.Success() {
		return out.String(), errors.New(cmd.ProcessState.String())
	}
	return out.String(), nil
}

// startBound starts cmd so that it ends with this process, and closes exited
// when it has ended. The kernel sends the signal when the thread that started
// the child ends, so that thread is kept for the child's life.
func startBound(cmd *exec.Cmd, exited chan struct{}) error {
	dieWithParent(cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		// How it ended is in ProcessState; output that could not be copied shows
		// as missing output.
		_ = cmd.Wait()
		close(exited)
	}()
	return <-started
}

// binaries returns the folder of the server in PATH, or of the newest one in the
// folders that match the pattern.
func binaries(pattern string) (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil && complete(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", fmt.Errorf("pgtest: %w", err)
	}
	found = slices.DeleteFunc(found, func(dir string) bool { return !complete(dir) })
	if len(found) == 0 {
		return "", ErrNoBinaries
	}
	return slices.MaxFunc(found, func(a, b string) int { return major(a) - major(b) }), nil
}

func complete(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}

func major(bin string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	if err != nil {
		return 0
	}
	return n
}

// unprivileged returns whom the server runs as; PostgreSQL refuses to be root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("pgtest: user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("pgtest: running as root, and there is neither a user postgres nor nobody to run the server as")
}

// diskFolder returns a folder for temporary data that is on a disk.
func diskFolder() (string, error) {
	var tried []string
	for _, dir := range []string{os.TempDir(), "/var/tmp"} {
		memory, err := inMemory(dir)
		if err == nil && !memory && !strings.HasPrefix(dir, "/dev/shm") {
			return dir, nil
		}
		tried = append(tried, dir)
	}
	return "", fmt.Errorf("pgtest: no temporary folder on a disk among %s; set TMPDIR to one", strings.Join(tried, ", "))
}
