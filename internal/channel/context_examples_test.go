package channel_test

// contextExamples plays one turn with every tool, an observation and its completion, and
// a bridge receipt.
func contextExamples(h *house, keep func(operation, name string, request any, a answer) answer) {
	p := h.project("handbook")
	send := func(name, example string, token, path string, edits ...edit) answer {
		return keep(name, example, contextBodies[name], p.ask(token, path, contextBodies[name], edits...))
	}
	turn := send("start-context-turn", "a-job", p.token, "/turns/start", key()).members()["turn"].(map[string]any)["id"].(string)
	for _, tool := range []struct{ name, example string }{
		{"compass", "covered"}, {"resolve", "one-item"}, {"find", "ranked"}, {"why", "provenance"}, {"report-gap", "missing"}, {"test", "passed"}, {"doctor", "in-production"},
	} {
		send("context-"+tool.name, tool.example, p.token, "/"+tool.name, inTurn(turn))
	}
	send("observe-context-turn", "before-a-tool", p.token, "/turns/"+turn+"/observations", key())
	send("complete-context-turn", "completed", p.token, "/turns/"+turn+"/complete", key())
	send("record-bridge-receipt", "a-file-read", p.bridgeToken, "/bridge/receipts", key())
}
