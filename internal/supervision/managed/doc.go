// Package managed lets a run go on by itself: a managed executor is told what the run is
// about and answers with a version 1 outcome, and a proposal goes the way of every report
// (H-031, H-032). An attempt is one such step; play repeats it.
//
// Everything is decided and stored by package gateway; here is only who is asked, for
// how long and how often. A request to a model provider is counted and leased in a
// commit before it is made. Whoever finds a lease dead stops the run: nothing was
// dispatched then. An executor that asks nobody outside needs neither.
//
// An attempt does not depend on its caller: who hangs up changes nothing.
package managed
