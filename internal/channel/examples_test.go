package channel_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write examples.json")

// exchange is one example of the document.
type exchange struct {
	Name     string            `json:"name"`
	Request  any               `json:"request,omitempty"`
	Status   int               `json:"status"`
	Headers  map[string]string `json:"headers,omitempty"`
	Response any               `json:"response,omitempty"`
}

// The examples of the document are what the server answers, with what differs
// from run to run replaced.
func TestExamples(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *config) {
		c.now = func() time.Time { return time.Date(2026, 1, 15, 9, 0, 0, 0, time.UTC) }
	})
	recorded := record(h)
	got, err := json.MarshalIndent(recorded, "", " ")
	must(t, err)
	got = append(got, '\n')
	if *update {
		must(t, os.WriteFile("examples.json", got, 0o644))
		return
	}
	want, err := os.ReadFile("examples.json")
	must(t, err)
	g, w := lines(string(got)), lines(string(want))
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("examples.json line %d is not what the server answers; record again: go test ./internal/channel -run TestExamples -update", i+1)
		}
	}
	for _, secret := range []string{h.secret, h.cookie, h.origin, h.store} {
		if strings.Contains(string(want), secret) {
			t.Errorf("examples.json holds what only one run has")
		}
	}
}

// record plays a purchase and keeps one exchange of each operation.
func record(h *house) map[string]exchange {
	n := newNormal(h)
	all := map[string]exchange{}
	keep := func(operation, name string, request any, a answer) answer {
		h.t.Helper()
		if a.status >= 300 {
			h.t.Fatalf("%s: %d %s", operation, a.status, a.body)
		}
		e := exchange{Name: name, Status: a.status}
		if request != nil {
			e.Request = n.value(decoded(h.t, mustJSON(request)))
		}
		switch kind := a.header.Get("Content-Type"); {
		case len(a.body) == 0: // what it says is in its cookie
			e.Headers = map[string]string{"Set-Cookie": a.header.Get("Set-Cookie")}
		case strings.HasPrefix(kind, "application/json"):
			e.Response = n.value(decoded(h.t, a.body))
		default:
			e.Response = n.text(string(a.body))
		}
		all[operation] = e
		h.clock.Move(time.Second)
		return a
	}
	secret := map[string]any{"secret": h.secret}
	keep("sign-in", "owner-secret", secret, h.do("POST", ownerPrefix+"/session", secret, h.asOwner("")))
	keep("get-status", "embedded", nil, h.owner("GET", "/status", nil))
	body := createBody("hosted")
	body["terms"] = map[string]any{"origin": h.store, "productId": "fieldwork-keyboard", "quantity": 1, "addressRef": "addr_home", "maxTotalCents": "13700"}
	c := &consumer{house: h}
	c.run = keep("create-run", "hosted-purchase", body, h.owner("POST", "/runs", body)).text("runId")
	c.token = keep("issue-session", "first-token", map[string]any{}, h.owner("POST", "/runs/"+c.run+"/session", map[string]any{})).text("token")
	keep("get-capabilities", "before-the-purchase", nil, c.ask("GET", "/capabilities", nil))
	keep("get-observation", "empty-cart", nil, c.ask("GET", "/observation", nil))
	for _, id := range purchase[:2] {
		c.cycle(id)
		h.clock.Move(time.Second)
	}
	report := c.report(purchase[2])
	turn := keep("submit-report", "add-to-cart", report, c.ask("POST", "/turns", report))
	keep("get-decision", "permit-outstanding", nil, c.ask("GET", "/decision", nil))
	p := permitOf(turn)
	keep("execute-operation", "add-to-cart", p.body(), c.operate(p))
	for _, id := range purchase[3:] {
		c.cycle(id)
		h.clock.Move(time.Second)
	}
	keep("get-run", "completed", nil, h.owner("GET", "/runs/"+c.run, nil))
	other := h.create("local")
	keep("list-runs", "first-page", nil, h.owner("GET", "/runs?limit=1", nil))
	keep("get-evidence", "completed", nil, h.owner("GET", "/runs/"+c.run+"/evidence", nil))
	keep("stream-events", "resumed", nil, h.oneFrame(c.run))
	keep("get-public-key", "one-key", nil, h.owner("GET", "/public-key", nil))
	spec := h.owner("GET", "/specification", nil)
	spec.body = []byte(strings.Join(lines(string(spec.body))[:3], "\n") + "\n")
	keep("get-specification", "beginning", nil, spec)
	keep("revoke-run", "local-run", map[string]any{}, h.owner("POST", "/runs/"+other+"/revoke", map[string]any{}))
	played := h.in(nil)
	keep("step-run", "first-step", map[string]any{}, played.act("step", map[string]any{}))
	keep("play-run", "rest-of-the-purchase", map[string]any{}, played.act("play", map[string]any{}))
	recoveries := h.recoveries()
	for _, operation := range slices.Sorted(maps.Keys(recoveries)) { // ids are numbered in the order that they are met
		e := recoveries[operation]
		keep(operation, e.name, e.body, e.answer)
	}
	keep("get-limits", "what-is-missing", nil, h.owner("GET", "/limits", nil))
	guardianExamples(h, keep)
	freezeExamples(h, keep)
	contextExamples(h, keep)
	projectExamples(h, keep)
	incidentExamples(h, keep)
	keep("list-attacks", "catalog", nil, h.owner("GET", "/attacks", nil))
	altered := map[string]any{"attackId": "B10", "service": "bank"}
	keep("run-attack", "altered-argument", altered, h.owner("POST", "/attacks/run", altered))
	keep("sign-out", "session-ends", nil, h.owner("DELETE", "/session", nil))
	return all
}

