package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/client"
	"countersign/internal/keys"
)

// token makes a run on a target and returns its token.
func (i *installation) token(t *testing.T, target string) string {
	t.Helper()
	ctx := context.Background()
	secret, err := keys.ReadSecret(filepath.Join(i.dir, "control", "owner.secret"))
	must(t, err)
	owner := client.Owner{Origin: i.origin, HTTP: client.New()}
	_, err = owner.SignIn(ctx, secret)
	must(t, err)
	id, _, err := owner.CreateRun(ctx, map[string]string{
		"service": "merchant", "target": target, "channel": "http", "mode": "bounded", "budgetCents": "13700", "instruction": demoInstruction,
	})
	must(t, err)
	session, _, err := owner.IssueToken(ctx, id)
	must(t, err)
	return session.Token
}

// agent runs the agent command and returns its status and what it wrote.
func (i *installation) agent(t *testing.T, token string) (int, string) {
	t.Helper()
	t.Setenv("COUNTERSIGN_TOKEN", token)
	var out bytes.Buffer
	status := execute([]string{"agent", "--origin", i.origin}, streams{Out: &out, Err: &out})
	return status, out.String()
}

// A local run has no shop to go to, which is said; all else is played. What refuses
// it unexpectedly is shown in the server's words.
func TestAgentOnLocalRun(t *testing.T) {
	var i installation
	i.start(t)
	token := i.token(t, "local")
	status, out := i.agent(t, token)
	if status != statusDone || strings.Count(out, "the run is local") != 2 || strings.Count(out, "skipped") != 2 || !strings.Contains(out, "buy again after completion") {
		t.Errorf("status %d\n%s", status, out)
	}
	status, out = i.agent(t, token)
	if status != statusDiffers || !strings.Contains(out, "want 200, got 409 RUN_NOT_READY: The run is completed.") {
		t.Errorf("a run that has ended: status %d\n%s", status, out)
	}

	// Negative control: a hosted run has a shop.
	if status, out := i.agent(t, i.token(t, "hosted")); status != statusDone || strings.Contains(out, "skipped") {
		t.Errorf("hosted: status %d\n%s", status, out)
	}
}
