package reporter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/contextclient/outbox"
)

const (
	turnID = "trn_0198a0b1c2d37e4f8a9b0c1d2e3f4a5b"
	token  = "seif_" + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// program is the hook, built once without the race detector: a thousand processes of it have to be affordable.
var program = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "hook")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "hook")
	if out, err := exec.Command("go", "build", "-o", path, "./testdata/hook").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(status)
}

// perimeter is the server's end of observations: it says what it is told to and keeps what it has accepted.
type perimeter struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
	accepted map[string]map[string]string // by key
	says     func(n int) int              // status of the n-th request, from 1
	before   func()                       // an answer
}

func newPerimeter(t *testing.T) *perimeter {
	t.Helper()
	p := &perimeter{accepted: map[string]map[string]string{}, says: func(int) int { return 201 }, before: func() {}}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *perimeter) serve(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var body map[string]string
	if err != nil || json.Unmarshal(raw, &body) != nil {
		http.Error(w, "unreadable", 400)
		return
	}
	p.before()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.bodies = append(p.requests, r), append(p.bodies, string(raw))
	status := p.says(len(p.requests))
	if status >= 400 {
		w.WriteHeader(status)
		io.WriteString(w, `{"reasonCode":"turn_closed","detail":"closed"}`)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if p.accepted[key] != nil {
		status = 200
	}
	p.accepted[key] = body
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"observation":{"id":"o","turnId":%q,"event":"pre_tool_use","tool":%q,"toolUseId":%q}}`, turnID, body["tool"], body["toolUseId"])
}

// caller calls the hook as Claude Code does.
type caller struct {
	t    *testing.T
	box  string
	env  []string
	base string
}

func newCaller(t *testing.T, origin string) *caller {
	t.Helper()
	box := filepath.Join(t.TempDir(), "own", "outbox")
	base := origin + "/acme/support"
	return &caller{t, box, []string{"SEIF_BASE_URL=" + base, "SEIF_CLIENT_TOKEN=" + token, "SEIF_TURN_ID=" + turnID, "SEIF_OUTBOX=" + box}, base}
}

func input(tool, use string) string {
	return `{"session_id":"s-1","transcript_path":"/home/x/private","cwd":"/srv","hook_event_name":"PreToolUse","tool_name":"` + tool +
		`","tool_input":{"task":"CUSTOMER-DATA","nested":[{"tool_name":"mcp__seif__other","tool_use_id":"other"}]},"tool_use_id":"` + use + `"}`
}

// call returns what the hook complains of. It must end with status 0 and print nothing.
func (c *caller) call(in string) string {
	c.t.Helper()
	path, err := program()
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second) // without it a hook without bounds would hang the test
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	cmd.Env, cmd.Stdin = c.env, strings.NewReader(in)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil || out.Len() > 0 || strings.Count(complaint.String(), "\n") > 1 {
		c.t.Errorf("%v, stdout %q, stderr %q", err, &out, &complaint)
	}
	return complaint.String()
}

// waiting is what the outbox holds.
func (c *caller) waiting() []outbox.Entry {
	c.t.Helper()
	box, err := outbox.Open(c.box, outbox.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := box.State(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return s.Entries
}

// The hook reports event, tool and id under a key of its own, and nothing else of what it was told.
// S-008: a pre-tool intention is reported by the hook before the tool runs.
// S-050: the event is pre_tool_use.
// S-051: only tools of mcp__seif__ are reported.
// S-052: the id is that of the runtime.
// S-055: tool input leaves the hook in no way.
func TestHookReports(t *testing.T) {
	t.Parallel()
	p := newPerimeter(t)
	c := newCaller(t, p.URL)
	for _, use := range []string{"toolu_01", "toolu_02"} {
		if said := c.call(input("mcp__seif__compass", use)); said != "" {
			t.Errorf("it complains: %s", said)
		}
	}
	for _, tool := range []string{"Bash", "mcp__other__compass", "mcp__seif_compass", ""} {
		if said := c.call(input(tool, "toolu_03")); said != "" {
			t.Errorf("%q: %s", tool, said)
		}
	}
	want := []string{
		`{"event":"pre_tool_use","tool":"mcp__seif__compass","toolUseId":"toolu_01"}`,
		`{"event":"pre_tool_use","tool":"mcp__seif__compass","toolUseId":"toolu_02"}`,
	}
	if !slices.Equal(p.bodies, want) {
		t.Fatalf("sent %q, want %q", p.bodies, want)
	}
	for _, r := range p.requests {
		if r.Method != "POST" || r.URL.String() != "/acme/support/context/turns/"+turnID+"/observations" ||
			r.Header.Get("Authorization") != "Bearer "+token || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
	}
	if len(p.accepted) != 2 || len(c.waiting()) != 0 {
		t.Errorf("%d keys, %d wait", len(p.accepted), len(c.waiting()))
	}
}

// What cannot be delivered waits in the file, with no input of the tool and no token, and a later hook
// delivers it under its first key.
// S-086: a network failure of an observation goes to a bounded outbox and keeps its key.
func TestHookKeeps(t *testing.T) {
	t.Parallel()
	p := newPerimeter(t)
	c := newCaller(t, p.URL)
	p.says = func(n int) int { return []int{503, 201, 201}[n-1] }
	if said := c.call(input("mcp__seif__find", "toolu_01")); !strings.Contains(said, "waits in the outbox") {
		t.Errorf("%q", said)
	}
	raw, err := os.ReadFile(c.box)
	if err != nil || !bytes.Contains(raw, []byte("toolu_01")) {
		t.Fatalf("%s, %v", raw, err)
	}
	for _, secret := range []string{"CUSTOMER-DATA", "other", "s-1", "/home/x", token, token[5:]} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("the file holds %q", secret)
		}
	}
	first := p.requests[0].Header.Get("Idempotency-Key")
	due := c.waiting()[0].NotBefore
	<-time.After(time.Until(due)) // half a second at most: the backoff is the protocol's
	if said := c.call(input("mcp__seif__find", "toolu_02")); said != "" {
		t.Errorf("%q", said)
	}
	if len(c.waiting()) != 0 || p.accepted[first]["toolUseId"] != "toolu_01" || len(p.accepted) != 2 {
		t.Errorf("%d wait, accepted %v, the first key was %s", len(c.waiting()), p.accepted, first)
	}
}

