package postgres

import (
	"testing"

	"countersign/internal/pgtest"
)

// Every session of an opening bears the name that its URL gives, so that the server
// tells replicas apart; without one it is the program's.
func TestSessionsAreNamed(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t, Migrate)
	begin(t, url, Options{})
	begin(t, url+"&application_name=replica-2", Options{})
	for _, name := range []string{"countersign", "replica-2"} {
		var listening, all int
		if err := connect(t, url).QueryRow(t.Context(), `
			SELECT count(*) FILTER (WHERE query = 'LISTEN countersign'), count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1`, name).Scan(&listening, &all); err != nil {
			t.Fatal(err)
		}
		if listening != 1 || all < 3 { // a writer and a reader beside it
			t.Errorf("%s: %d sessions, of which %d listen", name, all, listening)
		}
	}
}
