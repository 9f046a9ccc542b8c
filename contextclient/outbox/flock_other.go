//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package outbox

import (
	"io/fs"
	"os"
)

// Where there is no flock(2), openFile refuses before any of these is called.
const canLock = false

func waitLock(*os.File) error { return ErrUnsupported }

func release(*os.File) error { return ErrUnsupported }

func ownedByUs(fs.FileInfo) bool { return false }
