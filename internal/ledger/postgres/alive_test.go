package postgres

import (
	"io"
	"net"
	"path/filepath"
	"testing"
)

// A connection has spoken when there are bytes or its end to read, and looking
// takes nothing away. A reader that waits in the background is not waited for.
func TestSpoken(t *testing.T) {
	t.Parallel()
	for network, address := range map[string]string{"unix": filepath.Join(t.TempDir(), "s"), "tcp": "127.0.0.1:0"} {
		listener, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		pair := func() (ours, theirs net.Conn) {
			ours, err := net.Dial(network, listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if theirs, err = listener.Accept(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { ours.Close(); theirs.Close() })
			return ours, theirs
		}
		ours, theirs := pair()
		if spoken(ours) {
			t.Errorf("%s: a silent connection has spoken", network)
		}
		if _, err := theirs.Write([]byte("ab")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(ours, make([]byte, 1)); err != nil { // "b" has come too
			t.Fatal(err)
		}
		for range 2 {
			if !spoken(ours) {
				t.Errorf("%s: a byte that waits is not noticed", network)
			}
		}
		if err := theirs.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(ours); err != nil || string(b) != "b" {
			t.Errorf("%s: read %q, %v", network, b, err)
		}
		if !spoken(ours) {
			t.Errorf("%s: the end is not noticed", network)
		}

		ours, theirs = pair()
		read := make(chan error, 1)
		go func() {
			for range 2 {
				_, err := io.ReadFull(ours, make([]byte, 1))
				read <- err
			}
		}()
		if _, err := theirs.Write([]byte("c")); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err != nil { // the reader has begun, and waits for more
			t.Error(err)
		}
		if spoken(ours) {
			t.Errorf("%s: a silent connection that is read has spoken", network)
		}
		if _, err := theirs.Write([]byte("c")); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err != nil {
			t.Error(err)
		}
	}
}