// freezeExamples freezes the workspace and lifts that.
func freezeExamples(h *house, keep func(operation, name string, request any, a answer) answer) {
	why := map[string]any{"reason": "An agent orders what nobody asked for."}
	keep("freeze", "frozen", why, h.owner("POST", "/freeze", why))
	keep("get-freeze", "frozen", nil, h.owner("GET", "/freeze", nil))
	why = map[string]any{"reason": "The agent is revoked.", "epoch": 1}
	keep("unfreeze", "lifted", why, h.owner("POST", "/unfreeze", why))
	keep("get-freeze-evidence", "one-freeze", nil, h.owner("GET", "/freeze/evidence", nil))
}

// guardianExamples takes a policy from its draft to its publication.
func guardianExamples(h *house, keep func(operation, name string, request any, a answer) answer) {
	service := map[string]any{"name": "Synthetic merchant", "kind": "merchant", "environment": "local", "description": "The shop inside the control plane."}
	registered := keep("create-service", "local-merchant", service, h.owner("POST", "/workspace/services", service)).text("serviceId")
	policy := guardianBody()
	delete(policy, "service")
	policy["serviceId"] = registered
	path := "/workspace/guardians/" + keep("create-guardian", "draft", policy, h.owner("POST", "/workspace/guardians", policy)).text("guardianId")
	policy["revision"], policy["budgetCents"] = 1, "13000"
	keep("edit-guardian", "second-revision", policy, h.owner("PUT", path, policy))
	second := map[string]any{"revision": 2}
	keep("verify-guardian", "passed", second, h.owner("POST", path+"/verify", second))
	keep("activate-guardian", "first-version", second, h.owner("POST", path+"/activate", second))
	keep("get-guardian", "published", nil, h.owner("GET", path, nil))
	keep("get-workspace", "one-policy", nil, h.owner("GET", "/workspace", nil))
	keep("get-guardian-evidence", "published", nil, h.owner("GET", path+"/evidence", nil))
	keep("get-inventory-evidence", "one-policy", nil, h.owner("GET", "/workspace/evidence", nil))
	keep("get-hosting", "embedded", nil, h.owner("GET", "/hosting", nil))
}

func guardianBody() map[string]any {
	return map[string]any{
		"name": "Keyboard purchases", "service": "merchant", "environment": "local", "mode": "bounded", "budgetCents": "13700", "provider": "replay",
		"operations": []string{"merchant.catalog", "merchant.cart.add", "merchant.checkout.prepare"}, "channels": []string{"http"},
	}
}

