package ledger

import (
	"sync/atomic"
	"time"
)

// Clock is the one clock of a process: a source and an offset. The offset is
// zero in the product; tests move it to try rules of seconds, minutes and
// hours. On PostgreSQL the source is the database and only the offset counts.
// The zero Clock reads the system clock. A Clock must not be copied.
type Clock struct {
	Source func() time.Time // nil: time.Now
	offset atomic.Int64
}

// Now returns the process's time plus the offset, in UTC, cut to milliseconds.
func (c *Clock) Now() time.Time {
	source := c.Source
	if source == nil {
		source = time.Now
	}
	return source().Add(c.Offset()).UTC().Truncate(time.Millisecond)
}

// Offset returns what is added to the source.
func (c *Clock) Offset() time.Duration { return time.Duration(c.offset.Load()) }

// Move adds d to the offset. Only tests call it, and what evaluates agents on an
// installation of its own.
func (c *Clock) Move(d time.Duration) { c.offset.Add(int64(d)) }
