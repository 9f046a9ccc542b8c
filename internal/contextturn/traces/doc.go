// Package traces reads what the context perimeter has recorded: Context Traces, which are
// turns, and the Flight Recorder, which is interactions (G-37). It shows what is stored with
// its class of evidence and infers nothing: a turn that never reached the gateway is no row.
//
// A status is what it is now. A turn whose end has come has expired, whatever is stored
// until somebody records it (L-16).
package traces
