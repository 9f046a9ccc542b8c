package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"countersign/internal/app"
	"countersign/internal/keys"
)

type initCommand struct {
	Dir string `required:"" placeholder:"D" env:"COUNTERSIGN_DIR" help:"Folder to create. It may exist when it is empty."`
	database
}

func (initCommand) Help() string {
	return `Creates the folder (0700) with owner.secret and keys/ (0600), and the ledger: countersign.db in the
folder, or the schema in a PostgreSQL database that is empty. Replicas share one copy of the folder.

A folder that is initialized already, one that holds something else, and a database of another
installation are left alone, and the status is 3.

Example: countersign init --dir D`
}

func (c *initCommand) Run(ctx context.Context, s streams) error {
	url, err := c.Address()
	if err != nil {
		return err
	}
	err = app.Init(ctx, c.Dir, url)
	if errors.Is(err, keys.ErrExists) {
		return fmt.Errorf("%s is initialized already and was left alone; run `countersign serve --dir %s%s`", c.Dir, c.Dir, c.Flag())
	}
	if errors.Is(err, app.ErrForeign) {
		return errors.New("the database belongs to another installation; give an empty one. Nothing was created")
	}
	if err != nil {
		return mend(err, c.Dir, c.database)
	}
	ledger := filepath.Join(c.Dir, "countersign.db")
	if url != "" {
		ledger = "the PostgreSQL database"
	}
	_, err = fmt.Fprintf(s.Out, `Created %s
  owner.secret       what the owner signs in with; keep it
  keys/              private keys; whoever has them is the control plane
  keys/evidence.pub  the public key; give it to whoever verifies
  ledger             %s
Next: countersign serve --dir %s%s
`, c.Dir, ledger, c.Dir, c.Flag())
	return err
}
