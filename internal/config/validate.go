package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/strictyaml"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// validator turns a decoded file into a Config and collects all problems.
type validator struct {
	doc     strictyaml.Document
	opts    Options
	secrets map[string]rawSecret
	errs    []error
	// misshapen are the fields that could not be decoded, of which nothing more
	// can be said.
	misshapen []string
}

// shape takes over the problems of the decoding.
func (v *validator) shape(err error) {
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	for _, err := range errs {
		var e *strictyaml.Error
		if errors.As(err, &e) {
			v.misshapen = append(v.misshapen, e.Path)
		}
		v.errs = append(v.errs, err)
	}
}

func (v *validator) bad(field, format string, args ...any) {
	for _, m := range v.misshapen {
		if m == "" || field == m || strings.HasPrefix(field, m+".") || strings.HasPrefix(field, m+"[") {
			return
		}
	}
	v.errs = append(v.errs, v.doc.Errorf(field, format, args...))
}

// err joins the problems in the order of their lines.
func (v *validator) err() error {
	slices.SortStableFunc(v.errs, func(a, b error) int { return lineOf(a) - lineOf(b) })
	return errors.Join(v.errs...)
}

func lineOf(err error) int {
	var e *strictyaml.Error
	if errors.As(err, &e) {
		return e.Line
	}
	return 0
}

func (v *validator) config(r *raw) *Config {
	c := &Config{Secrets: map[string]Secret{}}
	c.Installation = cmp.Or(r.Installation, v.opts.Installation)
	if c.Installation == "" {
		v.bad("installation", "is required: a name for this Tollgate that no other one in the same cloud accounts has")
	} else {
		v.name("installation", c.Installation)
	}
	for _, name := range sorted(r.Secrets) {
		c.Secrets[name] = v.secret(name, r.Secrets[name])
	}
	v.providers(c, r.Providers)
	v.sinks(c, r.Sinks)
	v.sources(c, r.Sources)
	c.Probe = v.probe(r.Probe)
	c.GC = GC{
		Interval:     v.duration("gc.interval", r.GC.Interval, DefaultGCInterval, 5*time.Second, 24*time.Hour),
		MinAge:       v.duration("gc.minAge", r.GC.MinAge, DefaultGCMinAge, time.Second, 30*24*time.Hour),
		ConfirmAfter: v.duration("gc.confirmAfter", r.GC.ConfirmAfter, DefaultGCConfirmAfter, time.Second, time.Hour),
		Cap:          between(v, "gc.cap", r.GC.Cap, DefaultGCCap, 1, api.MaxOrphanCap),
	}
	c.Health.Interval = v.duration("health.interval", r.Health.Interval, DefaultHealthInterval, 5*time.Second, 24*time.Hour)
	c.Discovery.Token = r.Discovery.Token
	if c.Discovery.Token != "" {
		v.secretRef("discovery.token", c.Discovery.Token)
	}
	v.reap(c, r.Reap)
	v.codec(c, r)
	v.log(c, r)
	v.target(c)
	return c
}

func (v *validator) providers(c *Config, rs []rawProvider) {
	if len(rs) == 0 {
		v.bad("providers", "is required: a list of at least one provider, each with a name and a type (%s)", strings.Join(v.types(), ", "))
	}
	first := map[string]int{}
	for i, r := range rs {
		at := fmt.Sprintf("providers[%d]", i)
		p := Provider{Name: r.Name, Type: r.Type}
		switch line, dup := first[r.Name]; {
		case r.Name == "":
			v.bad(at+".name", "is required: what spec.provider of a proxy refers to")
		case dup:
			v.bad(at+".name", "%q is given twice, first in line %d: names must be unique", r.Name, line)
		default:
			first[r.Name] = v.doc.Locate(at + ".name")
			v.name(at+".name", r.Name)
		}
		switch {
		case r.Type == "":
			v.bad(at+".type", "is required: use one of %s", strings.Join(v.types(), ", "))
		case !slices.Contains(v.types(), r.Type):
			v.bad(at+".type", "%q is unknown: use one of %s", r.Type, strings.Join(v.types(), ", "))
		}
		p.Shards = between(v, at+".shards", r.Shards, DefaultShards, 1, 64)
		p.Budget.RequestsPerSecond = between(v, at+".budget.requestsPerSecond", r.Budget.RequestsPerSecond, v.defaultRate(r.Type), 0.01, 10000.0)
		// A burst below the rate would make the rate unreachable.
		p.Budget.Burst = between(v, at+".budget.burst", r.Budget.Burst, max(DefaultBurst, int(p.Budget.RequestsPerSecond)), 1, 100000)
		p.Requests, p.SpendCap, p.Prices = v.requests(at, r), v.spendCap(at, r), v.prices(at, r.Prices)
		p.DriftInterval = v.duration(at+".drift.interval", r.Drift.Interval, DefaultDriftInterval, time.Second, 24*time.Hour)
		p.block = v.block(at, r)
		p.file, p.field, p.line = v.doc.File(), at+"."+r.Type, v.doc.Locate(at)
		c.Providers = append(c.Providers, p)
	}
}

