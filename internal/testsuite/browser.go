package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// getBrowser makes ready what the tests of the pages need: Chromium, and the
// accessibility rules of axe in the version that tools/ names. Without them those
// tests fail; none is skipped.
func getBrowser(ctx context.Context, out io.Writer) error {
	if _, err := exec.LookPath("chromium"); err != nil {
		fmt.Fprintln(out, "  installing Chromium with apt-get")
		if err := getPackages(ctx, out, "Chromium", "chromium"); err != nil {
			return err
		}
	}
	want, have, err := axeVersions("tools")
	if err != nil || have == want {
		return err
	}
	if _, err := exec.LookPath("npm"); err != nil {
		fmt.Fprintln(out, "  installing npm with apt-get")
		if err := getPackages(ctx, out, "npm", "npm"); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "  installing axe-core %s with npm\n", want)
	if err := stream(ctx, out, "npm", "ci", "--prefix", "tools"); err != nil {
		return fmt.Errorf("%w: %w", errNotReady, err)
	}
	if _, have, err = axeVersions("tools"); err == nil && have != want {
		err = fmt.Errorf("%w: npm installed axe-core %q, tools/package.json names %s", errNotReady, have, want)
	}
	return err
}

// axeVersions reads the version of axe-core that a folder names, and the one that is
// installed in it, "" when none is.
func axeVersions(dir string) (want, have string, err error) {
	var named struct {
		DevDependencies map[string]string `json:"devDependencies"`
	}
	if err := readJSON(filepath.Join(dir, "package.json"), &named); err != nil {
		return "", "", err
	}
	if want = named.DevDependencies["axe-core"]; want == "" {
		return "", "", errors.New("tools/package.json names no axe-core")
	}
	var installed struct {
		Version string `json:"version"`
	}
	err = readJSON(filepath.Join(dir, "node_modules", "axe-core", "package.json"), &installed)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return want, installed.Version, err
}

func readJSON(file string, into any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// getPackages installs Debian packages, or says that somebody else has to.
func getPackages(ctx context.Context, out io.Writer, what string, packages ...string) error {
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("%w: %s is missing. On Debian or Ubuntu: sudo apt-get install %s", errNotReady, what, packages[0])
	}
	if err := apt(ctx, out, "update", "-q"); err != nil {
		return err
	}
	return apt(ctx, out, append([]string{"install", "-q", "-y", "--no-install-recommends"}, packages...)...)
}
