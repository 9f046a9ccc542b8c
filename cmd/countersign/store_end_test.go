package main

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"countersign/internal/keys"
)

// TestStoreEndsUnderAHalfSentBody: a client that stops in the middle of its request
// does not keep the store from ending in time and with status 0 (design 8).
func TestStoreEndsUnderAHalfSentBody(t *testing.T) {
	if storeRead >= storeGrace || storeWrite >= storeGrace {
		t.Errorf("a client may take %v to send and %v to read, and the end takes %v", storeRead, storeWrite, storeGrace)
	}
	dir := t.TempDir()
	control := filepath.Join(dir, "control")
	must(t, keys.Init(control))
	cmd := program(t, "store", "--dir", filepath.Join(dir, "shop"), "--create", "--addr", "127.0.0.1:0", "--trust", filepath.Join(control, "keys", "dispatch.pub"))
	said, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var addr string
	for lines := bufio.NewScanner(said); addr == "" && lines.Scan(); {
		if origin, ok := strings.CutPrefix(lines.Text(), readyMark); ok {
			addr = strings.TrimPrefix(origin, "http://")
		}
	}
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /api/cart/items HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", addr)
	answer, err := bufio.NewReader(conn).ReadString('\n') // the store has begun, and waits for the rest
	must(t, err)
	if !strings.Contains(answer, " 401 ") {
		t.Fatalf("answer %q", answer)
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the store ended with %v, want status 0", err)
	}
}
