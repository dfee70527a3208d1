// Package reporting is the client of the Reporting API. Its errors have a class
// that says what to do about them; see package fault.
package reporting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
)

// DefaultTimeout is how long a call may take when Options do not say.
const DefaultTimeout = 30 * time.Second

// maxAnswer is the most of an answer that is read.
const maxAnswer = 64 << 20

// Options configure a Client.
type Options struct {
	// URL is the address of the API without its path, such as
	// http://127.0.0.1:7270.
	URL string
	// Token returns the bearer token; it is asked at each call, so that a token
	// can be replaced. Nil or an empty token sends none.
	Token func(context.Context) (provider.Sensitive, error)
	// Timeout is how long a call may take; zero means DefaultTimeout.
	Timeout time.Duration
	// Transport carries the calls; nil means http.DefaultTransport.
	Transport http.RoundTripper
}

// Client calls the Reporting API. It retries nothing: that is for the caller,
// who has the class of the error. It is safe for concurrent use.
type Client struct {
	api     *api.Client
	timeout time.Duration
}

// New returns a Client. It makes no call.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("url: %q is not an address such as https://reporting.example.com", redactURL(u))
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	hc := &http.Client{
		Transport: o.Transport,
		// A redirected POST loses its body, or goes where nobody meant it to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	editor := func(ctx context.Context, r *http.Request) error {
		if o.Token == nil {
			return nil
		}
		token, err := o.Token(ctx)
		if err != nil {
			return &fault.Error{Class: fault.Retryable, Err: fmt.Errorf("token: %w", err)}
		}
		if token.Len() > 0 {
			r.Header.Set("Authorization", "Bearer "+string(token.Reveal()))
		}
		return nil
	}
	c, err := api.NewClient(o.URL, api.WithHTTPClient(bounded{hc}), api.WithRequestEditorFn(editor))
	if err != nil {
		return nil, err
	}
	return &Client{api: c, timeout: o.Timeout}, nil
}

// redactURL shows a URL without its password.
func redactURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Redacted()
}

// bounded keeps an endless answer from filling the memory.
type bounded struct{ client *http.Client }

func (b bounded) Do(r *http.Request) (*http.Response, error) {
	resp, err := b.client.Do(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

// answered is what all generated answers have.
type answered interface {
	StatusCode() int
	GetBody() []byte
	GetApplicationProblemJSONDefault() *api.Problem
}

// call makes a call and returns its result, which get finds in the answer. err
// has a class.
func call[A answered, T any](ctx context.Context, c *Client, what string, do func(context.Context) (*http.Response, error),
	parse func(*http.Response) (A, error), get func(A) *T) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, err := do(ctx)
	if err != nil {
		var known *fault.Error
		if errors.As(err, &known) {
			return nil, fmt.Errorf("reporting: %s: %w", what, err)
		}
		return nil, fmt.Errorf("reporting: %s: %w", what, &fault.Error{Class: fault.Retryable, Err: withoutURL(err)})
	}
	header, status := resp.Header, resp.StatusCode
	a, err := parse(resp)
	if err != nil && status < 300 {
		// The answer was cut or is of another service: nobody knows.
		return nil, fmt.Errorf("reporting: %s: %w", what, &fault.Error{Class: fault.Retryable, Err: fmt.Errorf("answer: %w", err)})
	}
	if status >= 300 {
		detail, kind := http.StatusText(status), ""
		if err == nil && a.GetApplicationProblemJSONDefault() != nil {
			p := a.GetApplicationProblemJSONDefault()
			detail, kind = sink.Reason(p.Detail), string(p.Type)
		} else if body := strings.ToValidUTF8(strings.TrimSpace(string(a.GetBody())), "?"); err == nil && body != "" {
			detail = sink.Reason(body)
		}
		if location := header.Get("Location"); status < 400 && location != "" {
			detail = "is redirected: the URL is not that of a Reporting API"
		}
		f := fault.FromHTTP(status, header, errors.New(detail))
		f.Kind = kind
		return nil, fmt.Errorf("reporting: %s: %w", what, f)
	}
	if v := get(a); v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("reporting: %s: %w", what, &fault.Error{Class: fault.Retryable,
		Err: fmt.Errorf("answer: status %d of type %q is not one of the Reporting API", status, header.Get("Content-Type"))})
}

// withoutURL drops the URL from an error of net/http: it may hold what is private,
// and the address is known to whoever configured it.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// PostEvents sends a batch and returns a result for each event, in order. The
// caller keeps it within the limits of the API.
func (c *Client) PostEvents(ctx context.Context, events []event.Event) ([]sink.Result, error) {
	out, err := call(ctx, c, "deliver events",
		func(ctx context.Context) (*http.Response, error) {
			return c.api.PostEventsWithApplicationCloudeventsBatchPlusJSONBody(ctx, events)
		},
		api.ParsePostEventsResponse, func(r *api.PostEventsResponse) *api.EventResults { return r.JSON200 })
	if err != nil {
		return nil, err
	}
	return results(events, out)
}

// PostEvent sends one event. An event that is refused is an error with the class
// Rejected and the status 422.
func (c *Client) PostEvent(ctx context.Context, e event.Event) (sink.Result, error) {
	out, err := call(ctx, c, "deliver event",
		func(ctx context.Context) (*http.Response, error) {
			return c.api.PostEventsWithApplicationCloudeventsPlusJSONBody(ctx, e)
		},
		api.ParsePostEventsResponse, func(r *api.PostEventsResponse) *api.EventResults { return r.JSON200 })
	if err != nil {
		return sink.Result{ID: e.ID}, err
	}
	rs, err := results([]event.Event{e}, out)
	if err != nil {
		return sink.Result{ID: e.ID}, err
	}
	return rs[0], nil
}

// results checks that an answer is about the events that were sent.
func results(events []event.Event, out *api.EventResults) ([]sink.Result, error) {
	strange := func(format string, args ...any) ([]sink.Result, error) {
		return nil, fmt.Errorf("reporting: deliver events: %w", &fault.Error{Class: fault.Retryable, Err: fmt.Errorf("answer: "+format, args...)})
	}
	if len(out.Results) != len(events) {
		return strange("has %d results for %d events", len(out.Results), len(events))
	}
	rs := make([]sink.Result, len(events))
	for i, r := range out.Results {
		if r.ID != events[i].ID && (r.ID != "" || r.Outcome != sink.Rejected) {
			return strange("result %d is about %q, not %q", i, r.ID, events[i].ID)
		}
		if !r.Outcome.Done() {
			return strange("result %d has the outcome %q", i, r.Outcome)
		}
		rs[i] = sink.Result{ID: events[i].ID, Outcome: r.Outcome, Reason: sink.Reason(strings.ToValidUTF8(r.Reason, "?"))}
	}
	return rs, nil
}
