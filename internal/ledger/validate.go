package ledger

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"countersign/evidence"
)

// ErrInvalid is the cause of [NotStored] for a Change that no engine accepts:
// a fault of the caller, which trying again does not mend.
var ErrInvalid = errors.New("ledger: invalid change")

// Scope is the workspace of the whole Change: Workspace, or that of the first
// Write, record, fate or credential.
func (c *Change) Scope() string {
	switch {
	case c.Workspace != "":
		return c.Workspace
	case len(c.Writes) > 0:
		return c.Writes[0].Workspace
	case c.Record != nil:
		return c.Record.Workspace
	case len(c.Fates) > 0:
		return c.Fates[0].Workspace
	case len(c.Credentials) > 0:
		return c.Credentials[0].Workspace
	}
	return ""
}

// Validate reports what makes a Change unfit for every engine, as an error that
// wraps [ErrInvalid]. Engines call it before queueing. It looks at the Change
// alone: one workspace throughout, each subject, permit and credential once,
// states within [MaxState], events that continue the head that was read, and
// texts that hash to their names. Hashes and signatures of events are taken as
// sealed.
func (c *Change) Validate() error {
	v := validation{workspace: c.Scope()}
	v.name("workspace", v.workspace)
	if len(c.Writes)+len(c.Fates)+len(c.Credentials)+len(c.Revoke) == 0 && c.Record == nil {
		v.fail("it writes nothing")
	}
	subjects := make(map[Key]bool, len(c.Writes)+len(c.Guards))
	for i := range c.Writes {
		w := &c.Writes[i]
		v.key(w.Key)
		v.once(subjects, w.Key)
		v.write(w)
	}
	for _, g := range c.Guards {
		v.key(g.Key)
		v.once(subjects, g.Key)
		if g.Revision < 0 {
			v.fail("negative revision of guard %s", g.Key)
		}
	}
	if r := c.Record; r != nil {
		v.same("record", r.Workspace)
		v.key(r.Subject)
		v.name("principal of the record", r.Principal)
		v.name("key of the record", r.Key)
		v.name("fingerprint of the record", r.Fingerprint)
		v.text("object of the record", r.Object)
	}
	permits := make(map[string]bool, len(c.Fates))
	for _, f := range c.Fates {
		v.same("fate", f.Workspace)
		v.key(f.Subject)
		v.name("permit id", f.PermitID)
		v.name("fate", f.Fate)
		v.text("cause of a fate", f.Cause)
		v.text("execution of a fate", f.Execution)
		if permits[f.PermitID] {
			v.fail("permit %s has two fates", f.PermitID)
		}
		permits[f.PermitID] = true
	}
	hashes := make(map[string]bool, len(c.Credentials)+len(c.Revoke))
	for _, k := range c.Credentials {
		v.same("credential", k.Workspace)
		v.name("credential hash", k.Hash)
		v.name("credential kind", k.Kind)
		v.text("credential subject", k.Subject)
		v.text("credential origin", k.Origin)
		if hashes[k.Hash] {
			v.fail("a credential twice")
		}
		hashes[k.Hash] = true
	}
	for _, h := range c.Revoke {
		v.name("credential hash", h)
		if hashes[h] {
			v.fail("a credential twice")
		}
		hashes[h] = true
	}
	return v.err
}

// validation keeps the first fault.
type validation struct {
	workspace string
	err       error
}

func (v *validation) fail(format string, args ...any) {
	if v.err == nil {
		v.err = fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
}

// text refuses what a PostgreSQL text cannot hold.
func (v *validation) text(what, s string) {
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		v.fail("%s is not UTF-8 without NUL", what)
	}
}

func (v *validation) name(what, s string) {
	if s == "" {
		v.fail("%s is empty", what)
	}
	v.text(what, s)
}

func (v *validation) same(what, workspace string) {
	if workspace != v.workspace {
		v.fail("%s of another workspace", what)
	}
}

func (v *validation) key(k Key) {
	v.same("subject", k.Workspace)
	v.name("kind", k.Kind)
	v.name("id", k.ID)
}

func (v *validation) once(seen map[Key]bool, k Key) {
	if seen[k] {
		v.fail("subject %s twice", k)
	}
	seen[k] = true
}

func (v *validation) write(w *Write) {
	switch {
	case w.Revision < 0:
		v.fail("negative revision of %s", w.Key)
	case w.Revision == 0 && w.Head != evidence.Genesis:
		v.fail("new subject %s with a head", w.Key)
	case len(w.State) == 0 || len(w.State) > MaxState:
		v.fail("state of %s has %d bytes, want 1 to %d", w.Key, len(w.State), MaxState)
	}
	v.events(w)
	names := make(map[string]bool, len(w.Attributes))
	for _, a := range w.Attributes {
		v.name("attribute name", a.Name)
		v.text("attribute value", a.Value)
		if names[a.Name] {
			v.fail("attribute %s of %s twice", a.Name, w.Key)
		}
		names[a.Name] = true
	}
	for _, t := range w.Texts {
		if len(t.Salt) != evidence.SaltSize {
			v.fail("text %s has a salt of %d bytes", t.Commitment, len(t.Salt))
			continue
		}
		if evidence.NewText([evidence.SaltSize]byte(t.Salt), t.Text).Commitment != t.Commitment {
			v.fail("text %s does not hash to its name", t.Commitment)
		}
	}
	clear(names)
	for _, s := range w.Sealed {
		v.name("name of a sealed value", s.Name)
		if names[s.Name] {
			v.fail("sealed value %s of %s twice", s.Name, w.Key)
		}
		names[s.Name] = true
	}
}

func (v *validation) events(w *Write) {
	head := w.Head
	for i := range w.Events {
		e := &w.Events[i]
		v.name("event id", e.ID)
		switch {
		case e.RunID != w.ID:
			v.fail("event of %s in the chain of %s", e.RunID, w.Key)
		case e.PreviousHash != head:
			v.fail("event %d of %s does not continue the head read", e.Sequence, w.Key)
		case e.Sequence < 1 || i > 0 && e.Sequence != w.Events[i-1].Sequence+1:
			v.fail("event %d of %s is out of order", e.Sequence, w.Key)
		case w.Revision == 0 && i == 0 && e.Sequence != 1:
			v.fail("chain of %s does not start at 1", w.Key)
		}
		if _, err := evidence.ParseTime(e.Timestamp); err != nil {
			v.fail("event %d of %s has no timestamp", e.Sequence, w.Key)
		}
		head = e.Hash
	}
}
