package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"countersign/internal/audit"
	"countersign/internal/client"
	"countersign/internal/command/incidentdemo"
	"countersign/internal/runbook/incident"
)

// incidentEvidence is the export of the incident's session in the folder of the demo.
const incidentEvidence = "evidence-incident.json"

// showIncident shows the governed incident workflow up to the verification.
func (d *demo) showIncident(ctx context.Context) error {
	if err := d.init(ctx); err != nil {
		return err
	}
	origin, err := d.control(ctx, "--incident")
	if err != nil {
		return err
	}
	d.out.say("countersign demo of the incident workflow\n  control plane  %s  SQLite in %s\n  logs           %s", origin, d.path("control"), d.path("*.log"))
	d.out.say("%s The agent is scripted: it follows a written script and no model decides anything.\n", incident.HonestySynthetic)
	d.out.head()
	show := incidentdemo.Show{Origin: origin, HTTP: client.New(), Say: d.out.say, Add: d.out.add}
	export, err := show.Play(ctx)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(d.path("control/keys/evidence.pub"))
	if err != nil {
		return err
	}
	if err := errors.Join(replaceFile(d.path(incidentEvidence), export), replaceFile(d.path("evidence.pub"), key)); err != nil {
		return err
	}
	report, err := d.verify(incidentEvidence, incident.Investigating, (*audit.Report).Print)
	d.out.say("%s", report)
	d.out.say("\nCheck it yourself:\n  %s verify %s --key %s", invocation(), quoted(d.path(incidentEvidence)), quoted(d.path("evidence.pub")))
	return err
}

// waitIncident leaves the control plane up for a person to look at the page, until the
// demo is interrupted.
func (d *demo) waitIncident(ctx context.Context) error {
	page := d.owner.Origin + "/incident"
	if d.out.json {
		d.out.object(map[string]string{"origin": d.owner.Origin, "page": page})
	}
	d.out.say("\nThe page is %s; each browser has a session of its own there. Stop the demo with Ctrl-C.", page)
	select {
	case <-ctx.Done():
		return d.out.err
	case <-d.plane.exited:
		return fmt.Errorf("the process control ended:\n%s", d.plane.tail.String())
	}
}
