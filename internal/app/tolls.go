package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting"
	reportingapi "github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	sinks "github.com/tollgate-dev/tollgate/internal/reporting/sink/all"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// typeReporting is the type of sinks that can be asked what they know.
const typeReporting = "reporting"

// tolls are the sources and sinks of a version.
type tolls struct {
	sources []source.Definition
	hashes  map[string]string // of the sources, by name
	sinks   map[string]sink.Sink
	// registrations are how shoots are registered, by the name of the source.
	registrations map[string]activities.ShootSettings
	// receivers are the sinks that can be asked what they have received.
	receivers map[string]inventory.Receiver
}

// prepareTolls makes the sinks, and lists what the registry of sources is to
// build. It checks the block of each source by building it once.
func (a *App) prepareTolls(ctx context.Context, v *version) error {
	v.tolls = tolls{hashes: map[string]string{}, sinks: map[string]sink.Sink{}, registrations: map[string]activities.ShootSettings{},
		receivers: map[string]inventory.Receiver{}}
	var errs []error
	known, open := map[string]source.Known{}, map[string]source.Open{}
	clients := map[string]*reporting.Client{}
	for _, c := range v.cfg.Sinks {
		token := func(ctx context.Context) (provider.Sensitive, error) {
			if c.Token == "" {
				return provider.Sensitive{}, nil
			}
			return a.newest(v).Token(ctx, c.Token)
		}
		s, err := sinks.New(sinks.Config{Type: c.Type, URL: c.URL, Token: token, Timeout: c.Timeout, Batch: c.Batch, Mode: c.Mode})
		if err != nil {
			errs = append(errs, c.Annotate(err))
			continue
		}
		v.tolls.sinks[c.Name] = &checkedSink{Sink: s, url: c.URL, client: &http.Client{
			Timeout: c.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
		if c.Type == typeReporting {
			client, err := reporting.New(reporting.Options{URL: c.URL, Token: token, Timeout: c.Timeout})
			if err != nil {
				errs = append(errs, c.Annotate(err))
				continue
			}
			known[c.Name], open[c.Name] = lastKnown(client), stillOpen(client)
			v.tolls.receivers[c.Name] = inventory.ReceiverOf(client)
			clients[c.Name] = client
		}
	}
	for _, c := range v.cfg.Sources {
		hash := v.cfg.SourceHash(c, a.hashKey)
		v.tolls.hashes[c.Name] = hash
		def := source.Definition{Type: c.Type, ConfigHash: hash, Config: source.Config{
			Name: c.Name, Account: c.Account, Decode: c.Decode, Secret: a.tokenOf(v), Known: known[c.Sink], Open: open[c.Sink],
			Logger: telemetry.Component(a.log, "source").With("type", c.Type),
		}}
		if a.requests != nil {
			def.Config.Transport = a.requests.Transport("source/" + c.Name)
		}
		v.tolls.sources = append(v.tolls.sources, def)
		errs = append(errs, a.prepareRegistration(v, c, clients))
		for _, t := range a.opts.SourceTypes {
			if t.Name == c.Type {
				if _, err := t.New(ctx, def.Config); err != nil {
					errs = append(errs, c.Annotate(err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// lastKnown asks a Reporting API for the sizes that were reported last.
func lastKnown(c *reporting.Client) source.Known {
	return func(ctx context.Context, p event.Platform, account string, resources []event.Resource) (map[event.Resource]source.Reported, error) {
		byType := map[event.ResourceType][]string{}
		for _, r := range resources {
			byType[r.Type] = append(byType[r.Type], r.ID)
		}
		out := map[event.Resource]source.Reported{}
		for t, ids := range byType {
			states, err := c.LastKnown(ctx, p, account, t, ids, time.Now())
			if err != nil {
				return nil, fmt.Errorf("sizes that were reported: %w", err)
			}
			for id, s := range states {
				out[event.Resource{Type: t, ID: id}] = source.Reported{Size: s.Size, Since: s.Since}
			}
		}
		return out, nil
	}
}

// stillOpen asks a Reporting API what exists as far as was reported.
func stillOpen(c *reporting.Client) source.Open {
	return func(ctx context.Context, p event.Platform, t event.ResourceType) ([]source.OpenResource, error) {
		platform, kind := string(p), string(t)
		states, err := c.Resources(ctx, reportingapi.ListResourcesParams{Platform: &platform, ResourceType: &kind})
		if err != nil {
			return nil, fmt.Errorf("what was reported to exist: %w", err)
		}
		var out []source.OpenResource
		for _, s := range states {
			if s.Alive {
				out = append(out, source.OpenResource{Account: s.ExternalID, Resource: event.Resource{Type: t, ID: s.Resource.ID, Name: s.Resource.Name},
					Reported: source.Reported{Size: s.Size, Since: s.Since}, State: s.State})
			}
		}
		return out, nil
	}
}

// checkedSink can be asked whether its receiver is there: any answer that is not
// a gateway's or a server's complaint will do.
type checkedSink struct {
	sink.Sink
	url    string
	client *http.Client
}

// Check implements activities.SinkChecker.
func (s *checkedSink) Check(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodOptions, s.url, nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)) // so that the connection is used again
	if resp.StatusCode >= 500 && resp.StatusCode != http.StatusNotImplemented {
		return fmt.Errorf("the receiver answers with status %d", resp.StatusCode)
	}
	return nil
}

// commitTolls puts the sources of a version to work.
func (a *App) commitTolls(ctx context.Context, v *version) error {
	before := a.sources.Entries()
	if err := a.sources.Reload(ctx, v.tolls.sources); err != nil {
		return err
	}
	for _, e := range a.sources.Entries() {
		a.inventories.Declare(e.Name)
		for _, s := range e.Streams {
			a.cursors.Declare(e.Name, s.Name)
		}
		if e.Err != nil {
			a.log.Error("a source cannot be used", "source", e.Name, "error", e.Err)
		}
	}
	a.cursorIntervals(v)
	for _, e := range before {
		if _, still := a.sources.Lookup(e.Name); !still {
			a.cursors.Forget(e.Name)
			a.inventory.Forget(e.Name)
			a.inventories.Forget(e.Name)
			a.compared.Forget(e.Name)
			a.requests.Forget("source/" + e.Name)
			a.log.Warn("a source is no longer configured; its cursors stay where they are and wait for it", "source", e.Name)
		}
	}
	return nil
}

// stream is how activities find a source.
func (a *App) stream(name, stream string) (source.Source, bool, error) {
	e, ok := a.sources.Lookup(name)
	if !ok || e.Err != nil {
		return nil, ok, e.Err
	}
	s, ok := e.Stream(stream)
	return s, ok, nil
}

// sinkNamed is how activities find a sink.
func (a *App) sinkNamed(name string) (sink.Sink, bool, error) {
	s, ok := a.current.Load().tolls.sinks[name]
	return s, ok, nil
}

// serveSources starts and stops workers until exactly these sources are served.
// It goes on after a failure; call it again to try the rest again.
func (p *pool) serveSources(sources []config.Source) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	var errs []error
	wanted := map[string]bool{}
	for _, s := range sources {
		wanted[s.Name] = true
		if p.bySource[s.Name] != nil {
			continue
		}
		queue := workflows.SourceTaskQueue(s.Name)
		o := options(p.fatal)
		o.DisableWorkflowWorker = true
		o.MaxConcurrentActivityTaskPollers = sourcePollers
		w := worker.New(p.client, queue, o)
		p.source(w)
		if err := w.Start(); err != nil {
			errs = append(errs, fmt.Errorf("worker of task queue %q: %w", queue, err))
			continue
		}
		p.bySource[s.Name] = w
		p.log.Info("serving source", "source", s.Name)
	}
	for name, w := range p.bySource {
		if !wanted[name] {
			delete(p.bySource, name)
			p.retire(w)
			p.log.Info("no longer serving source", "source", name)
		}
	}
	return errors.Join(errs...)
}

// cursors starts the cursors of a source, or tells them its configuration. A
// cursor that exists goes on where it is.
func (n *announcer) cursors(ctx context.Context, v *version, s config.Source) error {
	e, ok := n.app.sources.Lookup(s.Name)
	if !ok || e.Err != nil {
		return nil // said already; its cursors say so too
	}
	cfg := s.CursorConfig(v.tolls.hashes[s.Name])
	for _, st := range e.Streams {
		in := api.EventCursorInput{Source: s.Name, Stream: st.Name, Config: cfg}
		switch {
		case !s.From.IsZero():
			in.From = &s.From
		case s.Start == config.StartNow:
			now := time.Now().UTC()
			in.From = &now
		}
		o := CursorStart(s.Name, st.Name)
		if _, err := n.app.conn.Client.SignalWithStartWorkflow(ctx, o.ID, workflows.SignalConfigure, cfg, o, workflows.TypeEventCursor, in); err != nil {
			if started := new(serviceerror.WorkflowExecutionAlreadyStarted); errors.As(err, &started) {
				continue
			}
			return fmt.Errorf("configure %s: %w", o.ID, err)
		}
	}
	return nil
}

// CursorStart are the options with which the cursor of a stream is started.
func CursorStart(sourceName, stream string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: workflows.CursorID(sourceName, stream), TaskQueue: workflows.TaskQueue,
		StaticSummary:         fmt.Sprintf("Reads %s of %s", stream, sourceName),
		TypedSearchAttributes: temporal.NewSearchAttributes(workflows.AttrSource.ValueSet(sourceName)),
	}
}
