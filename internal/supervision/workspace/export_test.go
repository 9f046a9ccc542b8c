package workspace

// Forgets makes each try of a freeze or its end as if it were the first.
func (w *Workspace) Forgets() { w.forgets = true }
