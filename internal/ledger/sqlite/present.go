package sqlite

// present reports whether c is stored, by the part of it that tells for sure.
// No other Change was written since c was tried: there is one writer, and it is
// asking. A Change that only revokes tells nothing: its credentials may have
// been gone before.
func (t *tx) present(c *change) (present, tells bool, err error) {
	exists := func(query string, args ...any) (bool, bool, error) {
		_, found, err := t.number("", query, args...)
		return found, true, err
	}
	for _, w := range c.Writes {
		if len(w.Events) > 0 {
			return exists(`SELECT 1 FROM events WHERE workspace = ? AND kind = ? AND subject = ? AND sequence = ? AND id = ?`,
				w.Workspace, w.Kind, w.ID, w.Events[0].Sequence, w.Events[0].ID)
		}
	}
	switch {
	case len(c.Writes) > 0:
		w := c.Writes[0]
		return exists(`SELECT 1 FROM subjects WHERE workspace = ? AND kind = ? AND id = ? AND revision = ? AND state = ?`,
			w.Workspace, w.Kind, w.ID, w.Revision+1, w.State)
	case c.Record != nil:
		return exists(`SELECT 1 FROM idempotency WHERE workspace = ? AND principal = ? AND key = ? AND fingerprint = ? AND object = ?`,
			c.workspace, c.Record.Principal, c.Record.Key, c.Record.Fingerprint, c.Record.Object)
	case len(c.Fates) > 0:
		return exists(`SELECT 1 FROM spent_permits WHERE workspace = ? AND permit = ? AND fate = ? AND execution = ?`,
			c.workspace, c.Fates[0].PermitID, c.Fates[0].Fate, c.Fates[0].Execution)
	case len(c.Credentials) > 0:
		return exists(`SELECT 1 FROM credentials WHERE workspace = ? AND hash = ?`, c.workspace, c.Credentials[0].Hash)
	}
	return false, false, nil
}
