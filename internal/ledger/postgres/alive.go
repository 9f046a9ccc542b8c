package postgres

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// mustPing decides which pooled sessions are asked for a sign of life before
// they are used; one that gives none is thrown away and the next is looked at. A
// restart of the server leaves a pool full of dead ones. Those in use a moment
// ago are too many to ask each time, but they can be told: they have the server's
// farewell to read, which may have come in one piece with their last answer.
// Without this every read and commit that is handed one fails, one after the
// other until the pool is empty.
func mustPing(_ context.Context, p pgxpool.ShouldPingParams) bool {
	c := p.Conn.PgConn()
	return p.IdleDuration > time.Second || c.Frontend().ReadBufferLen() > 0 || spoken(c.Conn())
}

// spoken says whether something can be read from conn, or its end. It takes
// nothing away and does not wait, not even for a reader that pgx left in the
// background after a slow write: such a one holds the lock of
// [syscall.RawConn.Read] until the server speaks. When spoken cannot tell, the
// answer is true.
func spoken(conn net.Conn) bool {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = secured.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	silent := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = errors.Is(err, syscall.EAGAIN)
	})
	return err != nil || !silent
}
