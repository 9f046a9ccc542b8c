package console_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"

	"countersign/evidence"
)

// boundary are what the page must say of itself.
var boundary = []string{
	"no production system is changed", "does not prove that a human clicked", "could still press the button", "one-time nonce of the page&#39;s approval form",
	"The channel of a receipt is what the caller says it is.", "it is not independently anchored and no transparency log", "grants nothing; the server decides each request",
}

// trusted are the keys that this installation signs with.
func (h *house) trusted() evidence.Keys {
	h.t.Helper()
	list, err := os.ReadFile(filepath.Join(h.dir, "keys", "evidence.pub"))
	must(h.t, err)
	keys, err := evidence.ParseKeys(list)
	must(h.t, err)
	return keys
}

// anonymous is what the server answers somebody without any cookie.
func (h *house) anonymous(path string) (status int, header http.Header, body string) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), "GET", h.origin+path, nil)
	must(h.t, err)
	r.Header.Set("Accept", "text/html")
	resp, err := http.DefaultClient.Do(r)
	must(h.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(h.t, err)
	return resp.StatusCode, resp.Header, string(raw)
}
