// Package console is the pages for the person who decides: what waits, every run
// with its evidence, and what this installation cannot do.
//
// Pages show and ask; they decide nothing. Everything they show is read through
// package records and rendered here, on the server. Every action is a request of the
// page's script to the owner's API, with the owner's cookie, so that there is one
// place that decides and one form of refusal. A page can be read without a script;
// with one it stays current: a stream says that something was recorded, and the page
// fetches itself again and takes over what differs, without losing focus, position or
// what was typed.
//
// Nothing a page shows is trusted to be harmless. Templates escape every value, the
// Content-Security-Policy allows no script, style or address but our own, and a
// transaction proposal that cannot be shown whole, every member that its effect digest
// covers, is not offered for approval.
//
// Times count from the server's clock. What the client's clock says does not matter.
package console