func (v *validator) defaultRate(typeName string) float64 {
	for _, t := range v.opts.Types {
		if t.Name == typeName && t.Profile.ClientKind == "local-process" {
			return DefaultLocalRate
		}
	}
	return DefaultRate
}

// block finds the block of the provider's type and refuses all other keys.
func (v *validator) block(at string, r rawProvider) *strictyaml.Document {
	var secrets []string
	if i := slices.IndexFunc(v.opts.Types, func(t provider.Type) bool { return t.Name == r.Type }); i >= 0 {
		secrets = v.opts.Types[i].SecretFields
	}
	return v.typeBlock(at, r.Type, v.types(), secrets, r.Blocks, "name", "type", "shards", "budget", "spendCap", "prices", "drift")
}

// references checks the secret references in a block. By convention the key of
// a reference ends in secretRef, whatever the type.
func (v *validator) references(n *yaml.Node, path string) {
	switch n.Kind {
	case yaml.AliasNode:
		return // its anchor is checked where it stands
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i].Value, n.Content[i+1]
			if strings.HasSuffix(strings.ToLower(key), "secretref") && value.Kind == yaml.ScalarNode && value.Value != "" {
				v.secretRef(path+"."+key, value.Value)
				continue
			}
			v.references(value, path+"."+key)
		}
	case yaml.SequenceNode:
		for i, e := range n.Content {
			v.references(e, path+"["+strconv.Itoa(i)+"]")
		}
	}
}

// secretNames checks the fields of a block of which the type says that they name secrets.
func (v *validator) secretNames(block *yaml.Node, path string, fields []string) {
	for _, field := range fields {
		n := block
		for key := range strings.SplitSeq(field, ".") {
			n = valueOf(n, key)
		}
		if n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!null" && n.Value != "" {
			v.secretRef(path+"."+field, n.Value)
		}
	}
}

// valueOf is the value of a key of a mapping, nil if there is none.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func (v *validator) secretRef(field, name string) {
	if _, ok := v.secrets[name]; !ok {
		v.bad(field, "%q is no secret: secrets defines %s", name, list(sorted(v.secrets)))
	}
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (v *validator) secret(name string, r rawSecret) Secret {
	at := "secrets[" + name + "]"
	v.name(at, name)
	switch {
	case r.File == "" && r.Env == "":
		v.bad(at, "one of file and env is required")
	case r.File != "" && r.Env != "":
		v.bad(at, "file and env are both set: use one")
	case r.Env != "" && !envName.MatchString(r.Env):
		v.bad(at+".env", "%q is not the name of an environment variable: use letters, digits and '_'", r.Env)
	}
	return Secret{File: relativeTo(v.doc.File(), r.File), Env: r.Env}
}

