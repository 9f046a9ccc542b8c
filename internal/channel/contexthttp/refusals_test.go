package contexthttp

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign/internal/channel/edge"
	"countersign/internal/contextturn/project"
	"countersign/internal/contextturn/turn"
)

// TestRefusalsAreTold: a token or an address that does not fit is told to the operator with
// whose it is, as far as that is known, and without the token.
func TestRefusalsAreTold(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	api, err := edge.New(edge.Config{Origin: "http://localhost:8420", Title: "test", Version: "1", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{API: api}
	Register(api, &s.recorder)
	r := routeOf(t, startID)
	const of = "project=acme/support environment=production "
	for reason, c := range map[string]struct {
		spoil func(*try)
		want  string // behind the reason
	}{
		turn.HTTPSRequired:          {func(q *try) { q.peer = "10.0.0.1:4711" }, of + "remote=10.0.0.1\n"},
		turn.TokenMissing:           {func(q *try) { q.header.Del("Authorization") }, of + "remote=127.0.0.1\n"},
		turn.TokenInvalid:           {func(q *try) { q.header.Set("Authorization", "Bearer "+planted) }, of + "remote=127.0.0.1\n"},
		turn.ProjectNotFound:        {func(q *try) { q.handle = "other" }, "project=other/support environment=production client=cli_1 remote=127.0.0.1\n"},
		turn.NamedClientRequired:    {func(q *try) { q.recorder.caller.Client.Kind = project.Shared }, of + "client=cli_1 remote=127.0.0.1\n"},
		turn.TurnProtocolNotEnabled: {func(q *try) { q.recorder.caller.Client.TurnProtocol = project.Absent }, of + "client=cli_1 remote=127.0.0.1\n"},
		turn.EnvironmentMismatch:    {func(q *try) { q.environment = project.Staging }, "project=acme/support environment=staging client=cli_1 remote=127.0.0.1\n"},
		turn.ProfileMismatch:        {func(q *try) { q.header.Set(profileHeader, planted) }, of + "client=cli_1 remote=127.0.0.1\n"},
		turn.BodyInvalid:            {func(q *try) { q.raw = planted }, ""}, // the client's own affair
	} {
		log.Reset()
		q := good(r)
		c.spoil(q)
		if got, _ := q.send(t, s, r); !strings.HasSuffix(got, " "+reason) {
			t.Errorf("%s: %s", reason, got)
		}
		_, told, _ := strings.Cut(log.String(), "level=WARN msg=\"a request for context was refused\" reason="+reason+" ")
		if told != c.want || strings.Contains(log.String(), planted) || strings.Contains(log.String(), goodToken) {
			t.Errorf("%s: told %q, want %q", reason, log.String(), c.want)
		}
	}
}

// TestRefusalsAreToldSeldom: who knocks without end fills no log, and hides no other reason.
func TestRefusalsAreToldSeldom(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	told := newRefusals(slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Unix(1_800_000_000, 0)
	told.now = func() time.Time { return now }
	request := httptest.NewRequest("POST", "/acme/support/context/compass", nil)
	request.SetPathValue("handle", planted+"\n")
	request.SetPathValue("project", "support")
	for range 100 {
		told.tell(request, nil, edge.Refuse(turn.TokenInvalid, ""))
		told.tell(request, nil, edge.Refuse(turn.EnvironmentMismatch, ""))
		now = now.Add(20 * time.Millisecond)
	}
	for _, reason := range []string{turn.TokenInvalid, turn.EnvironmentMismatch} {
		if n := strings.Count(log.String(), "reason="+reason); n != 2 {
			t.Errorf("%s: %d lines in two seconds, want 2", reason, n)
		}
	}
	if strings.Contains(log.String(), planted) {
		t.Errorf("told what a client wrote: %q", log.String())
	}
}
