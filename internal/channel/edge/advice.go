package edge

// What a reason means for the run, and who mends it how.
const (
	clarify = "The run is paused: the owner clarifies it, which widens no grant, or revokes it. Then "
	retry   = "A run that is paused goes on when the owner retries it; nothing was dispatched. Then "
	probe   = "Do not send it again, here or in another run: it may have happened. The run is paused: the owner probes the store, and failing that states what is known (reconcile), or revokes."
)
