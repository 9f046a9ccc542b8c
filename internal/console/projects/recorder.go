package projects

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"countersign/internal/console/frame"
	"countersign/internal/contextturn/perimeter"
	"countersign/internal/contextturn/traces"
)

type recorderData struct {
	head
	List    []traces.InteractionView
	Turn    string // whose interactions these are, "" for all
	Clients narrowing
	pager
}

// recorder is the Flight Recorder of a project, newest first.
func (s *site) recorder(ctx context.Context, id, _ string, q url.Values) (*frame.Page, error) {
	query := traces.InteractionQuery{Project: id, Turn: q.Get("turn"), Client: q.Get("client"), Before: q.Get("before"), Limit: pageSize}
	p, err := s.Perimeter.Project(ctx, id)
	if err != nil {
		return nil, err
	}
	list, next, err := s.Perimeter.Interactions(ctx, query)
	if err != nil {
		return nil, err
	}
	path := "/projects/" + id + "/recorder"
	clients, _, err := s.narrow(ctx, id, query.Client, func(perimeter.ClientView) bool { return true }, func(client string) string {
		return address(path, "turn", query.Turn, "client", client)
	})
	if err != nil {
		return nil, err
	}
	d := recorderData{head{p, "recorder"}, list, query.Turn, clients, turnPages(q, next, path)}
	return &frame.Page{Template: "recorder", Title: "Flight Recorder of " + p.Handle + "/" + p.Slug, Data: d}, nil
}

type interactionData struct {
	head
	*traces.InteractionDetail
	Asked, Handed *spoken   // nil: erased
	Evidence      *exported // nil: it is in that of a turn
}

// spoken is a request or an answer: its members, and the whole as it was recorded.
type spoken struct {
	Members []member
	Raw     string
}

// member is one member of a request or an answer. A long text stands on lines of its own,
// and so does a list of objects.
type member struct {
	Name, Value string
	Block       bool
	List        [][]member
}

// interaction is one call of a context tool, or one transition that a bridge saw.
func (s *site) interaction(ctx context.Context, id, interactionID string, _ url.Values) (*frame.Page, error) {
	p, err := s.Perimeter.Project(ctx, id)
	if err != nil {
		return nil, err
	}
	i, err := s.Perimeter.Interaction(ctx, id, interactionID)
	if err != nil {
		return nil, err
	}
	d := interactionData{head: head{p, "recorder"}, InteractionDetail: i, Asked: speak(i.Request), Handed: speak(i.Answer)}
	if i.Head != nil {
		e := s.evidence(&p, "/interactions/"+i.ID, i.ID, *i.Head)
		d.Evidence = &e
	}
	return &frame.Page{Template: "interaction", Title: i.Tool + " " + frame.Short(interactionID), Data: d}, nil
}

// speak reads a recorded JSON object for people. What is no object is shown as it is, and
// what was erased as nil.
func speak(recorded json.RawMessage) *spoken {
	if string(recorded) == "null" {
		return nil
	}
	return &spoken{membersOf(recorded), frame.SpellJSON(recorded)}
}

// membersOf lists the members of an object by name, those in front that fit on a line.
func membersOf(object json.RawMessage) (list []member) {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return nil
	}
	for name, raw := range members {
		m := member{Name: name, Value: frame.SpellJSON(raw)}
		var elements []json.RawMessage
		switch {
		case json.Unmarshal(raw, &m.Value) == nil:
			m.Block = len(m.Value) > 80 || strings.Contains(m.Value, "\n")
		case json.Unmarshal(raw, &elements) == nil && len(elements) > 0:
			m.Block = true
			for _, e := range elements {
				m.List = append(m.List, membersOf(e))
			}
			if slices.ContainsFunc(m.List, func(of []member) bool { return len(of) == 0 }) {
				m.List = nil
			}
		case raw[0] == '{':
			m.Block = true
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b member) int {
		if a.Block != b.Block {
			return map[bool]int{true: 1, false: -1}[a.Block]
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}
