package cutoff

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"countersign/internal/contextturn/content"
)

// The requests that the page makes by hand do not hide a refusal: nothing goes on after it, and it says why.
func TestShownRequestsAreRefused(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/context.md")
	must(t, err)
	var shown []string
	for line := range strings.Lines(string(page)) {
		if code, ok := strings.CutPrefix(line, "    "); ok && (len(shown) > 0 || strings.HasPrefix(code, "seif() {")) {
			shown = append(shown, code)
		} else if len(shown) > 0 {
			break
		}
	}
	if len(shown) < 5 {
		t.Fatalf("the page shows %q", shown)
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.WriteHeader(401)
		fmt.Fprint(w, `{"status":401,"reasonCode":"token_invalid","detail":"It opens nothing."}`)
	}))
	defer server.Close()
	for _, base := range []string{server.URL, "http://127.0.0.1:1"} {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.Join(shown, ""))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SEIF_BASE_URL=" + base, "SEIF_CLIENT_TOKEN=x"}
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		want := map[bool]string{true: `"reasonCode":"token_invalid","detail":"It opens nothing."`, false: "curl: (7)"}[base == server.URL]
		if err == nil || len(out) > 0 || !strings.Contains(said.String(), want) {
			t.Errorf("%v, stdout %q, stderr %q, want %q", err, out, said.String(), want)
		}
	}
	if asked == 0 {
		t.Error("nothing was asked")
	}
}

// The bounds that the page names are those of the program and of the libraries.
func TestShownBounds(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/context.md")
	must(t, err)
	for _, want := range []string{
		fmt.Sprintf("| a document, a test case | %d KiB, of that %d KiB front matter; %d KiB |", content.MaxDocument>>10, content.MaxFrontMatter>>10, content.MaxCase>>10),
		fmt.Sprintf("| a Build | %d,000 documents, %d,000 test cases, %d MiB |", content.MaxDocuments/1000, content.MaxCases/1000, content.MaxBuild>>20),
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}