func (v *validator) probe(r rawProbe) Probe {
	p := Probe{
		Target:         r.Target,
		Interval:       v.duration("probe.interval", r.Interval, DefaultProbeInterval, 100*time.Millisecond, 24*time.Hour),
		Timeout:        v.duration("probe.timeout", r.Timeout, DefaultProbeTimeout, 10*time.Millisecond, time.Minute),
		UnhealthyAfter: between(v, "probe.unhealthyAfter", r.UnhealthyAfter, DefaultUnhealthyAfter, 1, 100),
		HealthyAfter:   between(v, "probe.healthyAfter", r.HealthyAfter, DefaultHealthyAfter, 1, 100),
		BrakeFraction:  between(v, "probe.brake.fraction", r.Brake.Fraction, DefaultBrakeFraction, 0.01, 1.0),
		BrakeMin:       between(v, "probe.brake.min", r.Brake.Min, DefaultBrakeMin, 1, 100000),
		Concurrency:    between(v, "probe.concurrency", r.Concurrency, DefaultConcurrency, 1, 4096),
		TLS: ProbeTLS{
			Enabled:    r.TLS.Enabled,
			ServerName: r.TLS.ServerName,
			CAFile:     relativeTo(v.doc.File(), r.TLS.CAFile),
		},
	}
	if p.Target != "" {
		host, port, err := net.SplitHostPort(p.Target)
		n, perr := strconv.Atoi(port)
		if err != nil || host == "" || perr != nil || n < 1 || n > 65535 {
			v.bad("probe.target", "%q is no target: use host:port, such as example.com:443", p.Target)
		}
	}
	if !p.TLS.Enabled && (p.TLS.ServerName != "" || p.TLS.CAFile != "") {
		v.bad("probe.tls", "serverName and caFile have no effect while enabled is false: set enabled: true, or leave tls out")
	}
	return p
}

func (v *validator) codec(c *Config, r *raw) {
	c.Codec = Codec{KeyFile: relativeTo(v.doc.File(), r.Codec.KeyFile), Token: r.Codec.Token, UIURL: r.Codec.UIURL}
	if c.Codec.Token == "" && c.Codec.UIURL != "" {
		v.bad("codec.uiURL", "has no effect without codec.token, the secret with which people reach the codec endpoint")
	}
	if c.Codec.Token == "" {
		return
	}
	v.secretRef("codec.token", c.Codec.Token)
	if u, err := url.Parse(c.Codec.UIURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		v.bad("codec.uiURL", "%q is no address of a web UI: use an http or https URL, such as http://127.0.0.1:8233", c.Codec.UIURL)
	}
}

func (v *validator) log(c *Config, r *raw) {
	level, err := telemetry.ParseLevel(r.Log.Level)
	if err != nil {
		v.bad("log.level", "%s", strings.TrimPrefix(err.Error(), "log.level: "))
	}
	c.Log.Level = level
	c.Log.Format = cmp.Or(r.Log.Format, telemetry.FormatText)
	if c.Log.Format != telemetry.FormatText && c.Log.Format != telemetry.FormatJSON {
		v.bad("log.format", "%q is unknown: use %s or %s", r.Log.Format, telemetry.FormatText, telemetry.FormatJSON)
	}
}

// target wants one that the instances of every provider can reach.
func (v *validator) target(c *Config) {
	if c.Probe.Target != "" {
		return
	}
	for _, p := range c.Providers {
		for _, t := range v.opts.Types {
			if t.Name == p.Type && !t.Profile.Isolated {
				v.bad("probe.target", "is required: provider %q is not on this machine and cannot reach the worker's own HTTP server; use host:port, such as example.com:443", p.Name)
				return
			}
		}
	}
}

func (v *validator) name(field, value string) {
	if err := provider.ValidateName(field, value); err != nil {
		v.bad(field, "%s", strings.TrimPrefix(err.Error(), field+": "))
	}
}

func (v *validator) types() []string {
	names := make([]string, len(v.opts.Types))
	for i, t := range v.opts.Types {
		names[i] = t.Name
	}
	return names
}

func (v *validator) duration(field string, d *duration, def, least, most time.Duration) time.Duration {
	if d == nil {
		return def
	}
	allowed := fmt.Sprintf("use %s to %s, or leave it out for %s", short(least), short(most), short(def))
	switch {
	case d.err != nil:
		v.bad(field, "%q is no duration with a unit: %s", d.text, allowed)
		return def
	case d.d < least || d.d > most:
		v.bad(field, "%s is out of range: %s", short(d.d), allowed)
	}
	return d.d
}

// short leaves out the zero minutes and seconds of 24h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func between[N int | float64](v *validator, field string, n *N, def, least, most N) N {
	if n == nil {
		return def
	}
	if *n < least || *n > most {
		v.bad(field, "%v is out of range: use %v to %v, or leave it out for %v", *n, least, most, def)
	}
	return *n
}
