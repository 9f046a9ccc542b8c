package console_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// patience is how long a page may take to become what is expected.
const patience = time.Minute

// chromium is the one Chromium that all tests share; each has a profile of its own in it.
var chromium context.Context

func TestMain(m *testing.M) { os.Exit(withBrowser(m)) }

func withBrowser(m *testing.M) int {
	if _, err := exec.LookPath("chromium"); err != nil {
		fmt.Fprintln(os.Stderr, "the tests of the pages need Chromium; on Debian: apt-get install chromium; make test does it by itself")
		return 1
	}
	if _, err := os.Stat(axeFile); err != nil {
		fmt.Fprintln(os.Stderr, "the tests of the pages need axe-core: npm ci --prefix tools; make test does it by itself")
		return 1
	}
	home, err := os.MkdirTemp("", "countersign-chromium-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(home)
	root, stop, err := startBrowser(home)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Chromium does not start:", err)
		return 1
	}
	defer stop()
	chromium = root
	return m.Run()
}

// startBrowser starts Chromium with a profile in a folder.
func startBrowser(home string, more ...chromedp.ExecAllocatorOption) (browser context.Context, stop func(), err error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, nil, err
	}
	allocator, free := chromedp.NewExecAllocator(context.Background(), append([]chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.UserDataDir(home),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, // the machine's root has no sandbox, and no page is a stranger's
		chromedp.NoInheritEnv, chromedp.Env("HOME="+home, "PATH="+os.Getenv("PATH")),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-features", "AutofillServerCommunication,OptimizationHints,MediaRouter,PasswordManagerOnboarding"),
		chromedp.Flag("disable-dev-shm-usage", true),
	}, more...)...)
	root, end := chromedp.NewContext(allocator)
	stop = func() { end(); free() }
	if err := chromedp.Do(root); err != nil { // without a timeout, which would be the browser's
		stop()
		return nil, nil, err
	}
	return root, stop, nil
}

// tab is one person's browser: cookies of its own, a console that must stay empty.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex
	said    []string // on the console, remarks apart: any of it is a failure
	expects []string // parts of what may be said
}

func newTab(t *testing.T) *tab {
	t.Helper()
	return newTabIn(t, chromium, chromedp.WithNewBrowserContext())
}

// another is one more tab of the same person.
func (b *tab) another() *tab {
	b.t.Helper()
	return newTabIn(b.t, b.ctx)
}

func newTabIn(t *testing.T, browser context.Context, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(browser, options...)
	b := &tab{t: t, ctx: ctx}
	must(t, chromedp.Do(ctx))
	messages := chromedp.Console(ctx)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleDebug || m.Type == chromedp.ConsoleInfo {
				continue // the browser's own remarks, which depend on how fast somebody types
			}
			b.mu.Lock()
			b.said = append(b.said, m.String()+" "+m.URL)
			b.mu.Unlock()
		}
	}()
	_, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	must(t, err)
	t.Cleanup(func() {
		stop()
		<-read
		for _, line := range b.said {
			if !b.expected(line) {
				t.Errorf("the browser's console says: %s", line)
			}
		}
	})
	return b
}

// expect allows something on the console: browsers report every refused request there.
func (b *tab) expect(part string) { b.expects = append(b.expects, part) }

func (b *tab) expected(line string) bool {
	for _, part := range b.expects {
		if strings.Contains(line, part) {
			return true
		}
	}
	return false
}

// do runs steps, or fails the test when they take too long. A step whose element was
// looked up in a document that has just been replaced is begun again.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for _, step := range steps {
		err := chromedp.Do(ctx, step)
		for err != nil && strings.Contains(err.Error(), "Could not find node") && ctx.Err() == nil {
			err = chromedp.Do(ctx, step)
		}
		if err != nil {
			b.t.Fatalf("%v\n%.1500s", err, b.text("main"))
		}
	}
}

// eval evaluates an expression, a promise included.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true. It survives a navigation.
func (b *tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		// The condition is asked for inside the page, at every change of it.
		found, err := chromedp.Run(ctx, chromedp.Poll[bool]("Boolean("+expression+")", chromedp.WithPollingInterval(25*time.Millisecond), chromedp.WithPollingTimeout(0)))
		if err == nil && found {
			return
		}
		if ctx.Err() != nil {
			b.t.Fatalf("did not become true: %s\nat %s\n%.1500s", expression, eval[string](b, "location.href"), b.text("#said")+b.text("main"))
		}
	}
}

// text is what an element shows.
func (b *tab) text(selector string) string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector)))
	if err != nil {
		return err.Error()
	}
	return v
}

func (b *tab) has(selector string) bool {
	b.t.Helper()
	return eval[bool](b, fmt.Sprintf("document.querySelector(%q) !== null", selector))
}

// open goes to a path and waits until the page is live, or ready.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	b.until("document.readyState === 'complete'")
}

// shows waits until an element shows a text.
func (b *tab) shows(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("(document.querySelector(%q)?.innerText ?? '').includes(%q)", selector, text))
}

// press types a key where the focus is.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// tabTo presses Tab until the focus is where it is wanted, as somebody without a
// mouse would.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 200 {
		if eval[bool](b, fmt.Sprintf("document.activeElement?.matches(%q) ?? false", selector)) {
			return
		}
		b.press("\t")
	}
	b.t.Fatalf("Tab does not lead to %s", selector)
}

// look is how a page is seen.
type look struct {
	Scheme string
	Width  int64
}

var looks = []look{{"light", 360}, {"light", 1280}, {"dark", 360}, {"dark", 1280}}

func (b *tab) see(l look) {
	b.t.Helper()
	defer b.until(fmt.Sprintf("innerWidth === %d && matchMedia('(prefers-color-scheme: %s)').matches", l.Width, l.Scheme))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: l.Scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	must(b.t, err)
	_, err = chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: l.Width, Height: 800, DeviceScaleFactor: 1, Mobile: l.Width < 600,
	})
	must(b.t, err)
}

// pictures names the folder in which pictures of what is shown are kept, for whoever works
// on the pages.
const pictures = "COUNTERSIGN_PICTURES"

// picture keeps what is shown.
func (b *tab) picture(name string) {
	b.t.Helper()
	folder := os.Getenv(pictures)
	if folder == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	must(b.t, err)
	must(b.t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600))
}
