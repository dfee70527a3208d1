package gardener

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options say how to reach a Gardener.
type Options struct {
	// Kubeconfig returns the content of a kubeconfig, as it is now. Nil means the
	// file that $KUBECONFIG names and, without one, the service account of the pod
	// that this runs in.
	Kubeconfig func(ctx context.Context) ([]byte, error)
	// Context is the kubeconfig's context to use; "" is its current one.
	Context string
	// QPS and Burst limit the requests; zero means 20 and 40, a negative QPS no limit.
	QPS   float32
	Burst int
	// Wrap, if set, wraps the connection below what adds the credential.
	Wrap func(base http.RoundTripper) http.RoundTripper
}

// Connection makes clients of a Gardener. A kubeconfig that has changed gives
// another client: a rotated one needs no restart. It is safe for concurrent use.
type Connection struct {
	o Options

	mu     sync.Mutex
	from   []byte // the kubeconfig that client was made of
	client *Client
}

// NewConnection makes no request and reads nothing yet.
func NewConnection(o Options) *Connection {
	if o.QPS == 0 {
		o.QPS, o.Burst = 20, 40
	}
	return &Connection{o: o}
}

// errConfig is a kubeconfig that is there and cannot be used.
type errConfig struct{ err error }

func (e *errConfig) Error() string { return "kubeconfig: " + e.err.Error() }
func (e *errConfig) Unwrap() error { return e.err }

// errCredential is a kubeconfig that cannot be read now.
type errCredential struct{ err error }

func (e *errCredential) Error() string { return "kubeconfig: " + e.err.Error() }
func (e *errCredential) Unwrap() error { return e.err }

// Client returns the client for the kubeconfig as it is now. It makes no request.
func (c *Connection) Client(ctx context.Context) (*Client, error) {
	b, err := c.kubeconfig(ctx)
	if err != nil {
		return nil, &errCredential{err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil && bytes.Equal(b, c.from) {
		return c.client, nil
	}
	cfg, err := c.config(b)
	if err == nil {
		cfg.QPS, cfg.Burst = c.o.QPS, c.o.Burst
		if c.o.Wrap != nil {
			cfg.Wrap(c.o.Wrap)
		}
		cfg.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
		c.client, err = NewClient(cfg)
	}
	if err != nil {
		c.client = nil
		return nil, &errConfig{err}
	}
	c.from = b
	return c.client, nil
}

// kubeconfig is nil when the pod's service account is to be used.
func (c *Connection) kubeconfig(ctx context.Context) ([]byte, error) {
	if c.o.Kubeconfig != nil {
		b, err := c.o.Kubeconfig(ctx)
		if err == nil && len(bytes.TrimSpace(b)) == 0 {
			err = errors.New("is empty")
		}
		return b, err
	}
	path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("$%s: %w", clientcmd.RecommendedConfigPathEnvVar, err)
	}
	return b, nil
}

func (c *Connection) config(b []byte) (*rest.Config, error) {
	if b == nil {
		cfg, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			err = errors.New("none is configured, $KUBECONFIG is not set, and this runs in no pod")
		}
		return cfg, err
	}
	raw, err := clientcmd.Load(b)
	if err != nil {
		// The parser's words may repeat what it read.
		return nil, errors.New("is no kubeconfig")
	}
	if c.o.Context != "" && raw.Contexts[c.o.Context] == nil {
		return nil, fmt.Errorf("has no context %q", c.o.Context)
	}
	return clientcmd.NewNonInteractiveClientConfig(*raw, c.o.Context, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
}
