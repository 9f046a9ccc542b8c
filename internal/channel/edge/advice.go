package edge

// What a reason means for the run, and what is left to do then. This build has no
// clarify, retry, approve or reconcile.
const (
	paused = "The run is paused and stays so in this build; "
	newRun = "ask the owner for a new run."
)
