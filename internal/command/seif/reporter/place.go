package reporter

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
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
	p := &Place{Box: box, Path: path, answers: &answers{}}
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
		HTTP:   &http.Client{Timeout: within, Transport: by},
		Outbox: box,
		Told:   func(error) {}, // only of runs and of delivery in the background, which are not used
	})
	if err != nil {
		return nil, fmt.Errorf("%w in %s and %s: %w", errEnvironment, contextclient.BaseURLVariable, contextclient.TokenVariable, err)
	}
	return client, nil
}

// boxPath is the file of the outbox. What waits is sent with the token of whoever flushes, so
// that each client at each base address has a file of its own; its name says nothing of the token.
func boxPath() (string, error) {
	if path := os.Getenv(OutboxVariable); path != "" {
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place for the outbox, set %s: %w", OutboxVariable, err)
	}
	base := strings.TrimRight(os.Getenv(contextclient.BaseURLVariable), "/")
	sum := sha256.Sum256([]byte("countersign-outbox\x00" + base + "\x00" + os.Getenv(contextclient.TokenVariable)))
	return filepath.Join(cache, "countersign", "outbox", hex.EncodeToString(sum[:8])), nil
}
