package asowner

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign/internal/client"
	"countersign/internal/command"
)

// A server that takes the connection and says nothing is not one that has to be started; a
// wrong --origin is wrong usage, as the help says.
func TestExplain(t *testing.T) {
	silent := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-silent }))
	defer server.Close()
	defer close(silent)
	ask := func(url string) error {
		o := &client.Owner{Origin: url, HTTP: client.New()}
		o.HTTP.Timeout = 20 * time.Millisecond
		_, err := o.SignIn(t.Context(), "secret")
		return err
	}
	c := &signedIn{Origin: server.URL, Dir: "D"}
	for name, e := range map[string]struct {
		err         error
		status      int
		says, never string
	}{
		"hangs":         {ask(server.URL), command.NotReady, "a server that runs there hangs or is not reached", "countersign serve"},
		"nobody":        {ask("http://127.0.0.1:1"), command.NotReady, "countersign serve --dir D", "hangs"},
		"wrong origin":  {&client.RefusedError{Reply: client.Reply{Status: 403, Reason: "ORIGIN_REJECTED", Detail: "x"}}, command.WrongUsage, "Give --origin exactly", "countersign serve"},
		"not as it is":  {&client.RefusedError{Reply: client.Reply{Status: 409, Reason: "CLIENT_REVOKED", Detail: "x"}}, command.NotHolding, "409 CLIENT_REVOKED", "countersign serve"},
		"not permitted": {&client.RefusedError{Reply: client.Reply{Status: 403, Reason: "FORBIDDEN_OPERATION", Detail: "x"}}, command.NotHolding, "403", "countersign serve"},
	} {
		err := c.explain(e.err)
		if got := command.StatusOf(err); got != e.status || !strings.Contains(err.Error(), e.says) || strings.Contains(err.Error(), e.never) {
			t.Errorf("%s: status %d, %v", name, got, err)
		}
	}
}
