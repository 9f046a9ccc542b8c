package reporter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"countersign/contextclient"
	"countersign/contextclient/outbox"
)

// OutboxVariable names the file of the outbox, an absolute path.
const OutboxVariable = "SEIF_OUTBOX"

// Place is who reports, and where what could not be delivered waits.
type Place struct {
	Client *contextclient.Client
	Box    *outbox.Outbox
	Path   string // of the outbox

	answers *answers
	by      string // the mark of this token in the outbox
}

// FromEnvironment is the place that the environment names, with an outbox in a file. One request
// takes o.SendBound at most.
func FromEnvironment(o outbox.Options) (*Place, error) {
	path, err := boxPath()
	if err != nil {
		return nil, err
	}
	box, err := outbox.Open(path, o)
	if err != nil {
		return nil, err
	}
	p := &Place{Box: box, Path: path, answers: &answers{}, by: markOf(os.Getenv(contextclient.TokenVariable))}
	if p.Client, err = clientWith(box, o.SendBound, p.answers); err != nil {
		return nil, err
	}
	return p, nil
}

// errEnvironment is wrapped by errors about variables that are missing or make no sense.
var errEnvironment = errors.New("the environment names no client")

// IsEnvironment reports whether an error is about the environment.
func IsEnvironment(err error) bool { return errors.Is(err, errEnvironment) }

func clientWith(box *outbox.Outbox, within time.Duration, by http.RoundTripper) (*contextclient.Client, error) {
	client, err := contextclient.FromEnvironment(contextclient.Config{
		HTTP:      &http.Client{Timeout: within, Transport: by},
		Outbox:    box,
		OnTrouble: func(error) {}, // only of runs and of delivery in the background, which are not used
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEnvironment, err)
	}
	return client, nil
}

// boxPath is the file of the outbox: one for each base address. Which client a token is of is
// known to the server alone, and a rotated token is another one of the same client: the name
// comes from the address, so that a new token finds what waits.
func boxPath() (string, error) {
	if path := os.Getenv(OutboxVariable); path != "" {
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for the outbox, set %s: %w", OutboxVariable, err)
	}
	sum := sha256.Sum256([]byte("countersign-outbox\x00" + canonical(os.Getenv(contextclient.BaseURLVariable))))
	return filepath.Join(cache, "countersign", "outbox", hex.EncodeToString(sum[:8])), nil
}

// canonical is one spelling of a base address; what is none stays as it is.
func canonical(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]; port != "" {
		u.Host = strings.TrimSuffix(u.Host, port)
	}
	path := strings.TrimRight(u.Path, "/")
	if project, ok := strings.CutSuffix(path, "/production"); ok && strings.Count(project, "/") == 2 {
		path = project // production has two names
	}
	return u.Scheme + "://" + u.Host + path
}

// markOf tells one token from another and says nothing of it: 64 bits of a digest of 256
// random ones.
func markOf(token string) string {
	sum := sha256.Sum256([]byte("countersign-outbox-by\x00" + token))
	return hex.EncodeToString(sum[:8])
}

// bridgePath is where receipts of a bridge go.
const bridgePath = "/context/bridge/receipts"

// Held reports whether an entry waits for the token that it was made with. The server cannot tell whose a
// bridge's receipt is, and would record it as that of whoever delivers it; a turn it takes from its own client only.
func (p *Place) Held(e outbox.Entry) bool { return e.Path == bridgePath && e.By != p.by }

// Send sends a report of the outbox once. Clients of one address share the outbox, so that what the server
// refuses because of who asks stays there, unless it refuses it to whoever has put it in: then only
// a refused token does, since the token may be wrong or rotated. A bridge's receipt with a refused token is dropped,
// as nobody else may deliver it.
func (p *Place) Send(ctx context.Context, e outbox.Entry) (outbox.Answer, error) {
	if p.Held(e) {
		return outbox.Answer{Status: http.StatusTooEarly, Detail: "it waits for the token that it was made with"}, nil
	}
	a, err := p.Client.Send(ctx, e)
	switch {
	case e.Path == bridgePath:
		a.Keep = false
	case e.By != p.by && aboutCaller[a.Status]:
		a.Keep = true
	}
	return a, err
}

// aboutCaller are the statuses of refusals that another client of the same address need not get.
var aboutCaller = map[int]bool{http.StatusUnauthorized: true, http.StatusForbidden: true, http.StatusNotFound: true}
