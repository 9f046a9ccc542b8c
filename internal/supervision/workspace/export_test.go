package workspace

// Forgets makes each try of a freeze or its end as if it were the first, or ends that.
func (w *Workspace) Forgets(does bool) { w.forgets = does }
