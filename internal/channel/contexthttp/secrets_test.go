package contexthttp_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/internal/canon"
	"countersign/internal/contextturn/project"
)

// secretForms are secrets as a careless client writes them into a label, each with the
// part that must be found nowhere.
func secretForms(token string) map[string]string {
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwbGFudGVkLWp3dCJ9.c2lnbmF0dXJlLW9mLXRoZS1wbGFudGVk"
	return map[string]string{
		"Bearer planted-bearer-value-0123456789abcdef": "planted-bearer-value",
		"a token " + token: token,
		"a session " + jwt: "eyJzdWIiOiJwbGFudGVkLWp3dCJ9",
		"-----BEGIN PRIVATE KEY-----\nMIIBVgIBADANBgkqhkiG9w0BAQEFAASCAUAwggE8\n-----END PRIVATE KEY-----": "MIIBVgIBADANBgkqhkiG9w0BAQEFAASCAUAwggE8",
		"card 4111 1111 1111 1111": "4111 1111 1111 1111", "write to planted.person@example.com": "planted.person@example.com",
	}
}

// S-017 S-025 S-055 S-062: a token is nowhere but in the answer that issued it, and
// a secret that a client plants in a label, in a refused body or as tool input is in no
// log, no answer, no evidence and not in the file of the ledger. Not even a hash of it is.
func TestSecretsLeaveNoTrace(t *testing.T) {
	h := newHouse(t, openSQLite)
	token := h.required()
	tokens := []string{token, h.client(project.Custom, project.Production, project.Absent)}
	var answers, exports strings.Builder
	note := func(a answer) answer {
		answers.Write(a.body)
		for name, values := range a.header {
			answers.WriteString(name + ": " + strings.Join(values, " ") + "\n")
		}
		return a
	}
	secrets := map[string]bool{token: true, tokens[1]: true, planted: true}
	var turns []string
	for text, secret := range secretForms(tokens[1]) {
		secrets[secret] = true
		id := note(h.ask(token, "/turns/start", map[string]any{"clientRef": text}).is(t, "start", "201")).text("turn", "id")
		turns = append(turns, id)
		note(h.ask(token, "/compass", task, "X-SEIF-Turn-Id", id).is(t, "compass", "200"))
		// Refused, with the secret in every place that there is.
		for path, body := range map[string]any{
			"/turns/" + id + "/observations": map[string]any{"event": "pre_tool_use", "tool": "mcp__seif__find", "toolUseId": "t", "tool_input": map[string]any{"password": text}},
			"/turns/" + id + "/complete":     map[string]any{"status": text, "note": text},
			"/turns/start":                   map[string]any{"clientRef": strings.Repeat("x", 600) + text},
			"/compass":                       `{"task":"` + planted + `","task":"` + planted + `"}`,
			"/find":                          map[string]any{"query": planted + strings.Repeat("x", 600)},
			"/resolve":                       map[string]any{"ref": []string{planted}},
		} {
			if a := note(h.ask(token, path, body, "X-SEIF-Turn-Id", id)); a.status != 400 {
				t.Errorf("%s: %s", path, a)
			}
		}
		for _, headers := range [][]string{
			{"X-SEIF-Turn-Id", planted}, {"X-SEIF-Profile", planted}, {"Authorization", "Bearer " + planted + strings.Repeat("A", 10)}, {"Authorization", "Basic " + planted}, {"Content-Type", planted},
		} {
			if a := note(h.ask(token, "/compass", task, headers...)); a.status < 400 || a.status >= 500 {
				t.Errorf("%v: %s", headers, a)
			}
		}
		note(h.ask(token, "/turns/"+id+"/observations", observation, "Idempotency-Key", planted+text[:1]+"!").is(t, "a bad key", "400 idempotency_key_invalid"))
		note(h.ask(token, "/turns/"+id+"/complete", map[string]any{"status": "failed", "note": text}).is(t, "complete", "200"))
	}
	// The fault of the server, whose cause is logged.
	h.failAt(func(string) error { return os.ErrDeadlineExceeded })
	if a := note(h.ask(token, "/turns/start", map[string]any{"clientRef": planted})); a.status != http.StatusServiceUnavailable {
		t.Errorf("without a ledger: %s", a)
	}
	h.failAt(nil)
	for _, id := range turns {
		var b bytes.Buffer
		must(t, h.p.Export(t.Context(), h.project, "contextturn", id, &b))
		exports.Write(b.Bytes())
	}
	if n := strings.Count(exports.String(), "[redacted:"); n < 2*len(turns) {
		t.Errorf("%d labels were redacted, want two of each of %d turns", n, len(turns))
	}
	h.p.Close()
	must(t, h.ledger.Close())
	var file strings.Builder
	names, err := filepath.Glob(h.path + "*")
	must(t, err)
	for _, name := range names {
		raw, err := os.ReadFile(name)
		must(t, err)
		file.Write(raw)
	}
	places := map[string]string{"answers": answers.String(), "evidence": exports.String(), "the log": h.log.String(), "the ledger's file": file.String()}
	for what, text := range places {
		if len(text) == 0 {
			t.Errorf("%s: nothing to look at", what)
		}
		for secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s: has %.24q", what, secret)
			}
			if secret == token || secret == tokens[1] {
				continue // of these the hash is kept, to recognize them
			}
			hash := canon.Hash([]byte(secret))
			raw, err := hex.DecodeString(hash)
			must(t, err)
			for _, form := range []string{hash, string(raw), base64.RawURLEncoding.EncodeToString(raw)} {
				if strings.Contains(text, form) {
					t.Errorf("%s: has a hash of %.24q", what, secret)
				}
			}
		}
	}
	// Control: what is kept is found in the same way.
	if !strings.Contains(places["the ledger's file"], "When are refunds paid?") || !strings.Contains(places["the ledger's file"], canon.Hash([]byte(token))) || !strings.Contains(places["evidence"], "When are refunds paid?") {
		t.Error("control: what was to be stored is not found")
	}
}
