package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/strictyaml"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Defaults of sources and sinks.
const (
	DefaultSourceInterval = api.DefaultCursorInterval
	DefaultSinkTimeout    = 30 * time.Second
)

// Where the cursor of a new source begins.
const (
	// StartBeginning is as far back as the platform keeps anything.
	StartBeginning = "beginning"
	// StartNow is when the cursor is started.
	StartNow = "now"
)

// Source is one configured event source.
type Source struct {
	Name string
	Type string
	// Account is the account's name in events.
	Account string
	// Sink names the sink that its events go to.
	Sink string
	// Interval is the time between two reads with nothing new.
	Interval time.Duration
	// Start is where a new cursor begins: StartBeginning, StartNow or a time.
	Start string
	// From is Start as a time; zero unless it is one.
	From time.Time
	// Registration says how shoots are registered; nil means that they are not.
	Registration *Registration
	// Inventory says how what exists is compared with what was reported.
	Inventory Inventory

	// inner has the block of the type, as providers do.
	inner Provider
}

// Decode reads the source's own block strictly; see Provider.Decode.
func (s Source) Decode(into any) error { return s.inner.Decode(into) }

// Annotate gives file, line and path to what the source's type says of its block;
// see Provider.Annotate.
func (s Source) Annotate(err error) error { return s.inner.Annotate(err) }

// Sink is one configured receiver of events.
type Sink struct {
	Name string
	Type string
	URL  string
	// Token names the secret with the bearer token; empty sends none.
	Token   string
	Timeout time.Duration
	// Batch is the most events in one request; 0 leaves it to the type.
	Batch int
	// Mode is for the type cloudevents: structured or batched, or empty.
	Mode string

	file, field string
	line        int
}

// Annotate gives file, line and path to what the sink's type says of it.
func (s Sink) Annotate(err error) error {
	return &strictyaml.Error{File: s.file, Line: s.line, Path: s.field, Msg: err.Error(), Err: err}
}

// Source returns the source of that name.
func (c *Config) Source(name string) (Source, bool) {
	i := slices.IndexFunc(c.Sources, func(s Source) bool { return s.Name == name })
	if i < 0 {
		return Source{}, false
	}
	return c.Sources[i], true
}

// Sink returns the sink of that name.
func (c *Config) Sink(name string) (Sink, bool) {
	i := slices.IndexFunc(c.Sinks, func(s Sink) bool { return s.Name == name })
	if i < 0 {
		return Sink{}, false
	}
	return c.Sinks[i], true
}

// SourceHash identifies what a source and its sink amount to, the contents of all
// secrets included; see ProviderHash.
func (c *Config) SourceHash(s Source, key []byte) string {
	p := s.inner
	p.Name, p.Type = "source "+s.Name, s.Type
	k, _ := c.Sink(s.Sink)
	k.file, k.field, k.line = "", "", 0
	return c.ProviderHash(p, fmt.Appendf(slices.Clone(key), "\n%q %q %+v", s.Account, s.Sink, k))
}

// CursorConfig is what the cursors of a source are told, given its hash.
func (s Source) CursorConfig(hash string) api.CursorConfig {
	return api.CursorConfig{Sink: s.Sink, Interval: api.Duration(s.Interval), ConfigHash: hash}
}

type rawSource struct {
	Name     string    `yaml:"name"`
	Type     string    `yaml:"type"`
	Account  string    `yaml:"account"`
	Sink     string    `yaml:"sink"`
	Interval *duration `yaml:"interval"`
	Start    string    `yaml:"start"`
	// Registration is for sources of shoots.
	Registration *rawRegistration `yaml:"registration"`
	Inventory    *rawInventory    `yaml:"inventory"`
	// Blocks takes every other key: the block named after the type, and mistakes.
	Blocks map[string]yaml.Node `yaml:",inline"`
}

type rawSink struct {
	Name    string    `yaml:"name"`
	Type    string    `yaml:"type"`
	URL     string    `yaml:"url"`
	Token   string    `yaml:"token"`
	Timeout *duration `yaml:"timeout"`
	Batch   *int      `yaml:"batch"`
	Mode    string    `yaml:"mode"`
}

// named checks a name that must be there and unique.
func (v *validator) named(at, name, what string, first map[string]int) {
	switch line, dup := first[name]; {
	case name == "":
		v.bad(at+".name", "is required: %s", what)
	case dup:
		v.bad(at+".name", "%q is given twice, first in line %d: names must be unique", name, line)
	default:
		first[name] = v.doc.Locate(at + ".name")
		v.name(at+".name", name)
	}
}

// typed checks a type against those that there are; none means that any will do.
func (v *validator) typed(at, typ string, types []string) {
	switch {
	case typ == "" && len(types) == 0:
		v.bad(at+".type", "is required")
	case typ == "":
		v.bad(at+".type", "is required: use one of %s", strings.Join(types, ", "))
	case len(types) > 0 && !slices.Contains(types, typ):
		v.bad(at+".type", "%q is unknown: use one of %s", typ, strings.Join(types, ", "))
	}
}