// A server that never answers does not keep the caller: this one answers only when the hook has ended. A hook
// without its bound would never end. The time is measured with a large allowance for a busy machine.
func TestHookWithHangingServer(t *testing.T) {
	t.Parallel()
	p := newPerimeter(t)
	ended := make(chan struct{})
	p.before = func() { <-ended }
	c := newCaller(t, p.URL)
	began := time.Now()
	said := c.call(input("mcp__seif__find", "toolu_01"))
	took := time.Since(began)
	close(ended)
	if len(c.waiting()) != 1 || !strings.Contains(said, "waits in the outbox") {
		t.Errorf("%q", said)
	}
	if took > 5*time.Second { // this only tells a bound from none
		t.Errorf("it took %v", took)
	}
	t.Logf("with a hanging server the process took %v", took)
}

// Whatever is wrong the hook ends with status 0, prints nothing, and complains in one line that
// repeats nothing of the input.
// S-054: a value over its bound is not sent.
func TestHookNeverBlocks(t *testing.T) {
	t.Parallel()
	p := newPerimeter(t)
	good := input("mcp__seif__find", "toolu_01")
	for name, c := range map[string]struct {
		in     string
		change func(*caller)
		want   string
	}{
		"nothing":             {"", nil, "no JSON object"},
		"no JSON":             {"CUSTOMER-DATA", nil, "no JSON object"},
		"an array":            {`["CUSTOMER-DATA"]`, nil, "no JSON object"},
		"half":                {good[:len(good)-20], nil, "not JSON"},
		"deep":                {`{"a":` + strings.Repeat("[", 100_000), nil, "not JSON"},
		"a number as tool":    {`{"hook_event_name":"PreToolUse","tool_name":7}`, nil, "tool_name is no string"},
		"an object as tool":   {`{"hook_event_name":"PreToolUse","tool_name":{"a":1}}`, nil, "tool_name is no string"},
		"twice":               {`{"tool_name":"mcp__seif__a","tool_name":"mcp__seif__b"}`, nil, "there twice"},
		"another event":       {strings.Replace(good, "PreToolUse", "PostToolUse", 1), nil, "PreToolUse only"},
		"no event":            {strings.Replace(good, "hook_event_name", "x", 1), nil, "PreToolUse only"},
		"no id":               {strings.Replace(good, `"tool_use_id":"toolu_01"`, `"x":1`, 1), nil, "not of the form"},
		"an id with a space":  {input("mcp__seif__find", "CUSTOMER DATA"), nil, "not of the form"},
		"a long id":           {input("mcp__seif__find", strings.Repeat("i", 129)), nil, "not of the form"},
		"a tool with a dash":  {input("mcp__seif__report-gap", "toolu_01"), nil, "not of the form"},
		"a card as an id":     {input("mcp__seif__find", "4111-1111-1111-1111"), nil, "looks like a secret"},
		"a token as an id":    {input("mcp__seif__find", "seif_"+strings.Repeat("CUSTOMER-DATA", 4)[:43]), nil, "looks like a secret"},
		"a card as a tool":    {input("mcp__seif__4111111111111111", "toolu_01"), nil, "looks like a secret"},
		"a long tool":         {input("mcp__seif__"+strings.Repeat("t", 65), "toolu_01"), nil, "not of the form"},
		"no environment":      {good, func(c *caller) { c.env = nil }, "SEIF_TURN_ID"},
		"no turn":             {good, func(c *caller) { c.env[2] = "SEIF_TURN_ID=" }, "SEIF_TURN_ID"},
		"a turn like a path":  {good, func(c *caller) { c.env[2] = "SEIF_TURN_ID=trn_0/../x" }, "SEIF_TURN_ID"},
		"no base":             {good, func(c *caller) { c.env[0] = "" }, "SEIF_BASE_URL"},
		"no TLS":              {good, func(c *caller) { c.env[0] = "SEIF_BASE_URL=http://192.0.2.1/acme/support" }, "https"},
		"no token":            {good, func(c *caller) { c.env[1] = "" }, "SEIF_CLIENT_TOKEN"},
		"nobody listens":      {good, func(c *caller) { c.env[0] = "SEIF_BASE_URL=http://127.0.0.1:1/acme/support" }, "waits in the outbox"},
		"no outbox, no cache": {good, func(c *caller) { c.env[3] = "" }, "reported, without an outbox"},
		"a file of others": {good, func(c *caller) {
			if err := errors.Join(os.MkdirAll(filepath.Dir(c.box), 0o700), os.WriteFile(c.box, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}, "reported, without an outbox"},
		"no outbox, no server": {good, func(c *caller) {
			c.env[3], c.env[0] = "SEIF_OUTBOX=relative", "SEIF_BASE_URL=http://127.0.0.1:1/acme/support"
		}, notKept},
	} {
		caller := newCaller(t, p.URL)
		if c.change != nil {
			c.change(caller)
		}
		said := caller.call(c.in)
		if !strings.HasPrefix(said, "countersign hook claude-code: ") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, want %q", name, said, c.want)
		}
		if strings.Contains(said, "CUSTOMER") || strings.Contains(said, token) {
			t.Errorf("%s: it says %q", name, said)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.accepted) != 2 { // of the two that have no outbox
		t.Errorf("reported %v", p.accepted)
	}
}

// A refusal is final: it is said and nothing waits.
func TestHookIsRefused(t *testing.T) {
	t.Parallel()
	p := newPerimeter(t)
	p.says = func(int) int { return 409 }
	c := newCaller(t, p.URL)
	if said := c.call(input("mcp__seif__find", "toolu_01")); !strings.Contains(said, "not reported") || !strings.Contains(said, "409 turn_closed") || len(c.waiting()) != 0 {
		t.Errorf("%q, %d wait", said, len(c.waiting()))
	}
}

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("CUSTOMER-DATA") }

// A defect of the hook ends nobody's work, and an input that never ends is not waited for.
func TestHookSurvives(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	Hook(panics{}, &said, time.Now())
	if !strings.Contains(said.String(), "a defect of this program") || strings.Contains(said.String(), "CUSTOMER") {
		t.Errorf("%q", &said)
	}
	said.Reset()
	endless, end := io.Pipe()
	defer end.Close()
	Hook(endless, &said, time.Now())
	if !strings.Contains(said.String(), "the input did not end") {
		t.Errorf("%q", &said)
	}
}

// A thousand hook processes, up to sixty-four at a time, with a server that fails after the first six hundred requests: of
// each report it is known afterwards that it was delivered, that it waits, or that its own hook has
// said that it is lost. At most a hundred wait, and none was recorded twice.
func TestThousandHooks(t *testing.T) {
	const processes, together, answered = 1000, 64, 600
	p := newPerimeter(t)
	p.says = func(n int) int {
		if n > answered {
			return 503
		}
		return 201
	}
	c := newCaller(t, p.URL)
	if _, err := program(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	said := make([]string, processes)
	places := make(chan struct{}, together)
	var all sync.WaitGroup
	for i := range processes {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			said[i] = c.call(input("mcp__seif__find", fmt.Sprintf("toolu_%d", i)))
		})
	}
	all.Wait()
	took := time.Since(began)
	at := map[string]string{}
	for _, body := range p.accepted {
		if at[body["toolUseId"]] != "" {
			t.Errorf("%s is recorded twice", body["toolUseId"])
		}
		at[body["toolUseId"]] = "delivered"
	}
	waiting := c.waiting()
	for _, e := range waiting {
		var body map[string]string
		if err := json.Unmarshal(e.Body, &body); err != nil {
			t.Fatal(err)
		}
		if at[body["toolUseId"]] == "" {
			at[body["toolUseId"]] = "waiting"
		}
	}
	counts := map[string]int{}
	for i, line := range said {
		use := fmt.Sprintf("toolu_%d", i)
		told := strings.Contains(line, "the report "+notKept) || strings.Contains(line, "the report "+unknown) || strings.Contains(line, "not reported")
		if at[use] == "" && told {
			at[use] = "told"
		}
		counts[at[use]]++
		if at[use] == "" {
			t.Errorf("report %d is gone, and its hook said %q", i, line)
		}
	}
	if len(waiting) > outbox.MaxEntries || counts["delivered"] == 0 || counts["told"] == 0 {
		t.Errorf("%d wait; %v", len(waiting), counts)
	}
	t.Logf("%v in %v", counts, took)
}
