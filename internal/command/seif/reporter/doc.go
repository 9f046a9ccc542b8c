// Package reporter is what reports to a context perimeter from beside an application: the
// hook of Claude Code, and where everybody at one base address keeps what could not be delivered.
//
// [Hook] is bound to a time and to one line of complaint; nothing that happens to it gets
// in the way of the program that has called it. [FromEnvironment] says who reports: SEIF_BASE_URL, SEIF_CLIENT_TOKEN, and for
// the outbox SEIF_OUTBOX or a file of the address in the user's cache folder. A token is not needed to find it.
package reporter
