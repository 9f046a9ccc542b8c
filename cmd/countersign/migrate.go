package main

import (
	"context"
	"fmt"

	"countersign/internal/app"
)

type migrateCommand struct {
	Dir string `required:"" placeholder:"D" env:"COUNTERSIGN_DIR" help:"Folder of the installation."`
	database
}

func (migrateCommand) Help() string {
	return `Brings the ledger up to date with this program and prints each migration that it applied. Take a backup and stop
every server first: migrations only go forward, and a ledger that is served is left alone, with status 3.
Nothing pending is no error.

The ledger must be the one that was made with the keys of the folder: a database that holds none, or another
installation's, is left alone, and the status is 3.

Example: countersign migrate --dir D`
}

func (c *migrateCommand) Run(ctx context.Context, s streams) error {
	url, err := c.Address()
	if err != nil {
		return err
	}
	applied, err := app.Migrate(ctx, c.Dir, url)
	for _, name := range applied {
		fmt.Fprintln(s.Out, "applied", name)
	}
	if err != nil {
		return mend(err, c.Dir, c.database)
	}
	if len(applied) == 0 {
		fmt.Fprintln(s.Out, "nothing to apply")
	}
	_, err = fmt.Fprintln(s.Out, "The ledger is up to date.")
	return err
}
