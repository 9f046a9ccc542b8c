package replicas_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/dispatch"
	"countersign/internal/replica"
)

// apart is how far the clock of one replica is from the next one's (20 s).
const apart = 20 * time.Second

// skews are the clocks of the three replicas.
var skews = []time.Duration{-apart, 0, apart}

// Design 1, 8: on PostgreSQL time comes from the database. The clocks of three processes
// are 20 s apart, wherever the product's own code reads them (see skewedProgram), and
// nothing changes: what one permits is good at the next, no dispatch permit is of the
// future or over, sessions, tokens and streams go on, and timestamps are of one clock and
// never decrease. Control: with the same difference in the clock by which they decide the
// same requests fail.
func TestClocksApart(t *testing.T) {
	program, proofs := skewedProgram(t), t.TempDir()
	var options []replica.Options
	for i, skew := range skews {
		o := patient
		o.Program = program
		o.Env = []string{fmt.Sprintf("%s=%d", skewVariable, int(skew.Seconds())), proofVariable + "=" + filepath.Join(proofs, fmt.Sprint(i))}
		options = append(options, o)
	}
	h := newHouse(t, options...)
	permits, begun := h.noted(), h.databaseTime()
	var chains []string
	for _, f := range []flow{
		direct("merchant", "hosted", "exact"), direct("bank", "local", "bounded"), managedRun("merchant", "hosted", "bounded", "step"),
		{"the scripted agent", scriptedPurchase}, {"a guardian policy", guardianPolicy}, {"clarify and retry", clarifyAndRetry}, {"revoke", revoked},
	} {
		chains = append(chains, f.live(h)...)
	}
	// A stream of a replica that is behind shows what one that is ahead commits.
	run := h.at(2).create("broker", "local", "exact")
	behind := h.watch(run, nil, 0)
	h.at(2).agent(run).cycle("broker.account")
	same(t, behind.reaches(len(told(t, h.exported(chain(run))))), told(t, h.exported(chain(run))))
	behind.stop()
	ended := h.databaseTime()
	var last time.Time
	for _, path := range chains {
		var before time.Time
		for _, e := range h.export(path) {
			at, err := time.Parse(time.RFC3339, e.Timestamp)
			must(t, err)
			if at.Before(before) || at.Before(begun) || at.After(ended) {
				t.Fatalf("%s: event %d is of %s, after one of %s; the database's clock went from %s to %s", path, e.Sequence, at, before, begun, ended)
			}
			before, last = at, at
		}
	}
	h.shares()
	if len(permits()) < 10 {
		t.Errorf("the shop was sent %d dispatch permits, want more", len(permits()))
	}
	for _, p := range permits() {
		if p.Iat < begun.Unix() || p.Iat > ended.Unix() || p.Exp <= p.Iat || p.Exp > p.Iat+30 {
			t.Errorf("a dispatch permit is good from %d to %d; by the database it was %d to %d", p.Iat, p.Exp, begun.Unix(), ended.Unix())
		}
	}
	for i := range h.replicas { // what is told about now is told by one clock
		one := h.at(i)
		for range 5 {
			one.trySecret("wrong").is(t, "a wrong secret", 401, "AUTHENTICATION_REQUIRED")
		}
		after, err := strconv.Atoi(one.trySecret("wrong").is(t, "the sixth", 429, "RATE_LIMITED").header.Get("Retry-After"))
		if err != nil || after < 1 || after > 60 {
			t.Errorf("after five wrong secrets in a minute %s says to wait %d s, %v", h.replicas[i].Name, after, err)
		}
		first, second := h.databaseTime(), time.Time{}
		for _, told := range []answer{one.owner("GET", "/hosting", nil), one.owner("GET", "/runs?limit=1", nil)} {
			for _, way := range [][]any{{"checkedAt"}, {"runs", 0, "now"}} {
				text := told.text(way...)
				if text == "" {
					continue
				}
				at, err := time.Parse(time.RFC3339, text)
				must(t, err)
				if second = h.databaseTime(); at.Before(first) || at.After(second) {
					t.Errorf("%s says at %v that it is %s; by the database it is from %s to %s", h.replicas[i].Name, way, at, first, second)
				}
			}
		}
		if second.IsZero() {
			t.Errorf("%s tells no time", h.replicas[i].Name)
		}
		if last.After(h.databaseTime()) {
			t.Errorf("the newest event is of the future")
		}
	}
	// The processes' clocks were read, and were as far apart as this test wants them.
	for i, skew := range skews {
		text, err := os.ReadFile(filepath.Join(proofs, fmt.Sprint(i)))
		must(t, err)
		if want := skew.String(); string(text) != want {
			t.Errorf("the clock of replica %d is %s off, want %s", i, text, want)
		}
	}
}

// databaseTime is the time by which is decided, cut as it is in evidence.
func (h *house) databaseTime() (now time.Time) {
	h.t.Helper()
	conn := h.sql()
	defer conn.Close(h.t.Context())
	must(h.t, conn.QueryRow(h.t.Context(), `SELECT date_trunc('milliseconds', clock_timestamp())`).Scan(&now))
	return now
}

