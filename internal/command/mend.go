package command

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"countersign/internal/app"
	"countersign/internal/keys"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
	"countersign/store"
)

// Mend adds to an error of something that is not ready what makes it ready. dir and
// d are what the command was given; the commands that it names have them too. A
// command without --dir gives "", and is told of none.
func Mend(err error, dir string, d Database) error {
	advise := func(format string, args ...any) error {
		return fmt.Errorf("%w; %s", err, fmt.Sprintf(format, args...))
	}
	another := ""
	if dir != "" {
		another = ", or give another --dir"
	}
	switch {
	case err == nil:
		return nil
	case dir == "" && errors.Is(err, app.ErrForeign):
		return advise("give --database an empty one")
	case errors.Is(err, keys.ErrNotInitialized):
		return fmt.Errorf("%s holds no installation; give --dir the folder that `countersign init` made, or make one: `countersign init --dir %s%s`", dir, dir, d.Flag())
	case errors.Is(err, app.ErrNoLedger):
		return advise("is its name mistyped? A new installation is made by `countersign init --dir NEW%s`", d.Flag())
	case errors.Is(err, app.ErrForeign):
		return advise("give --dir the folder that it was made with, or --database another database")
	case errors.Is(err, app.ErrFormerKeys):
		return advise("copy the folder anew from where `countersign key rotate` ran")
	case errors.Is(err, ledger.ErrServed):
		return advise("stop every server of this database")
	case errors.Is(err, ledger.ErrPending):
		return advise("that is `countersign migrate --dir %s%s`", dir, d.Flag())
	case errors.Is(err, sqlite.ErrLocked), errors.Is(err, store.ErrInUse):
		return advise("stop that process%s", another)
	case errors.Is(err, syscall.EADDRINUSE):
		return advise("stop the process that listens there, or give another address")
	}
	if e, ok := errors.AsType[*keys.InterruptedError](err); ok {
		return fmt.Errorf("a rotation of the %s key was interrupted; finish it: `countersign key rotate %s --dir %s%s`", e.Name, e.Name, dir, d.Flag())
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return advise("start PostgreSQL, or correct --database and its password")
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return advise("give an address of this machine, with a port that this user may listen on")
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return advise("give this user access to it%s", another)
	}
	return err
}
