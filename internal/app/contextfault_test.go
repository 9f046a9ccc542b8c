package app_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"countersign/internal/app"
	"countersign/internal/ledger"
)

func (l *failingLedger) PutBlobs(ctx context.Context, blobs []ledger.Blob) error {
	switch r := l.f.at("commit"); r {
	case errs, garbles:
		return errInside
	case hangs:
		l.f.leave()
		return fmt.Errorf("%s: %w", hidden, context.DeadlineExceeded)
	case panics:
		panic(hidden)
	case late:
		defer l.f.leave()
		return errors.Join(l.Engine.PutBlobs(ctx, blobs), errInside)
	}
	return l.Engine.PutBlobs(ctx, blobs)
}

func (l *failingLedger) Missing(ctx context.Context, workspace string, hashes []string) ([]string, error) {
	err := l.reads("read")
	if errors.Is(err, errGarbled) {
		return hashes, nil
	}
	if err != nil {
		return nil, err
	}
	return l.Engine.Missing(ctx, workspace, hashes)
}

func (l *failingLedger) Blobs(ctx context.Context, workspace string, hashes []string) ([]ledger.Blob, error) {
	err := l.reads("read")
	if err != nil && !errors.Is(err, errGarbled) {
		return nil, err
	}
	blobs, real := l.Engine.Blobs(ctx, workspace, hashes)
	if err != nil {
		for i := range blobs {
			blobs[i].Bytes = garbled(blobs[i].Bytes)
		}
	}
	return blobs, real
}

// contextClient is a client of the context gateway.
type contextClient struct {
	*booth
	project, token string
	key            int
}

// asks sends a request of the client, with a key of its own if again is "".
func (c *contextClient) asks(path, turn, again string, body any) heard {
	c.t.Helper()
	if again == "" {
		c.key++
		again = fmt.Sprintf("key-number-%08d", c.key)
	}
	headers := map[string]string{"Authorization": "Bearer " + c.token, "Idempotency-Key": again}
	if turn != "" {
		headers["X-SEIF-Turn-Id"] = turn
	}
	return send(c.t, "POST", c.origin+"/acme/shop/context"+path, body, headers)
}

// openContextClient opens a booth with a project that has the handbook, and a client of it
// that takes part in the turn protocol.
func openContextClient(t *testing.T, edits ...func(*app.Config)) *contextClient {
	t.Helper()
	c := &contextClient{booth: openBooth(t, []string{"app.engine"}, edits...)}
	c.project, _ = c.desk.project("shop")
	c.handOut(c.project)
	c.token = c.owns("POST", "/"+c.project+"/mcp/clients", map[string]any{
		"name": "asker", "kind": "custom", "profile": "support", "environment": "production", "turnProtocol": "required",
	}).is(t, "client", 201, "").at("token").(string)
	return c
}

func (c *contextClient) start() string {
	c.t.Helper()
	return c.asks("/turns/start", "", "", map[string]any{}).is(c.t, "start", 201, "").at("turn", "id").(string)
}

var contextTask = map[string]any{"task": "How is a Fieldwork keyboard bought?"}

// handedOut says what of the handbook an answer holds.
func handedOut(r heard) bool {
	return strings.Contains(string(r.body), "home address") || strings.Contains(string(r.body), "keyboards")
}

// contextGateway lets the ledger fail under the context gateway. Nothing is handed out then,
// nothing of the inside is told, and what is asked once more afterwards is done once.
func contextGateway(t *testing.T) {
	c := openContextClient(t)
	names := []string{"start", "compass", "find", "observe", "complete"}
	for _, where := range []string{"credential", "read", "commit"} {
		for _, how := range ways {
			what := where + ", " + how
			turn := c.start()
			requests := map[string]func(key string) heard{
				"start":   func(key string) heard { return c.asks("/turns/start", "", key, map[string]any{}) },
				"compass": func(string) heard { return c.asks("/compass", turn, "", contextTask) },
				"find":    func(string) heard { return c.asks("/find", turn, "", map[string]any{"query": "keyboard"}) },
				"observe": func(key string) heard {
					return c.asks("/turns/"+turn+"/observations", "", key, map[string]any{"event": "pre_tool_use", "tool": "mcp__seif__compass", "toolUseId": "toolu_01"})
				},
				"complete": func(key string) heard {
					return c.asks("/turns/"+turn+"/complete", "", key, map[string]any{"status": "completed"})
				},
			}
			for _, name := range names {
				c.key++
				key := fmt.Sprintf("key-number-%08d", c.key)
				c.f.set(how, where)
				r := requests[name](key)
				if hits := c.f.mend(); hits == 0 {
					t.Errorf("%s, %s: was not met", what, name)
				}
				reasons := []string{"LEDGER_UNAVAILABLE", "INTERNAL"}
				if how == garbles { // what is another's opens nothing, and another request's key is taken
					reasons = append(reasons, "token_invalid", "idempotency_conflict", "idempotency_in_progress")
				}
				c.complain(what+", "+name, c.refusal(r, reasons...))
				if handedOut(r) {
					t.Errorf("%s, %s: context is handed out: %s", what, name, r.body)
				}
				if again := requests[name](key); again.status/100 != 2 {
					t.Errorf("%s, %s, once more: %d %s", what, name, again.status, again.body)
				}
			}
			v := c.owns("GET", "/"+c.project+"/turns/"+turn, nil).is(t, "the turn", 200, "")
			deliveries := 2.0
			if how == late && where == "commit" {
				deliveries = 4 // two were stored, and nobody was told
			}
			if v.at("deliveries") != deliveries || v.at("observations") != 1.0 || v.at("status") != "COMPLETED_WITH_CONTEXT_DELIVERY" {
				t.Errorf("%s: %v deliveries, want %v; %v observations, status %v", what, v.at("deliveries"), deliveries, v.at("observations"), v.at("status"))
			}
			evidence := "/" + c.project + "/turns/" + turn + "/evidence"
			c.verifies(evidence, c.owns("GET", evidence, nil))
		}
	}
	// Control: a gateway that hands out what it could not record is found to.
	open := openContextClient(t, func(c *app.Config) { c.Unrecorded = true })
	turn := open.start()
	open.f.set(errs, "commit")
	r := open.asks("/compass", turn, "", contextTask)
	if open.f.mend(); r.status != 200 || !handedOut(r) {
		t.Errorf("control: %d %s", r.status, r.body)
	}
}
