package kubernetes

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// keptCredentials is how many credentials that were shown are remembered: those
// of requests under way while they change.
const keptCredentials = 4

// clocksAgree is how far apart two clocks may seem that are the same: an answer
// has the time in whole seconds, and has been under way.
const clocksAgree = 3 * time.Second

// witnessed is next to the wire. It remembers which credentials were shown,
// whatever they came from, so that an answer that repeats them can be cleaned;
// and how far the server's clock is from ours.
type witnessed struct {
	c    *connection
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *witnessed) RoundTrip(r *http.Request) (*http.Response, error) {
	t.c.shows(r.Header.Get("Authorization"))
	resp, err := t.base.RoundTrip(r)
	if err == nil {
		if at, derr := http.ParseTime(resp.Header.Get("Date")); derr == nil {
			d := time.Until(at)
			if d.Abs() < clocksAgree {
				d = 0
			}
			t.c.ahead.Store(int64(d))
		}
	}
	return resp, err
}

// now is the time by the API server's clock, which its timestamps are of, as far
// as answers have told it.
func (c *connection) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *connection) shows(header string) {
	scheme, value, _ := strings.Cut(header, " ")
	secrets := []string{value}
	if plain, err := base64.StdEncoding.DecodeString(value); err == nil && strings.EqualFold(scheme, "Basic") {
		_, password, _ := strings.Cut(string(plain), ":")
		secrets = append(secrets, password)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range secrets {
		if s == "" || slices.Contains(c.shown, s) {
			continue
		}
		if len(c.shown) >= keptCredentials {
			c.shown = slices.Clone(c.shown[1:])
		}
		c.shown = append(c.shown, s)
	}
}

// credentials are those that an answer might repeat.
func (c *connection) credentials() (out []provider.Sensitive) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shown {
		out = append(out, provider.NewSensitive([]byte(s)))
	}
	return out
}

// authorized adds the token, as it is now, so that a rotated one needs no
// restart.
type authorized struct {
	c    *connection
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	s, err := t.c.tokenSecret(r.Context())
	token := strings.TrimSpace(string(s.Reveal()))
	if err == nil && (token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' })) {
		err = fmt.Errorf("token: secret %q holds no token", t.c.opt.Token)
	}
	if err != nil {
		return refuse(r, err)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return t.base.RoundTrip(r)
}

func (c *connection) tokenSecret(ctx context.Context) (provider.Sensitive, error) {
	if c.secret == nil {
		return provider.Sensitive{}, fmt.Errorf("token: secret %q: there are no secrets", c.opt.Token)
	}
	s, err := c.secret(ctx, c.opt.Token)
	if err != nil {
		return provider.Sensitive{}, fmt.Errorf("token: %w", err)
	}
	return s, nil
}

// refuse fails a request that was not sent for want of credentials.
func refuse(r *http.Request, err error) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, &errAccess{err}
}

const (
	// execLinger is how long after the end of a request its program may take to
	// hear of it. The network ends with the request; a program does not.
	execLinger = 200 * time.Millisecond
	// maxAbandoned is how many requests may wait for a program that nobody waits
	// for any more. Those after them are not begun.
	maxAbandoned = 16
	// execFailed begins what the client library says of a program without
	// credentials, execKnown what of it names no output of that program.
	execFailed = "getting credentials: "
	execKnown  = execFailed + "exec: "
)

// programmed is around requests whose credentials a program gives. The client
// library runs it for as long as it takes, one request after the other, and
// hears of no deadline meanwhile.
type programmed struct {
	program   string
	base      http.RoundTripper
	abandoned atomic.Int32
}

// RoundTrip implements http.RoundTripper.
func (t *programmed) RoundTrip(r *http.Request) (*http.Response, error) {
	silent := fmt.Errorf("kubeconfig: the program %q, which gives the credentials, does not end", t.program)
	if t.abandoned.Load() >= maxAbandoned {
		return refuse(r, silent)
	}
	type answer struct {
		resp *http.Response
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		resp, err := t.base.RoundTrip(r.Clone(r.Context())) // the library writes into its headers
		answers <- answer{resp, err}
	}()
	select {
	case a := <-answers:
		return a.resp, t.explain(a.err)
	case <-r.Context().Done():
	}
	linger := time.NewTimer(execLinger)
	defer linger.Stop()
	select {
	case a := <-answers:
		return a.resp, t.explain(a.err)
	case <-linger.C:
	}
	t.abandoned.Add(1)
	go func() {
		defer t.abandoned.Add(-1)
		if a := <-answers; a.err == nil {
			_ = a.resp.Body.Close()
		}
	}()
	return nil, &errAccess{errors.Join(silent, r.Context().Err())}
}

// explain keeps what the program has printed out of its failure.
func (t *programmed) explain(err error) error {
	switch {
	case err == nil || !strings.HasPrefix(err.Error(), execFailed):
		return err
	case strings.HasPrefix(err.Error(), execKnown):
		return &errAccess{fmt.Errorf("kubeconfig: %s", strings.TrimPrefix(err.Error(), execFailed))}
	}
	return &errAccess{fmt.Errorf("kubeconfig: the program %q ends well and gives no credentials: want an ExecCredential", t.program)}
}
