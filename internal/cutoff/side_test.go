package cutoff

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"countersign/contextclient"
	"countersign/contextclient/outbox"
)

const (
	task = "When are refunds paid?"
	tool = "mcp__seif__context_compass"
)

// outcome is what one call of a model has come to, as the application sees it.
type outcome struct {
	Turn     string   `json:"turn"` // empty: there was none
	Text     string   `json:"text"`
	Problems []string `json:"problems"` // what the call was told
	Queued   bool     `json:"queued"`   // the observation waits
	Answer   string   `json:"answer"`
	Told     []string `json:"told"`
	Waiting  int      `json:"waiting"` // reports in the outbox
}

// side is an application in one language. Every call is a process of its own, or as good as one:
// only what the outbox keeps outlives it.
type side interface {
	run(t *testing.T) outcome
	flush(t *testing.T) (waiting int) // twice: the second time there is nothing left to do
}

// inGo is the package contextclient with an outbox in a file.
type inGo struct{ base, token, file string }

func (s *inGo) open(t *testing.T) (*contextclient.Client, *outbox.Outbox, *[]string) {
	t.Helper()
	told := &[]string{}
	box, err := outbox.Open(s.file, outbox.Options{NoSync: true, Told: func(d outbox.Dropped) { *told = append(*told, d.String()) }})
	must(t, err)
	c, err := contextclient.New(contextclient.Config{
		BaseURL: s.base, Token: contextclient.Token(s.token), Outbox: box,
		HTTP: &http.Client{Timeout: time.Minute}, StartWithin: 2 * time.Minute, // the cuts end a request, not the time
		OnTrouble: func(err error) { *told = append(*told, err.Error()) },
		Wait:      func(ctx context.Context, _ time.Duration) error { return ctx.Err() }, // a start is repeated at once
	})
	must(t, err)
	return c, box, told
}

func (s *inGo) run(t *testing.T) (o outcome) {
	t.Helper()
	c, box, told := s.open(t)
	err := c.Run(t.Context(), task, func(ctx context.Context, at contextclient.Context) error {
		o.Text, o.Answer = at.Text, "the answer"
		for _, problem := range at.Problems {
			o.Problems = append(o.Problems, problem.Error())
		}
		if at.Turn == nil {
			return nil
		}
		o.Turn = at.Turn.ID
		_, err := at.Turn.Observe(ctx, tool, "use-1")
		o.Queued = errors.Is(err, contextclient.ErrQueued)
		if o.Queued {
			err = nil
		}
		return err
	})
	must(t, err)
	state, err := box.State(t.Context())
	must(t, err)
	o.Waiting, o.Told = len(state.Entries), *told
	return o
}

func (s *inGo) flush(t *testing.T) int {
	t.Helper()
	c, _, told := s.open(t)
	_, err := c.Flush(t.Context())
	must(t, err)
	f, err := c.Flush(t.Context())
	must(t, err)
	if len(*told) > 0 {
		t.Errorf("told %v", *told)
	}
	return f.Waiting
}

// inNode is the module in a process of Node, with an outbox in a file.
type inNode struct{ base, token, file string }

func (s *inNode) start(t *testing.T, into any, args ...string) {
	t.Helper()
	module, err := filepath.Abs("../../contextclient/js/contextclient.js")
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"testdata/node.mjs", module, s.file}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SEIF_BASE_URL=" + s.base, "SEIF_CLIENT_TOKEN=" + s.token}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, stderr.Bytes())
	}
	must(t, json.Unmarshal(out, into))
}

func (s *inNode) run(t *testing.T) (o outcome) {
	t.Helper()
	s.start(t, &o, "run", task)
	return o
}

func (s *inNode) flush(t *testing.T) int {
	t.Helper()
	var o outcome
	s.start(t, &o, "flush")
	if len(o.Told) > 0 {
		t.Errorf("told %v", o.Told)
	}
	return o.Waiting
}

// inChromium is the module in a page, with an outbox in its localStorage. A page is no place
// for a token: this one is a test of the module in another engine.
type inChromium struct {
	origin, base, token string
	tab                 context.Context
}

func newInChromium(t *testing.T, h *house, token string) *inChromium {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("this test needs Chromium; on Debian: apt-get install chromium; make test does it by itself")
	}
	home := t.TempDir()
	allocator, free := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.UserDataDir(home),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, // the machine's root has no sandbox, and no page is a stranger's
		chromedp.NoInheritEnv, chromedp.Env("HOME="+home, "PATH="+os.Getenv("PATH")),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true),
	)
	tab, stop := chromedp.NewContext(allocator)
	t.Cleanup(func() { stop(); free() })
	must(t, chromedp.Do(tab)) // without a timeout, which would be the browser's
	return &inChromium{h.proxy.URL, h.base(), token, tab}
}

// play loads the page anew and lets it play.
func (s *inChromium) play(t *testing.T, what string) (o outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(s.tab, time.Minute)
	defer cancel()
	must(t, chromedp.Do(ctx, chromedp.Navigate(s.origin+"/-/page.html")))
	config, err := json.Marshal(map[string]string{"baseUrl": s.base, "token": s.token})
	must(t, err)
	said, err := chromedp.Run(ctx, chromedp.Evaluate[string](
		`play("`+what+`", `+string(config)+`, "`+task+`").then(JSON.stringify)`, chromedp.EvalAwaitPromise))
	must(t, err)
	must(t, json.Unmarshal([]byte(said), &o))
	return o
}

func (s *inChromium) run(t *testing.T) outcome { t.Helper(); return s.play(t, "run") }

func (s *inChromium) flush(t *testing.T) int {
	t.Helper()
	o := s.play(t, "flush")
	if len(o.Told) > 0 {
		t.Errorf("told %v", o.Told)
	}
	return o.Waiting
}
