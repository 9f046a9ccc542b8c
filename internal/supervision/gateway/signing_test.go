package gateway_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/dispatch"
	"countersign/internal/supervision/gateway"
	"countersign/internal/supervision/run"
)

// overheard keeps whatever is sent to a store.
type overheard struct {
	gateway.Sender
	mu   sync.Mutex
	sent []string
}

func (s *overheard) Send(ctx context.Context, r dispatch.Request) (dispatch.Answer, error) {
	s.mu.Lock()
	s.sent = append(s.sent, strings.Join([]string{r.Method, r.URL, string(r.Body), r.Permit, r.Cookie}, "\n"))
	s.mu.Unlock()
	return s.Sender.Send(ctx, r)
}

// H-140 H-144: a hosted purchase opens a session and has a permit of its own for each mutation. No
// private key is in anything that leaves: requests to the store, evidence, view.
func TestSigningKeysStayHere(t *testing.T) {
	onEach(t, func(t *testing.T, e engine) {
		wire := &overheard{}
		h := newHouse(t, e, func(c *gateway.Config) {
			wire.Sender = c.Sender
			c.Sender = wire
		})
		id := h.create(run.TargetHosted)
		h.buy(id)
		var exported bytes.Buffer
		must(t, h.Export(t.Context(), id, &exported))
		view, err := h.View(t.Context(), id)
		must(t, err)
		shown, err := json.Marshal(view)
		must(t, err)

		permits, cookies := map[string]bool{}, map[string]bool{}
		mutations := 0
		for _, request := range wire.sent {
			lines := strings.Split(request, "\n")
			permit, cookie := lines[len(lines)-2], lines[len(lines)-1]
			if lines[0] == "POST" {
				mutations++
				permits[permit] = true
			} else if permit != "" {
				t.Errorf("a read carries a permit: %.80s", request)
			}
			cookies[cookie] = true
		}
		// The session, the cart, the checkout and the order; one session, and nothing before it.
		if mutations != 4 || len(permits) != 4 || permits[""] || len(cookies) != 2 || !cookies[""] {
			t.Errorf("%d mutations with %d permits and %d cookies, want 4, 4 and that of one session", mutations, len(permits), len(cookies))
		}

		files, err := filepath.Glob(filepath.Join(h.control(), "keys", "*.key"))
		must(t, err)
		if len(files) != 4 {
			t.Fatalf("keys %v", files)
		}
		places := map[string]string{"evidence": exported.String(), "view": string(shown), "requests": strings.Join(wire.sent, "\n")}
		holds := func(text, secret string) bool {
			raw, err := base64.RawURLEncoding.DecodeString(secret)
			must(t, err)
			for _, form := range []string{secret, string(raw), hex.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw)} {
				if len(form) < 32 {
					t.Fatalf("a key of %d bytes", len(form))
				}
				if strings.Contains(text, form) {
					return true
				}
			}
			return false
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			must(t, err)
			fields := strings.Fields(string(content)) // what it is, and the key
			secret := fields[len(fields)-1]
			for place, text := range places {
				if text == "" || holds(text, secret) {
					t.Errorf("%s, of %d bytes, holds %s", place, len(text), filepath.Base(file))
				}
			}
			if !holds("..."+secret+"...", secret) {
				t.Error("control: a key that is there is not found")
			}
		}
	})
}
