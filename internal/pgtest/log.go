package pgtest

import (
	"bytes"
	"os"
)

// readyLine is what PostgreSQL writes when it takes connections, after the
// recovery of a crash too. The cluster's messages are in English (locale C).
var readyLine = []byte("database system is ready to accept connections")

// watchedLog is a server's log, which says when the server takes connections.
// One goroutine writes to it: os/exec copies both outputs through one pipe.
type watchedLog struct {
	file  *os.File
	ready chan struct{} // closed at the first readyLine
	tail  []byte        // newest bytes, while a line may still be cut; nil once ready
	seen  bool
}

func (l *watchedLog) Write(b []byte) (int, error) {
	if !l.seen {
		l.tail = append(l.tail, b...)
		if l.seen = bytes.Contains(l.tail, readyLine); l.seen {
			l.tail = nil
			close(l.ready)
		} else {
			l.tail = l.tail[max(0, len(l.tail)-len(readyLine)):]
		}
	}
	return l.file.Write(b)
}
