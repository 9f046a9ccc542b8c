package narrate_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"countersign/internal/narrate"
)

const hostile = `\u001b[2Ja\u202eb\u0007\n`

// What others write (names, tasks, labels, answers) steers no terminal and breaks no table.
func TestContextSteersNothing(t *testing.T) {
	now := time.Date(2026, 1, 15, 9, 0, 0, 0, time.UTC)
	list := func(raw string) []json.RawMessage {
		return []json.RawMessage{json.RawMessage(strings.ReplaceAll(raw, "HOSTILE", hostile))}
	}
	for name, write := range map[string]func(io.Writer) error{
		"projects": func(w io.Writer) error {
			p, err := narrate.ParseProjects(list(`{"id":"HOSTILE","handle":"HOSTILE","slug":"HOSTILE","head":"HOSTILE","environments":{"production":{"selected":"build","build":{"number":1,"digest":"HOSTILE"}}}}`))
			if err != nil {
				return err
			}
			if err := narrate.Projects(w, p, now); err != nil {
				return err
			}
			return narrate.ShowProject(w, p[0], "http://localhost:8420", now)
		},
		"clients": func(w io.Writer) error {
			c, err := narrate.ParseClients(list(`{"id":"HOSTILE","name":"HOSTILE","kind":"HOSTILE","revokedAt":"HOSTILE"}`))
			if err != nil {
				return err
			}
			io.WriteString(w, c[0].Revoked())
			return narrate.Clients(w, c, now)
		},
		"builds": func(w io.Writer) error {
			b, err := narrate.ParseBuild(list(`{"environment":"HOSTILE","digest":"HOSTILE"}`)[0])
			if err != nil {
				return err
			}
			return narrate.Published(w, b)
		},
		"turns": func(w io.Writer) error {
			turns, err := narrate.ParseContextTurns(list(`{"id":"HOSTILE","status":"HOSTILE","clientName":"HOSTILE","note":"HOSTILE","clientRef":"HOSTILE","runId":"HOSTILE","completedAt":"HOSTILE","reported":"HOSTILE",
				"lines":[{"sequence":1,"text":"HOSTILE","evidenceClass":"HOSTILE"},{"sequence":2,"type":"HOSTILE"}]}`))
			if err != nil {
				return err
			}
			if err := narrate.ContextTurns(w, turns, now); err != nil {
				return err
			}
			return narrate.ShowContextTurn(w, turns[0], nil)
		},
		"interactions": func(w io.Writer) error {
			i, err := narrate.ParseInteractions(list(`{"id":"HOSTILE","tool":"HOSTILE","text":"HOSTILE","turnId":"HOSTILE","items":[{"ref":"HOSTILE"}],"build":{"digest":"HOSTILE"},"request":{"task":"HOSTILE"},"answer":{"text":"HOSTILE"},"notice":"HOSTILE"}`))
			if err != nil {
				return err
			}
			if err := narrate.Interactions(w, i, now); err != nil {
				return err
			}
			return narrate.ShowInteraction(w, i[0])
		},
		"gaps": func(w io.Writer) error {
			g, err := narrate.ParseGaps(list(`{"id":"HOSTILE","clientName":"HOSTILE","task":"HOSTILE","detail":"HOSTILE"}`))
			if err != nil {
				return err
			}
			if err := narrate.Gaps(w, g, now); err != nil {
				return err
			}
			return narrate.ShowGap(w, g[0])
		},
	} {
		var out strings.Builder
		if err := write(&out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.ContainsAny(out.String(), "\x1b\u202e\a") || !strings.Contains(out.String(), "[2Jab") {
			t.Errorf("%s: %q", name, out.String())
		}
	}
	for name, err := range map[string]error{
		"project": second(narrate.ParseProject([]byte(`{}`))), "build": second(narrate.ParseBuild([]byte(`[]`))), "turn": second(narrate.ParseContextTurn([]byte(`{"id":"x"}`))),
		"interaction": second(narrate.ParseInteraction([]byte(`<html>`))), "token": second(narrate.ParseIssued([]byte(`{"token":""}`))),
	} {
		if err == nil {
			t.Errorf("%s: what is none is taken", name)
		}
	}
	if _, err := narrate.ParseIssued([]byte(`{"token":"seif_secret\u0007"}`)); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an answer with a token: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// What a publication says is what a script reads: environment and number, digest, what the
// Build holds, what changes.
func TestPublished(t *testing.T) {
	for raw, want := range map[string]string{
		`{"environment":"staging","number":3,"digest":"d","documents":2,"cases":1,"bytes":9,"changes":{"added":1,"changed":0,"removed":4}}`: "staging Build 3: published\n  digest   d\n  holds    2 documents, 1 test case, 9 bytes\n  changes  1 added, 0 changed, 4 removed\n",
		`{"environment":"staging","number":0,"draft":true,"digest":"d","documents":1,"cases":0,"bytes":9}`:                                  "staging draft: saved\n  digest   d\n  holds    1 document, 0 test cases, 9 bytes\n",
		`{"environment":"production","number":1,"digest":"d","unchanged":true,"changes":{"added":0}}`:                                       "production Build 1: unchanged: its environment hands out exactly this already\n  digest   d\n  holds    0 documents, 0 test cases, 0 bytes\n",
	} {
		b, err := narrate.ParseBuild([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := narrate.Published(&out, b); err != nil || out.String() != want {
			t.Errorf("%s\n%q, want\n%q, %v", raw, out.String(), want, err)
		}
	}
}

// A turn is shown with what was reported as reported, and with the sentences that it is
// given.
func TestShowContextTurn(t *testing.T) {
	turn, err := narrate.ParseContextTurn([]byte(`{"id":"trn_1","status":"REPORTED_FAILED","sentence":"It failed.","client":"cli_1","clientName":"Gateway","profile":"support","environment":"production","clientRef":"job 7",
		"openedAt":"2026-01-15T09:00:00.000Z","expiresAt":"2026-01-15T09:15:00.000Z","completedAt":"2026-01-15T09:01:00.000Z","reported":"failed","deliveries":1,"contextCalls":2,"head":"2:ab",
		"lines":[{"sequence":1,"recordedAt":"2026-01-15T09:00:00.000Z","text":"A start.","evidenceClass":"observed"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	want := `Context turn trn_1
  status       REPORTED_FAILED. It failed.
  client       Gateway (cli_1), profile support, production
  clientRef    job 7 [after redaction]
  opened       2026-01-15T09:00:00.000Z, until 2026-01-15T09:15:00.000Z
  report       failed, at 2026-01-15T09:01:00.000Z
  counts       2 context calls, 1 delivery, 0 observations, 0 late reports
    1  09:00:00.000  A start. [observed]
  perimeter    What passed.
  not observed the rest.
  head         2:ab
`
	if err := narrate.ShowContextTurn(&out, turn, []narrate.Boundary{{"perimeter", "What passed."}, {"not observed", "Not observed: the rest."}}); err != nil || out.String() != want {
		t.Errorf("%s\nwant\n%s\n%v", out.String(), want, err)
	}
}

// A receipt of a bridge is all about its digest, and no profile is told that says nothing.
func TestShowInteraction(t *testing.T) {
	const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for raw, want := range map[string]string{
		`{"id":"brg_1","tool":"bridge","text":"A bridge reported file.write.","evidenceClass":"bridge-observed","recordedAt":"T","client":"cli_1","clientName":"Bridge","environment":"staging","profile":"","seen":{"kind":"file.write","digest":"` + digest + `"},"notice":"No more."}`: "Interaction brg_1\n  what         A bridge reported file.write. [bridge-observed]\n  recorded     T\n  client       Bridge (cli_1), staging\n  digest       " + digest + "\n  boundary     No more.\n",
		`{"id":"int_1","tool":"find","text":"find: nothing.","evidenceClass":"observed","recordedAt":"T","client":"cli_1","clientName":"Gateway","environment":"staging","profile":"support","build":{"digest":"` + digest + `"},"notice":"No more."}`:                                    "Interaction int_1\n  what         find: nothing. [observed]\n  recorded     T\n  client       Gateway (cli_1), profile support, staging\n  digest       " + digest + "\n  boundary     No more.\n",
	} {
		i, err := narrate.ParseInteraction([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := narrate.ShowInteraction(&out, i); err != nil || out.String() != want {
			t.Errorf("%s\nwant\n%s\n%v", out.String(), want, err)
		}
	}
}
