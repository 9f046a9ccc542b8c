package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"countersign/internal/pgtest"
)

// startServer makes the tests' PostgreSQL ready: the lent one, or a private one
// that the caller stops. It returns the variables that tell the tests of it.
func startServer(ctx context.Context, out io.Writer) (env []string, stop func() error, err error) {
	if os.Getenv(pgtest.Env) != "" {
		fmt.Fprintf(out, "  using the server of %s\n", pgtest.Env)
		return nil, func() error { return nil }, nil
	}
	server, err := pgtest.Start()
	if errors.Is(err, pgtest.ErrNoBinaries) {
		if err := install(ctx, out); err != nil {
			return nil, nil, err
		}
		server, err = pgtest.Start()
	}
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintf(out, "  started a private server from %s\n", server.Bin(""))
	return []string{pgtest.Env + "=" + server.URL("postgres")}, server.Stop, nil
}

// install installs the server binaries with apt-get.
func install(ctx context.Context, out io.Writer) error {
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("%w: no PostgreSQL server binaries. On Debian or Ubuntu: sudo apt-get install postgresql. "+
			"Or set %s to the URL of a server whose user may create databases", errNotReady, pgtest.Env)
	}
	fmt.Fprintln(out, "  installing the PostgreSQL server binaries with apt-get")
	if err := apt(ctx, out, "update", "-q"); err != nil {
		return err
	}
	// The configuration comes with postgresql-common, so that goes first.
	if err := apt(ctx, out, "install", "-q", "-y", "--no-install-recommends", "postgresql-common"); err != nil {
		return err
	}
	return withoutCluster("/etc/postgresql-common/createcluster.conf", func() error {
		return apt(ctx, out, "install", "-q", "-y", "--no-install-recommends", "postgresql")
	})
}

// withoutCluster runs act while the package's configuration says that no
// cluster is to be created, and then writes the configuration back.
func withoutCluster(file string, act func() error) error {
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	during := string(before) + "\ncreate_main_cluster = false\n" // of two settings the last one counts
	if err := os.WriteFile(file, []byte(during), 0o644); err != nil {
		return err
	}
	return errors.Join(act(), os.WriteFile(file, before, 0o644))
}

func apt(ctx context.Context, out io.Writer, args ...string) error {
	cmd := command(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := wait(ctx, cmd); err != nil {
		return fmt.Errorf("%w: apt-get %s: %w", errNotReady, args[0], err)
	}
	return nil
}
