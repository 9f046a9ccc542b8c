// Package redact takes secrets and personal data out of the short texts that a client of
// the context perimeter may send along: its label of a turn and its note of an outcome
// (requirement G-34).
//
// [Text] drops control and format characters first, so that none of them splits a secret
// into two harmless halves, and writes fullwidth forms of ASCII as ASCII; then it puts
// [redacted:kind] in the place of what it finds; then it cuts. A marker is never cut into:
// where one does not fit, the text ends before it. Kinds are bearer, key, jwt, pem, card and
// email. [Finds] is for values that are refused instead.
//
// It finds what is written plainly and in a known form. That a text holds no secret any
// more is not what it proves: a password in a sentence looks like any other word. Out of
// reach are letters of other scripts that look the same, as Cyrillic ones, raised and
// circled digits, and a key in pieces of less than six characters with spaces between them.
// When in doubt it takes out more: a word behind "bearer", a time in thirteen digits that
// could be a card. Time and space are linear in the length of the text. All functions are
// pure.
package redact
