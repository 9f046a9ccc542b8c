package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"countersign/internal/app"
)

type migrateCommand struct {
	Dir string `required:"" placeholder:"D" env:"COUNTERSIGN_DIR" help:"Folder of the installation."`
	database
}

func (migrateCommand) Help() string {
	return `Brings the ledger up to date with this program. Stop every server first and take a backup: migrations
only go forward. Nothing pending is no error.`
}

func (c *migrateCommand) Run(ctx context.Context, s streams) error {
	url, err := c.url()
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.Dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not there; run `countersign init --dir %s`", c.Dir, c.Dir)
	}
	if err := app.Migrate(ctx, c.Dir, url); err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, "The ledger is up to date.")
	return err
}
