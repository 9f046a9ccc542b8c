package tools

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets this program be run as a process that holds a Build until it is killed.
func TestMain(m *testing.M) {
	if os.Getenv("COUNTERSIGN_TEST_HOLD_BUILD") == "" {
		os.Exit(m.Run())
	}
	f, err := newFolder()
	if err == nil {
		err = os.WriteFile(filepath.Join(f.path, "index"), []byte("what was published"), 0o600)
	}
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(f.path + "\n")
	select {}
}

func hold(t *testing.T, dir string) (path string, kill func()) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "COUNTERSIGN_TEST_HOLD_BUILD=1", "TMPDIR="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		child.Process.Kill()
		child.Wait()
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), kill
}

func TestWhatAKilledProcessLeftIsRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	killed, kill := hold(t, dir)
	living, _ := hold(t, dir)
	strange := filepath.Join(dir, folderName+"strange") // without a lock it is not known to be over
	if err := os.Mkdir(strange, 0o700); err != nil {
		t.Fatal(err)
	}
	kill()
	if _, err := os.Stat(filepath.Join(killed, "index")); err != nil {
		t.Fatal(err) // the control: a killed process does leave it behind
	}
	b := openDocuments(t, []string{document("a", "Opal", "A stone.")})
	for path, want := range map[string]bool{killed: false, living: true, strange: true, b.folder.path: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", path, err == nil, want)
		}
	}
	openDocuments(t, []string{document("a", "Opal", "A stone.")})
	if _, err := os.Stat(b.folder.path); err != nil {
		t.Errorf("the folder of an open Build is gone: %v", err)
	}
}