// oneFrame resumes a stream one event before the head and reads that event.
func (h *house) oneFrame(run string) answer {
	h.t.Helper()
	r := h.request("GET", ownerPrefix+"/runs/"+run+"/events", nil, h.asOwner(h.cookie), set("Last-Event-ID", fmt.Sprint(h.total(run)-1)))
	response, err := h.client.Do(r)
	must(h.t, err)
	defer response.Body.Close()
	var frame strings.Builder
	for s := bufio.NewScanner(response.Body); s.Scan() && s.Text() != ""; {
		frame.WriteString(s.Text() + "\n")
	}
	return answer{response.StatusCode, response.Header, []byte(frame.String() + "\n")}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func decoded(t testing.TB, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	must(t, d.Decode(&v))
	return v
}

// normal replaces what differs from run to run by fixed values of the same form,
// the same one for the same value.
type normal struct {
	fixed map[string]string
	count map[string]int
	exact *strings.Replacer
}

func newNormal(h *house) *normal {
	return &normal{
		fixed: map[string]string{}, count: map[string]int{},
		exact: strings.NewReplacer(
			h.secret, "the-line-in-owner.secret", h.origin, "http://localhost:8420", h.store, "http://127.0.0.1:8421",
			encodedKey(h.keys.Evidence().Public()), opaque("evidence key", 1, 32), encodedKey(h.storeKey.Public), opaque("store key", 1, 32),
		),
	}
}

func encodedKey(k ed25519.PublicKey) string { return base64.RawURLEncoding.EncodeToString(k) }

// shown is how many elements of a list are kept.
const shown = 2

// value normalizes every string of v, and cuts long lists.
func (n *normal) value(v any) any {
	switch v := v.(type) {
	case string:
		return n.text(v)
	case []any:
		for i := range v {
			v[i] = n.value(v[i])
		}
		if len(v) > 0 {
			if _, objects := v[0].(map[string]any); objects {
				return v[:min(shown, len(v))]
			}
		}
		return v
	case map[string]any:
		return n.object(v)
	}
	return v
}

func (n *normal) object(m map[string]any) map[string]any {
	fixed := map[string]any{} // texts are named by commitments, which vary
	for name, member := range m {
		fixed[n.text(name)] = member
	}
	for _, name := range sortedKeys(fixed) {
		member := n.value(fixed[name])
		if _, number := member.(json.Number); number && strings.HasSuffix(name, "Micros") {
			member = 250
		}
		if texts, ok := member.(map[string]any); ok && name == "texts" {
			for _, extra := range sortedKeys(texts)[min(shown, len(texts)):] {
				delete(texts, extra)
			}
		}
		fixed[name] = member
	}
	return fixed
}

// variable are the values that differ, the longest forms first.
var variable = []struct {
	kind string
	find *regexp.Regexp
	make func(n int) string
}{
	{"jws", regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{86}`), exampleJWS},
	{"token", regexp.MustCompile(`cs_run_[A-Za-z0-9_-]{43}`), func(n int) string { return "cs_run_" + opaque("token", n, 32) }},
	{"client token", regexp.MustCompile(`seif_[A-Za-z0-9_-]{43}`), func(n int) string { return "seif_" + opaque("client token", n, 32) }},
	{"client", regexp.MustCompile(`cli_[0-9a-f]{32}`), prefixed("cli_")},
	{"turn", regexp.MustCompile(`trn_[0-9a-f]{32}`), prefixed("trn_")},
	{"interaction", regexp.MustCompile(`int_[0-9a-f]{32}`), prefixed("int_")},
	{"bridge receipt", regexp.MustCompile(`brg_[0-9a-f]{32}`), prefixed("brg_")},
	{"gap", regexp.MustCompile(`gap_[0-9a-f]{32}`), prefixed("gap_")},
	{"incident session", regexp.MustCompile(`ses_[0-9a-f]{32}`), prefixed("ses_")},
	{"incident key", regexp.MustCompile(`rr_[0-9a-f]{32}`), prefixed("rr_")},
	{"browser session", regexp.MustCompile(`browser session [0-9a-f]{12}`), func(n int) string { return fmt.Sprintf("browser session %012d", n) }},
	{"target", regexp.MustCompile(`tgt_[A-Za-z0-9_-]{43}`), func(n int) string { return "tgt_" + opaque("target", n, 32) }},
	{"checkout", regexp.MustCompile(`chk_[0-9a-f]{20}`), func(n int) string { return fmt.Sprintf("chk_%020d", n) }},
	{"order", regexp.MustCompile(`ord_[0-9a-f]{20}`), func(n int) string { return fmt.Sprintf("ord_%020d", n) }},
	{"uuid", regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), func(n int) string {
		return fmt.Sprintf("01940e2e-7c00-7000-8000-%012d", n)
	}},
	{"mac", regexp.MustCompile(`^\.[A-Za-z0-9_-]{43}$`), func(n int) string { return "." + opaque("mac", n, 32) }},
	{"digest", regexp.MustCompile(`\b[0-9a-f]{64}\b`), func(n int) string { return hex.EncodeToString(seeded("digest", n, 32)) }},
	{"keyId", regexp.MustCompile(`^[0-9a-f]{16}$`), func(n int) string { return hex.EncodeToString(seeded("key", n, 8)) }},
	{"signature", regexp.MustCompile(`^[A-Za-z0-9_-]{86}$`), func(n int) string { return opaque("signature", n, 64) }},
	{"holder", regexp.MustCompile(`^[A-Z2-7]{26}$`), func(n int) string { return strings.Repeat("A", 25) + string(rune('A'+n-1)) }},
	{"salt", regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`), func(n int) string { return opaque("salt", n, 16) }},
}

