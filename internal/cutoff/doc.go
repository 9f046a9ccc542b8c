// Package cutoff holds the client libraries, in Go, in Node and in Chromium, to what
// they promise when connections are cut: in front of a request, or behind one that the
// server has served and nobody hears of. After recovery server and outbox agree, and
// nothing is there twice.
//
// There are only tests here. They put a proxy that cuts between a client and a whole
// server, and read from the server's evidence what has become of each turn.
package cutoff
