package evidence

import (
	"errors"

	"countersign/internal/canon"
)

// Format is the evidence format that the first event of every chain states.
const Format = "countersign-evidence/1"

// Subject names a chain. It is the member subject of the first event's data,
// and the subject of an export.
type Subject struct {
	Format    string `json:"format"` // [Format]
	Kind      string `json:"kind"`   // such as "run"
	ID        string `json:"id"`     // the runId of every event
	Workspace string `json:"workspace"`
	Issuer    string `json:"issuer"`
	Machine   int64  `json:"machine"` // which state machine makes the chain lawful; fixed for its life
}

// Subject returns the subject that the first event of a chain states.
func (e *Event) Subject() (Subject, error) {
	members, err := canon.Members(e.Data, nil)
	if err != nil {
		return Subject{}, err
	}
	for _, m := range members {
		if string(m.Name) == `"subject"` {
			return parseSubject(m.Value)
		}
	}
	return Subject{}, errors.New("evidence: want the member subject in the data of the first event")
}

func parseSubject(raw []byte) (Subject, error) {
	var f fields
	f.open(raw)
	s := Subject{
		Format:    f.text("format", Format, is(Format)),
		ID:        f.text("id", asName, isName),
		Issuer:    f.text("issuer", "a string", isAny),
		Kind:      f.text("kind", asName, isName),
		Machine:   f.integer("machine", 1),
		Workspace: f.text("workspace", asName, isName),
	}
	if f.close(); f.want != "" {
		return Subject{}, &FormatError{"subject", f.want}
	}
	return s, nil
}

func (s Subject) encode() ([]byte, error) {
	var o object
	o.text("format", s.Format)
	o.text("id", s.ID)
	o.text("issuer", s.Issuer)
	o.text("kind", s.Kind)
	o.integer("machine", s.Machine)
	o.text("workspace", s.Workspace)
	b, err := o.end()
	if err == nil {
		_, err = parseSubject(b)
	}
	return b, err
}
