// Package outbox keeps reports that could not be delivered and delivers them later,
// each under the Idempotency-Key it was first made with, so that the server records it
// once however often it arrives.
//
// # Use
//
// [New] makes an outbox in memory, [Open] one in a file that any number of processes of
// one user may share. [Outbox.Deliver] puts a report in, sends it once, and takes it out
// when the answer has settled it; [Outbox.Add] only puts it in. [Outbox.Flush] sends what
// is due; [Outbox.Run] does so for as long as a program runs. How a report is sent is the
// caller's: a [Send] adds the address and the token, which the outbox never sees.
//
//	box, err := outbox.Open(path, outbox.Options{Told: func(d outbox.Dropped) { log.Print(d) }})
//	...
//	err = box.Deliver(ctx, outbox.Entry{Key: outbox.NewKey(), Path: path, Body: body}, send)
//
// One outbox belongs to one base address: everything in it is sent with the token of whoever
// flushes. Clients that share one say in [Entry].By who has put a report in, and their [Send]
// decides what a refusal of another's report means.
//
// # What becomes of a report
//
// An answer of 2xx has delivered it. It stays, and is tried again, after a network error, any 5xx,
// 408, 425, 429, a redirect, 409 with the reason idempotency_in_progress, and an answer that the [Send]
// says is about who has asked ([Answer].Keep). Every other 4xx is final: the report is dropped. So is one that is [MaxAge] old. A report is tried again after half a
// second, then after twice as long each time, [MaxBackoff] at most, a random part of it
// less so that many processes do not come at once; a Retry-After that asks for more is obeyed, up to
// [MaxRetryAfter]. What would be due later than that was put off before the clock was set back, and is due.
//
// Nothing disappears silently: what is dropped is told through [Options.Told] and counted, and an
// outbox that holds [MaxEntries] refuses the next report with [ErrFull] instead of dropping an older one.
//
// # Two at once
//
// A report is marked in the store before it is sent, so that two flushers never have the
// same one under way. The mark of a process that has died ends by itself a second after its send would
// have; the report is then sent again under its key.
//
// # The file
//
// The file is replaced whole, under a lock that the kernel frees when its holder dies: kill -9 at any moment leaves
// the former content or the next. A power cut does too, unless [Options.NoSync] is set. It is readable by
// its owner only, as is its folder; links, files of others and files that others can reach are refused.
// It holds what was reported and no token. A file that cannot be read is set aside beside
// itself, which [Options.Told] is told, and the outbox goes on empty. Where the system has no
// flock(2), [Open] fails with [ErrUnsupported].
package outbox