// times are those of a dispatch permit, in Unix seconds.
type times struct{ Iat, Exp int64 }

// noted is a shop that notes the times of every dispatch permit that it is sent.
func (h *house) noted() (permits func() []times) {
	var mu sync.Mutex
	var list []times
	h.shop.Around(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var p times
			if parts := strings.Split(r.Header.Get(dispatch.PermitHeader), "."); len(parts) == 3 {
				raw, err := base64.RawURLEncoding.DecodeString(parts[1])
				if err == nil {
					err = json.Unmarshal(raw, &p)
				}
				if err != nil {
					h.t.Error(err)
				}
				mu.Lock()
				list = append(list, p)
				mu.Unlock()
			}
			next.ServeHTTP(w, r)
		})
	})
	return func() []times {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

// The control of TestClocksApart: clocks by which replicas decide, 20 s apart. The permit
// of a replica that is behind is over before it is used at one that is ahead.
func TestClocksApartControl(t *testing.T) {
	var options []replica.Options
	for _, skew := range skews {
		o := patient
		o.Offset = skew
		options = append(options, o)
	}
	h := newHouse(t, options...)
	run := h.at(0).create("merchant", "local", "bounded")
	a := h.at(0).agent(run)
	p := a.allow("merchant.catalog")
	a.at(2).ask("POST", "/operation", p.body, "X-Step-Permit", p.token, "X-Idempotency-Key", "the-key-of-the-control").
		is(t, "a permit of 20 s behind, used 20 s ahead", 403, "PERMIT_EXPIRED")
	hosted := map[string]any{}
	for name, value := range h.body("merchant", "hosted", "bounded") {
		hosted[name] = value
	}
	if got := h.at(2).owner("POST", "/runs", hosted); got.status == 201 {
		t.Error("a store takes a dispatch permit of 20 s ahead")
	}
}

const (
	skewVariable  = "COUNTERSIGN_TEST_SKEW"
	proofVariable = "COUNTERSIGN_TEST_SKEW_PROOF"
)

// skewedSource stands in for time.Now: its wall clock is off, its monotonic one is not, as
// on a machine whose clock is wrong.
const skewedSource = `package skewed

import (
	"os"
	"strconv"
	"sync"
	"time"
	"unsafe"
)

var seconds, _ = strconv.Atoi(os.Getenv("` + skewVariable + `"))

var prove sync.Once

func Now() time.Time {
	t := time.Now()
	off := t
	*(*uint64)(unsafe.Pointer(&off)) += uint64(int64(seconds)) << 30
	if off.Sub(t) != 0 || off.Round(0).Sub(t.Round(0)) != time.Duration(seconds)*time.Second {
		panic("skewed: time.Time is not what it was")
	}
	prove.Do(func() {
		if err := os.WriteFile(os.Getenv("` + proofVariable + `"), []byte(off.Round(0).Sub(t.Round(0)).String()), 0o600); err != nil {
			panic(err)
		}
	})
	return off
}
`

// skewedProgram builds this test's own program with another clock: in every file of the
// product time.Now is replaced. Only the packages of this module are compiled for it; what
// others read off the clock (deadlines, the Date header, the times of logs) decides nothing.
func skewedProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	module, err := filepath.Abs("../..")
	must(t, err)
	overlay := map[string]string{}
	replace := func(path, text string) {
		file := filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay)))
		must(t, os.WriteFile(file, []byte(text), 0o600))
		overlay[path] = file
	}
	for _, pkg := range productPackages(t) {
		files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
		must(t, err)
		for _, path := range files {
			text, err := os.ReadFile(path)
			must(t, err)
			if strings.HasSuffix(path, "_test.go") || !bytes.Contains(text, []byte("time.Now")) {
				continue
			}
			replace(path, strings.Replace(strings.ReplaceAll(string(text), "time.Now", "skewed.Now"), "import (", "import (\n\t\"countersign/internal/skewed\"", 1)+
				"\nvar _, _ = time.Second, skewed.Now\n")
		}
	}
	if len(overlay) < 10 {
		t.Fatalf("only %d files read the clock", len(overlay))
	}
	replace(filepath.Join(module, "internal", "skewed", "skewed.go"), skewedSource)
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	must(t, err)
	list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "program")
	must(t, os.WriteFile(list, raw, 0o600))
	args := append([]string{"test", "-c", "-vet=off", "-overlay", list, "-o", program}, buildFlags(t)...)
	build := exec.CommandContext(t.Context(), "go", append(args, ".")...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	return program
}

// buildFlags make go build as this program was built: with the race detector or without, and
// with the compiler's options, so that nothing outside the product is compiled again.
func buildFlags(t *testing.T) (flags []string) {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("this program does not say how it was built")
	}
	for _, setting := range info.Settings {
		if setting.Key == "-race" || setting.Key == "-gcflags" {
			flags = append(flags, setting.Key+"="+setting.Value)
		}
	}
	return flags
}

// productPackages are the folders of this module's packages that a server consists of.
func productPackages(t *testing.T) (folders []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{if .Module}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}`, "countersign/internal/app").Output()
	must(t, err)
	return strings.Fields(string(out))
}
