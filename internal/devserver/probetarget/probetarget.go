// Package probetarget serves what tollgate-dev's probes connect to through a
// proxy: an HTTPS listener on loopback with a certificate of a CA that exists
// for it alone. With it a probe on one machine proves as much as one in
// production: that the proxy leads to the target and to nobody else.
package probetarget

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Body is what the target answers to every request.
const Body = "tollgate probe target\n"

const (
	caName  = "ca.pem"
	keyName = "ca-key.pem"

	caLife = 10 * 365 * 24 * time.Hour
	// caReserve is what must be left of the CA's life at a start.
	caReserve = 365 * 24 * time.Hour
	// skew is how far the clocks of those who verify may be behind.
	skew = time.Hour
	idle = time.Minute
)

// Target is a running probe target.
type Target struct {
	listener net.Listener
	server   *http.Server
	caFile   string
}

// CAFile is where the CA of a target with its files in dir is.
func CAFile(dir string) string { return filepath.Join(dir, caName) }

// Start serves on addr, host:port of a loopback address; on l, if that is not
// nil, which listens there already and is the target's from now on. The CA is in
// dir, made if it is missing, and stays the same over restarts; its key is
// readable by its owner only.
func Start(dir, addr string, l net.Listener) (*Target, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("probe target %q: %w", addr, err)
	}
	ca, err := ensureCA(dir, time.Now())
	if err != nil {
		return nil, fmt.Errorf("probe target: %w", err)
	}
	cert, err := ca.issue(host, time.Now())
	if err != nil {
		return nil, fmt.Errorf("probe target: certificate: %w", err)
	}
	if l == nil {
		if l, err = net.Listen("tcp", addr); err != nil {
			return nil, fmt.Errorf("probe target: %w", err)
		}
	}
	t := &Target{
		listener: l,
		caFile:   CAFile(dir),
		server: &http.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				_, _ = io.WriteString(w, Body) // the client is gone, or it is not
			}),
			TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       idle,
			// Probes hang up after the handshake; that is no news.
			ErrorLog: log.New(io.Discard, "", 0),
		},
	}
	go func() { _ = t.server.ServeTLS(l, "", "") }() // ends with Close
	return t, nil
}

// Addr is the address served.
func (t *Target) Addr() string { return t.listener.Addr().String() }

// CAFile is the file with the CA's certificate.
func (t *Target) CAFile() string { return t.caFile }

// Close stops serving; open connections get until ctx ends.
func (t *Target) Close(ctx context.Context) {
	if t.server.Shutdown(ctx) != nil {
		_ = t.server.Close() // nothing is left to lose
	}
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// ensureCA reads the CA, or makes a new one when there is none or it has too
// little time left.
func ensureCA(dir string, now time.Time) (*authority, error) {
	ca, err := readCA(dir)
	switch {
	case err == nil && ca.cert.NotAfter.Sub(now) > caReserve:
		return ca, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("CA in %s: %w; remove the directory to get a new one", dir, err)
	}
	return makeCA(dir, now)
}

func readCA(dir string) (*authority, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, caName), filepath.Join(dir, keyName))
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is no ECDSA key", keyName)
	}
	return &authority{cert: pair.Leaf, key: key}, nil
}

func makeCA(dir string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	tmpl, err := template("tollgate-dev probe CA", now, caLife)
	if err != nil {
		return nil, err
	}
	tmpl.IsCA, tmpl.BasicConstraintsValid = true, true
	tmpl.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// The certificate comes last: without it there is no CA, and a start that was
	// killed in between makes both again.
	for _, f := range []struct {
		name, kind string
		der        []byte
	}{{keyName, "PRIVATE KEY", keyDER}, {caName, "CERTIFICATE", der}} {
		block := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path+".new", block, 0o600); err != nil {
			return nil, err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return nil, err
		}
	}
	return &authority{cert: cert, key: key}, nil
}

// issue makes a certificate for the host, kept in memory only.
func (a *authority) issue(host string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	tmpl, err := template("tollgate-dev probe target", now, caReserve)
	if err != nil {
		return tls.Certificate{}, err
	}
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	tmpl.DNSNames = []string{"localhost"}
	if ip := net.ParseIP(host); ip != nil {
		tmpl.IPAddresses = []net.IP{ip}
	} else if host != "localhost" {
		tmpl.DNSNames = append(tmpl.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func template(name string, now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-skew),
		NotAfter:     now.Add(life),
	}, nil
}