func (v *validator) sinks(c *Config, rs []rawSink) {
	first := map[string]int{}
	for i, r := range rs {
		at := fmt.Sprintf("sinks[%d]", i)
		v.named(at, r.Name, "what a source's sink refers to", first)
		v.typed(at, r.Type, v.opts.SinkTypes)
		if u, err := url.Parse(r.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			v.bad(at+".url", "is no address of a receiver: use an http or https URL without credentials, such as https://reporting.example.com")
		}
		if r.Token != "" {
			v.secretRef(at+".token", r.Token)
		}
		s := Sink{
			Name: r.Name, Type: r.Type, URL: r.URL, Token: r.Token, Mode: r.Mode,
			Timeout: v.duration(at+".timeout", r.Timeout, DefaultSinkTimeout, time.Second, 5*time.Minute),
			file:    v.doc.File(), field: at, line: v.doc.Locate(at),
		}
		if r.Batch != nil {
			s.Batch = between(v, at+".batch", r.Batch, 0, 1, 1000)
		}
		c.Sinks = append(c.Sinks, s)
	}
}

func (v *validator) sources(c *Config, rs []rawSource) {
	first := map[string]int{}
	types := make([]string, len(v.opts.SourceTypes))
	for i, t := range v.opts.SourceTypes {
		types[i] = t.Name
	}
	var sinks []string
	for _, s := range c.Sinks {
		sinks = append(sinks, s.Name)
	}
	for i, r := range rs {
		at := fmt.Sprintf("sources[%d]", i)
		v.named(at, r.Name, "what its cursors are called", first)
		v.typed(at, r.Type, types)
		s := Source{
			Name: r.Name, Type: r.Type, Account: r.Account, Sink: r.Sink, Start: r.Start,
			Interval: v.duration(at+".interval", r.Interval, DefaultSourceInterval, time.Second, time.Hour),
		}
		if s.Account == "" {
			v.bad(at+".account", "is required: the account's name in events, which must never change")
		} else if len(s.Account) > 100 || strings.ContainsFunc(s.Account, func(c rune) bool { return c <= ' ' || c > '~' }) {
			v.bad(at+".account", "%q is no name: use at most 100 printable ASCII characters without spaces", s.Account)
		}
		switch {
		case s.Sink == "":
			v.bad(at+".sink", "is required: sinks defines %s", list(sinks))
		case !slices.Contains(sinks, s.Sink):
			v.bad(at+".sink", "%q is no sink: sinks defines %s", s.Sink, list(sinks))
		}
		switch s.Start {
		case "":
			s.Start = StartBeginning
		case StartBeginning, StartNow:
		default:
			t, err := time.Parse(time.RFC3339, s.Start)
			if err != nil {
				v.bad(at+".start", "%q is no place to start: use %s, %s, or a time such as 2026-11-01T00:00:00Z", s.Start, StartBeginning, StartNow)
			}
			s.From = t.UTC()
		}
		s.Registration = v.registration(c, at+".registration", s, r.Registration)
		s.Inventory = v.inventory(c, at+".inventory", s, r.Inventory)
		fields := []string{"name", "type", "account", "sink", "interval", "start", "inventory"}
		if r.Type == gardenerType {
			fields = append(fields, "registration")
		}
		var secrets []string
		if i := slices.Index(types, r.Type); i >= 0 {
			secrets = v.opts.SourceTypes[i].SecretFields
		}
		s.inner = Provider{
			Name: r.Name, Type: r.Type, file: v.doc.File(), field: at + "." + r.Type, line: v.doc.Locate(at),
			block: v.typeBlock(at, r.Type, types, secrets, r.Blocks, fields...),
		}
		c.Sources = append(c.Sources, s)
	}
}

// typeBlock finds the block of a type, checks the secrets that it names, and refuses
// all other keys.
func (v *validator) typeBlock(at, typ string, types, secrets []string, blocks map[string]yaml.Node, fields ...string) *strictyaml.Document {
	var found *strictyaml.Document
	for _, key := range sorted(blocks) {
		path := at + "." + key
		switch {
		case key == typ:
			node := blocks[key]
			if node.Tag == "!!null" {
				continue // nothing below: the same as no block
			}
			doc := strictyaml.FromNode(&node, v.doc.File(), path)
			found = &doc
			v.references(&node, path)
			v.secretNames(&node, path, secrets)
		case slices.Contains(types, key):
			v.bad(path, "is the block of type %s, but the type is %q: name the block after the type", key, typ)
		default:
			allowed := fields
			if slices.Contains(types, typ) {
				allowed = append(slices.Clone(fields), typ)
			}
			v.bad(path, "unknown field: allowed are %s", strings.Join(allowed, ", "))
		}
	}
	return found
}