// prefixed makes the ids of the context perimeter.
func prefixed(prefix string) func(int) string {
	return func(n int) string { return fmt.Sprintf("%s01940e2e7c007000%016d", prefix, n) }
}

// stepToken is a permit's id and its MAC.
var stepToken = regexp.MustCompile(`^[0-9a-f-]{36}\.[A-Za-z0-9_-]{43}$`)

// genesis is the previousHash of every first event.
var genesis = strings.Repeat("0", 64)

func (n *normal) text(s string) string {
	s = n.exact.Replace(s)
	if strings.HasPrefix(s, "id: ") {
		return n.frame(s)
	}
	if stepToken.MatchString(s) {
		return n.text(s[:36]) + n.text(s[36:])
	}
	for _, v := range variable {
		s = v.find.ReplaceAllStringFunc(s, func(found string) string {
			if found == genesis || n.isFixed(found) {
				return found
			}
			key := v.kind + " " + found
			if _, known := n.fixed[key]; !known {
				n.count[v.kind]++
				n.fixed[key] = v.make(n.count[v.kind])
			}
			return n.fixed[key]
		})
	}
	return s
}

// isFixed reports whether the value is one that was put in already.
func (n *normal) isFixed(s string) bool {
	for _, fixed := range n.fixed {
		if fixed == s {
			return true
		}
	}
	return false
}

// frame normalizes a frame of a stream; its data is JSON.
func (n *normal) frame(s string) string {
	var b strings.Builder
	for _, line := range lines(s) {
		if data, isData := strings.CutPrefix(line, "data: "); isData {
			var v any
			d := json.NewDecoder(strings.NewReader(data))
			d.UseNumber()
			if err := d.Decode(&v); err != nil {
				panic(err)
			}
			line = "data: " + string(mustJSON(n.value(v)))
		}
		b.WriteString(line + "\n")
	}
	return b.String() + "\n"
}

func seeded(kind string, n, size int) []byte {
	var b []byte
	for i := 0; len(b) < size; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "example %s %d %d", kind, n, i))
		b = append(b, sum[:]...)
	}
	return b[:size]
}

func opaque(kind string, n, size int) string {
	return base64.RawURLEncoding.EncodeToString(seeded(kind, n, size))
}

// exampleJWS has a header and a payload that can be read, and the signature of nobody.
func exampleJWS(n int) string {
	encode := func(v any) string { return base64.RawURLEncoding.EncodeToString(mustJSON(v)) }
	return encode(map[string]any{"alg": "EdDSA", "typ": "countersign-receipt+jwt", "kid": hex.EncodeToString(seeded("key", 0, 8))}) + "." +
		encode(map[string]any{"jti": fmt.Sprintf("01940e2e-7c00-7000-8000-%012d", n), "result": "applied"}) + "." + opaque("receipt", n, 64)
}
