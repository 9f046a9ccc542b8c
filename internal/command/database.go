package command

import (
	"net/url"
	"os"
)

// Database is the flag of every command that opens a ledger.
type Database struct {
	Database string `placeholder:"URL" env:"COUNTERSIGN_DATABASE" help:"PostgreSQL URL of the ledger. Default: SQLite in the folder. A password belongs in the variable, PGPASSWORD or ~/.pgpass, never in the flag."`
}

// Address returns the URL, or "" for SQLite.
func (d Database) Address() (string, error) {
	if d.Database == "" {
		return "", nil
	}
	u, err := url.Parse(d.Database)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", Usage("--database: want a PostgreSQL URL such as postgres://host/name")
	}
	// Command lines are readable by every process of the machine.
	if _, secret := u.User.Password(); (secret || u.Query().Has("password")) && d.Database != os.Getenv("COUNTERSIGN_DATABASE") {
		return "", Usage("--database: no password on the command line; use COUNTERSIGN_DATABASE, PGPASSWORD or ~/.pgpass")
	}
	return d.Database, nil
}

// Flag is the flag as it stands in another command line for the same ledger: none
// when the variable names it, which may hold a password.
func (d Database) Flag() string {
	if d.Database == "" || d.Database == os.Getenv("COUNTERSIGN_DATABASE") {
		return ""
	}
	return " --database " + d.Database
}
