package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sort"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/strictyaml"
)

const (
	maxConfigFile = 1 << 20
	maxSecret     = 1 << 20
)

// Options say what a file may contain beyond its own rules.
type Options struct {
	// Types are the types of providers that exist.
	Types []provider.Type
	// SourceTypes and SinkTypes are those of sources and sinks; nil takes any type.
	SourceTypes []source.Type
	SinkTypes   []string
	// Installation is used when the file names none. When both are empty the
	// file is refused.
	Installation string
	// Overlay has documents with providers, sinks, sources and secrets that are
	// added to the file's at each load; those that the file names itself win.
	Overlay []byte
}

// raw is the file as it is written. Pointers tell "left out" from zero.
type raw struct {
	Installation string               `yaml:"installation"`
	Providers    []rawProvider        `yaml:"providers"`
	Sources      []rawSource          `yaml:"sources"`
	Sinks        []rawSink            `yaml:"sinks"`
	Secrets      map[string]rawSecret `yaml:"secrets"`
	Probe        rawProbe             `yaml:"probe"`
	GC           rawGC                `yaml:"gc"`
	Health       struct {
		Interval *duration `yaml:"interval"`
	} `yaml:"health"`
	Reap      []rawReap `yaml:"reap"`
	Discovery struct {
		Token string `yaml:"token"`
	} `yaml:"discovery"`
	Codec struct {
		KeyFile string `yaml:"keyFile"`
		Token   string `yaml:"token"`
		UIURL   string `yaml:"uiURL"`
	} `yaml:"codec"`
	Log struct {
		Level  string `yaml:"level"`
		Format string `yaml:"format"`
	} `yaml:"log"`
}

type rawProvider struct {
	Name   string `yaml:"name"`
	Type   string `yaml:"type"`
	Shards *int   `yaml:"shards"`
	Budget struct {
		RequestsPerSecond *float64 `yaml:"requestsPerSecond"`
		Burst             *int     `yaml:"burst"`
		RequestsPerHour   *int     `yaml:"requestsPerHour"`
		Reserve           *int     `yaml:"reserve"`
		Account           string   `yaml:"account"`
	} `yaml:"budget"`
	SpendCap *struct {
		EURPerHour money `yaml:"eurPerHour"`
	} `yaml:"spendCap"`
	Prices []rawPrice `yaml:"prices"`
	Drift  struct {
		Interval *duration `yaml:"interval"`
	} `yaml:"drift"`
	// Blocks takes every other key: the block named after the type, and mistakes.
	Blocks map[string]yaml.Node `yaml:",inline"`
}

type rawPrice struct {
	Region      string `yaml:"region"`
	Zone        string `yaml:"zone"`
	MachineType string `yaml:"machineType"`
	EURPerHour  money  `yaml:"eurPerHour"`
}

type rawSecret struct {
	File string `yaml:"file"`
	Env  string `yaml:"env"`
}

type rawProbe struct {
	Target         string    `yaml:"target"`
	Interval       *duration `yaml:"interval"`
	Timeout        *duration `yaml:"timeout"`
	UnhealthyAfter *int      `yaml:"unhealthyAfter"`
	HealthyAfter   *int      `yaml:"healthyAfter"`
	TLS            struct {
		Enabled    bool   `yaml:"enabled"`
		ServerName string `yaml:"serverName"`
		CAFile     string `yaml:"caFile"`
	} `yaml:"tls"`
	Brake struct {
		Fraction *float64 `yaml:"fraction"`
		Min      *int     `yaml:"min"`
	} `yaml:"brake"`
	Concurrency *int `yaml:"concurrency"`
}

type rawGC struct {
	Interval     *duration `yaml:"interval"`
	MinAge       *duration `yaml:"minAge"`
	ConfirmAfter *duration `yaml:"confirmAfter"`
	Cap          *int      `yaml:"cap"`
}

// duration is a Go duration whose mistakes are reported by the validator, which
// knows what is allowed.
type duration struct {
	text string
	d    time.Duration
	err  error
}

// UnmarshalYAML never fails.
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	d.text = n.Value
	d.d, d.err = time.ParseDuration(n.Value)
	return nil
}

// Load reads and checks a file. The error joins one *strictyaml.Error per
// problem, each with file, line, field, value and what is allowed.
//
// A provider's own block is only checked for its place and its secret
// references here; its fields are the business of its type (Provider.Decode).
func Load(path string, o Options) (*Config, error) {
	b, err := readLimited(path, maxConfigFile)
	if err != nil {
		return nil, &strictyaml.Error{File: path, Msg: "cannot be read: " + cause(err), Err: err}
	}
	return Parse(b, path, o)
}

// Parse is Load for bytes that were read already; path stands in errors and is
// what relative paths in the file are relative to.
func Parse(b []byte, path string, o Options) (*Config, error) {
	docs, err := strictyaml.Documents(bytes.NewReader(b), path)
	if err != nil {
		return nil, err
	}
	switch len(docs) {
	case 0:
		return nil, &strictyaml.Error{File: path, Msg: "is empty: installation and providers are required"}
	case 1:
	default:
		return nil, docs[1].Errorf("", "a second document starts here: one is wanted")
	}
	if err := overlay(docs[0].Node(), o.Overlay); err != nil {
		return nil, err
	}
	var r raw
	v := &validator{doc: docs[0], opts: o}
	if err := docs[0].Decode(&r); err != nil {
		v.shape(err)
		// What can be decoded is checked all the same, so that one run shows all.
		_ = docs[0].Node().Decode(&r)
	}
	v.secrets = r.Secrets
	c := v.config(&r)
	c.File, c.Version = path, version(b)
	if err := v.err(); err != nil {
		return nil, err
	}
	c.secrets = c.secretsVersion()
	return c, nil
}

// cause leaves out the path that an error of package os repeats.
func cause(err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// relativeTo makes a path of the configuration relative to the file's folder,
// so that a file means the same wherever a process is started.
func relativeTo(file, path string) string {
	if path == "" || filepath.IsAbs(path) || file == "" {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
