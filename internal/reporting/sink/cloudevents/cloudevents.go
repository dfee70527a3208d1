// Package cloudevents delivers events to any receiver of CloudEvents over HTTP.
package cloudevents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink/internal/wire"
)

// Mode is how events are put into requests.
type Mode string

// Modes, both of the JSON format.
const (
	// Structured sends one event per request.
	Structured Mode = "structured"
	// Batched sends arrays of events. Not all receivers take them.
	Batched Mode = "batched"
)

// Defaults of Options.
const (
	DefaultTimeout  = 30 * time.Second
	DefaultBatch    = 100
	DefaultParallel = 8
)

const (
	maxBytes  = 1 << 20
	maxAnswer = 4 << 10
)

// Options configure a Sink.
type Options struct {
	// URL is where events are posted to.
	URL string
	// Mode; empty means Structured.
	Mode Mode
	// Token returns the bearer token; it is asked at each request, so that a
	// token can be replaced. Nil or an empty token sends none.
	Token func(context.Context) (provider.Sensitive, error)
	// Timeout is how long a request may take.
	Timeout time.Duration
	// Batch is how many events a request has at most in the mode Batched.
	Batch int
	// Parallel is how many requests are under way at most in the mode
	// Structured. Events of one subject are sent in order.
	Parallel int
	// Transport carries the requests; nil means one of its own, with as many
	// idle connections as Parallel.
	Transport http.RoundTripper
}

// Sink delivers to a receiver of CloudEvents.
type Sink struct {
	o      Options
	client *http.Client
}

var _ sink.Sink = (*Sink)(nil)

// New returns a Sink. It makes no call.
func New(o Options) (*Sink, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil: // the text of the error has the URL, with what is private in it
		return nil, errors.New("url: is not a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
		return nil, fmt.Errorf("url: %q is not an address such as https://events.example.com/ingest", u.Redacted())
	}
	if o.Mode == "" {
		o.Mode = Structured
	}
	if o.Mode != Structured && o.Mode != Batched {
		return nil, fmt.Errorf("mode: %q is unknown: want %s or %s", o.Mode, Structured, Batched)
	}
	for _, d := range []struct {
		value *int
		or    int
	}{{&o.Batch, DefaultBatch}, {&o.Parallel, DefaultParallel}} {
		if *d.value <= 0 {
			*d.value = d.or
		}
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = o.Parallel
		o.Transport = t
	}
	return &Sink{o: o, client: &http.Client{
		Transport: o.Transport,
		// A redirected POST loses its body, or goes where nobody meant it to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Deliver sends the events; see sink.Sink. Any 2xx is a delivery.
func (s *Sink) Deliver(ctx context.Context, events []event.Event) ([]sink.Result, error) {
	results := sink.Unsent(events)
	deliver := s.batched
	if s.o.Mode == Structured {
		deliver = s.structured
	}
	return results, wire.Delivery(deliver(ctx, events, results))
}

// batched sends events in arrays, one after the other.
func (s *Sink) batched(ctx context.Context, events []event.Event, results []sink.Result) error {
	var first error // of events that the receiver breaks on
	for from, to := range wire.Chunks(events, s.o.Batch, maxBytes) {
		err := s.post(ctx, "application/cloudevents-batch+json", events[from:to])
		switch {
		case err == nil:
			for i := from; i < to; i++ {
				results[i].Outcome = sink.Accepted
			}
		case !wire.AboutEvents(err):
			return err
		default:
			away, err := wire.Singly(ctx, events, results, wire.Between(from, to), func(ctx context.Context, e event.Event) error {
				return s.post(ctx, "application/cloudevents-batch+json", []event.Event{e})
			})
			if away {
				return err
			}
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// structured sends events in parallel, those of one subject in order.
func (s *Sink) structured(ctx context.Context, events []event.Event, results []sink.Result) error {
	lanes := make([][]int, s.o.Parallel)
	for i, e := range events {
		h := fnv.New32a()
		_, _ = h.Write([]byte(e.Subject)) // never fails
		lane := h.Sum32() % uint32(len(lanes))
		lanes[lane] = append(lanes[lane], i)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	for _, places := range lanes {
		wg.Go(func() {
			away, err := wire.Singly(ctx, events, results, places, func(ctx context.Context, e event.Event) error {
				return s.post(ctx, "application/cloudevents+json", e)
			})
			if err == nil {
				return
			}
			// Only the first error is the receiver's; those after it are of the
			// other lanes being stopped.
			once.Do(func() { first = err })
			if away {
				cancel()
			}
		})
	}
	wg.Wait()
	return first
}

// post sends a body. Its error has a class.
func (s *Sink) post(ctx context.Context, contentType string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("cloudevents: %w", &fault.Error{Class: fault.Rejected, Status: http.StatusBadRequest, Err: err})
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.o.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("cloudevents: %w", &fault.Error{Class: fault.Rejected, Err: err})
	}
	r.Header.Set("Content-Type", contentType)
	if s.o.Token != nil {
		token, err := s.o.Token(ctx)
		if err != nil {
			return fmt.Errorf("cloudevents: token: %w", &fault.Error{Class: fault.Retryable, Err: err})
		}
		if token.Len() > 0 {
			r.Header.Set("Authorization", "Bearer "+string(token.Reveal()))
		}
	}
	resp, err := s.client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL, which may hold what is private
		}
		return fmt.Errorf("cloudevents: %w", &fault.Error{Class: fault.Retryable, Err: err})
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode < 200:
		return fmt.Errorf("cloudevents: %w", &fault.Error{Class: fault.Retryable, Status: resp.StatusCode, Err: errors.New("not a final answer")})
	case resp.StatusCode < 300:
		return nil // the status is the answer; what comes after it is of no matter
	case resp.StatusCode < 400:
		err = errors.New("is redirected: the URL is not that of a receiver")
	case err != nil || len(bytes.TrimSpace(answer)) == 0:
		err = errors.New(http.StatusText(resp.StatusCode))
	default:
		err = errors.New(sink.Reason(strings.ToValidUTF8(strings.TrimSpace(string(answer)), "?")))
	}
	return fmt.Errorf("cloudevents: %w", fault.FromHTTP(resp.StatusCode, resp.Header, err))
}
