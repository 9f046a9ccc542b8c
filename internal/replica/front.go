package replica

import (
	"errors"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Front is a load balancer without a process of its own: a transport that gives each
// request to the next of its replicas, whatever host the request names, and says the
// host of the public origin. A replica that does not take the connection is passed over;
// anything else that goes wrong is the caller's to know.
type Front struct {
	host     string
	replicas []*Replica
	next     *http.Transport

	mu     sync.Mutex
	turn   int
	served map[string]int
}

// Front makes a front of these replicas.
func (in *Installation) Front(replicas ...*Replica) *Front {
	return &Front{
		host: strings.TrimPrefix(in.Origin, "http://"), replicas: replicas, served: map[string]int{},
		next: &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 64},
	}
}

// Client is a client of the front. It follows no redirect.
func (f *Front) Client() *http.Client {
	return &http.Client{
		Transport: f, Timeout: 90 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Stream is a client without a time limit, for event streams.
func (f *Front) Stream() *http.Client { c := f.Client(); c.Timeout = 0; return c }

// Served is how many answers began to come from each replica, by its name.
func (f *Front) Served() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.served)
}

// RoundTrip implements http.RoundTripper.
func (f *Front) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	first := f.turn
	f.turn++
	f.mu.Unlock()
	var last error
	for i := range f.replicas {
		to := f.replicas[(first+i)%len(f.replicas)]
		sent := r.Clone(r.Context())
		sent.URL.Host, sent.Host = to.Addr, f.host
		if i > 0 && r.Body != nil && r.Body != http.NoBody {
			if r.GetBody == nil {
				return nil, last
			}
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			sent.Body = body
		}
		answer, err := f.next.RoundTrip(sent)
		if err == nil {
			f.mu.Lock()
			f.served[to.Name]++
			f.mu.Unlock()
			return answer, nil
		}
		last = err
		if failed, ok := errors.AsType[*net.OpError](err); !ok || failed.Op != "dial" {
			break
		}
	}
	return nil, last
}

// CloseIdle closes the connections that nothing uses.
func (f *Front) CloseIdle() { f.next.CloseIdleConnections() }
