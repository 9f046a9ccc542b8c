// Package bounds keeps clients, whom nobody knows yet, from holding the server up
// or wearing it out: [Exchanges] bound how long a request may take to arrive and an
// answer to be read, also once the server ends, and a [Probe] asks whether the
// process is ready at most once a second, however often it is asked.
package bounds
