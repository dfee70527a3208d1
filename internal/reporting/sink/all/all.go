// Package all knows every type of sink: one line each.
package all

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink/cloudevents"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink/reportingsink"
)

// Config is one configured sink.
type Config struct {
	// Type is one of Types.
	Type string
	URL  string
	// Token returns the bearer token at each request; nil sends none.
	Token func(context.Context) (provider.Sensitive, error)
	// Timeout is for one request; zero means 30 s.
	Timeout time.Duration
	// Batch is how many events a request has at most; zero means the type's own.
	Batch int
	// Mode is for the type cloudevents only: structured or batched.
	Mode string
}

var types = map[string]func(Config) (sink.Sink, error){
	"reporting":   newReporting,
	"cloudevents": newCloudEvents,
}

// Types lists the types, sorted.
func Types() []string { return slices.Sorted(maps.Keys(types)) }

// New builds a sink. It makes no call.
func New(c Config) (sink.Sink, error) {
	build, ok := types[c.Type]
	if !ok {
		return nil, fmt.Errorf("sink: type: %q is not a type of sink: want one of %s", c.Type, strings.Join(Types(), ", "))
	}
	s, err := build(c)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", c.Type, err)
	}
	return s, nil
}

func newReporting(c Config) (sink.Sink, error) {
	if c.Mode != "" {
		return nil, fmt.Errorf("mode: %q is set: only the type cloudevents has modes", c.Mode)
	}
	client, err := reporting.New(reporting.Options{URL: c.URL, Token: c.Token, Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	return reportingsink.New(client, c.Batch), nil
}

func newCloudEvents(c Config) (sink.Sink, error) {
	s, err := cloudevents.New(cloudevents.Options{URL: c.URL, Mode: cloudevents.Mode(c.Mode), Token: c.Token, Timeout: c.Timeout, Batch: c.Batch})
	if err != nil {
		return nil, err
	}
	return s, nil
}
