package projects

import (
	"maps"
	"net/url"
	"slices"

	"countersign/internal/authority"
	"countersign/internal/contextturn/turn"
)

// parameters are what a query may have, by name, and what the value of each has to be.
type parameters map[string]func(value string) bool

// read reads a query as the API does: a parameter that the page does not have, one that is
// there twice and a value that it cannot have are refused. An empty list would say that
// nothing was recorded.
func (p parameters) read(query string) (url.Values, error) {
	refused := func(detail string) (url.Values, error) {
		return nil, &authority.Denial{Reason: authority.InvalidRequest, Detail: detail}
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return refused("query: not a query string")
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch is, known := p[name]; {
		case !known:
			return refused("query: the page has a parameter that it does not take")
		case len(q[name]) > 1:
			return refused("query." + name + ": is there more than once")
		case !is(q[name][0]):
			return refused("query." + name + ": " + wants[name])
		}
	}
	return q, nil
}

// wants say what a parameter has to be.
var wants = map[string]string{
	"before": "not the id behind which a page of this list begins",
	"client": "not the id of a client",
	"status": "not a status of a turn",
	"turn":   "not the id of a turn",
}

func isTurn(s string) bool        { return turn.IsID("trn_", s) }
func isStatus(s string) bool      { return slices.Contains(statuses, s) }
func isInteraction(s string) bool { return turn.IsID("int_", s) || turn.IsID("brg_", s) }

// address is a path with a query of what is not empty: pairs of a name and a value.
func address(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
