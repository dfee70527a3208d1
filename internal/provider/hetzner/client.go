package hetzner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// newClient builds the vendor's client with its retries and its poller switched
// off: a retried create is Temporal's affair, and 500 ms polls would use up the
// project's requests twice as fast as they come back.
//
// From the outside in: spans, which never see the token; the token; the request
// budget, which tells accounts apart by it; the connection.
func (p *Provider) newClient(cfg provider.Config) *hcloud.Client {
	base := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: p.opt.CallTimeout,
	}
	return hcloud.NewClient(
		hcloud.WithEndpoint(p.opt.Endpoint),
		hcloud.WithApplication("tollgate", ""),
		hcloud.WithHTTPClient(&http.Client{Timeout: p.opt.CallTimeout, Transport: telemetry.Transport(&authorized{p, cfg.WithBudget(base, "")})}),
		hcloud.WithRetryOpts(hcloud.RetryOpts{MaxRetries: 0}),
		hcloud.WithPollOpts(hcloud.PollOpts{BackoffFunc: hcloud.ConstantBackoff(p.opt.Poll)}),
	)
}

// authorized adds the token, as it is now, so that a rotated one needs no
// restart, and keeps what the answers say about the project's requests.
type authorized struct {
	p    *Provider
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := t.p.token(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := t.base.RoundTrip(r)
	if err == nil {
		t.p.noteRate(resp.Header)
	}
	return resp, err
}

// errToken is a token that cannot be had.
type errToken struct{ err error }

func (e *errToken) Error() string { return "token: " + e.err.Error() }
func (e *errToken) Unwrap() error { return e.err }

func (p *Provider) token(ctx context.Context) (string, error) {
	s, err := p.tokenSecret(ctx)
	if err != nil {
		return "", &errToken{err}
	}
	token := strings.TrimSpace(string(s.Reveal()))
	if token == "" {
		return "", &errToken{errors.New("is empty")}
	}
	for _, c := range token {
		if c <= ' ' || c > '~' {
			return "", &errToken{errors.New("holds characters that no token has")}
		}
	}
	return token, nil
}

func (p *Provider) tokenSecret(ctx context.Context) (provider.Sensitive, error) {
	if p.opt.tokenEnv {
		return provider.NewSensitive([]byte(os.Getenv(envToken))), nil
	}
	if p.secret == nil {
		return provider.Sensitive{}, fmt.Errorf("secret %q: there are no secrets", p.opt.Token)
	}
	return p.secret(ctx, p.opt.Token)
}

// RateLimit is what the latest answer said about the project's requests.
type RateLimit struct {
	// Limit is the number of requests per hour, Remaining what is left of it.
	Limit, Remaining int
	// Full is when all of it is there again.
	Full time.Time
	At   time.Time
}

// RateLimit returns what the latest answer said about the project's request
// budget, which all tokens of the project share. ok is false before the first
// answer.
func (p *Provider) RateLimit() (r RateLimit, ok bool) {
	if l := p.rate.Load(); l != nil {
		return *l, true
	}
	return RateLimit{}, false
}

func (p *Provider) noteRate(h http.Header) {
	limit, err1 := strconv.Atoi(h.Get("RateLimit-Limit"))
	left, err2 := strconv.Atoi(h.Get("RateLimit-Remaining"))
	if err1 != nil || err2 != nil {
		return
	}
	r := RateLimit{Limit: limit, Remaining: left, At: time.Now()}
	if full, err := strconv.ParseInt(h.Get("RateLimit-Reset"), 10, 64); err == nil {
		r.Full = time.Unix(full, 0)
	}
	p.rate.Store(&r)
}

// pause waits for one poll interval.
func (p *Provider) pause(ctx context.Context) error {
	t := time.NewTimer(p.opt.Poll)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errSlow is an action that takes longer than a call may wait for it.
var errSlow = errors.New("the vendor's action takes longer than waitLimit")

// limited bounds the waits of an operation.
func (p *Provider) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, p.opt.WaitLimit, errSlow)
}

// waitAction waits until an action has ended. One that ends in error gives an
// error with the action's own code.
func (p *Provider) waitAction(ctx context.Context, a *hcloud.Action) error {
	for try := 0; a != nil && a.Status == hcloud.ActionStatusRunning; try++ {
		if err := p.pauses(ctx, try/2); err != nil {
			return err
		}
		next, _, err := p.client.Action.GetByID(ctx, a.ID)
		if err != nil {
			return err
		}
		a = next // nil: the vendor has forgotten it, so it has ended
	}
	if a != nil && a.Status == hcloud.ActionStatusError {
		return &actionError{code: a.ErrorCode, text: fmt.Sprintf("%s: %s", a.Command, a.ErrorMessage)}
	}
	return nil
}
