package main

import (
	"context"
	"fmt"
)

// wait leaves the servers up with a fresh run for a person to be its agent,
// until the demo is interrupted.
func (d *demo) wait(ctx context.Context) error {
	d.out.say("\nBe the agent yourself: a fresh run")
	id, session, err := d.create(ctx)
	if err != nil {
		return err
	}
	if d.out.json {
		d.out.object(map[string]string{"runId": id, "origin": session.Origin, "token": session.Token, "expiresAt": session.ExpiresAt})
	}
	d.out.say(firstCommands, session.Origin, session.Token, session.ExpiresAt)
	select {
	case <-ctx.Done():
		return d.out.err
	case <-d.plane.exited:
		return fmt.Errorf("the process control ended:\n%s", d.plane.tail.String())
	case <-d.store.exited:
		return fmt.Errorf("the process store ended:\n%s", d.store.tail.String())
	}
}

// firstCommands begins a session with the restricted API.
const firstCommands = `
  ORIGIN=%s
  TOKEN=%s
  # good until %s

  # What may this run do, and what can be proposed now?
  curl -s -H "Authorization: Bearer $TOKEN" $ORIGIN/api/v1/capabilities
  curl -s -H "Authorization: Bearer $TOKEN" $ORIGIN/api/v1/observation > observation.json

  # Propose one entry of the catalog. report.json repeats the entry's words: see TurnProposal in
  # "countersign openapi". An ALLOW brings a permit that is good for 30 seconds at most.
  curl -s -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \
       -d @report.json $ORIGIN/api/v1/turns

  # The answer was lost? Nothing has happened yet; ask for the decision, permit included.
  curl -s -H "Authorization: Bearer $TOKEN" $ORIGIN/api/v1/decision

  # Execute exactly the permitted action. If the answer is lost, send the same once more: same key, same
  # permit, same body have one effect.
  curl -s -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \
       -H "x-step-permit: PERMIT" -H "x-idempotency-key: op-0123456789abcdef" \
       -d '{"action": ACTION}' $ORIGIN/api/v1/operation

Stop with Ctrl-C.`
