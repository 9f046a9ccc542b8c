package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A machine without Chromium that cannot install it is told what is missing; nothing
// is skipped.
func TestBrowserIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out bytes.Buffer
	err := getBrowser(t.Context(), &out)
	if !errors.Is(err, errNotReady) || !strings.Contains(err.Error(), "apt-get install chromium") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// The rules of axe are those of the version that is named, and no other's.
func TestAxeVersions(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what, wantNamed, wantInstalled string, fails bool) {
		t.Helper()
		named, installed, err := axeVersions(folder)
		if named != wantNamed || installed != wantInstalled || (err != nil) != fails {
			t.Errorf("%s: named %q, installed %q, %v", what, named, installed, err)
		}
	}
	check("no package.json", "", "", true)
	write("package.json", `{"devDependencies": {}}`)
	check("none named", "", "", true)
	write("package.json", `{"devDependencies": {"axe-core": "1.2.3"}}`)
	check("none installed", "1.2.3", "", false)
	write("node_modules/axe-core/package.json", `{"version": "1.2.2"}`)
	check("another installed", "1.2.3", "1.2.2", false)
	write("node_modules/axe-core/package.json", `{`)
	check("damaged", "1.2.3", "", true)

	// The committed lock file names that version too, and no host.
	want, _, err := axeVersions("../../tools")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile("../../tools/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(lock), `"version": "`+want+`"`) || strings.Contains(string(lock), "://") {
		t.Errorf("tools/package-lock.json does not hold axe-core %s, or names a host:\n%s", want, lock)
	}
}
