package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
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
	d.out.say("Its owner's page is %s/runs/%s; the line in %s signs in.", session.Origin, id, filepath.Join(d.path("control"), "owner.secret"))
	d.out.say(firstCommands, session.Origin, session.Token, session.ExpiresAt)
	select {
	case <-ctx.Done():
		return errors.Join(d.exportPlayed(context.WithoutCancel(ctx), id), d.out.err)
	case <-d.plane.exited:
		return fmt.Errorf("the process control ended:\n%s", d.plane.tail.String())
	case <-d.store.exited:
		return fmt.Errorf("the process store ended:\n%s", d.store.tail.String())
	}
}

// exportTime is how long the last export has after Ctrl-C.
const exportTime = 5 * time.Second

// exportPlayed keeps what was done in the run that a person played.
func (d *demo) exportPlayed(ctx context.Context, runID string) error {
	ctx, cancel := context.WithTimeout(ctx, exportTime)
	defer cancel()
	d.out.say("")
	return d.export(ctx, runID, "evidence-yours.json")
}

// firstCommands are for a shell: one step of a run, from looking to the receipt.
const firstCommands = `
ORIGIN=%s
TOKEN=%s
# good until %s

call() { curl -s -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" "$@"; echo; }

# What may this run do, and what can be proposed now?
call $ORIGIN/api/v1/capabilities
call $ORIGIN/api/v1/observation > observation.json

# Propose one entry of the catalog, in its own words; the first is reading the shop's catalog.
# An ALLOW brings a permit that is good for 30 seconds at most.
OBSERVATION=$(grep -o '"observationId":"[^"]*"' observation.json | head -1 | cut -d '"' -f 4)
TARGET=$(grep -o '"targetRef":"[^"]*"' observation.json | head -1 | cut -d '"' -f 4)
ACTION='{"kind":"service","operationId":"merchant.catalog","targetRef":"'$TARGET'","args":{}}'
call $ORIGIN/api/v1/turns -d '{"goalRestatement":"Buy one keyboard within the terms.","candidates":[{"id":"c1",
  "action":'"$ACTION"',"purpose":"See what there is.","disposition":"proposed","rejectionReason":null}],
  "selectedCandidateId":"c1","justification":{"summary":"It comes first.","evidenceRefs":["'$OBSERVATION'"]},
  "expectedEffect":{"operationId":"merchant.catalog","transactionProposalId":null,"disclosedFields":[],
  "postconditions":["catalog.read"]},"uncertainties":[]}'

# Was the answer lost? Nothing has happened yet: the decision can be had again, permit included.
call $ORIGIN/api/v1/decision > decision.json
PERMIT=$(grep -o '"token":"[^"]*"' decision.json | cut -d '"' -f 4)

# Execute exactly the permitted action. Was the answer lost? The same line again, with the same key, has no
# second effect and brings the stored result.
call $ORIGIN/api/v1/operation -H "x-step-permit: $PERMIT" -H "x-idempotency-key: step-1-of-my-own-run" -d '{"action":'"$ACTION"'}'

# Observe again and go on: product, cart, checkout, order. Stop the demo with Ctrl-C; it exports
# the evidence of this run then.`
