package edge_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"countersign/internal/channel/edge"
	"countersign/internal/channel/stream"
)

// certificate writes a new certificate for 127.0.0.1 and returns the pool that
// trusts it.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := errors.Join(
		os.WriteFile(certFile, certPEM, 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, pool
}

// TestStreamOverHTTP2 holds a stream longer than its write timeout: over HTTP/2 a
// write deadline that was left standing would reset it.
func TestStreamOverHTTP2(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	origin := "https://" + listener.Addr().String()
	api, err := edge.New(edge.Config{Origin: origin, Title: "test", Version: "0.1"})
	if err != nil {
		t.Fatal(err)
	}
	src := newSource()
	src.add(1)
	edge.RegisterStream(api, edge.Stream{
		Operation:    edge.Operation{Operation: huma.Operation{OperationID: "events", Method: http.MethodGet, Path: "/events"}},
		WriteTimeout: time.Second, Heartbeat: 5 * time.Second / 2,
	}, func(context.Context, *struct{}) (stream.Source, error) {
		return stream.Source{Head: src.head, Next: src.next, Wake: src.wake}, nil
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- (&edge.Server{API: api, CertFile: certFile, KeyFile: keyFile}).Serve(ctx, listener) }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	resp, err := (&http.Client{Transport: transport}).Get(origin + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != 200 {
		t.Fatalf("%s %d", resp.Proto, resp.StatusCode)
	}
	l := &listening{resp, bufio.NewScanner(resp.Body)}
	l.expect(t, 1)
	if got := l.frame(); len(got) != 1 { // the heartbeat, after the write timeout
		t.Errorf("frame %q, want a comment", got)
	}
	src.add(1)
	l.expect(t, 2)
	stop()
	for l.lines.Scan() {
	}
	transport.CloseIdleConnections()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
