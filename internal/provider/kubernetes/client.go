package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// connection makes the client of the API server when it is first needed, and
// again when the kubeconfig changes.
type connection struct {
	opt    options
	log    *slog.Logger
	secret func(ctx context.Context, name string) (provider.Sensitive, error)
	budget func(http.RoundTripper) http.RoundTripper

	ahead atomic.Int64 // the API server's clock less ours, as a Duration

	mu      sync.Mutex
	client  *rest.RESTClient
	version string // of the files that client was made from
	ca      string // one of these files
	host    string // without credentials
	warned  bool
	shown   []string // credentials
}

func newConnection(cfg provider.Config, opt options, log *slog.Logger) *connection {
	return &connection{opt: opt, log: log, secret: cfg.Secret, budget: func(rt http.RoundTripper) http.RoundTripper { return cfg.WithBudget(rt, "") }}
}

// errAccess is a credential or an address that cannot be had.
type errAccess struct{ err error }

func (e *errAccess) Error() string { return e.err.Error() }
func (e *errAccess) Unwrap() error { return e.err }

// rest returns the client. Its retries and its rate limit are off.
func (c *connection) rest() (*rest.RESTClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	config, err := c.kubeconfigVersion()
	if err != nil {
		return nil, &errAccess{err}
	}
	if c.client != nil && config+versionOf(c.ca) == c.version {
		return c.client, nil
	}
	cfg, err := c.restConfig()
	if err != nil {
		return nil, &errAccess{err}
	}
	ca := cfg.CAFile
	version := config + versionOf(ca)
	client, err := c.build(cfg)
	if err != nil {
		return nil, &errAccess{err}
	}
	host := "" // of an address that cannot be read, nothing is shown
	if u, err := url.Parse(cfg.Host); err == nil {
		host = u.Redacted()
		c.warn(cfg, u)
	}
	c.client, c.version, c.ca, c.host = client, version, ca, host
	return client, nil
}

// renew has the credentials read again, which the client library keeps for a
// minute.
func (c *connection) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.client = nil
}

// warn tells of a connection that others can listen to, once.
func (c *connection) warn(cfg *rest.Config, u *url.URL) {
	addr, err := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
	switch {
	case c.warned:
		return
	case cfg.Insecure:
		c.log.Warn("the certificate of the API server is not verified", "field", "kubeconfig: insecure-skip-tls-verify", "server", u.Redacted())
	case u.Scheme == "http" && !local:
		c.log.Warn("the connection to the API server is not encrypted", "server", u.Redacted())
	}
	c.warned = true
}

// kubeconfigVersion changes when the kubeconfig does.
func (c *connection) kubeconfigVersion() (string, error) {
	if c.opt.Kubeconfig == "" {
		return "", nil
	}
	if _, err := os.Stat(c.opt.Kubeconfig); err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	return versionOf(c.opt.Kubeconfig), nil
}

// versionOf changes when a file does; one that is not there has one, too.
func versionOf(file string) string {
	if file == "" {
		return "-"
	}
	st, err := os.Stat(file)
	if err != nil {
		return "?"
	}
	return fmt.Sprintf("%d/%d;", st.ModTime().UnixNano(), st.Size())
}

func (c *connection) restConfig() (*rest.Config, error) {
	switch {
	case c.opt.Server != "":
		return &rest.Config{Host: c.opt.Server, TLSClientConfig: rest.TLSClientConfig{CAFile: c.opt.CAFile}}, nil
	case c.opt.Kubeconfig == "":
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("service account: %w", err)
		}
		return cfg, nil
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.opt.Kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: c.opt.Context})
	// Whoever works with the file moves its current context, and instances that are
	// looked for in another cluster are gone there.
	if raw, err := loader.RawConfig(); err == nil && c.opt.Context == "" && len(raw.Contexts) > 1 {
		return nil, fmt.Errorf("context: is required: %s has several, and its current one changes with kubectl: want one of %s",
			c.opt.Kubeconfig, strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", "))
	}
	// What the file says may hold credentials, and what is wrong with it is said
	// with the text around it: the error stays here.
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %s is not usable with context %q: see kubectl --kubeconfig=%s config view", c.opt.Kubeconfig, c.opt.Context, c.opt.Kubeconfig)
	}
	return cfg, nil
}

// apiScheme knows what every answer can be; the objects are read by ourselves.
var apiScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}()

// build makes a client. From the outside in: spans, which never see credentials;
// what answers ask us to wait; the credentials; the request budget, which tells
// accounts apart by them; the connection.
func (c *connection) build(cfg *rest.Config) (*rest.RESTClient, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = "/api", &schema.GroupVersion{Version: "v1"}
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(apiScheme).WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	cfg.UserAgent = "tollgate"
	cfg.Timeout = c.opt.CallTimeout
	cfg.QPS, cfg.RateLimiter = -1, nil
	cfg.WarningHandler = rest.NoWarnings{}
	cfg.Wrap(c.budget)
	cfg.Wrap(func(base http.RoundTripper) http.RoundTripper { return &witnessed{c, base} })
	if c.opt.Token != "" {
		cfg.Wrap(func(base http.RoundTripper) http.RoundTripper { return &authorized{c, base} })
	}
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	// An API server sends nobody elsewhere, and credentials do not go there.
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if cfg.ExecProvider != nil {
		hc.Transport = &programmed{program: cfg.ExecProvider.Command, base: hc.Transport}
	}
	hc.Transport = telemetry.Transport(&noted{hc.Transport})
	return rest.RESTClientForConfigAndClient(cfg, hc)
}

