package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"countersign/evidence"
	"countersign/internal/app"
	"countersign/internal/keys"
)

type keyCommand struct {
	List   keyListCommand   `cmd:"" help:"List the keys of a folder."`
	Rotate keyRotateCommand `cmd:"" help:"Replace a signing key."`
}

func (keyCommand) Help() string {
	return `The evidence key signs evidence, the dispatch key the permits that stores take. Both can be replaced; the other
two, mac and seal, are what tokens and hosted sessions depend on.

Example: countersign key list --dir D`
}

type keyListCommand struct {
	Dir  string `required:"" placeholder:"D" env:"COUNTERSIGN_DIR" help:"Folder of the installation."`
	JSON bool   `name:"json" help:"Print one JSON object a line, and nothing else."`
}

func (keyListCommand) Help() string {
	return `A line a key, oldest first: what it is for, its id or fingerprint, since when and until when it counts, and whether
it is in use. A key that is no longer used still verifies what it signed until its end. Nothing secret is shown.

With --json: purpose, key, since, notAfter and inUse; a time that there is none of is null.

Example: countersign key list --dir D`
}

// keyLine is a key as it is listed.
type keyLine struct {
	Purpose  string  `json:"purpose"`
	Key      string  `json:"key"`
	Since    *string `json:"since"`
	NotAfter *string `json:"notAfter"`
	InUse    bool    `json:"inUse"`
}

func (c *keyListCommand) Run(s streams) error {
	k, err := keys.Load(c.Dir)
	if err != nil {
		return mend(err, c.Dir, database{})
	}
	lines := append(keyLines("evidence", k.EvidenceList()), keyLines("dispatch", k.DispatchList())...)
	for _, name := range []string{"mac", "seal"} {
		lines = append(lines, keyLine{Purpose: name, Key: k.Fingerprints()[name], InUse: true})
	}
	t := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(t, "PURPOSE\tKEY\tSINCE\tUNTIL\tUSE")
	}
	for _, l := range lines {
		if c.JSON {
			if err := json.NewEncoder(s.Out).Encode(l); err != nil {
				return err
			}
			continue
		}
		use := "verifies"
		if l.InUse {
			use = "in use"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", l.Purpose, l.Key, timeOr(l.Since, "init"), timeOr(l.NotAfter, "-"), use)
	}
	return t.Flush()
}

func keyLines(purpose string, list []keys.Public) (lines []keyLine) {
	var since *string
	for _, p := range list {
		l := keyLine{Purpose: purpose, Key: p.ID(), Since: since, InUse: p.NotAfter.IsZero()}
		if !l.InUse {
			end := evidence.FormatTime(p.NotAfter)
			l.NotAfter, since = &end, &end
		}
		lines = append(lines, l)
	}
	return lines
}

func timeOr(t *string, otherwise string) string {
	if t == nil {
		return otherwise
	}
	return *t
}

type keyRotateCommand struct {
	Key  string `arg:"" optional:"" enum:"evidence,dispatch" default:"evidence" help:"evidence or dispatch (${default})."`
	Dir  string `required:"" placeholder:"D" env:"COUNTERSIGN_DIR" help:"Folder of the installation."`
	JSON bool   `name:"json" help:"Print one JSON object, and nothing else."`
	database
}

func (keyRotateCommand) Help() string {
	return `Makes a new key and ends the time of the former one, in the folder and in the ledger. Stop every server first:
while one has the ledger open, nothing is changed and the status is 3. A rotation that was interrupted is finished
by the same command; until then serve says so.

Runs go on with the new key. What is exported from now on verifies with the new evidence.pub, which holds the former
keys too, and not with a copy of the old file: give the new one to whoever verifies. After a rotation of dispatch give
keys/dispatch.pub to the stores before you start serve. A replica starts again with a new copy of the folder only.

With --json: purpose, former, notAfter, key and file.

Example: countersign key rotate evidence --dir D`
}

func (c *keyRotateCommand) Run(ctx context.Context, s streams) error {
	url, err := c.Address()
	if err != nil {
		return err
	}
	former, next, err := app.Rotate(ctx, app.Rotation{Dir: c.Dir, Database: url, Key: c.Key})
	if err != nil {
		return mend(err, c.Dir, c.database)
	}
	file, end := filepath.Join(c.Dir, "keys", c.Key+".pub"), evidence.FormatTime(former.NotAfter)
	if c.JSON {
		return json.NewEncoder(s.Out).Encode(map[string]string{"purpose": c.Key, "former": former.ID(), "notAfter": end, "key": next.ID(), "file": file})
	}
	to := "whoever verifies evidence"
	if c.Key == "dispatch" {
		to = "the stores, before you start serve"
	}
	_, err = fmt.Fprintf(s.Out, `The %s key is %s now.
The former one, %s, counts until %s.
Next: give %s to %s; copy the folder to every replica.
`, c.Key, next.ID(), former.ID(), end, file, to)
	return err
}
