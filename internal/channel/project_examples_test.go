package channel_test

import "countersign/internal/canon"

// projectExamples makes a project with what it hands out and who may ask for it, and shows
// what was recorded of a turn.
func projectExamples(h *house, keep func(operation, name string, request any, a answer) answer) {
	create := map[string]any{"handle": "acme", "slug": "support"}
	id := keep("create-project", "first", create, h.projects("POST", "", create)).text("id")
	at := "/" + id
	missing := map[string]any{"sha256": []string{canon.Hash([]byte(documents[0]))}}
	keep("missing-documents", "not-stored-yet", missing, h.projects("POST", at+"/documents/missing", missing))
	store := map[string]any{"documents": []any{
		map[string]any{"sha256": canon.Hash([]byte(documents[0])), "text": documents[0]}, map[string]any{"text": documents[1]},
	}}
	keep("store-documents", "two", store, h.projects("POST", at+"/documents", store))
	publish := map[string]any{"environment": "production", "manifest": manifest(documents...)}
	keep("publish-build", "first", publish, h.projects("POST", at+"/builds", publish))
	keep("list-builds", "one-build", nil, h.projects("GET", at+"/builds", nil))
	keep("get-project", "published", nil, h.projects("GET", at, nil))
	keep("list-projects", "newest", nil, h.projects("GET", "", nil))
	client := map[string]any{"name": "My application gateway", "kind": "custom", "profile": "support", "environment": "production", "turnProtocol": "required"}
	made := keep("create-client", "with-turns", client, h.projects("POST", at+"/mcp/clients", client))
	of := at + "/mcp/clients/" + made.members()["client"].(map[string]any)["id"].(string)
	keep("list-clients", "one-client", nil, h.projects("GET", at+"/mcp/clients", nil))
	shared := map[string]any{"environment": "staging", "profile": "support"}
	keep("issue-shared-token", "of-staging", shared, h.projects("POST", at+"/token", shared))
	keep("rotate-client", "second-token", map[string]any{}, h.projects("POST", of+"/rotate", map[string]any{}))
	keep("revoke-client", "ended", map[string]any{}, h.projects("POST", of+"/revoke", map[string]any{}))
	keep("get-client-evidence", "ended", nil, h.projects("GET", of+"/evidence", nil))
	keep("get-project-evidence", "published", nil, h.projects("GET", at+"/evidence", nil))

	p := h.project("sales")
	at = "/" + p.id
	turn := at + "/turns/" + p.named["context turn"]
	keep("list-turns", "open", nil, h.projects("GET", at+"/turns", nil))
	keep("get-turn", "open", nil, h.projects("GET", turn, nil))
	keep("get-turn-evidence", "open", nil, h.projects("GET", turn+"/evidence", nil))
	keep("list-interactions", "first-page", nil, h.projects("GET", at+"/interactions?limit=2", nil))
	interaction := at + "/interactions/" + p.named["interaction"]
	keep("get-interaction", "outside-a-turn", nil, h.projects("GET", interaction, nil))
	keep("get-interaction-evidence", "outside-a-turn", nil, h.projects("GET", interaction+"/evidence", nil))
	keep("list-gaps", "one-gap", nil, h.projects("GET", at+"/gaps", nil))
	keep("get-gap-evidence", "reported", nil, h.projects("GET", at+"/gaps/"+p.named["gap"]+"/evidence", nil))
}