// maxWait bounds the wait that is believed, in seconds: a proxy that needs
// attention is not left alone for a day because a gateway says so.
const maxWait = 3600

type noteKey struct{}

// note keeps of an answer what the client library drops.
type note struct{ retryAfter time.Duration }

// noted fills in the note of a request's context.
type noted struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *noted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if n, ok := r.Context().Value(noteKey{}).(*note); ok && err == nil {
		text := resp.Header.Get("Retry-After")
		if s, err := strconv.Atoi(text); err == nil && s > 0 {
			n.retryAfter = time.Duration(min(s, maxWait)) * time.Second
		} else if at, err := http.ParseTime(text); err == nil { // as gateways say it
			n.retryAfter = min(max(0, time.Until(at)), maxWait*time.Second)
		}
	}
	return resp, err
}

// apiError is a refusal, or no answer, with the wait that was asked for.
type apiError struct {
	err        error
	retryAfter time.Duration
	// resource and name are what was asked for; name is empty for a listing and a
	// create.
	resource, name string
}

func (e *apiError) Error() string { return e.err.Error() }
func (e *apiError) Unwrap() error { return e.err }

// errAnswer is an answer that is well-formed and makes no sense.
var errAnswer = errors.New("the answer lacks the object that was asked for")

// call is one request.
type call struct {
	verb, resource, namespace, name string
	params                          map[string]string
	body                            any
	metadataOnly                    bool
}

const (
	acceptMeta     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	acceptMetaList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// starting is a missing right that an API server claims which has not read its
// rights yet.
type starting struct{ err error }

func (e *starting) Error() string {
	return e.err.Error() + "; the API server is not ready, and may not have read its rights yet"
}
func (e *starting) Unwrap() error { return e.err }

// do makes a request and returns the answer's body if the API server has done
// what was asked. The request is made once, unless it is refused for who makes
// it. Credentials that have ended are read anew then, from wherever they come,
// and shown again. An API server that starts denies every right, so that one is
// asked whether it is ready, and then again.
func (p *Provider) do(ctx context.Context, c call) ([]byte, error) {
	b, err := p.once(ctx, c)
	if st, ok := statusOf(err); ok && st.Code == http.StatusUnauthorized {
		p.conn.renew()
		b, err = p.once(ctx, c)
	}
	if !deniesRight(err) {
		return b, err
	}
	if !p.ready(ctx) {
		return nil, &starting{err}
	}
	return p.once(ctx, c)
}

// ready asks whether the API server has read what it needs. Everybody may ask
// that, as clusters come.
func (p *Provider) ready(ctx context.Context) bool {
	client, err := p.conn.rest()
	if err != nil {
		return false
	}
	ctx = klog.NewContext(ctx, klog.Logger{})
	return client.Get().MaxRetries(0).AbsPath("/readyz").Do(ctx).Error() == nil
}

func (p *Provider) once(ctx context.Context, c call) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	client, err := p.conn.rest()
	if err != nil {
		return nil, err
	}
	var n note
	// The library's own log would repeat bodies; its errors say all there is.
	ctx = klog.NewContext(context.WithValue(ctx, noteKey{}, &n), klog.Logger{})
	r := client.Verb(c.verb).MaxRetries(0).Namespace(c.namespace).Resource(c.resource)
	if c.name != "" {
		r = r.Name(c.name)
	}
	for k, v := range c.params {
		r = r.Param(k, v)
	}
	switch {
	case c.metadataOnly && c.name == "" && c.verb == http.MethodGet:
		r = r.SetHeader("Accept", acceptMetaList)
	case c.metadataOnly:
		r = r.SetHeader("Accept", acceptMeta)
	}
	if c.body != nil {
		b, err := json.Marshal(c.body)
		if err != nil {
			return nil, err
		}
		r = r.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(b)
	}
	res := r.Do(ctx)
	if err := res.Error(); err != nil {
		return nil, &apiError{err, n.retryAfter, c.resource, c.name}
	}
	return res.Raw()
}

// read makes a request whose answer is one object.
func (p *Provider) read(ctx context.Context, c call, kind string, into metav1.Object) error {
	b, err := p.do(ctx, c)
	if err != nil {
		return err
	}
	var tm metav1.TypeMeta
	if err := json.Unmarshal(b, &tm); err != nil {
		return fmt.Errorf("the answer is cut off or no JSON: %w", err)
	}
	if tm.Kind != kind {
		return errAnswer
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("the answer is no %s: %w", kind, err)
	}
	if into.GetUID() == "" || into.GetName() == "" || c.name != "" && into.GetName() != c.name {
		return errAnswer
	}
	return nil
}

// hostName is the address of the API server, empty before it was needed.
func (c *connection) hostName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.host
}
