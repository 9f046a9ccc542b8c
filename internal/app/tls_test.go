package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"countersign/internal/app"
	"countersign/internal/client"
	"countersign/internal/keys"
	"countersign/internal/scripted"
)

// certificate writes a new certificate for localhost and returns the pool that
// trusts it.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(certFile, certPEM, 0o600))
	must(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, pool
}

// With a certificate everything is https: the origin, the cookie, the token's
// origin, and what browsers are told to remember.
func TestTLS(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
	must(t, app.Init(ctx, dir, ""))
	secret, err := keys.ReadSecret(filepath.Join(dir, "owner.secret"))
	must(t, err)
	signIn := func(origin string, c *http.Client) (*client.Owner, *http.Cookie) {
		t.Helper()
		owner := &client.Owner{Origin: origin, HTTP: c}
		r, err := owner.SignIn(ctx, secret)
		must(t, err)
		return owner, r.Cookies[0]
	}

	certFile, keyFile, pool := certificate(t)
	a, stop := serve(t, app.Config{Dir: dir, Addr: "localhost:0", TLSCert: certFile, TLSKey: keyFile})
	if !strings.HasPrefix(a.Origin(), "https://localhost:") {
		t.Errorf("origin %s", a.Origin())
	}
	secure := client.New()
	secure.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	owner, cookie := signIn(a.Origin(), secure)
	if !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie over https: %s", cookie)
	}
	id, _, err := owner.CreateRun(ctx, localRun)
	must(t, err)
	issued, _, err := owner.IssueToken(ctx, id)
	must(t, err)
	if issued.Origin != a.Origin() {
		t.Errorf("the token is for %s", issued.Origin)
	}
	agent := scripted.Agent{Consumer: client.Consumer{Origin: issued.Origin, Token: issued.Token, HTTP: secure}, Record: func(scripted.Entry) {}}
	must(t, agent.Play(ctx, "overreach"))
	resp, err := secure.Get(a.Origin() + "/healthz")
	must(t, err)
	must(t, resp.Body.Close())
	if resp.Header.Get("Strict-Transport-Security") == "" {
		t.Error("browsers are not told to stay with https")
	}

	// The same host and port under http is another origin, and nobody is served
	// in the clear.
	plain := strings.Replace(a.Origin(), "https:", "http:", 1)
	r, err := http.NewRequest("POST", a.Origin()+"/api/v1/owner/session", strings.NewReader(`{}`))
	must(t, err)
	r.Header.Set("Origin", plain)
	if got, err := client.Send(secure, r); err != nil || got.Reason != "ORIGIN_REJECTED" {
		t.Errorf("the http origin: %d %s, %v", got.Status, got.Reason, err)
	}
	if got := status(t, "GET", plain+"/healthz"); got != http.StatusBadRequest {
		t.Errorf("http on the https port: %d", got)
	}
	if resp, err := client.New().Get(a.Origin() + "/healthz"); err == nil {
		resp.Body.Close()
		t.Error("a client that does not trust the certificate was answered")
	}
	must(t, stop())

	// Negative control: without a certificate the cookie is not Secure.
	b, _ := serve(t, app.Config{Dir: dir, Addr: "localhost:0"})
	if _, cookie := signIn(b.Origin(), client.New()); cookie.Secure {
		t.Errorf("the cookie over http: %s", cookie)
	}
}

// A key that is not the certificate's is found out before anything is served.
func TestTLSRefuses(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "D")
	must(t, app.Init(ctx, dir, ""))
	cert, key, _ := certificate(t)
	_, another, _ := certificate(t)
	for _, c := range [][2]string{{cert, another}, {key, key}, {cert, ""}, {"", key}, {cert, filepath.Join(dir, "absent")}} {
		a, err := app.Open(ctx, app.Config{Dir: dir, Addr: "localhost:0", TLSCert: c[0], TLSKey: c[1]})
		if err == nil {
			a.Close()
			t.Fatalf("%v was opened", c)
		}
		if _, ok := errors.AsType[*app.ConfigError](err); !ok {
			t.Errorf("%v: %v, want a configuration error", c, err)
		}
	}
}
