package channel_test

import (
	"strings"
	"testing"
)

// projectBodies are good bodies of the operations about a project that take one.
func projectBodies() map[string]any {
	return map[string]any{
		"store-documents":    map[string]any{"documents": []any{map[string]any{"text": documents[0]}}},
		"missing-documents":  map[string]any{"sha256": []string{strings.Repeat("0", 64)}},
		"publish-build":      map[string]any{"environment": "production", "manifest": manifest(documents[0])},
		"issue-shared-token": map[string]any{"environment": "production", "profile": "support"},
		"create-client":      map[string]any{"name": "Another", "kind": "custom", "profile": "support", "environment": "production"},
	}
}

// placeholders are what the paths of projects name, with the kinds of thing that each takes.
var placeholders = map[string][]string{
	"{id}": {"project"}, "{cid}": {"client", "shared client"}, "{tid}": {"context turn"}, "{iid}": {"interaction", "receipt", "interaction of a turn"}, "{gid}": {"gap"},
}

// foreignToProject are all probes of one operation: what belongs to the project a, sent to
// the project b and by those who have no right to anything.
func foreignToProject(a, b *project, o *operation) (list []foreign) {
	ask := func(method, path string, edits ...edit) answer {
		return a.do(method, path, projectBodies()[o.ID], edits...)
	}
	last := o.Path[strings.LastIndexByte(o.Path, '{') : strings.LastIndexByte(o.Path, '}')+1]
	for kind, id := range a.named {
		none := id[:4] + hexID()
		if last != "{id}" {
			list = append(list, foreign{"the owner in another project, " + kind, func(id string) answer {
				return ask(o.Method, b.in(strings.Replace(o.Path, last, id, 1)), a.asProjectOwner(a.cookie))
			}, id, none})
		}
		if kind != "project" {
			list = append(list, foreign{"the owner, as a project a " + kind, func(id string) answer {
				return ask(o.Method, b.in(strings.Replace(o.Path, "{id}", id, 1)), a.asProjectOwner(a.cookie))
			}, id, none})
		}
		for who, edits := range map[string][]edit{
			"a client of another project": {a.asProjectOwner(""), set("Authorization", "Bearer "+b.token)},
			"its own client":              {a.asProjectOwner(""), set("Authorization", "Bearer "+a.token)},
			"nobody":                      {a.asProjectOwner("")},
			"no session":                  {a.asProjectOwner(strings.Repeat("A", 43))},
		} {
			list = append(list, foreign{who + ", " + kind, func(id string) answer {
				return ask(o.Method, a.in(strings.Replace(o.Path, last, id, 1)), edits...)
			}, id, none})
		}
	}
	for parameter, kind := range map[string]string{"client": "client", "turn": "context turn", "before": "interaction"} {
		if !o.takes(parameter) {
			continue
		}
		id := a.named[kind]
		list = append(list, foreign{"the parameter " + parameter, func(id string) answer {
			return ask(o.Method, b.in(o.Path)+"?"+parameter+"="+id, a.asProjectOwner(a.cookie))
		}, id, id[:4] + strings.Repeat("0", 32)})
	}
	return list
}

// takes reports whether the operation has a query parameter.
func (o *operation) takes(name string) bool {
	for _, p := range o.Parameters {
		if p.In == "query" && p.Name == name {
			return true
		}
	}
	return false
}

// What belongs to one project is not found in another, under any operation: the answer is
// that to something which does not exist, and nothing happens to whose it was. Whoever has
// no session learns nothing of any of it, a client of the project least of all.
func TestForeignProjects(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.project("support"), h.project("sales")
	before := a.recorded()
	tried := 0
	for _, o := range document().operations {
		if family(o.Path) != "project" || !strings.Contains(o.Path, "{") {
			continue
		}
		for placeholder := range placeholders {
			if strings.Contains(strings.ReplaceAll(o.Path, placeholder, ""), "{") && !strings.Contains(o.Path, "{id}") {
				t.Errorf("%s names something that is no project's", o.ID)
			}
		}
		for _, f := range foreignToProject(a, b, o) {
			tried++
			if told := oracle(a.named, f); told != "" {
				t.Errorf("%s: %s", o.ID, told)
			}
		}
	}
	if tried < 500 {
		t.Errorf("%d probes", tried)
	}
	b.projects("GET", "/"+b.id, nil).is(t, "the other project", 200, "")
	// What is common to both is their list, which has the other's changes.
	if got := a.recorded(); got[:strings.LastIndexByte(strings.TrimSpace(got), '\n')] != before[:strings.LastIndexByte(strings.TrimSpace(before), '\n')] {
		t.Errorf("now\n%s\nbefore\n%s", got, before)
	}
	a.ask(a.token, "/doctor", map[string]any{}, set("X-SEIF-Turn-Id", a.named["context turn"])).is(t, "the client of the project afterwards", 200, "")
	// Control: the owner, in the project that it belongs to, is told each thing from one
	// that is not there.
	for placeholder, kinds := range placeholders {
		for _, kind := range kinds {
			path := map[string]string{"{id}": "/", "{cid}": "/" + a.id + "/mcp/clients/", "{tid}": "/" + a.id + "/turns/", "{iid}": "/" + a.id + "/interactions/", "{gid}": "/" + a.id + "/gaps/"}[placeholder]
			end := ""
			if placeholder == "{cid}" || placeholder == "{gid}" {
				end = "/evidence"
			}
			id := a.named[kind]
			if oracle(a.named, foreign{kind, func(id string) answer { return a.projects("GET", path+id+end, nil) }, id, id[:4] + hexID()}) == "" {
				t.Errorf("control: %s is shown and not told from one that is not there", kind)
			}
		}
	}
}
